//! Sums of operations by program, file and kind, and the slowest operations, in bounded memory.

use crate::disk_request::DiskRequest;
use crate::histogram::Histogram;
use crate::operation::{Operation, OperationKind};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Program and path of the row that sums up all operations beyond the limit of rows.
pub const OTHER: &str = "(other)";

/// Maximum number of combinations of program, path and kind.
const KEYS_MAX: usize = 100_000;
/// Number of buckets in all histograms at which no further keys are added. The buckets then take
/// about 160 MB.
const BUCKETS_MAX: usize = 16 << 20;
/// Maximum size of all keys' paths in bytes.
const PATHS_SIZE_MAX: usize = 128 << 20;
/// Maximum number of combinations of a disk and an operation.
const DISK_KEYS_MAX: usize = 1000;
/// Maximum number of descriptors whose last access is stored.
const ACCESSES_MAX: usize = 100_000;
/// Maximum number of requests that are kept of one of the slowest operations.
const SLOW_REQUESTS_MAX: usize = 100;

/// Sums of operations by program, path and kind: counts, bytes, latencies.
#[derive(Clone, Debug)]
pub struct Summary {
    sums: HashMap<Key, Sums>,
    limits: Limits,
    /// Number of buckets of all histograms.
    buckets: usize,
    /// Size of all keys' paths in bytes.
    paths_size: usize,
    /// Last read or write at a known offset, by process and descriptor.
    accesses: HashMap<(u32, i32), Access>,
    /// Sums of requests, by disk and operation.
    disk: BTreeMap<(Arc<str>, Arc<str>), DiskSums>,
    slowest: BTreeSet<SlowOperation>,
    slowest_max: usize,
    /// Number of operations added so far. It gives each entry of `slowest` a unique sort key.
    count: u64,
    /// Start of the first and end of the last operation, in nanoseconds from the clock's origin.
    extent_ns: Option<(i64, i64)>,
}

/// Last read or write of a descriptor.
#[derive(Clone, Debug)]
struct Access {
    /// File offset after the last byte of the access.
    end: u64,
    path: Option<Arc<str>>,
}

/// Limits of the memory, which tests reduce.
#[derive(Clone, Copy, Debug)]
struct Limits {
    keys: usize,
    buckets: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Key {
    program: Arc<str>,
    path: Option<Arc<str>>,
    kind: Option<OperationKind>,
}

#[derive(Clone, Debug, Default)]
struct Sums {
    errors: u64,
    bytes: u64,
    latencies: Histogram,
    sizes: Histogram,
    sequential: u64,
    random: u64,
}

#[derive(Clone, Debug, Default)]
struct DiskSums {
    errors: u64,
    bytes: u64,
    queued: Histogram,
    served: Histogram,
}

/// Sums of the requests for the same operation of the same disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskRow {
    /// Name of the disk, or [`OTHER`].
    pub device: Arc<str>,
    /// Operation of the disk, or [`OTHER`].
    pub operation: Arc<str>,
    /// Number of requests that failed.
    pub errors: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
    /// Times from the queueing of a request until its issue to the disk, in nanoseconds.
    pub queued: Histogram,
    /// Times from then until its completion, in nanoseconds.
    pub served: Histogram,
}

impl DiskRow {
    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.served.count()
    }
}

/// Entry of the slowest operations, in ascending order.
#[derive(Clone, Debug)]
struct SlowOperation {
    /// Duration, and the reversed number of the operation: of equally slow operations, the earlier
    /// ones are kept.
    order: (u64, Reverse<u64>),
    operation: Operation,
}

impl PartialEq for SlowOperation {
    fn eq(&self, other: &SlowOperation) -> bool {
        self.order == other.order
    }
}

impl Eq for SlowOperation {}

impl PartialOrd for SlowOperation {
    fn partial_cmp(&self, other: &SlowOperation) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SlowOperation {
    fn cmp(&self, other: &SlowOperation) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

/// Sums of the operations with the same program, path and kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Name of the program; empty if it is unknown.
    pub program: Arc<str>,
    /// Path or peer; `None` if it is unknown.
    pub path: Option<Arc<str>>,
    /// Kind of the operations; `None` in the row [`OTHER`].
    pub kind: Option<OperationKind>,
    /// Number of operations that failed.
    pub errors: u64,
    /// Number of transferred bytes.
    pub bytes: u64,
    /// Durations in nanoseconds.
    pub latencies: Histogram,
    /// Sizes of successful transfers in bytes.
    pub sizes: Histogram,
    /// Number of reads and writes that started where the previous one of the descriptor ended.
    pub sequential: u64,
    /// Number of reads and writes that started elsewhere.
    pub random: u64,
}

impl Row {
    fn new(key: Key, sums: Sums) -> Row {
        Row {
            program: key.program,
            path: key.path,
            kind: key.kind,
            errors: sums.errors,
            bytes: sums.bytes,
            latencies: sums.latencies,
            sizes: sums.sizes,
            sequential: sums.sequential,
            random: sums.random,
        }
    }

    /// Returns the number of operations.
    pub fn count(&self) -> u64 {
        self.latencies.count()
    }

    /// Returns the sum of the durations in nanoseconds.
    pub fn total_ns(&self) -> u64 {
        self.latencies.sum()
    }
}

impl Sums {
    fn bucket_count(&self) -> usize {
        self.latencies.bucket_count() + self.sizes.bucket_count()
    }
}

impl Key {
    fn other() -> Key {
        Key { program: OTHER.into(), path: Some(OTHER.into()), kind: None }
    }

    fn paths_size(&self) -> usize {
        self.path.as_ref().map_or(0, |path| path.len())
    }
}

impl Summary {
    /// Creates an empty summary that keeps the `slowest_max` slowest operations.
    pub fn new(slowest_max: usize) -> Summary {
        Summary {
            sums: HashMap::new(),
            limits: Limits { keys: KEYS_MAX, buckets: BUCKETS_MAX },
            buckets: 0,
            paths_size: 0,
            accesses: HashMap::new(),
            disk: BTreeMap::new(),
            slowest: BTreeSet::new(),
            slowest_max,
            count: 0,
            extent_ns: None,
        }
    }

    /// Adds an operation. Operations must be added in the order in which they ended.
    pub fn add(&mut self, operation: &Operation) {
        let is_sequential = self.follow_offset(operation);
        let key = Key {
            program: operation.program.clone(),
            path: operation.path.clone(),
            kind: Some(operation.kind),
        };
        self.change(key, |sums| {
            sums.errors += u64::from(operation.result.is_err());
            sums.bytes = sums.bytes.saturating_add(operation.bytes());
            sums.latencies.add(operation.duration_ns);
            if operation.kind.is_transfer()
                && let Some(done) = operation.done
            {
                sums.sizes.add(done);
            }
            sums.sequential += u64::from(is_sequential == Some(true));
            sums.random += u64::from(is_sequential == Some(false));
        });
        self.extend(Some((operation.time_ns, operation.end_ns())));
        self.count += 1;
        operation.disk.iter().for_each(|request| self.add_disk_request(request));
        self.add_slow(operation.duration_ns, operation);
    }

    /// Adds a request to a disk that belongs to no operation. Those of an operation are added with
    /// it.
    pub fn add_disk_request(&mut self, request: &DiskRequest) {
        let key = (request.device.clone(), request.operation.clone());
        // The last key is reserved for the others.
        let is_full = self.disk.len() + 1 >= DISK_KEYS_MAX && !self.disk.contains_key(&key);
        let key = if is_full { (OTHER.into(), OTHER.into()) } else { key };
        let sums = self.disk.entry(key).or_default();
        sums.errors += u64::from(request.error != 0);
        sums.bytes = sums.bytes.saturating_add(request.bytes);
        sums.queued.add(request.queued_ns);
        sums.served.add(request.served_ns);
        let end_ns = request.time_ns.saturating_add_unsigned(request.duration_ns());
        self.extend(Some((request.time_ns, end_ns)));
    }

    /// Returns the sums of requests to disks, ordered by disk and operation.
    pub fn disk_rows(&self) -> Vec<DiskRow> {
        let row = |((device, operation), sums): (&(Arc<str>, Arc<str>), &DiskSums)| DiskRow {
            device: device.clone(),
            operation: operation.clone(),
            errors: sums.errors,
            bytes: sums.bytes,
            queued: sums.queued.clone(),
            served: sums.served.clone(),
        };
        self.disk.iter().map(row).collect()
    }

    /// Returns true if neither operations nor requests to disks were added.
    pub fn is_empty(&self) -> bool {
        self.count == 0 && self.disk.is_empty()
    }

    /// Returns the sums and the slowest operations so far, and starts again without them. Positions
    /// of descriptors remain, so the next read or write of a descriptor is sequential or random.
    pub fn take(&mut self) -> Summary {
        let next = Summary {
            limits: self.limits,
            accesses: std::mem::take(&mut self.accesses),
            ..Summary::new(self.slowest_max)
        };
        std::mem::replace(self, next)
    }

    /// Applies `change` to the sums of a key, or of [`OTHER`] if there are too many keys.
    fn change(&mut self, key: Key, change: impl FnOnce(&mut Sums)) {
        // The last key is reserved for the others.
        let is_full = self.sums.len() + 1 >= self.limits.keys
            || self.buckets >= self.limits.buckets
            || self.paths_size >= PATHS_SIZE_MAX;
        let key = if is_full && !self.sums.contains_key(&key) { Key::other() } else { key };
        let size = key.paths_size();
        let sums = self.sums.entry(key).or_insert_with(|| {
            self.paths_size += size;
            Sums::default()
        });
        let before = sums.bucket_count();
        change(sums);
        self.buckets += sums.bucket_count() - before;
    }

    /// Returns true for a read or write that starts at the end of the descriptor's previous one,
    /// and false if it starts elsewhere. Returns `None` for the first one, and if the offset is
    /// unknown.
    fn follow_offset(&mut self, operation: &Operation) -> Option<bool> {
        let key = (operation.pid, operation.fd?);
        match operation.kind {
            OperationKind::Read | OperationKind::Write => {}
            OperationKind::Open | OperationKind::Close => {
                self.accesses.remove(&key);
                return None;
            }
            _ => return None,
        }
        let offset = operation.offset.or(operation.position)?;
        let end = offset.saturating_add(operation.done?);
        let path = &operation.path;
        // Another path shows that the descriptor was reused.
        if let Some(last) = self.accesses.get_mut(&key).filter(|last| last.path == *path) {
            return Some(std::mem::replace(&mut last.end, end) == offset);
        }
        if self.accesses.len() < ACCESSES_MAX || self.accesses.contains_key(&key) {
            self.accesses.insert(key, Access { end, path: path.clone() });
        }
        None
    }

    fn add_slow(&mut self, duration_ns: u64, operation: &Operation) {
        let order = (duration_ns, Reverse(self.count));
        if self.slowest.len() >= self.slowest_max {
            if self.slowest.first().is_none_or(|fastest| fastest.order > order) {
                return;
            }
            self.slowest.pop_first();
        }
        let mut operation = operation.clone();
        operation.disk.truncate(SLOW_REQUESTS_MAX);
        self.slowest.insert(SlowOperation { order, operation });
    }

    fn extend(&mut self, extent_ns: Option<(i64, i64)>) {
        let Some((start, end)) = extent_ns else { return };
        let (first, last) = self.extent_ns.unwrap_or((start, end));
        self.extent_ns = Some((first.min(start), last.max(end)));
    }

    /// Returns the time from the start of the first operation to the end of the last, in
    /// nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.extent_ns.map_or(0, |extent| extent.0.abs_diff(extent.1))
    }

    /// Returns the slowest operations, the slowest first.
    pub fn slowest(&self) -> impl Iterator<Item = &Operation> {
        self.slowest.iter().rev().map(|slow| &slow.operation)
    }

    /// Returns the rows, ordered by total time, the longest first.
    pub fn rows(&self) -> Vec<Row> {
        let mut sums: Vec<(&Key, &Sums)> = self.sums.iter().collect();
        sums.sort_by(|a, b| {
            b.1.latencies.sum().cmp(&a.1.latencies.sum()).then_with(|| a.0.cmp(b.0))
        });
        sums.into_iter().map(|(key, sums)| Row::new(key.clone(), sums.clone())).collect()
    }

    /// Returns the number of rows.
    pub fn row_count(&self) -> usize {
        self.sums.len()
    }

    /// Returns the number of operations, and the sum of the bytes that they transferred.
    pub fn totals(&self) -> (u64, u64) {
        let bytes = self.sums.values().fold(0_u64, |sum, sums| sum.saturating_add(sums.bytes));
        (self.count, bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &str, offset: u64, duration_ns: u64) -> Operation {
        Operation {
            time_ns: 1000,
            duration_ns,
            kind: OperationKind::Read,
            call: "read",
            program: "app".into(),
            pid: 1,
            tid: 1,
            fd: Some(3),
            second_fd: None,
            path: Some(path.into()),
            second_path: None,
            asked: Some(10),
            done: Some(10),
            offset: None,
            position: Some(offset),
            is_certain: true,
            result: Ok(10),
            disk: Vec::new(),
        }
    }

    fn draw(summary: &Summary) -> String {
        let line = |row: &Row| {
            format!(
                "{} {} {} n={} err={} bytes={} seq={} rand={}",
                row.program,
                row.path.as_deref().unwrap_or("-"),
                row.kind.map_or("-", OperationKind::word),
                row.count(),
                row.errors,
                row.bytes,
                row.sequential,
                row.random
            )
        };
        let rows: Vec<String> = summary.rows().iter().map(line).collect();
        rows.join("\n")
    }

    #[test]
    fn sums_by_program_path_and_kind() {
        let mut summary = Summary::new(2);
        for (offset, duration) in [(0, 5), (10, 7), (40, 9), (50, 8)] {
            summary.add(&read("/a", offset, duration));
        }
        let failed =
            Operation { result: Err(5), done: None, position: None, ..read("/b", 0, 1000) };
        summary.add(&failed);
        let expected = "app /b read n=1 err=1 bytes=0 seq=0 rand=0\n\
                        app /a read n=4 err=0 bytes=40 seq=2 rand=1";
        assert_eq!(draw(&summary), expected);
        assert_eq!(summary.totals(), (5, 40));
        let slowest: Vec<u64> = summary.slowest().map(|slow| slow.duration_ns).collect();
        assert_eq!(slowest, [1000, 9]);
        assert_eq!(summary.duration_ns(), 1000);
    }

    /// Sums that were taken are not in the next ones, and a sequence of reads continues.
    #[test]
    fn intervals_follow_each_other() {
        let mut summary = Summary::new(3);
        summary.add(&read("/a", 0, 5));
        let first = summary.take();
        assert_eq!(draw(&first), "app /a read n=1 err=0 bytes=10 seq=0 rand=0");
        assert_eq!((summary.totals(), summary.duration_ns()), ((0, 0), 0));
        summary.add(&Operation { time_ns: 5000, ..read("/a", 10, 50) });
        assert_eq!(draw(&summary), "app /a read n=1 err=0 bytes=10 seq=1 rand=0");
        assert_eq!(summary.duration_ns(), 50);
        assert_eq!(summary.slowest().map(|slow| slow.duration_ns).collect::<Vec<_>>(), [50]);
    }

    #[test]
    fn keys_beyond_the_limit_are_summed_up() {
        let mut summary = Summary::new(0);
        summary.limits.keys = 3;
        for path in ["/a", "/b", "/c", "/d", "/a"] {
            summary.add(&read(path, 0, 1));
        }
        let counts: Vec<_> = summary.rows().into_iter().map(|row| row.path).collect();
        assert_eq!(counts.len(), 3);
        assert!(draw(&summary).contains("(other) (other) - n=2"));
        assert_eq!(summary.slowest().count(), 0);
        let mut many = Summary::new(1);
        many.limits.buckets = 4;
        for path in 0..100 {
            many.add(&read(&path.to_string(), 0, path));
        }
        assert_eq!(many.rows().len(), 3);
    }
}
