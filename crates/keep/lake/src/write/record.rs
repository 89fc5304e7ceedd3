//! Journal records of batches. A record contains the bytes of a batch as received; a large batch
//! takes several records. Start at [`payloads`] and [`BatchAssembler`].

use blkkin_journal::Payload;
use blkkin_store::{Batch, Policy};
use blkkin_wire::Format;

/// Flag of a record that continues the batch of the previous record. A batch stays incomplete if
/// the process ends between its records.
const CONTINUES: u8 = 1 << 5;
const EACH_SPAN: u8 = 1 << 6;
/// Flag of a record whose batch continues in the next record.
const MORE: u8 = 1 << 7;

/// Formats of batches. Records contain the index in this list, so the order never changes.
const FORMATS: [Format; 7] = [
    Format::ZipkinJson,
    Format::ZipkinProto,
    Format::ZipkinV1Json,
    Format::ZipkinThrift,
    Format::ZipkinThriftSpan,
    Format::OtlpProto,
    Format::OtlpJson,
];

/// Splits a batch into records of at most `bytes_max` bytes each.
pub(crate) fn payloads<'a>(batch: &Batch<'a>, bytes_max: u32) -> Vec<Payload<'a>> {
    let format = FORMATS.iter().position(|format| *format == batch.format);
    let format = format.expect("all formats have a number") as u8;
    let policy = if batch.policy == Policy::EachSpan { EACH_SPAN } else { 0 };
    let mut payloads: Vec<Payload<'a>> = batch
        .bytes
        .chunks(bytes_max as usize)
        .map(|bytes| Payload { kind: format | policy | CONTINUES | MORE, bytes })
        .collect();
    if let Some(first) = payloads.first_mut() {
        first.kind &= !CONTINUES;
    }
    if let Some(last) = payloads.last_mut() {
        last.kind &= !MORE;
    }
    payloads
}

/// Assembler of batches from records.
#[derive(Default)]
pub(crate) struct BatchAssembler {
    bytes: Vec<u8>,
    kind: Option<u8>,
}

/// Result of adding a record to a [`BatchAssembler`].
pub(crate) enum Assembly<'g> {
    /// The batch continues in the next record.
    Incomplete,
    Batch(Batch<'g>),
    /// The record has an unknown kind, or its predecessor is missing.
    Unknown,
}

impl BatchAssembler {
    /// Adds the next record of the journal. Returns the batch if the record completes it.
    pub(crate) fn push<'g>(&'g mut self, kind: u8, payload: &'g [u8]) -> Assembly<'g> {
        let of = kind & !(MORE | CONTINUES);
        let Some(&format) = FORMATS.get(usize::from(of & !EACH_SPAN)) else {
            return Assembly::Unknown;
        };
        if kind & CONTINUES == 0 || self.kind != Some(of) {
            self.clear();
        }
        if kind & CONTINUES != 0 && self.kind.is_none() {
            return Assembly::Unknown;
        }
        let policy = if of & EACH_SPAN != 0 { Policy::EachSpan } else { Policy::Whole };
        if kind & MORE != 0 {
            self.kind = Some(of);
            self.bytes.extend_from_slice(payload);
            return Assembly::Incomplete;
        }
        if self.kind.take().is_none() {
            return Assembly::Batch(Batch { format, bytes: payload, policy });
        }
        self.bytes.extend_from_slice(payload);
        Assembly::Batch(Batch { format, bytes: &self.bytes, policy })
    }

    /// Discards the records of an incomplete batch.
    pub(crate) fn clear(&mut self) {
        self.kind = None;
        self.bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::{Assembly, BatchAssembler, FORMATS, payloads};
    use blkkin_store::{Batch, Policy};
    use blkkin_wire::Format;

    const PIECE_BYTES: usize = 1000;

    #[test]
    fn split_batches_are_reassembled() {
        assert_eq!(FORMATS.len(), Format::ALL.len());
        let large = vec![7; 2 * PIECE_BYTES + 1];
        let mut assembler = BatchAssembler::default();
        for bytes in [&large[..], &large[..PIECE_BYTES], &large[..3]] {
            for format in Format::ALL {
                for policy in [Policy::Whole, Policy::EachSpan] {
                    let batch = Batch { format, bytes, policy };
                    let payloads = payloads(&batch, PIECE_BYTES as u32);
                    let (last, before) = payloads.split_last().expect("there is one");
                    for payload in before {
                        let begun = assembler.push(payload.kind, payload.bytes);
                        assert!(matches!(begun, Assembly::Incomplete));
                    }
                    match assembler.push(last.kind, last.bytes) {
                        Assembly::Batch(back) => {
                            assert_eq!((back.format, back.policy), (format, policy));
                            assert!(back.bytes == bytes);
                        }
                        _ => panic!("no batch"),
                    }
                    assembler.clear();
                }
            }
        }
        assert!(matches!(assembler.push(31, b""), Assembly::Unknown));
    }

    /// After the records of an incomplete batch, the next batch is read intact. A record without
    /// its predecessor is unknown.
    #[test]
    fn pieces_of_two_batches_are_not_joined() {
        let large = vec![7; 2 * PIECE_BYTES + 1];
        let batch = |bytes| Batch { format: Format::ZipkinJson, bytes, policy: Policy::Whole };
        let pieces = payloads(&batch(&large), PIECE_BYTES as u32);
        let other = payloads(&batch(b"other"), PIECE_BYTES as u32);
        let mut assembler = BatchAssembler::default();
        for begun in 1..pieces.len() {
            for piece in &pieces[..begun] {
                assert!(matches!(assembler.push(piece.kind, piece.bytes), Assembly::Incomplete));
            }
            for next in [&other, &pieces] {
                let mut found = Vec::new();
                for piece in next {
                    if let Assembly::Batch(batch) = assembler.push(piece.kind, piece.bytes) {
                        found.push(batch.bytes.to_vec());
                    }
                }
                assert_eq!(
                    found,
                    [next.iter().flat_map(|piece| piece.bytes).copied().collect::<Vec<u8>>()]
                );
            }
        }
        let rest = &pieces[1];
        assert!(matches!(assembler.push(rest.kind, rest.bytes), Assembly::Unknown));
    }
}
