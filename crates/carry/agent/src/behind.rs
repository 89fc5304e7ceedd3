//! Lets go of what traces have in memory: what was written a while ago is brought to the disk and forgotten, so
//! that hours of tracing take no more of it than a moment, and push nothing out that programs keep there.

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
/// What is so far behind is there by now, and forgotten.
const FORGOTTEN: u64 = 128 << 20;
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
                // The kernel begins to write what is not on the disk, and forgets what is. Where it does not, memory
                // is short a little sooner.
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
    [SETTLED, FORGOTTEN].into_iter().filter_map(move |distance| {
        let pieces = |size: u64| size.saturating_sub(distance) / PIECE * PIECE;
        let passed = pieces(sizes.start)..pieces(sizes.end);
        (!passed.is_empty()).then_some(passed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::skip;
    use std::io::Write;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::time::{Duration, Instant};

    #[test]
    fn each_piece_is_due_twice_when_it_is_so_far_behind() {
        let (mut settled, mut forgotten) = (0, 0);
        let mut size = 0;
        for step in (1..5_000_000_u64).step_by(70_001) {
            let grown = size + step;
            for piece in due(size..grown) {
                let so_far = if piece.start == settled { &mut settled } else { &mut forgotten };
                assert_eq!(piece.start, *so_far);
                *so_far = piece.end;
            }
            size = grown;
            let behind = |distance: u64| size.saturating_sub(distance) / PIECE * PIECE;
            assert_eq!((settled, forgotten), (behind(SETTLED), behind(FORGOTTEN)));
        }
        assert!(forgotten > 0);
        // One that was cleared begins anew.
        assert_eq!(due(0..PIECE).count(), 0);
    }

    /// How much this thread had to have from disks.
    fn bytes_read() -> Option<u64> {
        let counts = std::fs::read_to_string("/proc/thread-self/io").ok()?;
        counts.lines().find_map(|line| line.strip_prefix("read_bytes: ")?.parse().ok())
    }

    #[test]
    fn what_is_far_behind_is_not_in_memory() -> io::Result<()> {
        let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../target");
        std::fs::create_dir_all(&place)?;
        let file = Arc::new(tempfile::tempfile_in(place)?);
        const IN_MEMORY: i64 = 0x0102_1994;
        if rustix::fs::fstatfs(&file)?.f_type == IN_MEMORY || bytes_read().is_none() {
            let reason = "a folder on a disk is needed, and a kernel that counts what is read";
            skip("what_is_far_behind_is_not_in_memory", reason);
            return Ok(());
        }
        let size = FORGOTTEN + PIECE;
        for _ in 0..size / PIECE {
            (&*file).write_all(&vec![1; PIECE as usize])?;
        }
        file.sync_all()?;
        let read = |offset: u64| {
            let before = bytes_read().unwrap_or_default();
            let mut bytes = vec![0; 4096];
            file.read_exact_at(&mut bytes, offset)?;
            assert_eq!(bytes, [1; 4096]);
            io::Result::Ok(bytes_read().unwrap_or_default() - before)
        };
        assert_eq!(read(0)?, 0);
        let behind = Behind::start()?;
        behind.has_grown(&file, 0..size);
        let start = Instant::now();
        while read(0)? == 0 {
            assert!(start.elapsed() < Duration::from_secs(60), "all is in memory still");
            std::thread::sleep(Duration::from_millis(10));
        }
        assert_eq!(read(size - 4096)?, 0, "what was just written was forgotten");
        Ok(())
    }
}
