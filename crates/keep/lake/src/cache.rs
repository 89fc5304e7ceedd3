//! What is in memory of files that are read, all together within a bound: what was used longest ago goes. Start at
//! [`Cache::get`].

use crate::Error;
use crate::lake::lock;
use crate::part::Loaded;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

/// What files take in memory is asked again after so many uses, as it grows with what is read of them.
const MEASURE_EVERY: u64 = 16;

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
        held.files.insert(number, Entry { loaded, bytes, used });
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
        if self.uses.is_multiple_of(MEASURE_EVERY) {
            let before = std::mem::replace(&mut entry.bytes, loaded.memory_bytes());
            self.bytes = self.bytes - before + entry.bytes;
            self.make_room(bytes_max);
        }
        Some(loaded)
    }

    /// What was used last stays, however large it is.
    fn make_room(&mut self, bytes_max: usize) {
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
