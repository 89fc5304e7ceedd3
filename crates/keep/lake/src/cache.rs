//! What is in memory of files that are read, all together within a bound: what was used longest ago goes. First the
//! dictionaries go, which a few requests need, and then what all questions need. Start at [`Cache::get`].

use crate::Error;
use crate::lake::lock;
use crate::part::Loaded;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What is in memory of files that are read.
pub(crate) struct Cache {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    /// By the number of their file.
    files: HashMap<u64, Entry>,
    bytes: usize,
    uses: u64,
}

struct Entry {
    loaded: Arc<Loaded>,
    bytes: usize,
    used: u64,
    /// There may be something in it that can go alone.
    can_shrink: bool,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Cache {
        Cache { bytes_max, held: Mutex::default() }
    }

    /// What is in memory of a file, which is loaded if it is not there.
    pub(crate) fn get(
        &self,
        number: u64,
        load: impl FnOnce() -> Result<Loaded, Error>,
    ) -> Result<Arc<Loaded>, Error> {
        if let Some(loaded) = lock(&self.held).touch(number, self.bytes_max) {
            return Ok(loaded);
        }
        // Others go on meanwhile. Two may load the same.
        let loaded = Arc::new(load()?);
        self.put(number, Arc::clone(&loaded));
        Ok(loaded)
    }

    /// That of a file, if it is there.
    pub(crate) fn peek(&self, number: u64) -> Option<Arc<Loaded>> {
        lock(&self.held).files.get(&number).map(|entry| Arc::clone(&entry.loaded))
    }

    pub(crate) fn put(&self, number: u64, loaded: Arc<Loaded>) {
        let bytes = loaded.memory_bytes();
        let mut held = lock(&self.held);
        held.forget(number);
        held.uses += 1;
        held.bytes += bytes;
        let used = held.uses;
        held.files.insert(number, Entry { loaded, bytes, used, can_shrink: true });
        held.make_room(self.bytes_max);
    }

    /// The file is gone.
    pub(crate) fn forget(&self, number: u64) {
        lock(&self.held).forget(number);
    }

    /// What all take.
    pub(crate) fn bytes(&self) -> usize {
        lock(&self.held).bytes
    }
}

impl Held {
    fn touch(&mut self, number: u64, bytes_max: usize) -> Option<Arc<Loaded>> {
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
