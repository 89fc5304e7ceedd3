//! [`Cache`]: loaded indexes and dictionaries of files, with LRU eviction within a memory limit.
//! Dictionaries are evicted first, since few queries need them again, and indexes last, since each
//! query of a file's spans needs the index. Start at [`Cache::get`].

use crate::Error;
use crate::files::loaded_file::LoadedFile;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// LRU cache of the loaded indexes and dictionaries of span files.
pub(crate) struct Cache {
    /// Maximum of the memory limit, in bytes. The limit in force, `bytes_max`, is lower while
    /// another part of the store needs memory.
    bytes_limit: usize,
    bytes_max: AtomicUsize,
    state: Mutex<CacheState>,
}

/// Ratio of the maximum to the minimum of the memory limit.
const MIN_PART: usize = 4;

#[derive(Default)]
struct CacheState {
    /// Cached entries by number of the span file.
    files: HashMap<u64, Entry>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    loaded: Arc<LoadedFile>,
    bytes: usize,
    used: u64,
    /// Set if the entry may have dictionaries, which can be evicted while the index stays.
    can_shrink: bool,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        let limit = AtomicUsize::new(bytes_max);
        Cache { bytes_limit: bytes_max, bytes_max: limit, state: Mutex::default() }
    }

    /// Sets the memory limit to `bytes_limit` minus the bytes that another part of the store needs
    /// now, but not below the minimum limit. Evicts entries if the limit is lower than before.
    pub(crate) fn yield_memory(&self, bytes: usize) {
        let left = self.bytes_limit.saturating_sub(bytes).max(self.bytes_limit / MIN_PART);
        if self.bytes_max.swap(left, Ordering::Relaxed) > left {
            self.state.lock().evict(left);
        }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// Returns the index and column reader of a file. `load` opens them if they are not cached.
    pub(crate) fn get(
        &self,
        number: u64,
        load: impl FnOnce() -> Result<LoadedFile, Error>,
    ) -> Result<Arc<LoadedFile>, Error> {
        if let Some(loaded) = self.state.lock().touch(number, self.bytes_max()) {
            return Ok(loaded);
        }
        // The cache is not locked during a load, so two threads may load the same file.
        let loaded = Arc::new(load()?);
        self.put(number, Arc::clone(&loaded));
        Ok(loaded)
    }

    /// Returns the index and column reader of a file if they are cached. The call does not count as
    /// a use of the entry.
    pub(crate) fn peek(&self, number: u64) -> Option<Arc<LoadedFile>> {
        self.state.lock().files.get(&number).map(|entry| Arc::clone(&entry.loaded))
    }

    pub(crate) fn put(&self, number: u64, loaded: Arc<LoadedFile>) {
        let bytes = loaded.memory_bytes();
        let mut state = self.state.lock();
        state.forget(number);
        state.uses += 1;
        state.bytes += bytes;
        let used = state.uses;
        state.files.insert(number, Entry { loaded, bytes, used, can_shrink: true });
        state.evict(self.bytes_max());
    }

    /// Removes a file's entry from the cache.
    pub(crate) fn remove(&self, number: u64) {
        self.state.lock().forget(number);
    }

    /// Returns the memory of all entries in bytes, each measured at its last use or shrinking.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }
}

impl CacheState {
    fn touch(&mut self, number: u64, bytes_max: usize) -> Option<Arc<LoadedFile>> {
        self.uses += 1;
        let entry = self.files.get_mut(&number)?;
        entry.used = self.uses;
        let loaded = Arc::clone(&entry.loaded);
        // Entries grow as dictionaries are read.
        let before = std::mem::replace(&mut entry.bytes, loaded.memory_bytes());
        entry.can_shrink |= entry.bytes > before;
        self.bytes = self.bytes - before + entry.bytes;
        self.evict(bytes_max);
        Some(loaded)
    }

    /// Evicts dictionaries and then entries, least recently used first, until the cache is within
    /// the limit. The most recently used entry always stays.
    fn evict(&mut self, bytes_max: usize) {
        while self.bytes > bytes_max {
            let others = self.files.values_mut().filter(|entry| entry.used != self.uses);
            let Some(entry) = others.filter(|entry| entry.can_shrink).min_by_key(|it| it.used)
            else {
                break;
            };
            entry.can_shrink = false;
            entry.loaded.shrink();
            let before = std::mem::replace(&mut entry.bytes, entry.loaded.memory_bytes());
            self.bytes = self.bytes - before + entry.bytes;
        }
        while self.bytes > bytes_max && self.files.len() > 1 {
            let oldest = self.files.iter().min_by_key(|(_, entry)| entry.used);
            let Some((&number, _)) = oldest else { return };
            self.forget(number);
        }
    }

    fn forget(&mut self, number: u64) {
        if let Some(entry) = self.files.remove(&number) {
            self.bytes -= entry.bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cache;

    #[test]
    fn limit_yields_to_other_memory() {
        let cache = Cache::new(64);
        let left = |bytes| {
            cache.yield_memory(bytes);
            cache.bytes_max()
        };
        assert_eq!([0, 24, 48, 60, usize::MAX, 10, 0].map(left), [64, 40, 16, 16, 16, 54, 64]);
    }
}
