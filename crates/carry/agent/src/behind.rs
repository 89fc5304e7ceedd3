//! Lets go of what traces have in memory: what was written a while ago is brought to the disk and forgotten. Hours of
//! tracing take no more of it than some moments then, and what programs keep there stays.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// Files are brought to the disk and forgotten in pieces of this size.
const PIECE: u64 = 16 << 20;
/// What is so far behind a file's end is brought to the disk. Whoever reads along is closer to it.
const SETTLED: u64 = 64 << 20;
/// What is so far behind should be there, and is forgotten; and so is what is behind that and came there later.
const FORGOTTEN: u64 = 128 << 20;
const LATER: u64 = 128 << 20;
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
                let size = NonZeroU64::new(piece.end - piece.start);
                // The kernel begins to write what is not on the disk, and forgets what is. What it does not forget
                // it will when it needs the room.
                let _ = fadvise(&file, piece.start, size, Advice::DontNeed);
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
    [(SETTLED, 0), (FORGOTTEN, LATER)].into_iter().filter_map(move |(distance, more)| {
        let pieces = |size: u64| size.saturating_sub(distance) / PIECE * PIECE;
        let passed = pieces(sizes.start)..pieces(sizes.end);
        (!passed.is_empty()).then(|| passed.start.saturating_sub(more)..passed.end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_due_when_it_is_so_far_behind_and_again_when_it_is_farther() {
        let (mut settled, mut forgotten) = (0, 0);
        let mut size = 0;
        for step in (1..5_000_000_u64).step_by(70_001) {
            let grown = size + step;
            for piece in due(size..grown) {
                if piece.start == settled {
                    settled = piece.end;
                } else {
                    assert_eq!(piece.start, u64::saturating_sub(forgotten, LATER));
                    forgotten = piece.end;
                }
            }
            size = grown;
            let behind = |distance: u64| size.saturating_sub(distance) / PIECE * PIECE;
            assert_eq!((settled, forgotten), (behind(SETTLED), behind(FORGOTTEN)));
        }
        assert!(forgotten > 0);
        // One that was cleared begins anew.
        assert_eq!(due(0..PIECE).count(), 0);
    }
}
