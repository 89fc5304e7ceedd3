//! A program's event types, read from a shared-memory file that the program writes. The file's
//! content is not trusted: see [`blkkin_control::catalog`].

use crate::deferred_close::DeferredClose;
use crate::quota::Share;
use crate::rings::Identity;
use blkkin_control::{EventType, catalog};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Event types that a program has described so far.
#[derive(Debug)]
pub(crate) struct Catalog {
    file: DeferredClose<OwnedFd>,
    identity: Identity,
    /// Types in the order in which the agent has found them in the file.
    types: Vec<EventType>,
    /// Number of entries of the file's table that were visited, including empty ones.
    scanned: usize,
    /// Indexes below `scanned` whose types are not read yet: their entries were empty, or an error
    /// ended the reading of types.
    missing: Vec<usize>,
    /// Number of types that are not recorded: invalid types, and types beyond [`CatalogLimits`].
    refused_count: u32,
    /// Total size of the descriptions that were read, in bytes.
    bytes: usize,
    /// Memory of the types in bytes. Each trace that describes them takes about as much memory.
    size: usize,
    /// Share of the user's quota for the memory of the types.
    share: Share,
}

/// Memory charged for an event type without its names, in bytes. The catalog needs about as much as
/// the schema and text of a trace.
const TYPE_SIZE: usize = 256;
/// Memory charged for a field of an event type without its name, in bytes.
const FIELD_SIZE: usize = 256;

/// Limits for one program: the number of its event types, and the total size of their descriptions
/// in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CatalogLimits {
    pub(crate) types: usize,
    pub(crate) bytes: usize,
}

impl Catalog {
    /// Makes the catalog of the file in which a program describes its types. Fails unless the file
    /// is sealed against resizing, and has the size, magic number and version of such a file.
    pub(crate) fn open(file: DeferredClose<OwnedFd>, share: Share) -> io::Result<Catalog> {
        let invalid = |why| io::Error::new(io::ErrorKind::InvalidData, why);
        // Requires a memfd whose size is sealed. Reading another file, or a device, could block.
        if blkkin_sys::sealed_size(file.as_fd())? != catalog::SIZE as u64 {
            return Err(invalid("the file of event types has another size"));
        }
        let identity = Identity::of(&*file)?;
        let (types, missing) = (vec![], vec![]);
        let read = Catalog {
            file,
            identity,
            types,
            scanned: 0,
            missing,
            refused_count: 0,
            bytes: 0,
            size: 0,
            share,
        };
        match [read.word(0)?, read.word(8)?] == catalog::MAGIC {
            true => Ok(read),
            false => Err(invalid("not a file of event types, or one of another version")),
        }
    }

    /// Returns the identity of the file's memory. It identifies the program across connections.
    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the types that were read so far.
    pub(crate) fn types(&self) -> &[EventType] {
        &self.types
    }

    /// Returns the number of types whose events are not recorded: invalid types, and types beyond
    /// the limits of the agent or the program.
    pub(crate) fn refused(&self) -> u32 {
        let untold = self.word(catalog::REFUSED).unwrap_or(0);
        self.refused_count.saturating_add(u32::try_from(untold).unwrap_or(u32::MAX))
    }

    /// Returns the word that tells where the program's threads show their current spans; 0 if they
    /// do not.
    pub(crate) fn current_span(&self) -> u64 {
        self.word(catalog::CURRENT_SPAN).unwrap_or(0)
    }

    /// Returns the number by which rings name this catalog; 0 if the program has not chosen one.
    pub(crate) fn number(&self) -> u64 {
        self.word(catalog::IDENTITY).unwrap_or(0)
    }

    /// Returns the memory of the types in bytes.
    pub(crate) fn size(&self) -> usize {
        self.size
    }

    /// Reads types that were added since the last call; returns true if one of them is recorded.
    /// Fails if the file cannot be read, or if the user's quota is exceeded. In the latter case the
    /// next call reads the remaining types; their events cannot be described until then.
    pub(crate) fn refresh(&mut self, limits: CatalogLimits) -> io::Result<bool> {
        let count = usize::try_from(self.word(catalog::COUNT)?).unwrap_or(usize::MAX);
        let count = count.min(blkkin_control::limits::EVENT_TYPES_MAX).max(self.scanned);
        if count <= self.scanned && self.missing.is_empty() {
            return Ok(false);
        }
        let before = self.types.len();
        let mut missing = std::mem::take(&mut self.missing);
        missing.extend(self.scanned..count);
        self.scanned = self.scanned.max(count);
        // One read fetches all entries from the first empty one, however many entries a program
        // leaves empty.
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
            match self.read(index, word, limits) {
                Ok(Some(event_type)) => self.types.push(event_type),
                Ok(None) => self.refused_count += 1,
                Err(error) => {
                    self.missing.push(index);
                    self.missing.extend(missing);
                    return Err(error);
                }
            }
        }
        Ok(self.types.len() > before)
    }

    fn read(
        &mut self,
        index: usize,
        word: u64,
        limits: CatalogLimits,
    ) -> io::Result<Option<EventType>> {
        let Some(place) = catalog::decode_word(word) else { return Ok(None) };
        let is_full = self.types.len() >= limits.types || self.bytes + place.len() > limits.bytes;
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

/// Fills `bytes` from a file whose size is sealed, starting at `offset`.
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
