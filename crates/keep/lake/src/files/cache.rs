//! What is in memory of files that are read, all together within a bound: what was used longest ago goes. First the
//! dictionaries go, which a few requests need, and then what all questions need. Start at [`Cache::get`].

use crate::Error;
use crate::files::loaded_file::LoadedFile;
use crate::locks::lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What is in memory of files that are read.
pub(crate) struct Cache {
    /// As long as nothing else needs the memory.
    bytes_most: usize,
    bytes_max: AtomicUsize,
    state: Mutex<CacheState>,
}

/// So much of its memory the cache keeps, whatever else needs some: a part of this many.
const KEEPS_OF: usize = 4;

#[derive(Default)]
struct CacheState {
    /// By the number of their file.
    files: HashMap<u64, Entry>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    loaded: Arc<LoadedFile>,
    bytes: usize,
    used: u64,
    /// There may be something in it that can go alone.
    can_shrink: bool,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        let limit = AtomicUsize::new(bytes_max);
        Cache { bytes_most: bytes_max, bytes_max: limit, state: Mutex::default() }
    }

    /// Has less, as something else needs so many bytes just now.
    pub(crate) fn give_way_to(&self, bytes: usize) {
        let left = self.bytes_most.saturating_sub(bytes).max(self.bytes_most / KEEPS_OF);
        if self.bytes_max.swap(left, Ordering::Relaxed) > left {
            lock(&self.state).make_room(left);
        }
    }

    fn bytes_max(&self) -> usize {
        self.bytes_max.load(Ordering::Relaxed)
    }

    /// What is in memory of a file, which is loaded if it is not there.
    pub(crate) fn get(
        &self,
        number: u64,
        load: impl FnOnce() -> Result<LoadedFile, Error>,
    ) -> Result<Arc<LoadedFile>, Error> {
        if let Some(loaded) = lock(&self.state).touch(number, self.bytes_max()) {
            return Ok(loaded);
        }
        // Others go on meanwhile. Two may load the same.
        let loaded = Arc::new(load()?);
        self.put(number, Arc::clone(&loaded));
        Ok(loaded)
    }

    /// That of a file, if it is there.
    pub(crate) fn peek(&self, number: u64) -> Option<Arc<LoadedFile>> {
        lock(&self.state).files.get(&number).map(|entry| Arc::clone(&entry.loaded))
    }

    pub(crate) fn put(&self, number: u64, loaded: Arc<LoadedFile>) {
        let bytes = loaded.memory_bytes();
        let mut state = lock(&self.state);
        state.forget(number);
        state.uses += 1;
        state.bytes += bytes;
        let used = state.uses;
        state.files.insert(number, Entry { loaded, bytes, used, can_shrink: true });
        state.make_room(self.bytes_max());
    }

    /// The file is gone.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.state).forget(number);
    }

    /// What all take.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.state).bytes
    }
}

impl CacheState {
    fn touch(&mut self, number: u64, bytes_max: usize) -> Option<Arc<LoadedFile>> {
        self.uses += 1;
        let entry = self.files.get_mut(&number)?;
        entry.used = self.uses;
        let loaded = Arc::clone(&entry.loaded);
        // It grows with what is read of it.
        let before = std::mem::replace(&mut entry.bytes, loaded.memory_bytes());
        entry.can_shrink |= entry.bytes > before;
        self.bytes = self.bytes - before + entry.bytes;
        self.make_room(bytes_max);
        Some(loaded)
    }

    /// What was used last stays, however large it is.
    fn make_room(&mut self, bytes_max: usize) {
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
    fn what_came_last_has_the_memory_as_long_as_it_needs_it() {
        let cache = Cache::new(64);
        let left = |bytes| {
            cache.give_way_to(bytes);
            cache.bytes_max()
        };
        assert_eq!([0, 24, 48, 60, usize::MAX, 10, 0].map(left), [64, 40, 16, 16, 16, 54, 64]);
    }
}
