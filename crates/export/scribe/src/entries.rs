//! The entries of a `Log`: read where they lie in the frame, so that hundreds of thousands a second allocate nothing.

use crate::binary::{Result, STRING, STRUCT, Walk};
use crate::fault::Reason;

/// One message of a category. Both may be any bytes, also none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Entry<'a> {
    /// What it belongs to.
    pub category: &'a [u8],
    /// What it says.
    pub message: &'a [u8],
}

impl<'a> Entry<'a> {
    #[inline]
    fn read(walk: &mut Walk<'a>) -> Result<Entry<'a>> {
        let mut entry = Entry::default();
        while let Some(field) = walk.field()? {
            match field {
                (STRING, 1) => entry.category = walk.text()?,
                (STRING, 2) => entry.message = walk.text()?,
                (kind, _) => walk.skip(kind)?,
            }
        }
        Ok(entry)
    }
}

/// The entries of a `Log`, which have been looked through once: going through them again fails nowhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entries<'a> {
    bytes: &'a [u8],
    count: usize,
    payload_bytes: usize,
}

impl<'a> Entries<'a> {
    /// Reads a list, which anything may follow. One of something else than structures counts as empty.
    pub(crate) fn read(walk: &mut Walk<'a>, count_max: usize) -> Result<Entries<'a>> {
        let start = walk.at();
        let (kind, count) = walk.list()?;
        if kind != STRUCT {
            walk.skip_items(kind, count)?;
            return Ok(Entries::default());
        }
        if count > count_max {
            return Err(Reason::TooMany { what: "entries", count_max }.at(start));
        }
        let (rest, start) = (walk.rest(), walk.at());
        let mut payload_bytes = 0;
        for _ in 0..count {
            let entry = Entry::read(walk)?;
            payload_bytes += entry.category.len() + entry.message.len();
        }
        let bytes = rest.get(..walk.at() - start).unwrap_or_default();
        Ok(Entries { bytes, count, payload_bytes })
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none: a question whether the server would take some.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The bytes of all categories and messages.
    pub fn payload_bytes(&self) -> usize {
        self.payload_bytes
    }

    /// One after the other.
    pub fn iter(&self) -> Iter<'a> {
        Iter { walk: Walk::new(self.bytes), left: self.count }
    }
}

impl<'a> IntoIterator for &Entries<'a> {
    type Item = Entry<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// Entries, one after the other.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    walk: Walk<'a>,
    left: usize,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Entry<'a>;

    #[inline]
    fn next(&mut self) -> Option<Entry<'a>> {
        self.left = self.left.checked_sub(1)?;
        Entry::read(&mut self.walk).ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for Iter<'_> {}
