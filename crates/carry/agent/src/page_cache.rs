//! Limits the memory that traces take in the page cache: older pages are written to the disk and
//! dropped. Otherwise hours of tracing would evict the pages of other programs.

use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Size in bytes of a piece. Ranges in the queue consist of whole pieces.
const PIECE: u64 = 16 << 20;
/// Number of bytes for one call of `fadvise`, with [`PAUSE`] between calls. While a file system
/// processes a larger part, it blocks appends to the file for so long that rings become full.
const STEP: u64 = 4 << 20;
const PAUSE: Duration = Duration::from_millis(1);
/// Distance in bytes from the end of a trace's file at which write-back begins. Programs that
/// follow the trace read closer to its end.
const WRITE_BACK_DISTANCE: u64 = 64 << 20;
/// Distance in bytes from a file's end at which pages are dropped if they are already written back.
const DROP_DISTANCE: u64 = 128 << 20;
/// Distance in bytes from a file's end at which the remaining pages are dropped: those that were
/// still dirty at [`DROP_DISTANCE`].
const LATE_DROP_DISTANCE: u64 = 256 << 20;
const DISTANCES: [u64; 3] = [WRITE_BACK_DISTANCE, DROP_DISTANCE, LATE_DROP_DISTANCE];
/// Maximum number of file ranges in the queue, which fills up while the disk is slow. Further
/// ranges are left to the kernel's own write-back.
const WAITING_MAX: usize = 64;

/// Queue of file ranges whose pages are to be written back or dropped. A separate thread processes
/// the queue, so that a slow disk does not delay the draining of rings.
#[derive(Clone, Debug)]
pub(crate) struct PageCacheTrimmer(SyncSender<(Arc<File>, Range<u64>)>);

impl PageCacheTrimmer {
    pub(crate) fn start() -> io::Result<PageCacheTrimmer> {
        let (sender, pieces) = sync_channel::<(Arc<File>, Range<u64>)>(WAITING_MAX);
        let let_go = move || {
            for (file, piece) in pieces {
                for start in piece.step_by(STEP as usize) {
                    // The kernel starts write-back of dirty pages, and drops clean ones. Dirty
                    // pages are dropped by a later call, or when the kernel needs the memory.
                    let _ = fadvise(&file, start, NonZeroU64::new(STEP), Advice::DontNeed);
                    std::thread::sleep(PAUSE);
                }
            }
        };
        std::thread::Builder::new().name("blkkin-behind".to_owned()).spawn(let_go)?;
        Ok(PageCacheTrimmer(sender))
    }

    /// Queues the pieces that are due after a file has grown from `sizes.start` to `sizes.end`
    /// bytes.
    pub(crate) fn queue_due(&self, file: &Arc<File>, sizes: Range<u64>) {
        for piece in due(sizes) {
            let _ = self.0.try_send((Arc::clone(file), piece));
        }
    }
}

/// Returns the pieces whose distance from the file's end has reached one of [`DISTANCES`], because
/// the file has grown. `sizes` are the old and the new size.
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
                // Pieces are in ascending order of distance, so that a range that is due at several
                // distances is written back first.
                let of = due_until.iter_mut().find(|until| **until == piece.start);
                *of.expect("goes on where one ended") = piece.end;
            }
            size = grown;
            let behind = |distance: u64| size.saturating_sub(distance) / PIECE * PIECE;
            assert_eq!(due_until, DISTANCES.map(behind));
        }
        assert!(due_until[2] > 0);
        // A file that was cleared grows from size 0 again, and has no piece due yet.
        assert_eq!(due(0..PIECE).count(), 0);
    }
}
