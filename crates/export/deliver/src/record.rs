//! Encoding of a batch in the queue.
//!
//! ```text
//! 0   u8   1, the version of the encoding
//! 1   u32  number of spans
//! 5   u64  number of spans in all earlier batches, to count the spans of missing batches; starts
//!          at 0 if the queue is empty when it is opened
//! 13  u64  time of completion by the queue's own clock: milliseconds since 1970, but stopped
//!          while no exporter has the queue open
//! 21  …    body of the request; for gRPC, of the message
//! ```
//!
//! Scribe needs a message for each span, so a Scribe body has the size (u32) of each span before
//! the span.
//!
//! Numbers are little-endian. The kind of the journal record encodes the format, with bit 7 for
//! gzip. The journal has checksums; still, malformed data is an error, not a panic.

use blkkin_wire::Format;
use bytes::Bytes;

const VERSION: u8 = 1;
const HEADER_BYTES: usize = 21;
const GZIP: u8 = 0x80;

/// An encoded batch that waits for delivery.
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

    /// Decodes a record; `None` if its version or format is unknown, or its header is incomplete.
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

    /// Returns an iterator over the spans of a Scribe body, in which the size of each span precedes
    /// the span. The iterator ends early if the body is malformed.
    pub(crate) fn messages(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = &self.body[..];
        std::iter::from_fn(move || {
            let (size, behind) = rest.split_first_chunk()?;
            let (message, behind) = behind.split_at_checked(u32::from_le_bytes(*size) as usize)?;
            rest = behind;
            Some(message)
        })
    }

    /// Returns the number of spans in all batches up to and including this batch.
    pub(crate) fn spans_up_to(&self) -> u64 {
        self.spans_before.saturating_add(self.spans.into())
    }
}

/// Counter of spans that are missing between consecutive batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GapCounter {
    /// [`Record::spans_up_to`] of the last batch; `None` before the first batch.
    next: Option<u64>,
    /// Set if data was missing since the last batch.
    has_gap: bool,
}

impl GapCounter {
    /// Records that data is missing before the next batch.
    pub(crate) fn mark_gap(&mut self) {
        self.has_gap = true;
    }

    /// Adds the next batch and returns the number of spans missing before it. The number is 0
    /// without a marked gap, and for the first batch.
    pub(crate) fn add(&mut self, record: &Record) -> u64 {
        let next = self.next.replace(record.spans_up_to());
        let missing = next.map_or(0, |next| record.spans_before.saturating_sub(next));
        if std::mem::take(&mut self.has_gap) { missing } else { 0 }
    }

    /// Returns [`Record::spans_up_to`] of the last batch; 0 before the first batch.
    pub(crate) fn spans_up_to(&self) -> u64 {
        self.next.unwrap_or(0)
    }
}

/// Inserts the size (u32) before each span. `ends` are the end offsets of the spans.
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
    use super::{GapCounter, Record, with_sizes};
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
        let mut gaps = GapCounter::default();
        gaps.mark_gap();
        // A gap before the first batch is not counted: the earlier spans are unknown.
        assert_eq!(gaps.add(&record(100, 5)), 0);
        assert_eq!(gaps.add(&record(105, 5)), 0);
        gaps.mark_gap();
        assert_eq!(gaps.add(&record(117, 1)), 7);
        assert_eq!(gaps.add(&record(118, 1)), 0);
        // A journal that was empty when it was opened restarts the count at zero.
        gaps.mark_gap();
        assert_eq!(gaps.add(&record(0, 1)), 0);
        assert_eq!(gaps.spans_up_to(), 1);
    }
}
