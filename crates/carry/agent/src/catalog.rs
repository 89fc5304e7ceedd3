//! What a program tells of its event types, read from its file. Nothing in it is believed: see
//! [`blkkin_control::catalog`].

use crate::foreign::Foreign;
use crate::quota::Share;
use crate::rings::Identity;
use blkkin_control::{EventType, catalog};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Event types of a program, as far as they are known.
#[derive(Debug)]
pub(crate) struct Catalog {
    file: Foreign<OwnedFd>,
    identity: Identity,
    /// Types so far, in the order in which they were found.
    types: Vec<EventType>,
    /// Types below this index have been looked for …
    looked: usize,
    /// … and these were not told yet.
    missing: Vec<usize>,
    /// Types that cannot be understood.
    broken: u32,
    /// Bytes of descriptions that were read, …
    bytes: usize,
    /// … and that the types take here, and about as many in each trace, …
    size: usize,
    /// … of all that the user's may take.
    share: Share,
}

/// What a type takes beside its names: here, or as a schema and its text.
const TYPE_SIZE: usize = 256;
/// What each of its fields takes.
const FIELD_SIZE: usize = 256;

/// Most types, and bytes of their descriptions, that one program may have the daemon keep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) types: usize,
    pub(crate) bytes: usize,
}

impl Catalog {
    /// A program's file, if it is one.
    pub(crate) fn open(file: Foreign<OwnedFd>, share: Share) -> io::Result<Catalog> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        // Memory that cannot shrink: to read another file, or a device, could take for ever.
        if blkkin_sys::sealed_size(file.as_fd())? != catalog::SIZE as u64 {
            return Err(invalid("the file of event types has another size"));
        }
        let identity = Identity::of(&*file)?;
        let (types, missing) = (vec![], vec![]);
        let read = Catalog {
            file,
            identity,
            types,
            looked: 0,
            missing,
            broken: 0,
            bytes: 0,
            size: 0,
            share,
        };
        match [read.word(0)?, read.word(8)?] == catalog::MAGIC {
            true => Ok(read),
            false => Err(invalid("not a file of event types, or one of another version")),
        }
    }

    /// Which program's it is, whatever its connection: no other one has this memory.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// All types that were found.
    pub(crate) fn types(&self) -> &[EventType] {
        &self.types
    }

    /// Types of which no events are recorded: that were told and cannot be understood, or are more than there
    /// is room for, here or at the program.
    pub(crate) fn refused(&self) -> u32 {
        let untold = self.word(catalog::REFUSED).unwrap_or(0);
        self.broken.saturating_add(u32::try_from(untold).unwrap_or(u32::MAX))
    }

    /// Bytes that the types take.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Looks for types that have been told since; gives whether there are some. If the user may have no more,
    /// those are looked for again the next time: until then nobody can say what their events are.
    pub(crate) fn look(&mut self, room: Room) -> io::Result<bool> {
        let count = usize::try_from(self.word(catalog::COUNT)?).unwrap_or(usize::MAX);
        let count = count.min(blkkin_control::limits::EVENT_TYPES_MAX).max(self.looked);
        if count <= self.looked && self.missing.is_empty() {
            return Ok(false);
        }
        let before = self.types.len();
        let mut missing = std::mem::take(&mut self.missing);
        missing.extend(self.looked..count);
        self.looked = self.looked.max(count);
        // One look at all words from the first that is missing, however many a program leaves out.
        let first = missing.iter().copied().min().unwrap_or(count);
        let mut words = vec![0; 8 * count.saturating_sub(first)];
        read_exact_at(&self.file, &mut words, catalog::word_of(first) as u64)?;
        let mut missing = missing.into_iter();
        while let Some(index) = missing.next() {
            let word = match words.get(8 * (index - first)..).and_then(<[u8]>::first_chunk) {
                Some(word) => u64::from_le_bytes(*word),
                None => continue,
            };
            if word == 0 {
                self.missing.push(index);
                continue;
            }
            match self.read(index, word, room) {
                Ok(Some(event_type)) => self.types.push(event_type),
                Ok(None) => self.broken += 1,
                Err(error) => {
                    self.missing.push(index);
                    self.missing.extend(missing);
                    return Err(error);
                }
            }
        }
        Ok(self.types.len() > before)
    }

    fn read(&mut self, index: usize, word: u64, room: Room) -> io::Result<Option<EventType>> {
        let Some(place) = catalog::place(word) else { return Ok(None) };
        let is_full = self.types.len() >= room.types || self.bytes + place.len() > room.bytes;
        if is_full {
            return Ok(None);
        }
        let mut bytes = vec![0; place.len()];
        read_exact_at(&self.file, &mut bytes, place.start as u64)?;
        let found = catalog::decode(&bytes).ok().filter(|found| found.index as usize == index);
        let fields = found.as_ref().map_or(0, |found| found.fields.len());
        let size = bytes.len() + TYPE_SIZE + fields * FIELD_SIZE;
        self.share.grow(size as u64)?;
        self.bytes += bytes.len();
        self.size += size;
        Ok(found)
    }

    fn word(&self, at: usize) -> io::Result<u64> {
        let mut bytes = [0; 8];
        read_exact_at(&self.file, &mut bytes, at as u64)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

/// Reads all of `bytes` from memory whose size stays.
fn read_exact_at(file: impl AsFd, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    let mut read = 0;
    while read < bytes.len() {
        match rustix::io::pread(&file, &mut bytes[read..], offset + read as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(more) => read += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
