//! State of processes: names, working directories and open descriptors. Events set the state; a
//! [`Lookup`] fills gaps.
//!
//! A forked process shares its parent's table of descriptors until one of them changes it. The
//! number of processes, of descriptors in a process and the size of all tables are limited; the
//! least recently used processes are evicted first.

use crate::lookup::Lookup;
use crate::path::{self, PATH_SIZE_MAX};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of processes.
const PROCESSES_MAX: usize = 100_000;
/// Number of processes that an eviction keeps.
const PROCESSES_KEPT: usize = PROCESSES_MAX / 8 * 7;
/// Maximum number of descriptors of a process.
const DESCRIPTORS_MAX: usize = 65_536;
/// Maximum size of all tables of descriptors, in bytes.
const TABLES_SIZE_MAX: usize = 512 << 20;
/// Size of the tables that an eviction keeps, in bytes.
const TABLES_SIZE_KEPT: usize = TABLES_SIZE_MAX / 2;
/// Approximate size of a descriptor without its path, in bytes.
const DESCRIPTOR_SIZE: usize = 96;
/// Maximum number of failed lookups of descriptors that are cached for a process.
const FAILURES_MAX: usize = 256;
/// Maximum size of a process's name in bytes. The kernel's limit is 16.
const NAME_SIZE_MAX: usize = 256;

/// Directory argument that stands for the working directory.
const AT_FDCWD: i32 = -100;

/// Time of descriptors that were opened before the recording.
const BEFORE_RECORDING: i64 = i64::MIN;

/// Numbers of dropped state, because of the limits of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Number of evicted processes.
    pub processes: u64,
    /// Number of descriptors beyond the limit of their process.
    pub descriptors: u64,
}

/// State of all processes.
#[derive(Debug)]
pub(crate) struct Processes<L> {
    processes: HashMap<u32, Process>,
    lookup: L,
    /// Counter of uses of processes.
    clock: u64,
    accounts: Accounts,
}

/// Sums over all processes.
#[derive(Debug, Default)]
struct Accounts {
    /// Upper estimate of the size of all tables in bytes; [`Processes::evict`] corrects it.
    tables_size: usize,
    drops: Drops,
}

#[derive(Debug, Default)]
struct Process {
    name: CachedText,
    directory: CachedText,
    table: Arc<DescriptorTable>,
    /// Descriptors whose lookup failed.
    failures: HashSet<i32>,
    /// Value of [`Processes::clock`] at the last use.
    last_use: u64,
}

/// Text from an event or a lookup.
#[derive(Clone, Debug, Default)]
enum CachedText {
    #[default]
    Unknown,
    /// The lookup failed.
    Failed,
    Text(Arc<str>),
}

#[derive(Clone, Debug, Default)]
struct DescriptorTable {
    descriptors: HashMap<i32, Descriptor>,
    /// Approximate size in bytes.
    size: usize,
}

/// Open descriptor of a process.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    /// Path, or address of a socket's peer; `None` if unknown.
    pub(crate) path: Option<Arc<str>>,
    /// True if `exec` closes the descriptor.
    pub(crate) is_closed_on_exec: bool,
    /// Time of the event that created the descriptor.
    pub(crate) since_ns: i64,
    /// Open file, which duplicates and children share; `None` if the position is unknown.
    pub(crate) open_file: Option<Arc<OpenFile>>,
}

/// Open file (the kernel's `struct file`).
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// File position; [`POSITION_UNKNOWN`] if it is unknown.
    position: AtomicU64,
    /// True if each write is at the end of the file.
    is_append: bool,
}

const POSITION_UNKNOWN: u64 = u64::MAX;

impl OpenFile {
    pub(crate) fn new(position: u64, is_append: bool) -> OpenFile {
        OpenFile { position: AtomicU64::new(position), is_append }
    }

    /// Advances the position by `count` and returns the previous one, if it is known.
    pub(crate) fn advance(&self, count: u64, is_write: bool) -> Option<u64> {
        if is_write && self.is_append {
            self.position.store(POSITION_UNKNOWN, Ordering::Relaxed);
            return None;
        }
        let position = self.position.load(Ordering::Relaxed);
        if position == POSITION_UNKNOWN {
            return None;
        }
        self.position.store(position.saturating_add(count), Ordering::Relaxed);
        Some(position)
    }
}

impl Descriptor {
    fn size(&self) -> usize {
        DESCRIPTOR_SIZE + self.path.as_ref().map_or(0, |path| path.len())
    }
}

impl DescriptorTable {
    fn remove(&mut self, fd: i32) {
        if let Some(descriptor) = self.descriptors.remove(&fd) {
            self.size = self.size.saturating_sub(descriptor.size());
        }
    }

    fn retain(&mut self, mut is_kept: impl FnMut(i32, &mut Descriptor) -> bool) {
        let mut size = 0;
        self.descriptors.retain(|fd, descriptor| {
            let is_kept = is_kept(*fd, descriptor);
            size += if is_kept { descriptor.size() } else { 0 };
            is_kept
        });
        self.size = size;
    }
}

impl<L: Lookup> Processes<L> {
    pub(crate) fn new(lookup: L) -> Processes<L> {
        Processes { processes: HashMap::new(), lookup, clock: 0, accounts: Accounts::default() }
    }

    pub(crate) fn drops(&self) -> Drops {
        self.accounts.drops
    }

    /// Returns the state of a process, which is created if it is unknown.
    pub(crate) fn view(&mut self, pid: u32) -> ProcessView<'_, L> {
        if self.accounts.tables_size > TABLES_SIZE_MAX
            || self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&pid)
        {
            self.evict();
        }
        self.clock += 1;
        let Processes { processes, lookup, clock, accounts } = self;
        let process = processes.entry(pid).or_default();
        process.last_use = *clock;
        ProcessView { pid, process, lookup, accounts }
    }

    /// Creates the state of a child from that of its parent.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        if parent == child {
            return;
        }
        let parent = self.view(parent).process;
        let (name, directory) = (parent.name.clone(), parent.directory.clone());
        // The parent's lookups may have failed because the parent has ended.
        let known =
            |cached| if let CachedText::Failed = cached { CachedText::Unknown } else { cached };
        let table = parent.table.clone();
        let child = self.restart(child);
        child.name = known(name);
        child.directory = known(directory);
        child.table = table;
    }

    /// Forgets an earlier process with this id.
    fn restart(&mut self, pid: u32) -> &mut Process {
        self.remove(pid);
        self.view(pid).process
    }

    pub(crate) fn remove(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid)
            && Arc::strong_count(&process.table) == 1
        {
            let size = &mut self.accounts.tables_size;
            *size = size.saturating_sub(process.table.size);
        }
    }

    /// Removes the least recently used processes, so that most of the limits are free again, and
    /// determines the exact size of all tables.
    #[cold]
    fn evict(&mut self) {
        let mut uses: Vec<(u64, u32)> =
            self.processes.iter().map(|(pid, process)| (process.last_use, *pid)).collect();
        uses.sort_unstable_by(|a, b| b.cmp(a));
        let mut tables = HashSet::new();
        let mut size = 0;
        let mut kept = 0;
        for (_, pid) in &uses {
            let Some(process) = self.processes.get(pid) else { break };
            let is_new = tables.insert(Arc::as_ptr(&process.table));
            let own = if is_new { process.table.size } else { 0 };
            if kept >= PROCESSES_KEPT || kept > 0 && size + own > TABLES_SIZE_KEPT {
                break;
            }
            size += own;
            kept += 1;
        }
        for (_, pid) in &uses[kept..] {
            self.processes.remove(pid);
            self.accounts.drops.processes += 1;
        }
        self.accounts.tables_size = size;
    }
}

/// State of one process.
pub(crate) struct ProcessView<'p, L> {
    pid: u32,
    process: &'p mut Process,
    lookup: &'p mut L,
    accounts: &'p mut Accounts,
}

impl<L: Lookup> ProcessView<'_, L> {
    /// Returns the process's name; empty if it is unknown.
    pub(crate) fn name(&mut self) -> Arc<str> {
        let (pid, lookup) = (self.pid, &mut *self.lookup);
        let name = self.process.name.get(|| lookup.name(pid), NAME_SIZE_MAX);
        name.unwrap_or_default()
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.process.name =
            CachedText::Text(name[..name.floor_char_boundary(NAME_SIZE_MAX)].into());
    }

    /// Sets name and directory as of the start of the recording, unless later events set them.
    pub(crate) fn set_initial(&mut self, name: Option<&str>, directory: Option<&str>) {
        if let (Some(name), CachedText::Unknown | CachedText::Failed) = (name, &self.process.name) {
            self.set_name(name);
        }
        if let (Some(text), CachedText::Unknown | CachedText::Failed) =
            (directory, &self.process.directory)
        {
            self.process.directory = CachedText::Text(text.into());
        }
    }

    /// Adds a descriptor as of the start of the recording, unless later events opened it.
    pub(crate) fn add_initial(&mut self, fd: i32, path: &str) {
        if !self.process.table.descriptors.contains_key(&fd) {
            self.add_path(fd, path.into());
        }
    }

    fn directory(&mut self) -> Option<Arc<str>> {
        let (pid, lookup) = (self.pid, &mut *self.lookup);
        self.process.directory.get(|| lookup.directory(pid), PATH_SIZE_MAX)
    }

    /// Changes the working directory. A directory whose path is unknown is looked up later.
    pub(crate) fn set_directory(&mut self, path: Option<Arc<str>>) {
        self.process.directory = match path {
            Some(path) if path.starts_with('/') => CachedText::Text(path),
            _ => CachedText::Unknown,
        };
    }

    /// Changes the working directory to a path that is relative to the previous one. A lookup of
    /// the previous one would find the new one.
    pub(crate) fn change_directory(&mut self, path: &str) {
        let base = match &self.process.directory {
            CachedText::Text(base) => base.clone(),
            _ => Arc::default(),
        };
        self.set_directory(path::resolve(&base, path).map(Arc::from));
    }

    /// Returns the absolute path of an argument relative to the directory `dirfd`. Returns the
    /// argument itself if the directory is unknown.
    pub(crate) fn resolve(&mut self, dirfd: Option<i32>, path: &str) -> Arc<str> {
        let base = match dirfd {
            _ if path.starts_with('/') => None,
            None | Some(AT_FDCWD) => self.directory(),
            Some(fd) => self.path(fd, i64::MAX),
        };
        path::resolve(&base.unwrap_or_default(), path).map_or_else(|| path.into(), Arc::from)
    }

    /// Returns the path of a descriptor that a call used which started at `start_ns`.
    pub(crate) fn path(&mut self, fd: i32, start_ns: i64) -> Option<Arc<str>> {
        match self.known_path(fd, start_ns) {
            Some(path) => return path,
            None if fd < 0 || self.process.failures.contains(&fd) => return None,
            None => {}
        }
        let Some(path) = self.lookup.path(self.pid, fd) else {
            if self.process.failures.len() >= FAILURES_MAX {
                self.process.failures.clear();
            }
            self.process.failures.insert(fd);
            return None;
        };
        let path: Arc<str> = path[..path.floor_char_boundary(PATH_SIZE_MAX)].into();
        self.add_path(fd, path.clone());
        Some(path)
    }

    /// Returns the path of a descriptor from earlier events and lookups. Returns `None` if a lookup
    /// could find it.
    fn known_path(&self, fd: i32, start_ns: i64) -> Option<Option<Arc<str>>> {
        let descriptor = self.process.table.descriptors.get(&fd)?;
        if descriptor.since_ns > start_ns {
            // The call used an earlier descriptor with the same number.
            return Some(None);
        }
        descriptor.path.as_ref().map(|path| Some(path.clone()))
    }

    /// Returns the path of a descriptor as [`ProcessView::path`] does, without a lookup.
    pub(crate) fn path_before(&self, fd: i32, start_ns: i64) -> Option<Arc<str>> {
        self.known_path(fd, start_ns).flatten()
    }

    /// Returns the open file of a descriptor, if its position may be known.
    pub(crate) fn open_file(&self, fd: i32) -> Option<Arc<OpenFile>> {
        self.process.table.descriptors.get(&fd)?.open_file.clone()
    }

    /// Sets the file position of a descriptor.
    pub(crate) fn seek(&mut self, fd: i32, position: u64) {
        if let Some(file) = self.open_file(fd) {
            file.position.store(position, Ordering::Relaxed);
        } else if self.process.table.descriptors.contains_key(&fd) {
            let file = Some(Arc::new(OpenFile::new(position, false)));
            self.change_table(|table| {
                table.descriptors.entry(fd).and_modify(|descriptor| descriptor.open_file = file);
            });
        }
    }

    /// Sets the path of a descriptor, found by an event or a lookup.
    pub(crate) fn set_path(&mut self, fd: i32, path: Arc<str>) {
        if self.process.table.descriptors.contains_key(&fd) {
            self.change_table(|table| {
                if let Some(descriptor) = table.descriptors.get_mut(&fd) {
                    table.size = table.size.saturating_sub(descriptor.size());
                    descriptor.path = Some(path);
                    table.size += descriptor.size();
                }
            });
        } else {
            self.add_path(fd, path);
        }
    }

    fn add_path(&mut self, fd: i32, path: Arc<str>) {
        if self.process.table.descriptors.contains_key(&fd) {
            return self.set_path(fd, path);
        }
        let since_ns = BEFORE_RECORDING;
        let (is_closed_on_exec, open_file) = (false, None);
        let path = Some(path);
        self.open(fd, Descriptor { path, is_closed_on_exec, since_ns, open_file });
    }

    /// Adds or replaces a descriptor.
    pub(crate) fn open(&mut self, fd: i32, descriptor: Descriptor) {
        if fd < 0 {
            return;
        }
        self.process.failures.remove(&fd);
        let descriptors = &self.process.table.descriptors;
        if descriptors.len() >= DESCRIPTORS_MAX && !descriptors.contains_key(&fd) {
            self.accounts.drops.descriptors += 1;
            return;
        }
        self.change_table(|table| {
            table.remove(fd);
            table.size += descriptor.size();
            table.descriptors.insert(fd, descriptor);
        });
    }

    /// Makes the descriptor `new` a duplicate of `old`.
    pub(crate) fn duplicate(&mut self, old: i32, new: i32, is_closed_on_exec: bool, end_ns: i64) {
        if old == new {
            return;
        }
        let known = self.process.table.descriptors.get(&old).cloned();
        let (path, open_file) = known.map_or((None, None), |old| (old.path, old.open_file));
        self.open(new, Descriptor { path, is_closed_on_exec, since_ns: end_ns, open_file });
    }

    /// Removes a descriptor that a call closed which started at `start_ns`. A descriptor that was
    /// opened later remains: the number is free again before `close` returns.
    pub(crate) fn close(&mut self, fd: i32, start_ns: i64) {
        self.process.failures.remove(&fd);
        let is_closed = |descriptor: &Descriptor| descriptor.since_ns <= start_ns;
        if self.process.table.descriptors.get(&fd).is_some_and(is_closed) {
            self.change_table(|table| table.remove(fd));
        }
    }

    /// Removes the descriptors from `first` to `last` as [`ProcessView::close`] does.
    pub(crate) fn close_range(&mut self, first: u32, last: u32, start_ns: i64) {
        self.process.failures.clear();
        let range = first..=last;
        self.change_table(|table| {
            table.retain(|fd, descriptor| {
                !range.contains(&fd.cast_unsigned()) || descriptor.since_ns > start_ns
            });
        });
    }

    /// Sets or clears close-on-exec for the descriptors from `first` to `last`.
    pub(crate) fn set_closed_on_exec(&mut self, first: u32, last: u32, value: bool) {
        let range = first..=last;
        self.change_table(|table| {
            for (fd, descriptor) in &mut table.descriptors {
                if range.contains(&fd.cast_unsigned()) {
                    descriptor.is_closed_on_exec = value;
                }
            }
        });
    }

    /// Changes the state as a successful `exec` does.
    pub(crate) fn exec(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.set_name(name),
            None => self.process.name = CachedText::Unknown,
        }
        self.process.failures.clear();
        if self.process.table.descriptors.values().any(|descriptor| descriptor.is_closed_on_exec) {
            self.change_table(|table| {
                table.retain(|_, descriptor| !descriptor.is_closed_on_exec);
            });
        }
    }

    /// Changes the table of descriptors, of which the process gets a copy if others share it.
    fn change_table(&mut self, change: impl FnOnce(&mut DescriptorTable)) {
        let is_shared = Arc::strong_count(&self.process.table) > 1;
        let table = Arc::make_mut(&mut self.process.table);
        let before = if is_shared { 0 } else { table.size };
        change(table);
        let size = &mut self.accounts.tables_size;
        *size = (*size + table.size).saturating_sub(before);
    }
}

impl CachedText {
    /// Returns the text; looks it up if it is unknown.
    fn get(
        &mut self,
        lookup: impl FnOnce() -> Option<String>,
        size_max: usize,
    ) -> Option<Arc<str>> {
        if let CachedText::Unknown = self {
            *self = match lookup() {
                Some(text) => CachedText::Text(text[..text.floor_char_boundary(size_max)].into()),
                None => CachedText::Failed,
            };
        }
        match self {
            CachedText::Text(text) => Some(text.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lookup::NoLookup;

    fn descriptor(path: &str) -> Descriptor {
        let path = Some(path.into());
        Descriptor { path, is_closed_on_exec: false, since_ns: 0, open_file: None }
    }

    /// A process beyond the limit evicts an eighth of the processes, those unused for longest.
    #[test]
    fn least_recently_used_processes_are_evicted() {
        let mut processes = Processes::new(NoLookup);
        let count = PROCESSES_MAX as u32;
        for pid in 0..count {
            processes.view(pid).set_name("x");
        }
        processes.view(0);
        processes.view(count);
        let evicted = PROCESSES_MAX - PROCESSES_KEPT;
        assert_eq!(processes.drops(), Drops { processes: evicted as u64, descriptors: 0 });
        assert_eq!(&*processes.view(0).name(), "x");
        assert!(!processes.processes.contains_key(&1));
        assert!(processes.processes.contains_key(&(count - 1)));
    }

    #[test]
    fn descriptors_beyond_the_limit_are_dropped() {
        let mut processes = Processes::new(NoLookup);
        let mut view = processes.view(1);
        for fd in 0..DESCRIPTORS_MAX as i32 + 3 {
            view.open(fd, descriptor("/x"));
        }
        view.open(0, descriptor("/y"));
        assert_eq!(view.path(0, 1).as_deref(), Some("/y"));
        assert_eq!(processes.drops(), Drops { processes: 0, descriptors: 3 });
    }

    /// Children that copy a large table exhaust the limit of all tables, and are evicted.
    #[test]
    fn copies_of_tables_are_limited() {
        let mut processes = Processes::new(NoLookup);
        let long = format!("/{}", "x".repeat(PATH_SIZE_MAX - 1));
        let path: Arc<str> = long.into();
        for fd in 0..4096 {
            processes.view(0).open(fd, Descriptor { path: Some(path.clone()), ..descriptor("") });
        }
        for child in 1..100 {
            processes.fork(0, child);
            processes.view(child).open(7, descriptor("/y"));
            assert!(processes.accounts.tables_size <= TABLES_SIZE_MAX + (32 << 20));
        }
        assert!(processes.drops().processes > 0);
        assert_eq!(processes.view(99).path(7, 1).as_deref(), Some("/y"));
        assert_eq!(processes.view(99).path(8, 1).map(|path| path.len()), Some(PATH_SIZE_MAX));
    }

    /// The size of the tables returns to 0 when all processes have ended.
    #[test]
    fn accounts_balance() {
        let mut processes = Processes::new(NoLookup);
        processes.view(1).open(3, descriptor("/a"));
        processes.view(1).open(3, descriptor("/longer"));
        processes.fork(1, 2);
        processes.view(2).open(4, Descriptor { is_closed_on_exec: true, ..descriptor("/b") });
        processes.view(2).duplicate(3, 5, true, 1);
        processes.view(2).exec(Some("x"));
        processes.view(2).close_range(0, u32::MAX, 1);
        processes.remove(1);
        processes.remove(2);
        assert_eq!(processes.accounts.tables_size, 0);
    }
}
