//! Batches: records, encoded as on disk, that are written together.

use crate::layout::{
    Identity, NewRecord, RECORD_HEADER_BYTES, RecordHeader, encode_record, record_bytes,
};

/// Record to append, without sequence number and checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Caller-defined kind of the record. The journal does not interpret it.
    pub kind: u8,
    /// Content of the record, at most
    /// [`payload_bytes_max`](crate::Options::payload_bytes_max) bytes.
    pub bytes: &'a [u8],
}

impl Payload<'_> {
    /// Returns the size that the payload's record has on disk, in bytes.
    pub(crate) fn record_bytes(&self) -> usize {
        record_bytes(self.bytes.len())
    }
}

/// Encoded records with consecutive sequence numbers, which the writer writes together.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    first: u64,
    count: u32,
}

impl Batch {
    /// Makes an empty batch whose first record will have the sequence number `first`. Reuses the
    /// memory of an earlier batch.
    pub(crate) fn reuse(mut bytes: Vec<u8>, first: u64) -> Batch {
        bytes.clear();
        Batch { bytes, first, count: 0 }
    }

    pub(crate) fn push(&mut self, payload: &Payload<'_>, identity: Identity) {
        let record = NewRecord {
            sequence: self.next(),
            place: self.count,
            kind: payload.kind,
            payload: payload.bytes,
        };
        encode_record(&record, identity, &mut self.bytes);
        self.count += 1;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the sequence number that follows the batch's records.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns a cursor at the first record of the batch.
    pub(crate) fn cursor(&self) -> BatchCursor<'_> {
        BatchCursor { bytes: &self.bytes, first: self.first }
    }
}

/// Cursor over the records of a batch that have not been written yet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BatchCursor<'a> {
    pub(crate) bytes: &'a [u8],
    /// Sequence number of the first unwritten record.
    pub(crate) first: u64,
}

/// Leading records of a batch that fit into a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Piece {
    /// Total size on disk of the records that fit, in bytes.
    pub(crate) bytes: usize,
    /// Number of the records that fit.
    pub(crate) count: u64,
}

impl BatchCursor<'_> {
    /// Measures the leading records that fit into `room` bytes.
    pub(crate) fn fitting(&self, room: u64, identity: Identity) -> Piece {
        let (mut bytes, mut count) = (0, 0);
        while let Some(header) = self.header(bytes, identity)
            && (bytes + header.whole_bytes()) as u64 <= room
        {
            bytes += header.whole_bytes();
            count += 1;
        }
        Piece { bytes, count }
    }

    /// Moves past the records of `piece`, which have been written.
    pub(crate) fn advance(&mut self, piece: Piece) {
        self.bytes = &self.bytes[piece.bytes..];
        self.first += piece.count;
    }

    fn header(&self, at: usize, identity: Identity) -> Option<RecordHeader> {
        let bytes = self.bytes.get(at..at + RECORD_HEADER_BYTES)?;
        RecordHeader::decode(bytes, identity)
    }
}
