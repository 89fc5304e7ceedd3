//! What a disk was told, in order, and what is on it if its power is cut in between. Start at [`Log`] and [`Replay`].
//!
//! What was told before a flush that was answered is on the disk. Of what came later, any part is: all up to the cut, or
//! writes here and there, the last of them by halves.

use crate::recorder::{Whole, copy};
use blkkin_sys::testing::Random;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

const SECTOR: usize = 512;

const MAGIC: u64 = 0x006a_7366_7773_6872;

const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

/// What a disk was told once.
#[derive(Debug)]
struct Entry {
    /// Where in the image, in bytes.
    offset: u64,
    len: u64,
    flags: u64,
    /// Its bytes in the log; of a discard there are none.
    data: Range<usize>,
}

/// All that a disk was told. Lengths of the log are points in time.
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

    /// How many entries there are before and with each flush.
    pub(crate) fn flushes(&self) -> Vec<usize> {
        let flushes = self.entries.iter().enumerate().filter(|(_, entry)| entry.flags & FLUSH != 0);
        flushes.map(|(place, _)| place + 1).collect()
    }

    /// How long the log was after so many entries.
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

    /// Some sectors of a write, from its first on.
    fn write_some(&self, place: usize, to: &File, whole: Whole, random: &mut Random) {
        let Entry { offset, len, flags, ref data } = self.entries[place];
        if flags & DISCARD != 0 || len == 0 {
            return;
        }
        let unit = match whole {
            Whole::First(first) if offset < first => return,
            Whole::First(_) => SECTOR as u64,
            Whole::Blocks(bytes) => bytes,
        };
        let some = random.below(len.div_ceil(unit)) * unit;
        to.write_all_at(&self.bytes[data.clone()][..some as usize], offset).expect("a write");
    }
}

/// When the power is cut.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// So many entries were begun.
    pub(crate) entries: usize,
    pub(crate) left: Left,
}

/// What is left of what came after the last flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    All,
    /// All, of the last one some sectors.
    Torn,
    /// Any, of the last one some sectors.
    Any,
}

/// The images of a disk, from its beginning on.
pub(crate) struct Replay<'a> {
    log: &'a Log,
    whole: Whole,
    /// The image up to a flush.
    path: &'a Path,
    image: File,
    applied: usize,
    random: Random,
}

impl<'a> Replay<'a> {
    /// Takes what was on the disk at first, and changes it.
    pub(crate) fn new(log: &'a Log, path: &'a Path, whole: Whole, seed: u64) -> Replay<'a> {
        let image = File::options().write(true).open(path).expect("an image");
        Replay { log, whole, path, image, applied: 0, random: Random::new(seed) }
    }

    /// Makes the image of a disk whose power is cut then, not before that of the one before.
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
                Left::Torn | Left::Any if place + 1 == cut.entries => {
                    log.write_some(place, &file, self.whole, random);
                }
                Left::Any if random.chance(50) => {}
                _ => log.write(place, &file),
            }
        }
    }
}
