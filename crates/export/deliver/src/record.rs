//! What a batch is in the queue.
//!
//! ```text
//! 0   u8   1, the form's version
//! 1   u32  spans
//! 5   u64  spans of all batches before, so that those of missing batches can be counted
//! 13  u64  when it was queued, by the queue's own time: milliseconds since 1970, but for when nobody had it open
//! 21  …    the body, as it is sent
//! ```
//!
//! Scribe takes a message for each span; so for it the body has each span's size (u32) before it.
//!
//! Numbers are little-endian. The record's kind says the format, with bit 7 for gzip. The journal around it has
//! checksums; still, what cannot be understood is an error, not a panic.

use blkkin_wire::Format;
use bytes::Bytes;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 21;
const GZIP: u8 = 0x80;

/// A batch that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) format: Format,
    pub(crate) is_gzip: bool,
    pub(crate) spans: u32,
    pub(crate) spans_before: u64,
    pub(crate) time_ms: u64,
    pub(crate) body: Bytes,
}

impl Record {
    pub(crate) fn kind(&self) -> u8 {
        let index = Format::ALL.iter().position(|format| *format == self.format).unwrap_or(0);
        index as u8 | if self.is_gzip { GZIP } else { 0 }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.push(VERSION);
        bytes.extend(self.spans.to_le_bytes());
        bytes.extend(self.spans_before.to_le_bytes());
        bytes.extend(self.time_ms.to_le_bytes());
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// `None` if another release has written it.
    pub(crate) fn decode(kind: u8, bytes: &[u8]) -> Option<Record> {
        let format = *Format::ALL.get(usize::from(kind & !GZIP))?;
        let (header, body) = bytes.split_at_checked(HEADER_BYTES)?;
        let (version, header) = header.split_first()?;
        let (spans, header) = header.split_first_chunk()?;
        let (spans_before, time) = header.split_first_chunk()?;
        (*version == VERSION).then_some(Record {
            format,
            is_gzip: kind & GZIP != 0,
            spans: u32::from_le_bytes(*spans),
            spans_before: u64::from_le_bytes(*spans_before),
            time_ms: u64::from_le_bytes(*time.first_chunk()?),
            body: Bytes::copy_from_slice(body),
        })
    }

    /// The spans of a body in which each has its size before it; ends early where that is not so.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.body[..];
        std::iter::from_fn(move || {
            let (size, behind) = rest.split_first_chunk()?;
            let (message, behind) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
            rest = behind;
            Some(message)
        })
    }

    /// The spans of all batches up to this one.
    pub(crate) fn spans_up_to(&self) -> u64 {
        self.spans_before.saturating_add(self.spans.into())
    }
}

/// Goes along batches, and finds out how many spans those had that are missing between them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ledger {
    /// The spans of all batches up to the last one, once there was one.
    next: Option<u64>,
    /// Whether something was missing since.
    is_broken: bool,
}

impl Ledger {
    /// Something is missing here.
    pub(crate) fn damage(&mut self) {
        self.is_broken = true;
    }

    /// The next batch. Returns how many spans are missing before it.
    pub(crate) fn record(&mut self, record: &Record) -> u64 {
        let next = self.next.replace(record.spans_up_to());
        let missing = next.map_or(0, |next| record.spans_before.saturating_sub(next));
        if std::mem::take(&mut self.is_broken) { missing } else { 0 }
    }

    /// The spans of all batches so far.
    pub(crate) fn spans(&self) -> u64 {
        self.next.unwrap_or(0)
    }
}

/// Puts its size before each span; `ends` says where they end.
pub(crate) fn with_sizes(spans: &[u8], ends: &[usize]) -> Vec<u8> {
    let mut out = Vec::with_capacity(spans.len() + size_of_val(ends));
    let mut start = 0;
    for end in ends {
        let span = spans.get(start..*end).unwrap_or_default();
        out.extend((span.len() as u32).to_le_bytes());
        out.extend_from_slice(span);
        start = *end;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{Ledger, Record, with_sizes};
    use blkkin_wire::Format;
    use bytes::Bytes;

    fn record(spans_before: u64, spans: u32) -> Record {
        let body = Bytes::from_static(b"body");
        Record { format: Format::OtlpJson, is_gzip: true, spans, spans_before, time_ms: 9, body }
    }

    #[test]
    fn there_and_back() {
        let bytes = record(7, 3).encode();
        assert_eq!(Record::decode(record(7, 3).kind(), &bytes), Some(record(7, 3)));
        assert_eq!(Record::decode(7, &bytes), None);
        assert_eq!(Record::decode(0, &[2; 30]), None);
        for end in 0..21 {
            assert_eq!(Record::decode(0, &bytes[..end]), None);
        }
    }

    #[test]
    fn spans_with_sizes() {
        let body = with_sizes(b"onetwoooo", &[3, 9, 9]);
        let of = |body: &[u8]| {
            let record = Record { body: Bytes::copy_from_slice(body), ..record(0, 3) };
            record.messages().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        assert_eq!(of(&body), [&b"one"[..], b"twoooo", b""]);
        assert_eq!(of(&body[..12]), [b"one"]);
        assert!(of(b"\xff\xff\xff\xff").is_empty());
    }

    #[test]
    fn missing_spans_are_counted() {
        let mut ledger = Ledger::default();
        ledger.damage();
        // Nobody knows what was before the first.
        assert_eq!(ledger.record(&record(100, 5)), 0);
        assert_eq!(ledger.record(&record(105, 5)), 0);
        ledger.damage();
        assert_eq!(ledger.record(&record(117, 1)), 7);
        assert_eq!(ledger.record(&record(118, 1)), 0);
        // A journal that was empty when it was opened counts anew.
        ledger.damage();
        assert_eq!(ledger.record(&record(0, 1)), 0);
        assert_eq!(ledger.spans(), 1);
    }
}
