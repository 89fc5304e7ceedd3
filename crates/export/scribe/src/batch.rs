//! A `Log` call under construction, in its encoded form.

use crate::binary::{LIST, STRING, STRUCT, put_field, put_stop, put_text};
use crate::entries::Entry;
use crate::frame;
use crate::message::{CALL, Header};

/// An encoded `Log` call. Entries are encoded when they are added, so a repeated send costs no
/// encoding.
#[derive(Clone, Debug)]
pub struct Batch {
    /// The encoded frame. `frame` sets its length, sequence number and entry count.
    bytes: Vec<u8>,
    count: u32,
    payload_bytes: usize,
    sequence_at: usize,
    count_at: usize,
    is_closed: bool,
}

impl Batch {
    /// Creates an empty batch, in Thrift's strict encoding or in the old encoding. All servers read
    /// the old encoding.
    pub fn new(is_strict: bool) -> Batch {
        let mut bytes = Vec::new();
        frame::open(&mut bytes);
        Header { name: b"Log", kind: CALL, sequence: 0, is_strict }.write(&mut bytes);
        let sequence_at = bytes.len() - 4;
        put_field(&mut bytes, LIST, 1);
        bytes.push(STRUCT);
        let count_at = bytes.len();
        bytes.extend_from_slice(&[0; 4]);
        Batch { bytes, count: 0, payload_bytes: 0, sequence_at, count_at, is_closed: false }
    }

    /// Encodes an entry and appends it to the call.
    pub fn push(&mut self, entry: Entry<'_>) {
        self.reopen();
        let Entry { category, message } = entry;
        for (id, text) in [(1, category), (2, message)] {
            put_field(&mut self.bytes, STRING, id);
            put_text(&mut self.bytes, text);
        }
        put_stop(&mut self.bytes);
        self.count += 1;
        self.payload_bytes += category.len() + message.len();
    }

    /// Removes all entries; the memory is reused.
    pub fn clear(&mut self) {
        self.reopen();
        self.bytes.truncate(self.count_at + 4);
        (self.count, self.payload_bytes) = (0, 0);
    }

    /// Returns the number of entries in the call.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// Returns true if the call has no entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the total size of all categories and messages, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns the size of the encoded frame, in bytes.
    pub fn frame_bytes(&self) -> usize {
        self.bytes.len() + usize::from(!self.is_closed) * END.len()
    }

    /// Completes the frame with a sequence number and returns its bytes.
    pub fn frame(&mut self, sequence: i32) -> &[u8] {
        if !self.is_closed {
            self.bytes.extend_from_slice(&END);
            self.is_closed = true;
        }
        frame::close(&mut self.bytes, 0);
        for (at, number) in [(self.sequence_at, sequence), (self.count_at, self.count as i32)] {
            if let Some(place) = self.bytes.get_mut(at..at + 4) {
                place.copy_from_slice(&number.to_be_bytes());
            }
        }
        &self.bytes
    }

    fn reopen(&mut self) {
        if std::mem::take(&mut self.is_closed) {
            self.bytes.truncate(self.bytes.len() - END.len());
        }
    }
}

/// Stop byte that ends the call's arguments.
const END: [u8; 1] = [0];

impl Default for Batch {
    fn default() -> Batch {
        Batch::new(true)
    }
}
