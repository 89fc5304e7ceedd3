//! Packets of one stream of a live trace, in a file in memory. The producer appends packets at the
//! end, and the follower frees delivered packets from the start on.
//!
//! The header of the first sound packet is kept, because it identifies the stream when the trace is
//! opened again.

use blkkin_sys::{MemoryFile, PAGE_SIZE};
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Limit of the memory for packets of a live trace that were not delivered yet.
#[derive(Debug)]
pub(crate) struct Budget {
    used: AtomicU64,
    size_max: AtomicU64,
}

/// Packets of one stream, in a file in memory.
#[derive(Debug)]
pub(crate) struct LiveStream {
    file: MemoryFile,
    state: Mutex<State>,
    budget: Arc<Budget>,
}

#[derive(Debug, Default)]
struct State {
    /// Offset of each undelivered packet in the file, in bytes.
    starts: VecDeque<u64>,
    /// Offset of the end of the last packet in the file, in bytes.
    end: u64,
    /// Offset up to which the file's bytes are freed, except the identity's header.
    freed: u64,
    identity: Option<Identity>,
}

/// First packet with a sound header, which shows the stream's class and id.
#[derive(Clone, Debug)]
struct Identity {
    /// Range of the packet's header and context in the file, whose pages are not freed.
    header: Range<u64>,
    /// Offset of the packet's end in the file, in bytes.
    end: u64,
}

/// Memory in bytes that a packet takes beside its data.
const PACKET_OVERHEAD: u64 = 8;

impl Budget {
    pub(crate) fn new(size_max: u64) -> Budget {
        Budget { used: AtomicU64::new(0), size_max: AtomicU64::new(size_max) }
    }

    pub(crate) fn set_size_max(&self, size_max: u64) {
        self.size_max.store(size_max, Ordering::Relaxed);
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    fn reserve(&self, size: u64) -> io::Result<()> {
        let size_max = self.size_max.load(Ordering::Relaxed);
        let add = |used: u64| used.checked_add(size).filter(|sum| *sum <= size_max);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add) {
            Ok(_) => Ok(()),
            Err(used) => {
                let message = format!(
                    "live trace has {used} bytes of undelivered packets, and may have {size_max}"
                );
                Err(io::Error::new(io::ErrorKind::StorageFull, message))
            }
        }
    }

    fn release(&self, size: u64) {
        self.used.fetch_sub(size, Ordering::Relaxed);
    }
}

impl LiveStream {
    pub(crate) fn create(budget: Arc<Budget>) -> io::Result<LiveStream> {
        let file = MemoryFile::create(c"blkkin-live-stream")?;
        Ok(LiveStream { file, state: Mutex::default(), budget })
    }

    /// Appends a packet. Readers see the packet only when it is whole.
    pub(crate) fn append(&self, packet: &[u8]) -> io::Result<()> {
        let size = packet.len() as u64;
        self.budget.reserve(size + PACKET_OVERHEAD)?;
        let mut state = self.state.lock();
        match self.file.write(packet, state.end) {
            Ok(()) => {
                let start = state.end;
                state.starts.push_back(start);
                state.end += size;
                Ok(())
            }
            Err(error) => {
                self.budget.release(size + PACKET_OVERHEAD);
                Err(error)
            }
        }
    }

    pub(crate) fn file(&self) -> &File {
        self.file.file()
    }

    /// Returns the offset of the end of the last packet, in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.state.lock().end
    }

    /// Returns the offset of the first undelivered packet.
    pub(crate) fn start(&self) -> u64 {
        self.state.lock().start()
    }

    /// Returns the offset of the packet that identifies the stream. If no such packet is known,
    /// returns the offset at which the search for it starts.
    pub(crate) fn identity_start(&self) -> u64 {
        let state = self.state.lock();
        state.identity.as_ref().map_or_else(|| state.start(), |identity| identity.header.start)
    }

    /// Returns true once a packet with a sound header was found.
    pub(crate) fn has_identity(&self) -> bool {
        self.state.lock().identity.is_some()
    }

    /// Makes the packet at `offset` identify the stream, unless another packet does already. Its
    /// header and context have `size` bytes.
    pub(crate) fn set_identity(&self, offset: u64, size: u64) {
        let mut state = self.state.lock();
        if let (None, Some(end)) = (&state.identity, state.packet_limit(offset)) {
            let header = offset..offset.saturating_add(size).min(end);
            state.identity = Some(Identity { header, end });
        }
    }

    /// Returns the end of the undelivered or identifying packet with byte `offset`; `None` if there
    /// is no such packet.
    pub(crate) fn packet_limit(&self, offset: u64) -> Option<u64> {
        self.state.lock().packet_limit(offset)
    }

    /// Frees the packets that end at or before `offset`.
    pub(crate) fn free_before(&self, offset: u64) {
        let mut state = self.state.lock();
        while let Some(&start) = state.starts.front() {
            let end = state.starts.get(1).copied().unwrap_or(state.end);
            if end > offset {
                break;
            }
            state.starts.pop_front();
            self.budget.release(end - start + PACKET_OVERHEAD);
        }
        let page = PAGE_SIZE as u64;
        // A page with the end of one packet and the start of the next is freed with the latter.
        let (from, to) = (state.freed, state.start() / page * page);
        if from >= to {
            return;
        }
        let kept = state.identity.as_ref().map_or(to..to, |identity| {
            let Range { start, end } = identity.header;
            (start / page * page).clamp(from, to)..end.next_multiple_of(page).clamp(from, to)
        });
        // After an error, the next call frees the same bytes.
        if self.file.free(from..kept.start).and(self.file.free(kept.end..to)).is_ok() {
            state.freed = to;
        }
    }

    #[cfg(test)]
    pub(crate) fn allocated_size(&self) -> u64 {
        self.file.allocated_size().expect("the size of a file in memory")
    }
}

impl Drop for LiveStream {
    fn drop(&mut self) {
        let state = self.state.get_mut();
        let size = state.end - state.start() + PACKET_OVERHEAD * state.starts.len() as u64;
        self.budget.release(size);
    }
}

impl State {
    fn start(&self) -> u64 {
        self.starts.front().copied().unwrap_or(self.end)
    }

    fn packet_limit(&self, offset: u64) -> Option<u64> {
        let next = self.starts.partition_point(|start| *start <= offset);
        if next > 0 && offset < self.end {
            return Some(self.starts.get(next).copied().unwrap_or(self.end));
        }
        let identity = self.identity.as_ref()?;
        (identity.header.start..identity.end).contains(&offset).then_some(identity.end)
    }
}
