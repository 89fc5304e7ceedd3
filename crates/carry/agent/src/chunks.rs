//! Chunks of a session's trace. Each chunk is a directory below the session's output, and has the
//! traces of all programs for some time. The last chunk is the current one, to which new traces are
//! written. It has a mark ([`MARK`]) until it is closed.
//!
//! A rotation opens a new chunk. `rotating` then moves each program to it; the earlier chunk is
//! closed once no program writes to it. The removal of the oldest chunks is counted.

use crate::chunk_meter::ChunkMeter;
use crate::chunk_name::{self, NameParts};
use crate::output::Output;
use blkkin_control::{Chunks, Rotation, SavedChunk, SavedRotation, StateRecord};
use jiff::{Timestamp, Zoned};
use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Rotation of a session's trace, with the chunks that are not removed.
#[derive(Debug)]
pub(crate) struct SessionChunks {
    pub(crate) rotation: Rotation,
    /// Chunks, the oldest first. The last one is the current one.
    pub(crate) list: VecDeque<Chunk>,
    next_sequence: u64,
    removed: u64,
    removed_bytes: u64,
    hook_failures: u64,
    /// Time before which the agent does not rotate by itself, because of its last rotation or
    /// because of a failed one.
    pub(crate) rest: Option<Instant>,
    /// Set if programs may write to other chunks than the current one.
    pub(crate) is_moving: bool,
    /// Time since which earlier chunks wait for being closed, or for programs to be moved.
    waits_since: Option<Instant>,
    /// Set after a failed rotation or removal was logged, until a rotation succeeds.
    pub(crate) has_logged_failure: bool,
}

/// A chunk: a directory with the traces of programs.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) sequence: u64,
    pub(crate) path: PathBuf,
    pub(crate) identity: DirectoryIdentity,
    pub(crate) meter: ChunkMeter,
    /// Time of the first write, as far as the agent has noticed; `None` while the chunk is empty.
    begun: Option<Timestamp>,
    /// Time at which the chunk ceased to be the current one, or at which this agent was started.
    pub(crate) left: Option<Instant>,
    pub(crate) state: ChunkState,
    pub(crate) is_handled: bool,
}

/// State of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkState {
    /// State of the current chunk, and of an earlier one to which programs still write.
    Open,
    Closed,
    /// State of a chunk whose removal has begun.
    Removing,
}

/// Identity of a directory, which a rename does not change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryIdentity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
}

/// Name of the mark of a chunk that is not closed; traces have one of the same name.
const MARK: &str = ".recording";
/// Maximum number of a session's chunks that the agent remembers. Older ones are removed if the
/// session has a limit that removes chunks; otherwise they are no longer listed.
pub(crate) const CHUNKS_MAX: usize = 1024;
/// Number of chunks of the size that is chosen if the total size is limited and that of a chunk is
/// not.
const CHUNKS_IN_TOTAL: u64 = 8;
/// Maximum number of names that are tried for a chunk.
const SAME_NAME_MAX: u32 = 1000;
/// Minimum time between two rotations that the agent begins by itself: a rotation begins a trace of
/// each program, while other sessions wait.
pub(crate) const REST: Duration = Duration::from_secs(1);
/// Minimum and maximum pause between two attempts to move the last programs, or to close a chunk.
/// The pause is a part of the time that the chunk has waited.
const PAUSE_MIN: Duration = Duration::from_millis(10);
const PAUSE_MAX: Duration = Duration::from_secs(1);
const PAUSES: u32 = 8;

impl DirectoryIdentity {
    /// Returns the identity of a directory.
    pub(crate) fn of(output: &Output, path: &Path) -> io::Result<DirectoryIdentity> {
        Ok(DirectoryIdentity::from(rustix::fs::fstat(output.find_directory(path)?)?))
    }
}

impl From<rustix::fs::Stat> for DirectoryIdentity {
    fn from(found: rustix::fs::Stat) -> DirectoryIdentity {
        DirectoryIdentity { device: found.st_dev, inode: found.st_ino }
    }
}

impl Chunk {
    /// Closes the chunk: removes its mark.
    pub(crate) fn close(&mut self, output: &Output) {
        self.state = ChunkState::Closed;
        let _ = output.remove_file(&self.path.join(MARK));
    }

    /// Returns the description of the chunk for users.
    pub(crate) fn describe(&self) -> blkkin_control::Chunk {
        blkkin_control::Chunk {
            sequence: self.sequence,
            path: self.path.clone(),
            bytes: self.meter.written(),
            is_closed: self.state != ChunkState::Open,
            is_handled: self.is_handled,
        }
    }
}

impl SessionChunks {
    pub(crate) fn new(rotation: Rotation) -> SessionChunks {
        SessionChunks {
            rotation,
            list: VecDeque::new(),
            next_sequence: 1,
            removed: 0,
            removed_bytes: 0,
            hook_failures: 0,
            rest: None,
            is_moving: false,
            waits_since: None,
            has_logged_failure: false,
        }
    }

    /// Returns the current chunk; `None` before the first one is opened.
    pub(crate) fn current(&self) -> Option<&Chunk> {
        self.list.back()
    }

    /// Returns the chunk that contains a directory.
    pub(crate) fn chunk_of(&self, directory: &Path) -> Option<&Chunk> {
        self.list.iter().rev().find(|chunk| directory.starts_with(&chunk.path))
    }

    /// Opens a new chunk below `output`, which becomes the current one. Never uses an existing
    /// directory.
    pub(crate) fn open_next(&mut self, output: &Output, session: &str) -> io::Result<()> {
        let sequence = self.next_sequence;
        let name = self.name(session, sequence).map_err(io::Error::other)?;
        let mut path = output.path().join(&name);
        let mut again = 1;
        while let Err(error) = output.create_directory(&path) {
            if error.kind() != io::ErrorKind::AlreadyExists || again > SAME_NAME_MAX {
                return Err(error);
            }
            again += 1;
            path.set_file_name(format!("{name}-{again}"));
        }
        let marked = output.create_file(&path.join(MARK));
        let identity = marked.and_then(|_| DirectoryIdentity::of(output, &path));
        let identity = identity.inspect_err(|_| {
            let _ = output.remove_file(&path.join(MARK));
            let _ = output.remove_directory(&path);
        })?;
        if let Some(last) = self.list.back_mut() {
            last.left = Some(Instant::now());
        }
        self.next_sequence += 1;
        self.list.push_back(Chunk {
            sequence,
            path,
            identity,
            meter: ChunkMeter { sequence, ..ChunkMeter::default() },
            begun: None,
            left: None,
            state: ChunkState::Open,
            is_handled: false,
        });
        (self.has_logged_failure, self.is_moving, self.waits_since) = (false, true, None);
        Ok(())
    }

    /// Returns the name of a chunk that is opened now.
    pub(crate) fn name(&self, session: &str, sequence: u64) -> Result<String, String> {
        let pattern = self.rotation.name_pattern.as_deref().unwrap_or(chunk_name::DEFAULT);
        let host = rustix::system::uname().nodename().to_string_lossy().replace('/', "_");
        chunk_name::expand(pattern, &Zoned::now(), NameParts { host: &host, session, sequence })
    }

    /// Returns the size in bytes at which a chunk is closed.
    fn size_max(&self) -> Option<u64> {
        let of_total = self.rotation.total.map(|total| (total / CHUNKS_IN_TOTAL).max(1));
        self.rotation.size.or(of_total)
    }

    /// Notes the time of the current chunk's first write. Returns whether the chunk has reached its
    /// maximum size or age.
    pub(crate) fn is_due(&mut self) -> bool {
        let (size_max, age_ms) = (self.size_max(), self.rotation.age_ms);
        let Some(chunk) = self.list.back_mut() else { return false };
        let written = chunk.meter.written();
        if written == 0 {
            return false;
        }
        let begun = *chunk.begun.get_or_insert_with(Timestamp::now);
        size_max.is_some_and(|size_max| written >= size_max)
            || age_ms.is_some_and(|age_ms| age_of(begun) >= Duration::from_millis(age_ms))
    }

    /// Returns the time of the next rotation by the agent itself, if no more is written until then.
    pub(crate) fn next_rotation(&self, now: Instant) -> Option<Instant> {
        let chunk = self.current().filter(|chunk| chunk.meter.written() > 0)?;
        let is_full = self.size_max().is_some_and(|size_max| chunk.meter.written() >= size_max);
        let by_age = self.rotation.age_ms.zip(chunk.begun).and_then(|(age_ms, begun)| {
            now.checked_add(Duration::from_millis(age_ms).saturating_sub(age_of(begun)))
        });
        let next = is_full.then_some(now).or(by_age)?;
        Some(self.rest.map_or(next, |rest| next.max(rest)))
    }

    /// Notes whether earlier chunks still wait for being closed, or for programs to be moved.
    pub(crate) fn note_waiting(&mut self, now: Instant) {
        let is_waiting = self.is_moving || self.has_chunk_to_close();
        self.waits_since = is_waiting.then(|| self.waits_since.unwrap_or(now));
    }

    /// Returns the time of the next attempt to move programs and to close chunks; `None` if nothing
    /// waits. The longer the wait, the longer is the pause: a full disk may never be freed.
    pub(crate) fn next_attempt(&self, now: Instant) -> Option<Instant> {
        let waited = now.saturating_duration_since(self.waits_since?);
        now.checked_add((waited / PAUSES).clamp(PAUSE_MIN, PAUSE_MAX))
    }

    /// Notes that what is in the current chunk is being removed, for `session clear`. Returns its
    /// size in bytes.
    pub(crate) fn clear_current(&mut self) -> u64 {
        let Some(chunk) = self.list.back_mut() else { return 0 };
        chunk.begun = None;
        let size = chunk.meter.written();
        chunk.meter.clear();
        size
    }

    /// Returns the size of all chunks together in bytes, without those that are being removed.
    pub(crate) fn bytes(&self) -> u64 {
        self.kept().map(|chunk| chunk.meter.written()).sum()
    }

    /// Returns the chunks that are not being removed.
    pub(crate) fn kept(&self) -> impl Iterator<Item = &Chunk> {
        self.list.iter().filter(|chunk| chunk.state != ChunkState::Removing)
    }

    /// Returns the index of the oldest closed chunk if there are too many chunks, or if their total
    /// size is too large. Chunks for which `is_used` returns true are left out: programs that have
    /// returned to this agent still write to them.
    pub(crate) fn excess(&self, is_used: impl Fn(&Chunk) -> bool) -> Option<usize> {
        let count = self.kept().count() as u64;
        let is_over = self.rotation.files.is_some_and(|files| count > files.into())
            || self
                .rotation
                .total
                .is_some_and(|total| count > CHUNKS_MAX as u64 || self.bytes() > total);
        let may_go = |chunk: &Chunk| chunk.state == ChunkState::Closed && !is_used(chunk);
        let oldest = || self.list.iter().position(may_go);
        is_over.then(oldest).flatten()
    }

    /// Returns whether a chunk other than the current one is open.
    pub(crate) fn has_chunk_to_close(&self) -> bool {
        let mut earlier = self.list.iter().rev().skip(1);
        earlier.any(|chunk| chunk.state == ChunkState::Open)
    }

    /// Forgets the oldest chunks of more than `count_max`. They are kept, but not listed.
    pub(crate) fn forget_unlimited(&mut self, count_max: usize) {
        while self.list.len() > count_max
            && self.list.front().is_some_and(|oldest| oldest.state == ChunkState::Closed)
        {
            self.list.pop_front();
        }
    }

    /// Forgets a chunk whose directory was removed, and counts it if the agent has removed it.
    pub(crate) fn forget(&mut self, sequence: u64, is_counted: bool) {
        let at = self.list.iter().position(|chunk| chunk.sequence == sequence);
        let Some(chunk) = at.and_then(|at| self.list.remove(at)) else { return };
        if is_counted {
            self.removed += 1;
            self.removed_bytes = self.removed_bytes.saturating_add(chunk.meter.written());
        }
    }

    /// Notes that the command for a chunk has ended.
    pub(crate) fn note_hook(&mut self, sequence: u64, has_failed: bool) {
        self.hook_failures += u64::from(has_failed);
        let chunk = self.list.iter_mut().find(|chunk| chunk.sequence == sequence);
        chunk.into_iter().for_each(|chunk| chunk.is_handled = true);
    }

    /// Returns the summary of the chunks for users.
    pub(crate) fn summary(&self, session: &str, number: u64, is_destroyed: bool) -> Chunks {
        Chunks {
            session: session.to_owned(),
            number,
            is_destroyed,
            rotation: self.rotation.clone(),
            count: self.kept().count() as u64,
            bytes: self.bytes(),
            removed: self.removed,
            removed_bytes: self.removed_bytes,
            hook_failures: self.hook_failures,
        }
    }

    /// Returns the state of the chunks as records for the next agent.
    pub(crate) fn saved(&self, number: u64) -> impl Iterator<Item = StateRecord> {
        let rotation = StateRecord::Rotation(SavedRotation {
            number,
            rotation: self.rotation.clone(),
            next_sequence: self.next_sequence,
            removed: self.removed,
            removed_bytes: self.removed_bytes,
            hook_failures: self.hook_failures,
        });
        let chunks = self.list.iter().map(move |chunk| {
            let begun = chunk.begun.map_or(0, Timestamp::as_nanosecond);
            StateRecord::Chunk(SavedChunk {
                number,
                chunk: chunk.describe(),
                begun_ns: u64::try_from(begun).unwrap_or(0),
                device: chunk.identity.device,
                inode: chunk.identity.inode,
            })
        });
        [rotation].into_iter().chain(chunks)
    }

    /// Restores the rotation that an earlier agent has saved. Its chunks are added by
    /// [`restore_chunk`](Self::restore_chunk).
    pub(crate) fn restore(saved: SavedRotation) -> SessionChunks {
        SessionChunks {
            next_sequence: saved.next_sequence,
            removed: saved.removed,
            removed_bytes: saved.removed_bytes,
            hook_failures: saved.hook_failures,
            ..SessionChunks::new(saved.rotation)
        }
    }

    /// Adds a chunk that an earlier agent has saved.
    pub(crate) fn restore_chunk(&mut self, saved: SavedChunk) {
        let SavedChunk { chunk, begun_ns, device, inode, .. } = saved;
        let begun = Timestamp::from_nanosecond(begun_ns.into()).ok().filter(|_| begun_ns > 0);
        let meter = ChunkMeter { sequence: chunk.sequence, ..ChunkMeter::default() };
        meter.add(chunk.bytes);
        self.is_moving = true;
        // A later record replaces an earlier one.
        let earlier = self.list.iter().position(|one| one.sequence == chunk.sequence);
        let at = earlier.unwrap_or(self.list.len());
        earlier.map(|earlier| self.list.remove(earlier));
        self.list.insert(
            at,
            Chunk {
                sequence: chunk.sequence,
                path: chunk.path,
                identity: DirectoryIdentity { device, inode },
                meter,
                begun,
                left: Some(Instant::now()),
                state: if chunk.is_closed { ChunkState::Closed } else { ChunkState::Open },
                is_handled: chunk.is_handled,
            },
        );
    }
}

/// Returns the time since `begun`, by the wall clock: programs and agents may be restarted
/// meanwhile.
fn age_of(begun: Timestamp) -> Duration {
    Duration::try_from(Timestamp::now().duration_since(begun)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::owner::Owner;

    /// Returns chunks below `directory`, of which the current one is the second.
    fn chunks(directory: &Path, rotation: Rotation) -> SessionChunks {
        let output = Output::trusted(directory.to_owned(), Owner::of_process());
        let mut chunks = SessionChunks::new(rotation);
        for _ in 0..2 {
            chunks.open_next(&output, "s").unwrap();
        }
        chunks
    }

    /// An empty chunk has no age, also if it was cleared: the agent does not look at it again and
    /// again.
    #[test]
    fn cleared_chunks_have_no_age() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation { age_ms: Some(1), ..Rotation::default() };
        let mut chunks = chunks(directory.path(), rotation);
        let now = Instant::now();
        assert!(!chunks.is_due() && chunks.next_rotation(now).is_none());
        chunks.current().unwrap().meter.add(1);
        chunks.is_due();
        std::thread::sleep(Duration::from_millis(2));
        assert!(chunks.is_due() && chunks.next_rotation(now) == Some(now));
        chunks.rest = Some(now + REST);
        assert_eq!(chunks.next_rotation(now), Some(now + REST));
        chunks.clear_current();
        assert!(!chunks.is_due() && chunks.next_rotation(now).is_none());
        chunks.rotation.age_ms = Some(3_600_000);
        chunks.current().unwrap().meter.add(1);
        assert!(!chunks.is_due() && chunks.next_rotation(now) > Some(now + REST));
    }

    /// The longer a chunk waits for a program, the more rarely the agent looks.
    #[test]
    fn attempts_become_rare() {
        let directory = tempfile::tempdir().unwrap();
        let mut chunks = chunks(directory.path(), Rotation::default());
        let begun = Instant::now();
        let mut now = begun;
        let mut attempts = 0;
        while now < begun + Duration::from_secs(60) {
            chunks.note_waiting(now);
            let next = chunks.next_attempt(now).unwrap();
            assert!(next >= now + PAUSE_MIN && next <= now + PAUSE_MAX);
            (now, attempts) = (next, attempts + 1);
        }
        assert!((60..150).contains(&attempts), "{attempts}");
        chunks.is_moving = false;
        chunks.list[0].state = ChunkState::Closed;
        chunks.note_waiting(now);
        assert_eq!(chunks.next_attempt(now), None);
    }

    /// A chunk to which a program writes is not removed; another one is.
    #[test]
    fn used_chunks_are_kept() {
        let directory = tempfile::tempdir().unwrap();
        let rotation = Rotation { files: Some(1), ..Rotation::default() };
        let mut chunks = chunks(directory.path(), rotation);
        assert_eq!(chunks.excess(|_| false), None, "no chunk is closed");
        chunks.list[0].state = ChunkState::Closed;
        assert_eq!(chunks.excess(|_| false), Some(0));
        assert_eq!(chunks.excess(|chunk| chunk.sequence == 1), None);
        chunks.list[0].state = ChunkState::Removing;
        assert_eq!(chunks.excess(|_| false), None);
    }
}
