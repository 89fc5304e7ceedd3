//! Lets go of what traces have in memory: what was written a while ago is brought to the disk and forgotten. Hours of
//! tracing take no more of it than some moments then, and what programs keep there stays.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Files are brought to the disk and forgotten in pieces of this size, …
const PIECE: u64 = 16 << 20;
/// … step by step, with pauses: a file system that works on a large part of a file has who appends to it wait, and rings
/// are full after some milliseconds.
const STEP: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(1);
/// What is so far behind a file's end is brought to the disk. Whoever reads along is closer to it.
const SETTLED: u64 = 64 << 20;
/// What is so far behind should be there, and is forgotten.
const FORGOTTEN: u64 = 128 << 20;
/// What came there later is forgotten here.
const FORGOTTEN_LATER: u64 = 256 << 20;
const DISTANCES: [u64; 3] = [SETTLED, FORGOTTEN, FORGOTTEN_LATER];
/// Pieces that may wait for a slow disk. Others are left to the kernel, which has a time for all.
const WAITING_MAX: usize = 64;

/// Who does so, on a thread: whoever writes to a slow disk waits for it, and rings would not be looked at meanwhile.
#[derive(Clone, Debug)]
pub(crate) struct Behind(SyncSender<(Arc<File>, Range<u64>)>);

impl Behind {
    pub(crate) fn start() -> io::Result<Behind> {
        let (sender, pieces) = sync_channel::<(Arc<File>, Range<u64>)>(WAITING_MAX);
        let let_go = move || {
            for (file, piece) in pieces {
                for start in piece.step_by(STEP as usize) {
                    // The kernel begins to write what is not on the disk, and forgets what is. What it does not
                    // forget it will when it needs the room.
                    let _ = fadvise(&file, start, NonZeroU64::new(STEP), Advice::DontNeed);
                    std::thread::sleep(PAUSE);
                }
            }
        };
        std::thread::Builder::new().name("blkkin-behind".to_owned()).spawn(let_go)?;
        Ok(Behind(sender))
    }

    /// A file has grown.
    pub(crate) fn has_grown(&self, file: &Arc<File>, sizes: Range<u64>) {
        for piece in due(sizes) {
            let _ = self.0.try_send((Arc::clone(file), piece));
        }
    }
}

/// What of a file is to be brought to the disk, and what is to be forgotten, after it has grown.
fn due(sizes: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let passed = move |distance: u64| {
        let pieces = |size: u64| size.saturating_sub(distance) / PIECE * PIECE;
        pieces(sizes.start)..pieces(sizes.end)
    };
    DISTANCES.into_iter().map(passed).filter(|piece| !piece.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_due_once_at_each_distance() {
        let mut due_until = [0; DISTANCES.len()];
        let mut size = 0;
        for step in (1..5_000_000_u64).step_by(30_001) {
            let grown = size + step;
            for piece in due(size..grown) {
                // From the least distance on, so that what is at several is brought to the disk first.
                let of = due_until.iter_mut().find(|until| **until == piece.start);
                *of.expect("goes on where one ended") = piece.end;
            }
            size = grown;
            let behind = |distance: u64| size.saturating_sub(distance) / PIECE * PIECE;
            assert_eq!(due_until, DISTANCES.map(behind));
        }
        assert!(due_until[2] > 0);
        // One that was cleared begins anew.
        assert_eq!(due(0..PIECE).count(), 0);
    }
}
