//! State of processes as events describe it: names, working directories and open descriptors.
//!
//! Paths and positions have the generation in which an event set them. Each loss of events begins a
//! new generation, so the state of earlier generations is known to be uncertain.
//!
//! A forked process shares its parent's table of descriptors until one of them changes it. The
//! number of processes, of descriptors in a process and the size of all tables are limited; the
//! least recently used processes are evicted first.

use crate::path;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::RangeInclusive;
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
/// Maximum size of a process's name in bytes. The kernel's limit is 16.
const NAME_SIZE_MAX: usize = 256;

/// Directory argument that stands for the working directory.
const AT_FDCWD: i32 = -100;

/// Time of descriptors that were opened before the recording.
const BEFORE_RECORDING: i64 = i64::MIN;

/// Transfer of data by a descriptor.
pub(crate) struct Transfer {
    /// Start of the call, in nanoseconds from the clock's origin.
    pub(crate) start_ns: i64,
    /// Number of transferred bytes.
    pub(crate) bytes: u64,
    pub(crate) is_write: bool,
}

/// Duplication of a descriptor.
pub(crate) struct Duplication {
    /// True if `exec` closes the duplicate.
    pub(crate) is_closed_on_exec: bool,
    /// Start of the call, in nanoseconds from the clock's origin.
    pub(crate) start_ns: i64,
    /// End of the call, in nanoseconds from the clock's origin.
    pub(crate) end_ns: i64,
}

/// Counters of the state that was dropped because of memory limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops {
    /// Number of evicted processes.
    pub processes: u64,
    /// Number of descriptors beyond the limit of their process.
    pub descriptors: u64,
}

/// State of all processes.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    processes: HashMap<u32, Process>,
    /// Number of uses of all processes so far; orders the processes by their last use.
    clock: u64,
    /// Generation counter, incremented by each loss.
    generation: u64,
    accounts: Accounts,
}

/// Memory in use and dropped state, summed over all processes.
#[derive(Debug, Default)]
struct Accounts {
    /// Upper estimate of the size of all tables in bytes; [`Processes::evict`] corrects it.
    tables_size: usize,
    drops: Drops,
}

#[derive(Debug, Default)]
struct Process {
    /// Name; `None` if it is unknown.
    name: Option<Arc<str>>,
    /// Working directory, an absolute path; `None` if it is unknown.
    directory: Option<DatedPath>,
    table: Arc<DescriptorTable>,
    /// Value of [`Processes::clock`] at the last use.
    last_use: u64,
}

/// Path with the generation of the oldest state that it follows from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DatedPath {
    pub(crate) text: Arc<str>,
    pub(crate) generation: u64,
}

#[derive(Clone, Debug, Default)]
struct DescriptorTable {
    /// Descriptors by their numbers, which are not negative.
    descriptors: BTreeMap<i32, Descriptor>,
    /// Approximate size in bytes.
    size: usize,
}

/// Open descriptor of a process.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    /// Path, or address of a socket's peer; `None` if unknown.
    pub(crate) path: Option<Arc<str>>,
    /// Generation of the path.
    pub(crate) generation: u64,
    /// True if `exec` closes the descriptor.
    pub(crate) is_closed_on_exec: bool,
    /// Time of the event that created the descriptor, in nanoseconds from the clock's origin.
    pub(crate) since_ns: i64,
    /// Open file, which duplicates and children share; `None` if the position is unknown.
    pub(crate) open_file: Option<Arc<OpenFile>>,
}

/// Open file (the kernel's `struct file`).
#[derive(Debug)]
pub(crate) struct OpenFile {
    /// File position; [`POSITION_UNKNOWN`] if it is unknown.
    position: AtomicU64,
    /// Generation of the last event that set the position, apart from transfers that advanced it.
    generation: AtomicU64,
    /// True if each write is at the end of the file.
    is_append: bool,
}

/// File position with its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DatedPosition {
    pub(crate) offset: u64,
    pub(crate) generation: u64,
}

const POSITION_UNKNOWN: u64 = u64::MAX;

impl OpenFile {
    pub(crate) fn new(position: u64, generation: u64, is_append: bool) -> OpenFile {
        let (position, generation) = (AtomicU64::new(position), AtomicU64::new(generation));
        OpenFile { position, generation, is_append }
    }

    fn seek(&self, position: u64, generation: u64) {
        self.position.store(position, Ordering::Relaxed);
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// Advances the position by `count` and returns the previous one, if it is known.
    fn advance(&self, count: u64, is_write: bool) -> Option<DatedPosition> {
        if is_write && self.is_append {
            self.position.store(POSITION_UNKNOWN, Ordering::Relaxed);
            return None;
        }
        let offset = self.position.load(Ordering::Relaxed);
        if offset == POSITION_UNKNOWN {
            return None;
        }
        self.position.store(offset.saturating_add(count), Ordering::Relaxed);
        Some(DatedPosition { offset, generation: self.generation.load(Ordering::Relaxed) })
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

    /// Removes the descriptors in a range unless they are kept.
    fn retain(&mut self, range: RangeInclusive<i32>, mut is_kept: impl FnMut(&Descriptor) -> bool) {
        let removed: Vec<i32> = self
            .descriptors
            .range(range)
            .filter(|entry| !is_kept(entry.1))
            .map(|entry| *entry.0)
            .collect();
        removed.into_iter().for_each(|fd| self.remove(fd));
    }
}

/// Returns the descriptors from `first` to `last`; `None` for an empty range.
fn range(first: u32, last: u32) -> Option<RangeInclusive<i32>> {
    let first = i32::try_from(first).ok()?;
    let last = i32::try_from(last).unwrap_or(i32::MAX);
    (first <= last).then_some(first..=last)
}

impl Processes {
    pub(crate) fn drops(&self) -> Drops {
        self.accounts.drops
    }

    /// Begins a new generation, because events of any process may be missing.
    pub(crate) fn lost(&mut self) {
        self.generation += 1;
    }

    /// Returns the state of a process, which is created if it is unknown.
    pub(crate) fn view(&mut self, pid: u32) -> ProcessView<'_> {
        if self.accounts.tables_size > TABLES_SIZE_MAX
            || self.processes.len() >= PROCESSES_MAX && !self.processes.contains_key(&pid)
        {
            self.evict();
        }
        self.clock += 1;
        let process = self.processes.entry(pid).or_default();
        process.last_use = self.clock;
        ProcessView { process, generation: self.generation, accounts: &mut self.accounts }
    }

    /// Creates the state of a child from that of its parent.
    pub(crate) fn fork(&mut self, parent: u32, child: u32) {
        if parent == child {
            return;
        }
        let parent = self.view(parent).process;
        let (name, directory) = (parent.name.clone(), parent.directory.clone());
        let table = parent.table.clone();
        // Forgets an earlier process with the child's id.
        self.remove(child);
        let child = self.view(child).process;
        (child.name, child.directory, child.table) = (name, directory, table);
    }

    pub(crate) fn remove(&mut self, pid: u32) {
        if let Some(process) = self.processes.remove(&pid)
            && Arc::strong_count(&process.table) == 1
        {
            let size = &mut self.accounts.tables_size;
            *size = size.saturating_sub(process.table.size);
        }
    }

    /// Removes the least recently used processes, until at most `PROCESSES_KEPT` processes remain
    /// and their tables take at most `TABLES_SIZE_KEPT` bytes; at least one process remains. Also
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
pub(crate) struct ProcessView<'p> {
    process: &'p mut Process,
    /// Current generation.
    generation: u64,
    accounts: &'p mut Accounts,
}

impl ProcessView<'_> {
    /// Returns the current generation.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Returns the process's name; empty if it is unknown.
    pub(crate) fn name(&self) -> Arc<str> {
        self.process.name.clone().unwrap_or_default()
    }

    pub(crate) fn set_name(&mut self, name: &str) {
        self.process.name = Some(name[..name.floor_char_boundary(NAME_SIZE_MAX)].into());
    }

    /// Replaces the state by the recorded state of the process at the start of its recording: the
    /// name, the directory, and no descriptors yet.
    pub(crate) fn set_state(&mut self, name: Option<&str>, directory: Option<&str>) {
        if let Some(name) = name {
            self.set_name(name);
        }
        let generation = self.generation;
        self.set_directory(directory.map(|path| DatedPath { text: path.into(), generation }));
        self.change_table(|table| table.retain(0..=i32::MAX, |_| false));
    }

    /// Adds a descriptor as it was when the recording of the process began.
    pub(crate) fn add_file(&mut self, fd: i32, path: &str) {
        let (generation, since_ns) = (self.generation, BEFORE_RECORDING);
        let (is_closed_on_exec, open_file, path) = (false, None, Some(path.into()));
        self.open(fd, Descriptor { path, generation, is_closed_on_exec, since_ns, open_file });
    }

    /// Changes the working directory.
    pub(crate) fn set_directory(&mut self, path: Option<DatedPath>) {
        self.process.directory = path.filter(|path| path.text.starts_with('/'));
    }

    /// Changes the working directory to a path that is relative to the previous one.
    pub(crate) fn change_directory(&mut self, path: &str) {
        let path = self.resolve(path, None, i64::MAX);
        self.set_directory(Some(path));
    }

    /// Returns the absolute path of an argument relative to the directory `dirfd`, for a call that
    /// started at `start_ns`. Returns the argument itself if the directory is unknown.
    pub(crate) fn resolve(&self, path: &str, dirfd: Option<i32>, start_ns: i64) -> DatedPath {
        let base = match dirfd {
            _ if path.starts_with('/') => None,
            None | Some(AT_FDCWD) => self.process.directory.clone(),
            Some(fd) => self.path(fd, start_ns),
        };
        let text = path::resolve(base.as_ref().map_or("", |base| &base.text), path);
        match (text, base) {
            (Some(text), Some(DatedPath { generation, .. })) => {
                DatedPath { text: text.into(), generation }
            }
            (Some(text), None) => DatedPath { text: text.into(), generation: self.generation },
            (None, _) => DatedPath { text: path.into(), generation: self.generation },
        }
    }

    /// Returns the descriptor used by a call that started at `start_ns`. Returns `None` if the
    /// descriptor is unknown, or if its number was reused by a later descriptor.
    fn used(&self, fd: i32, start_ns: i64) -> Option<&Descriptor> {
        let descriptor = self.process.table.descriptors.get(&fd)?;
        (descriptor.since_ns <= start_ns).then_some(descriptor)
    }

    /// Returns the path of the descriptor used by a call that started at `start_ns`.
    pub(crate) fn path(&self, fd: i32, start_ns: i64) -> Option<DatedPath> {
        let Descriptor { path, generation, .. } = self.used(fd, start_ns)?;
        Some(DatedPath { text: path.clone()?, generation: *generation })
    }

    /// Advances the file position of a descriptor by the bytes of a transfer, and returns the
    /// previous position.
    pub(crate) fn advance(&self, fd: i32, transfer: &Transfer) -> Option<DatedPosition> {
        let Descriptor { open_file, generation, .. } = self.used(fd, transfer.start_ns)?;
        let position = open_file.as_ref()?.advance(transfer.bytes, transfer.is_write)?;
        Some(DatedPosition { generation: position.generation.min(*generation), ..position })
    }

    /// Sets the file position of a descriptor, by a call that started at `start_ns`.
    pub(crate) fn seek(&mut self, fd: i32, position: u64, start_ns: i64) {
        let generation = self.generation;
        match self.used(fd, start_ns) {
            Some(Descriptor { open_file: Some(file), .. }) => file.seek(position, generation),
            Some(_) => {
                let file = Some(Arc::new(OpenFile::new(position, generation, false)));
                self.change_table(|table| {
                    table.descriptors.entry(fd).and_modify(|used| used.open_file = file);
                });
            }
            None => {}
        }
    }

    /// Sets the address of a socket, by a call that started at `start_ns`.
    pub(crate) fn set_address(&mut self, fd: i32, address: Arc<str>, start_ns: i64) {
        let before = self.process.table.descriptors.get(&fd);
        let since_ns = before.map_or(BEFORE_RECORDING, |before| before.since_ns);
        let is_closed_on_exec = before.is_some_and(|before| before.is_closed_on_exec);
        if since_ns <= start_ns {
            let (path, generation, open_file) = (Some(address), self.generation, None);
            self.open(fd, Descriptor { path, generation, is_closed_on_exec, since_ns, open_file });
        }
    }

    /// Adds or replaces a descriptor.
    pub(crate) fn open(&mut self, fd: i32, descriptor: Descriptor) {
        if fd < 0 {
            return;
        }
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
    pub(crate) fn duplicate(&mut self, old: i32, new: i32, call: &Duplication) {
        if old == new {
            return;
        }
        let Duplication { is_closed_on_exec, start_ns, end_ns: since_ns } = *call;
        let duplicate = match self.used(old, start_ns) {
            Some(old) => Descriptor { is_closed_on_exec, since_ns, ..old.clone() },
            None => {
                let (path, generation, open_file) = (None, self.generation, None);
                Descriptor { path, generation, is_closed_on_exec, since_ns, open_file }
            }
        };
        self.open(new, duplicate);
    }

    /// Removes the descriptor closed by a call that started at `start_ns`. A descriptor that was
    /// opened later remains: the number is free again before `close` returns.
    pub(crate) fn close(&mut self, fd: i32, start_ns: i64) {
        if self.used(fd, start_ns).is_some() {
            self.change_table(|table| table.remove(fd));
        }
    }

    /// Removes the descriptors from `first` to `last` as [`ProcessView::close`] does.
    pub(crate) fn close_range(&mut self, first: u32, last: u32, start_ns: i64) {
        if let Some(range) = range(first, last) {
            self.change_table(|table| {
                table.retain(range, |descriptor| descriptor.since_ns > start_ns);
            });
        }
    }

    /// Sets or clears close-on-exec for the descriptors from `first` to `last`.
    pub(crate) fn set_closed_on_exec(&mut self, first: u32, last: u32, value: bool) {
        if let Some(range) = range(first, last) {
            self.change_table(|table| {
                for descriptor in table.descriptors.range_mut(range) {
                    descriptor.1.is_closed_on_exec = value;
                }
            });
        }
    }

    /// Changes the state as a successful `exec` does.
    pub(crate) fn exec(&mut self, name: Option<&str>) {
        match name {
            Some(name) => self.set_name(name),
            None => self.process.name = None,
        }
        if self.process.table.descriptors.values().any(|descriptor| descriptor.is_closed_on_exec) {
            self.change_table(|table| {
                table.retain(0..=i32::MAX, |descriptor| !descriptor.is_closed_on_exec);
            });
        }
    }

    /// Changes the table of descriptors. If other processes share the table, the process first gets
    /// a copy.
    fn change_table(&mut self, change: impl FnOnce(&mut DescriptorTable)) {
        let is_shared = Arc::strong_count(&self.process.table) > 1;
        let table = Arc::make_mut(&mut self.process.table);
        let before = if is_shared { 0 } else { table.size };
        change(table);
        let size = &mut self.accounts.tables_size;
        *size = (*size + table.size).saturating_sub(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::PATH_SIZE_MAX;

    fn descriptor(path: &str) -> Descriptor {
        let path = Some(path.into());
        Descriptor { path, generation: 0, is_closed_on_exec: false, since_ns: 0, open_file: None }
    }

    fn text(view: &ProcessView<'_>, fd: i32) -> Option<Arc<str>> {
        view.path(fd, 1).map(|path| path.text)
    }

    /// Adding a process beyond the limit evicts an eighth of all processes, the least recently used
    /// ones.
    #[test]
    fn least_recently_used_processes_are_evicted() {
        let mut processes = Processes::default();
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
        let mut processes = Processes::default();
        let mut view = processes.view(1);
        for fd in 0..DESCRIPTORS_MAX as i32 + 3 {
            view.open(fd, descriptor("/x"));
        }
        view.open(0, descriptor("/y"));
        assert_eq!(text(&view, 0).as_deref(), Some("/y"));
        assert_eq!(processes.drops(), Drops { processes: 0, descriptors: 3 });
    }

    /// Children that copy a large table exhaust the limit of all tables, and are evicted.
    #[test]
    fn copies_of_tables_are_limited() {
        let mut processes = Processes::default();
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
        assert_eq!(text(&processes.view(99), 7).as_deref(), Some("/y"));
        let size = text(&processes.view(99), 8).map(|path| path.len());
        assert_eq!(size, Some(PATH_SIZE_MAX));
    }

    /// The size of the tables returns to 0 when all processes have ended.
    #[test]
    fn accounts_balance() {
        let mut processes = Processes::default();
        processes.view(1).open(3, descriptor("/a"));
        processes.view(1).open(3, descriptor("/longer"));
        processes.fork(1, 2);
        processes.view(2).open(4, Descriptor { is_closed_on_exec: true, ..descriptor("/b") });
        let call = Duplication { is_closed_on_exec: true, start_ns: 1, end_ns: 1 };
        processes.view(2).duplicate(3, 5, &call);
        processes.view(2).exec(Some("x"));
        processes.view(2).close_range(0, u32::MAX, 1);
        processes.view(2).close_range(u32::MAX, 0, 1);
        processes.remove(1);
        processes.remove(2);
        assert_eq!(processes.accounts.tables_size, 0);
    }
}
