//! Records that are written together, as the bytes that they will be on disk.

use crate::layout::{
    Identity, NewRecord, RECORD_HEADER_BYTES, RecordHeader, encode_record, record_bytes,
};

/// What somebody wants to append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Whatever the caller wants to tell kinds of records by.
    pub kind: u8,
    /// What is kept.
    pub bytes: &'a [u8],
}

impl Payload<'_> {
    /// What it takes, with all that belongs to its record.
    pub(crate) fn record_bytes(&self) -> usize {
        record_bytes(self.bytes.len())
    }
}

/// Records with sequence numbers without gaps.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    bytes: Vec<u8>,
    first: u64,
    count: u32,
}

impl Batch {
    /// An empty one that begins with a sequence number, in memory that another one had.
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

    /// The sequence number that follows its records.
    pub(crate) fn next(&self) -> u64 {
        self.first + u64::from(self.count)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// All of it, to be written piece by piece.
    pub(crate) fn all(&self) -> Rest<'_> {
        Rest { bytes: &self.bytes, first: self.first }
    }
}

/// What remains to be written of a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rest<'a> {
    pub(crate) bytes: &'a [u8],
    /// The sequence number of its first record.
    pub(crate) first: u64,
}

impl Rest<'_> {
    /// How many bytes the records take that fit into `room` bytes, and how many they are.
    pub(crate) fn fitting(&self, room: u64, identity: Identity) -> (usize, u64) {
        let (mut bytes, mut count) = (0, 0);
        while let Some(header) = self.header(bytes, identity)
            && (bytes + header.whole_bytes()) as u64 <= room
        {
            bytes += header.whole_bytes();
            count += 1;
        }
        (bytes, count)
    }

    /// Takes off what has been written.
    pub(crate) fn written(&mut self, (bytes, count): (usize, u64)) {
        self.bytes = &self.bytes[bytes..];
        self.first += count;
    }

    fn header(&self, at: usize, identity: Identity) -> Option<RecordHeader> {
        let bytes = self.bytes.get(at..at + RECORD_HEADER_BYTES)?;
        RecordHeader::decode(bytes, identity)
    }
}
