//! The entries of a `Log` call, decoded in place without allocations, as a server may receive
//! hundreds of thousands of entries per second.

use crate::binary::{Input, Result, STRING, STRUCT};
use crate::fault::Reason;

/// A message with its category. Message and category are arbitrary bytes and may be empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    /// Category, which selects the stores of the message.
    pub category: &'a [u8],
    /// Bytes of the message, which the protocol does not interpret. For Zipkin, a span in Thrift
    /// and base64.
    pub message: &'a [u8],
}

impl<'a> Entry<'a> {
    #[inline]
    fn read(input: &mut Input<'a>) -> Result<Entry<'a>> {
        let mut entry = Entry::default();
        while let Some(field) = input.field()? {
            match field {
                (STRING, 1) => entry.category = input.text()?,
                (STRING, 2) => entry.message = input.text()?,
                (kind, _) => input.skip(kind)?,
            }
        }
        Ok(entry)
    }
}

/// The entries of a `Log` call, validated when they are read, so iteration cannot fail.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    count: usize,
    payload_bytes: usize,
}

impl<'a> Entries<'a> {
    /// Reads and validates a list of entries. A list of another item type counts as empty.
    pub(crate) fn read(input: &mut Input<'a>, count_max: usize) -> Result<Entries<'a>> {
        let start = input.at();
        let (kind, count) = input.list()?;
        if kind != STRUCT {
            input.skip_items(kind, count)?;
            return Ok(Entries::default());
        }
        if count > count_max {
            return Err(Reason::TooMany { what: "entries", count_max }.at(start));
        }
        let (rest, start) = (input.rest(), input.at());
        let mut payload_bytes = 0;
        for _ in 0..count {
            let entry = Entry::read(input)?;
            payload_bytes += entry.category.len() + entry.message.len();
        }
        let bytes = rest.get(..input.at() - start).unwrap_or_default();
        Ok(Entries { bytes, count, payload_bytes })
    }

    /// Returns the number of entries in the call.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns true if there are no entries. A client sends an empty call to test whether the
    /// server accepts entries.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the total size of all categories and messages, in bytes.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// Returns an iterator over the entries.
    pub fn iter(&self) -> Iter<'a> {
        Iter { input: Input::new(self.bytes), left: self.count }
    }
}

impl<'a> IntoIterator for &Entries<'a> {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Iterator over the entries of a `Log` call.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    input: Input<'a>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        Entry::read(&mut self.input).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
