//! Requests to disks: each is joined to the operation of the thread that has queued it.
//!
//! A request was queued during the operation that caused it. Its event comes when the disk has
//! completed it, that of the operation at the operation's end. So requests of a thread are held
//! until its next operation ends: those that were queued since the operation's start belong to it.
//! A request that completes later than its operation ends, or that no operation has caused, is
//! released without one, as soon as that is known.

use crate::calls;
use crate::disk_request::{DiskCause, DiskRequest};
use crate::values::{
    CALL_NAME, COUNT, DEVICE_NAME, ERROR, OFFSET, OPERATION_NAME, PID, QUEUED, SERVED, TID, Values,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Maximum number of requests that are held.
const HELD_MAX: usize = 1 << 16;
/// Maximum number of threads whose last operation is known, and of ended processes.
const THREADS_MAX: usize = 100_000;
/// Maximum number of names of devices, operations and calls that requests share.
const NAMES_MAX: usize = 2048;
/// Maximum size of such a name in bytes.
const NAME_SIZE_MAX: usize = 64;

/// Period of a system call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CallPeriod {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    pub(crate) start_ns: i64,
    pub(crate) end_ns: i64,
}

/// Requests whose operations may not have ended.
#[derive(Debug, Default)]
pub(crate) struct DiskRequests {
    /// Threads that had operations or requests, by process.
    processes: HashMap<u32, HashMap<u32, Thread>>,
    thread_count: usize,
    /// Times at which processes have ended.
    ended: HashMap<u32, i64>,
    held: usize,
    released: Vec<DiskRequest>,
    names: HashSet<Arc<str>>,
    /// Set once there was a request. Before, no operations are noted.
    is_used: bool,
    unheld: u64,
}

/// Requests of a thread, and the end of its last system call.
#[derive(Debug)]
struct Thread {
    held: Vec<DiskRequest>,
    call_end_ns: i64,
}

impl Thread {
    const NEW: Thread = Thread { held: Vec::new(), call_end_ns: i64::MIN };
}

impl DiskRequests {
    /// Returns the number of requests that were released without their operation because too many
    /// were held.
    pub(crate) fn unheld(&self) -> u64 {
        self.unheld
    }

    /// Returns the request that an event at `end_ns` describes; `None` for a malformed event.
    pub(crate) fn read(&mut self, values: &Values, end_ns: i64) -> Option<DiskRequest> {
        let (queued_ns, served_ns) = (values.number(QUEUED)?, values.number(SERVED)?);
        let time_ns = end_ns.saturating_sub_unsigned(served_ns).saturating_sub_unsigned(queued_ns);
        let pid = values.id(PID)?;
        let cause = match values.text(CALL_NAME) {
            _ if pid == 0 => DiskCause::Unknown,
            None | Some("unknown") => DiskCause::Unknown,
            Some("none") => DiskCause::Fault,
            Some("kernel") => DiskCause::KernelThread,
            Some(call) => DiskCause::Call(self.name(call)),
        };
        Some(DiskRequest {
            time_ns,
            device: self.name(values.text(DEVICE_NAME)?),
            operation: self.name(values.text(OPERATION_NAME)?),
            sector: values.number(OFFSET)?,
            bytes: values.number(COUNT)?,
            queued_ns,
            served_ns,
            error: values.number(ERROR)? as u32 as i32,
            program: Arc::default(),
            pid,
            tid: values.id(TID).unwrap_or(pid),
            cause,
        })
    }

    fn name(&mut self, name: &str) -> Arc<str> {
        let name = &name[..name.floor_char_boundary(NAME_SIZE_MAX)];
        if let Some(known) = self.names.get(name) {
            return Arc::clone(known);
        }
        let name: Arc<str> = name.into();
        if self.names.len() < NAMES_MAX {
            self.names.insert(Arc::clone(&name));
        }
        name
    }

    /// Holds a request if its operation may not have ended yet, and releases it otherwise.
    pub(crate) fn add(&mut self, mut request: DiskRequest) {
        self.is_used = true;
        let name = match &request.cause {
            DiskCause::Call(name) if calls::find(name).is_some() => Arc::clone(name),
            _ => return self.released.push(request),
        };
        let call_end_ns = self.thread(request.pid, request.tid).call_end_ns;
        let process_end_ns = self.ended.get(&request.pid).copied().unwrap_or(i64::MIN);
        if request.time_ns <= call_end_ns.max(process_end_ns) {
            request.cause = DiskCause::EndedCall(name);
            return self.released.push(request);
        }
        if self.held >= HELD_MAX {
            self.release_early();
        }
        self.thread(request.pid, request.tid).held.push(request);
        self.held += 1;
    }

    fn thread(&mut self, pid: u32, tid: u32) -> &mut Thread {
        let is_known = self.processes.get(&pid).is_some_and(|threads| threads.contains_key(&tid));
        if !is_known {
            if self.thread_count >= THREADS_MAX {
                self.release_early();
            }
            self.thread_count += 1;
        }
        self.processes.entry(pid).or_default().entry(tid).or_insert(Thread::NEW)
    }

    /// Ends a system call of a thread. Returns the requests that the thread has queued during the
    /// call, in the order of their queueing. Releases those that it had queued before.
    pub(crate) fn end_call(&mut self, call: &CallPeriod) -> Vec<DiskRequest> {
        if !self.is_used {
            return Vec::new();
        }
        let thread = self.thread(call.pid, call.tid);
        thread.call_end_ns = thread.call_end_ns.max(call.end_ns);
        if thread.held.is_empty() {
            return Vec::new();
        }
        let held = std::mem::take(&mut thread.held);
        self.held -= held.len();
        let is_before = |request: &DiskRequest| request.time_ns < call.start_ns;
        let (before, mut during): (Vec<_>, Vec<_>) = held.into_iter().partition(is_before);
        self.released.extend(before);
        during.sort_by_key(|request| request.time_ns);
        during
    }

    /// Releases requests.
    pub(crate) fn release(&mut self, requests: Vec<DiskRequest>) {
        self.released.extend(requests);
    }

    /// Releases the requests of a process that has ended. Those that complete later are not held.
    pub(crate) fn end_process(&mut self, pid: u32, end_ns: i64) {
        if self.is_used {
            if self.ended.len() >= THREADS_MAX {
                self.ended.clear();
            }
            self.ended.insert(pid, end_ns);
        }
        let Some(threads) = self.processes.remove(&pid) else { return };
        self.thread_count -= threads.len();
        self.release_threads(threads.into_values());
    }

    /// Releases all requests without their operations, because there is no room for more.
    fn release_early(&mut self) {
        self.unheld += self.held as u64;
        self.release_all();
    }

    /// Releases all requests.
    pub(crate) fn release_all(&mut self) {
        let processes = std::mem::take(&mut self.processes);
        self.thread_count = 0;
        self.release_threads(processes.into_values().flat_map(HashMap::into_values));
    }

    fn release_threads(&mut self, threads: impl Iterator<Item = Thread>) {
        let first = self.released.len();
        self.released.extend(threads.flat_map(|thread| thread.held));
        let released = &mut self.released[first..];
        self.held -= released.len();
        // Tables have no order.
        released.sort_by_key(|request| (request.time_ns, request.tid, request.sector));
    }

    /// Returns the requests that were released since the last call.
    pub(crate) fn take_released(&mut self) -> Vec<DiskRequest> {
        std::mem::take(&mut self.released)
    }
}
