//! Images of a disk after a power cut, built from the log of the disk's writes. Start
//! at [`Log`] and [`Replay`].
//!
//! All writes before a completed flush are on the disk. Of the later writes up to the cut, the disk
//! may have all, all with the last one torn, or a random subset with the last one torn.

use crate::recorder::{AtomicWrites, copy};
use blkkin_sys::testing::Random;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SECTOR: usize = 512;

const MAGIC: u64 = 0x006a_7366_7773_6872;

const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// Write, discard or flush that the disk logged.
#[derive(Debug)]
struct Entry {
    /// Offset on the disk, in bytes.
    offset: u64,
    len: u64,
    flags: u64,
    /// Range of the log's bytes with the written data; empty for a discard or flush.
    data: Range<usize>,
}

/// Log of a disk's writes. The length of the log in bytes serves as a timestamp.
pub(crate) struct Log {
    bytes: Vec<u8>,
    entries: Vec<Entry>,
}

impl Log {
    pub(crate) fn read(path: &Path) -> Log {
        let bytes = std::fs::read(path).expect("a log");
        let word = |at: usize| {
            let word = bytes.get(at..at + 8).expect("a whole log");
            u64::from_le_bytes(word.try_into().expect("eight bytes"))
        };
        assert_eq!((word(0), word(24) as u32), (MAGIC, SECTOR as u32), "not a log");
        let (mut entries, mut at) = (Vec::new(), SECTOR);
        while at < bytes.len() {
            let [sector, sectors, flags] = [0, 8, 16].map(|field| word(at + field));
            let begin = at + SECTOR;
            let len = if flags & DISCARD == 0 { sectors as usize * SECTOR } else { 0 };
            let data = begin..begin + len;
            assert!(data.end <= bytes.len(), "the log ends too early");
            at = data.end;
            let [offset, len] = [sector, sectors].map(|count| count * SECTOR as u64);
            entries.push(Entry { offset, len, flags, data });
        }
        Log { bytes, entries }
    }

    pub(crate) fn entries(&self) -> usize {
        self.entries.len()
    }

    /// Returns, for each flush, the number of log entries up to and including the flush.
    pub(crate) fn flushes(&self) -> Vec<usize> {
        let flushes = self.entries.iter().enumerate().filter(|(_, entry)| entry.flags & FLUSH != 0);
        flushes.map(|(place, _)| place + 1).collect()
    }

    /// Returns the length in bytes of the log up to and including its first `entries` entries; 0
    /// if `entries` is 0.
    pub(crate) fn len(&self, entries: usize) -> u64 {
        entries.checked_sub(1).map_or(0, |last| self.entries[last].data.end as u64)
    }

    fn write(&self, place: usize, to: &File) {
        let Entry { offset, len, flags, ref data } = self.entries[place];
        let zeros;
        let bytes = if flags & DISCARD == 0 {
            &self.bytes[data.clone()]
        } else {
            zeros = vec![0; len as usize];
            &zeros
        };
        to.write_all_at(bytes, offset).expect("a write");
    }

    /// Writes a part of a torn entry to the image: a random number of the entry's first sectors or
    /// blocks, but not all. Nothing is written for a discard, or for an entry that begins in the
    /// disk's atomic start [`AtomicWrites::First`].
    fn write_some(&self, place: usize, to: &File, whole: AtomicWrites, random: &mut Random) {
        let Entry { offset, len, flags, ref data } = self.entries[place];
        if flags & DISCARD != 0 || len == 0 {
            return;
        }
        let unit = match whole {
            AtomicWrites::First(first) if offset < first => return,
            AtomicWrites::First(_) => SECTOR as u64,
            AtomicWrites::Blocks(bytes) => bytes,
        };
        let some = random.below(len.div_ceil(unit)) * unit;
        to.write_all_at(&self.bytes[data.clone()][..some as usize], offset).expect("a write");
    }
}

/// Simulated power cut at a position in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Number of log entries that began before the cut.
    pub(crate) entries: usize,
    pub(crate) left: SurvivingWrites,
}

/// Writes since the last flush that survive the cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SurvivingWrites {
    All,
    /// All writes, with the last one torn at a sector or block.
    Torn,
    /// A random subset, with the last write torn at a sector or block.
    Any,
}

/// Builder of a disk's images, for cuts in ascending order.
pub(crate) struct Replay<'a> {
    log: &'a Log,
    whole: AtomicWrites,
    /// Path of the image to which all entries up to the last flush before the latest cut have been
    /// applied.
    path: &'a Path,
    image: File,
    applied: usize,
    random: Random,
}

impl<'a> Replay<'a> {
    /// Creates a replay. The file at `path` has the disk's initial content, and is modified.
    pub(crate) fn new(log: &'a Log, path: &'a Path, whole: AtomicWrites, seed: u64) -> Replay<'a> {
        let image = File::options().write(true).open(path).expect("an image");
        Replay { log, whole, path, image, applied: 0, random: Random::new(seed) }
    }

    /// Writes the disk image that a power cut at `cut` leaves to the file `to`. Each call must pass
    /// a later cut than the one before.
    pub(crate) fn cut(&mut self, cut: Cut, to: &Path) {
        let Replay { log, random, .. } = self;
        let flush = log.entries[..cut.entries].iter().rposition(|entry| entry.flags & FLUSH != 0);
        let durable = flush.map_or(0, |place| place + 1);
        (self.applied..durable).for_each(|place| log.write(place, &self.image));
        self.applied = self.applied.max(durable);
        copy(self.path, to);
        let file = File::options().write(true).open(to).expect("an image");
        for place in durable..cut.entries {
            match cut.left {
                SurvivingWrites::Torn | SurvivingWrites::Any if place + 1 == cut.entries => {
                    log.write_some(place, &file, self.whole, random);
                }
                SurvivingWrites::Any if random.chance(50) => {}
                _ => log.write(place, &file),
            }
        }
    }
}
