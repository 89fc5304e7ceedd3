//! A simulated file: its contents as reads return them, its durable contents, and the pending
//! changes.

use super::random::Random;

/// Size of a disk sector in bytes. [`Loss::Sectors`] loses whole sectors, and tears at most one
/// sector of each write.
const SECTOR_BYTES: usize = 512;

#[derive(Clone, Debug, Default)]
pub(super) struct Inode {
    pub(super) seen: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
}

#[derive(Clone, Debug)]
enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Resize(usize),
}

/// Selection of the pending changes that a power cut or a failed `sync` loses. For `Sectors` and
/// `Suffix`, each resize is lost at random.
#[derive(Clone, Copy, Debug)]
enum Loss {
    Nothing,
    Everything,
    /// Random set of the sectors of each write. One other sector of each write may be torn.
    Sectors,
    /// All written bytes from a random one on.
    Suffix,
}

impl Inode {
    /// Makes a file whose contents are durable.
    pub(super) fn durable(bytes: Vec<u8>) -> Inode {
        Inode { seen: bytes.clone(), durable: bytes, pending: Vec::new() }
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        put(&mut self.seen, offset, bytes);
        self.pending.push(Pending::Write { offset, bytes: bytes.to_owned() });
    }

    pub(super) fn resize(&mut self, size: usize) {
        self.seen.resize(size, 0);
        self.pending.push(Pending::Resize(size));
    }

    pub(super) fn sync(&mut self) {
        for pending in self.pending.drain(..) {
            apply(&mut self.durable, &pending);
        }
    }

    /// Simulates a failed `sync` as in real kernels: pages that could not be written are marked
    /// clean, and are not written again.
    pub(super) fn fail_sync(&mut self, random: &mut Random) {
        self.lose(random);
    }

    /// Drops clean pages. Reads then return the durable contents with the pending changes.
    pub(super) fn forget(&mut self) {
        self.seen.clone_from(&self.durable);
        for pending in &self.pending {
            apply(&mut self.seen, pending);
        }
    }

    pub(super) fn cut_power(&mut self, random: &mut Random) {
        self.lose(random);
        self.seen.clone_from(&self.durable);
    }

    /// Makes a random part of the pending changes durable, and drops the other changes.
    fn lose(&mut self, random: &mut Random) {
        let loss = match random.below(4) {
            0 => Loss::Nothing,
            1 => Loss::Everything,
            2 => Loss::Sectors,
            _ => Loss::Suffix,
        };
        let size = self.pending.iter().map(Pending::size).sum::<usize>();
        let mut left = random.below(size as u64 + 1) as usize;
        for pending in std::mem::take(&mut self.pending) {
            match (loss, pending) {
                (Loss::Nothing, pending) => apply(&mut self.durable, &pending),
                (Loss::Everything, _) => {}
                (Loss::Suffix, Pending::Write { offset, mut bytes }) => {
                    bytes.truncate(left);
                    left -= bytes.len();
                    put(&mut self.durable, offset, &bytes);
                }
                (Loss::Sectors, Pending::Write { offset, bytes }) => {
                    self.lose_sectors(offset, &bytes, random);
                }
                (_, resize) => {
                    if random.once_in(2) {
                        apply(&mut self.durable, &resize);
                    }
                }
            }
        }
    }

    fn lose_sectors(&mut self, offset: usize, bytes: &[u8], random: &mut Random) {
        let torn = random.below(bytes.len() as u64 + 1) as usize;
        let mut from = 0;
        while from < bytes.len() {
            let to = (from + SECTOR_BYTES - (offset + from) % SECTOR_BYTES).min(bytes.len());
            let kept_to = if (from..to).contains(&torn) { torn } else { to };
            if random.once_in(2) {
                put(&mut self.durable, offset + from, &bytes[from..kept_to]);
            }
            from = to;
        }
    }
}

impl Pending {
    fn size(&self) -> usize {
        match self {
            Pending::Write { bytes, .. } => bytes.len(),
            Pending::Resize(_) => 0,
        }
    }
}

fn apply(to: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::Write { offset, bytes } => put(to, *offset, bytes),
        Pending::Resize(size) => to.resize(*size, 0),
    }
}

fn put(to: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let end = offset + bytes.len();
    if to.len() < end {
        to.resize(end, 0);
    }
    to[offset..end].copy_from_slice(bytes);
}
