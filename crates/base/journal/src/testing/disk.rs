//! Simulated disk. It counts all modifying operations. So for each k, a test can fail the k-th
//! operation or cut the power during it.

use super::inode::Inode;
use super::random::Random;
use crate::disk::{Disk, File, Lock};
use parking_lot::{Condvar, Mutex, MutexGuard};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Disk in memory that fails as a test requests. Clones share the same disk.
#[derive(Clone)]
pub struct SimulatedDisk {
    shared: Arc<Shared>,
    /// Path prefix of the files in this directory; empty for the root directory.
    prefix: String,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    released: Condvar,
}

/// Guard that pauses the disk: `sync` of a file waits until the guard is dropped.
#[must_use = "dropped, the disk goes on"]
pub struct SyncPause(SimulatedDisk);

impl Drop for SyncPause {
    fn drop(&mut self) {
        self.0.state().is_held = false;
        self.0.shared.released.notify_all();
    }
}

/// Kind of `sync` that falsely reports success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FalseSync {
    /// `sync` of a file, which reports success and does nothing.
    Files,
    /// `sync` of the directory, which reports success and does nothing.
    Names,
}

#[derive(Default)]
struct State {
    random: Option<Random>,
    files: Vec<Inode>,
    names: BTreeMap<String, usize>,
    durable_names: BTreeMap<String, usize>,
    pending: Vec<Change>,
    operations: u64,
    failing: Option<(Range<u64>, Errno)>,
    power_ends_at: Option<u64>,
    stops_at: Option<u64>,
    capacity_bytes: Option<usize>,
    unreadable: Option<(String, Range<u64>)>,
    lie: Option<FalseSync>,
    is_held: bool,
    /// Number of shared locks of the directory, and flag for an exclusive lock.
    lock: (u32, bool),
}

/// Directory operation that is not durable yet.
#[derive(Clone, Debug)]
enum Change {
    Set(String, usize),
    Remove(String),
    Rename { from: String, to: String, file: usize },
}

/// Effect of an operation on the disk.
enum OperationOutcome {
    Happens,
    /// Failure with this error. The operation may still take effect, wholly or in part.
    Fails(Errno),
}

impl SimulatedDisk {
    /// Makes an empty disk. The seed determines all random choices of the disk, such as the changes
    /// that a power cut loses.
    pub fn new(seed: u64) -> SimulatedDisk {
        let disk = SimulatedDisk { shared: Arc::default(), prefix: String::new() };
        disk.state().random = Some(Random::new(seed));
        disk
    }

    /// Returns the number of modifying operations since the disk was made.
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Makes the operations in this range fail. Operations are numbered from the disk's creation.
    pub fn fail(&self, operations: Range<u64>, with: Errno) {
        self.state().failing = Some((operations, with));
    }

    /// Makes operation `operation` and all later ones fail without effect, as if the process had
    /// been killed.
    pub fn stop_at(&self, operation: u64) {
        self.state().stops_at = Some(operation);
    }

    /// Ends the failures requested by `fail` and `stop_at`.
    pub fn repair(&self) {
        let mut state = self.state();
        state.failing = None;
        state.stops_at = None;
    }

    /// Cuts the power during operation `operation`: this operation and all later ones fail.
    pub fn end_power_at(&self, operation: u64) {
        self.state().power_ends_at = Some(operation);
    }

    /// Turns the power off and on again. Loses a random part of the changes that were not durable.
    /// Ends the failures requested by `fail` and `end_power_at`.
    pub fn cut_power(&self) {
        self.state().cut_power();
    }

    /// Limits the total size of all files in bytes; `None` removes the limit.
    pub fn set_capacity(&self, bytes: Option<usize>) {
        self.state().capacity_bytes = bytes;
    }

    /// Makes reads fail that touch this byte range of a file.
    pub fn set_unreadable(&self, name: &str, bytes: Range<u64>) {
        self.state().unreadable = Some((name.to_owned(), bytes));
    }

    /// Makes one kind of `sync` falsely report success; `None` ends this.
    pub fn set_lie(&self, lie: Option<FalseSync>) {
        self.state().lie = lie;
    }

    /// Makes `sync` of files wait until the returned guard is dropped.
    pub fn pause_sync(&self) -> SyncPause {
        self.state().is_held = true;
        SyncPause(self.clone())
    }

    /// Returns the names of all files. A name in a subdirectory has the form `DIRECTORY/NAME`.
    pub fn names(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// Returns the contents of a file as reads return them, including changes that are not durable.
    /// Returns `None` if the file does not exist.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        state.names.get(name).map(|&file| state.files[file].seen.clone())
    }

    /// Sets the contents of a file durably. Creates the file if it does not exist.
    pub fn set_bytes(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        if let Some(&file) = state.names.get(name) {
            state.files[file] = Inode::durable(bytes);
            return;
        }
        state.files.push(Inode::durable(bytes));
        let file = state.files.len() - 1;
        state.names.insert(name.to_owned(), file);
        state.durable_names.insert(name.to_owned(), file);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.state.lock()
    }

    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

impl State {
    fn random(&mut self) -> &mut Random {
        self.random.get_or_insert_with(|| Random::new(0))
    }

    /// Counts an operation, and returns its outcome.
    fn fate(&mut self) -> OperationOutcome {
        let operation = self.operations;
        self.operations += 1;
        let end = [self.power_ends_at, self.stops_at].into_iter().flatten().min();
        if end.is_some_and(|end| operation >= end) {
            return OperationOutcome::Fails(Errno::IO);
        }
        match &self.failing {
            Some((operations, errno)) if operations.contains(&operation) => {
                OperationOutcome::Fails(*errno)
            }
            _ => OperationOutcome::Happens,
        }
    }

    /// Returns true if operations have no effect, after a power cut or a kill. The operation during
    /// which the power was cut may still take effect, wholly or in part.
    fn is_off(&self) -> bool {
        self.power_ends_at.is_some_and(|end| self.operations > end + 1) || self.is_stopped()
    }

    fn is_stopped(&self) -> bool {
        self.stops_at.is_some_and(|end| self.operations > end)
    }

    fn cut_power(&mut self) {
        let mut random = self.random().clone();
        for file in &mut self.files {
            file.cut_power(&mut random);
        }
        self.lose_names(&mut random);
        self.names = self.durable_names.clone();
        self.random = Some(random);
        self.failing = None;
        self.power_ends_at = None;
    }

    /// Makes a random selection of the pending directory operations durable, and drops the others.
    fn lose_names(&mut self, random: &mut Random) {
        for change in std::mem::take(&mut self.pending) {
            if random.once_in(2) {
                change.apply(&mut self.durable_names);
            }
        }
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.names);
        self.pending.push(change);
    }

    /// Returns true if `more` bytes fit into the remaining capacity.
    fn has_room(&self, more: usize) -> bool {
        let Some(capacity) = self.capacity_bytes else { return true };
        let used: usize = self.names.values().map(|&file| self.files[file].seen.len()).sum();
        used + more <= capacity
    }
}

impl Change {
    fn apply(&self, to: &mut BTreeMap<String, usize>) {
        match self {
            Change::Set(name, file) => {
                to.insert(name.clone(), *file);
            }
            Change::Remove(name) => {
                to.remove(name);
            }
            Change::Rename { from, to: name, file } => {
                // The disk may have lost the change that gave the file its first name.
                if to.get(from) == Some(file) {
                    to.remove(from);
                }
                to.insert(name.clone(), *file);
            }
        }
    }
}

struct SimulatedLock {
    disk: SimulatedDisk,
    is_exclusive: bool,
}

impl Drop for SimulatedLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        match self.is_exclusive {
            true => state.lock.1 = false,
            false => state.lock.0 -= 1,
        }
    }
}

impl Disk for SimulatedDisk {
    fn lock(&self, is_exclusive: bool) -> io::Result<Option<Lock>> {
        let mut state = self.state();
        if state.lock.1 || (is_exclusive && state.lock.0 > 0) {
            return Ok(None);
        }
        match is_exclusive {
            true => state.lock.1 = true,
            false => state.lock.0 += 1,
        }
        drop(state);
        Ok(Some(Box::new(SimulatedLock { disk: self.clone(), is_exclusive })))
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> bool) -> io::Result<()> {
        let names = self.names();
        let own = names.iter().filter_map(|name| name.strip_prefix(&self.prefix));
        for name in own.filter(|name| !name.contains('/')) {
            if !each(name) {
                break;
            }
        }
        Ok(())
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let mut state = self.state();
        if let OperationOutcome::Fails(errno) = state.fate() {
            return Err(errno.into());
        }
        let name = self.path(name);
        if state.names.contains_key(&name) {
            return Err(Errno::EXIST.into());
        }
        state.files.push(Inode::default());
        let file = state.files.len() - 1;
        state.change(Change::Set(name.clone(), file));
        drop(state);
        Ok(Arc::new(SimulatedFile { disk: self.clone(), name, file }))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        let name = self.path(name);
        let file = *self.state().names.get(&name).ok_or(Errno::NOENT)?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), name, file }))
    }

    fn truncate(&self, name: &str, size_bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        if let OperationOutcome::Fails(errno) = state.fate() {
            return Err(errno.into());
        }
        let file = *state.names.get(&self.path(name)).ok_or(Errno::NOENT)?;
        state.files[file].resize(size_bytes as usize);
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.state();
        let from = self.path(from);
        let file = *state.names.get(&from).ok_or(Errno::NOENT)?;
        let change = Change::Rename { from, to: self.path(to), file };
        match state.fate() {
            OperationOutcome::Happens => state.change(change),
            OperationOutcome::Fails(errno) => {
                if !state.is_off() && state.random().once_in(2) {
                    state.change(change);
                }
                return Err(errno.into());
            }
        }
        Ok(())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let mut state = self.state();
        let name = self.path(name);
        if !state.names.contains_key(&name) {
            return Err(Errno::NOENT.into());
        }
        match state.fate() {
            OperationOutcome::Happens => state.change(Change::Remove(name)),
            OperationOutcome::Fails(errno) => {
                if !state.is_off() && state.random().once_in(2) {
                    state.change(Change::Remove(name));
                }
                return Err(errno.into());
            }
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        match state.fate() {
            OperationOutcome::Happens if state.lie == Some(FalseSync::Names) => {}
            OperationOutcome::Happens => {
                state.pending.clear();
                state.durable_names = state.names.clone();
            }
            OperationOutcome::Fails(errno) => {
                if !state.is_off() {
                    let mut random = state.random().clone();
                    state.lose_names(&mut random);
                    state.random = Some(random);
                }
                return Err(errno.into());
            }
        }
        Ok(())
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        Ok(Arc::new(SimulatedDisk {
            shared: Arc::clone(&self.shared),
            prefix: self.path(name) + "/",
        }))
    }

    fn random(&self) -> io::Result<u64> {
        Ok(self.state().random().number())
    }
}

struct SimulatedFile {
    disk: SimulatedDisk,
    name: String,
    file: usize,
}

impl File for SimulatedFile {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.disk.state();
        let wanted = offset..offset + to.len() as u64;
        if let Some((name, unreadable)) = &state.unreadable
            && *name == self.name
            && wanted.start < unreadable.end
            && unreadable.start < wanted.end
        {
            return Err(Errno::IO.into());
        }
        let seen = &state.files[self.file].seen;
        let rest =
            usize::try_from(offset).ok().and_then(|from| seen.get(from..)).unwrap_or_default();
        let size = rest.len().min(to.len());
        to[..size].copy_from_slice(&rest[..size]);
        Ok(size)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        let fate = state.fate();
        let offset = offset as usize;
        let growth = (offset + bytes.len()).saturating_sub(state.files[self.file].seen.len());
        let fate = match fate {
            OperationOutcome::Happens if !state.has_room(growth) => {
                OperationOutcome::Fails(Errno::NOSPC)
            }
            fate => fate,
        };
        match fate {
            OperationOutcome::Happens => state.files[self.file].write(offset, bytes),
            OperationOutcome::Fails(errno) => {
                if !state.is_off() {
                    let size = state.random().below(bytes.len() as u64 + 1) as usize;
                    state.files[self.file].write(offset, &bytes[..size]);
                }
                return Err(errno.into());
            }
        }
        Ok(())
    }

    fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        let mut state = self.disk.state();
        if let OperationOutcome::Fails(errno) = state.fate() {
            return Err(errno.into());
        }
        let size = size_bytes as usize;
        let growth = size.saturating_sub(state.files[self.file].seen.len());
        if !state.has_room(growth) {
            return Err(Errno::NOSPC.into());
        }
        state.files[self.file].resize(size);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        while state.is_held {
            let released = &self.disk.shared.released;
            released.wait(&mut state);
        }
        match state.fate() {
            OperationOutcome::Happens if state.lie == Some(FalseSync::Files) => {}
            OperationOutcome::Happens => state.files[self.file].sync(),
            OperationOutcome::Fails(errno) => {
                if !state.is_off() {
                    let mut random = state.random().clone();
                    state.files[self.file].fail_sync(&mut random);
                    state.random = Some(random);
                }
                return Err(errno.into());
            }
        }
        Ok(())
    }

    fn forget(&self) -> io::Result<()> {
        self.disk.state().files[self.file].forget();
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.disk.state().files[self.file].seen.len() as u64)
    }
}
