//! Closing of descriptors that other processes control: descriptors that they have passed, and
//! sockets connected to them. A process can make the close block for any time: a TCP socket
//! lingers, a file system in user space does not answer, or a socket's queue holds further
//! descriptors. A dropped [`DeferredClose`] is therefore closed on a thread of a pool.
//!
//! The pool also runs other jobs that a user can make block, such as the creation of directories.
//! Usually one thread of the pool runs the jobs, and another thread stands by. If a job has waited
//! for [`STANDBY_DELAY`], the standby thread starts the next standby thread, and runs the job. A
//! user can block up to [`BUSY_MAX`] threads, or a single thread while the pool has more than half
//! of [`THREADS_MAX`] threads. Further jobs of this user wait for these threads. Jobs of other
//! users wait for them only if the pool has [`THREADS_MAX`] threads.

use crate::quota::{Account, Share};
use blkkin_sys::socket::{Socket, close_at_once};
use parking_lot::{Condvar, Mutex};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// A resource whose closing may block.
#[derive(Debug)]
pub(crate) struct DeferredClose<T: Close> {
    /// `None` only while the `DeferredClose` is dropped.
    value: Option<T>,
    /// The user who may cause closing to block.
    uid: u32,
    /// Shares of quotas that are returned when the resource is closed.
    shares: Vec<Share>,
}

/// A resource that can be closed on another thread.
pub(crate) trait Close: Send + 'static {
    /// Closes the resource, which may block.
    fn close(self);
}

impl Close for OwnedFd {
    fn close(self) {
        close_at_once(self);
    }
}

impl Close for Socket {
    fn close(self) {}
}

impl<T: Close> DeferredClose<T> {
    pub(crate) fn new(value: T, uid: u32) -> DeferredClose<T> {
        DeferredClose { value: Some(value), uid, shares: Vec::new() }
    }

    /// Sets the user who may cause closing to block.
    pub(crate) fn set_uid(&mut self, uid: u32) {
        self.uid = uid;
    }

    /// Attaches a share of a quota. The share is returned when the resource is closed.
    pub(crate) fn store_share(&mut self, share: Share) {
        self.shares.push(share);
    }
}

impl<T: Close> Drop for DeferredClose<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        let shares = std::mem::take(&mut self.shares);
        let close = move || {
            value.close();
            drop(shares);
        };
        match IS_POOL_THREAD.get() {
            true => close(),
            false => POOL.close(self.uid, Box::new(close)),
        }
    }
}

impl<T: Close> Deref for DeferredClose<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Close + AsFd> AsFd for DeferredClose<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.deref().as_fd()
    }
}

/// Permission to receive more descriptors from a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    Open,
    /// Refusal for this turn of the event loop: too many descriptors wait to be closed.
    Later,
    /// Refusal that ends the connection: closing blocks for too long, so the user is considered
    /// hostile.
    Never,
}

/// Returns the permission to receive more descriptors from user `uid`.
pub(crate) fn intake_of(uid: u32) -> Intake {
    let state = POOL.state.lock();
    let queue = state.queues.get(&uid).filter(|queue| queue.waiting.len() >= WAITING_MAX);
    match queue.and_then(|queue| queue.waiting.front()) {
        None => Intake::Open,
        Some((since, _)) if since.elapsed() < WAIT_MAX => Intake::Later,
        Some(_) => Intake::Never,
    }
}

/// Runs a job on a thread of the pool, because the user can make the job block.
pub(crate) fn run(account: &Account, job: Box<dyn FnOnce() + Send>) {
    POOL.close(account.uid(), job);
}

/// Time that a job waits before the standby thread runs it.
const STANDBY_DELAY: Duration = Duration::from_millis(100);
/// Maximum number of threads that one user can block.
const BUSY_MAX: usize = 8;
/// Maximum number of threads in the pool.
const THREADS_MAX: usize = 256;
/// Number of idle threads that the pool keeps when no job may start.
const THREADS_MIN: usize = 2;
const STACK_SIZE: usize = 128 << 10;
/// Number of waiting jobs of one user at which the agent stops receiving from the user's
/// connections. Together with the descriptors that one call can receive, the number is less than
/// the maximum number of descriptors reserved for the agent's own work.
const WAITING_MAX: usize = 256;
/// Maximum time that the first job of a full queue waits. After it, the agent closes connections of
/// the user instead of receiving from them.
const WAIT_MAX: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

static POOL: ClosePool = ClosePool { state: Mutex::new(PoolState::new()), changed: Condvar::new() };

thread_local! {
    static IS_POOL_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Pool of threads that run jobs, with a queue of jobs for each user.
struct ClosePool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

struct PoolState {
    queues: BTreeMap<u32, UserQueue>,
    /// Users with a job that may start, in round-robin order.
    ready: VecDeque<u32>,
    threads: usize,
    /// Number of threads that run no job.
    free: usize,
}

/// Waiting and running jobs of one user.
#[derive(Default)]
struct UserQueue {
    waiting: VecDeque<(Instant, Job)>,
    /// Number of threads that run a job of this user.
    busy: usize,
    is_ready: bool,
}

impl PoolState {
    const fn new() -> PoolState {
        PoolState { queues: BTreeMap::new(), ready: VecDeque::new(), threads: 0, free: 0 }
    }

    fn push(&mut self, uid: u32, job: Job) {
        self.queues.entry(uid).or_default().waiting.push_back((Instant::now(), job));
        self.note_ready(uid);
    }

    fn note_ready(&mut self, uid: u32) {
        // Once more than half of the maximum number of threads run, each user can block only one
        // thread.
        let busy_max = if self.threads > THREADS_MAX / 2 { 1 } else { BUSY_MAX };
        let Some(queue) = self.queues.get_mut(&uid) else { return };
        if queue.waiting.is_empty() {
            if queue.busy == 0 {
                self.queues.remove(&uid);
            }
        } else if queue.busy < busy_max && !queue.is_ready {
            queue.is_ready = true;
            self.ready.push_back(uid);
        }
    }

    /// Returns the time at which the next job to run was queued; `None` if no job may start.
    fn next_since(&self) -> Option<Instant> {
        let queue = self.queues.get(self.ready.front()?)?;
        queue.waiting.front().map(|(since, _)| *since)
    }

    fn take(&mut self) -> Option<(u32, Job)> {
        let uid = self.ready.pop_front()?;
        let queue = self.queues.get_mut(&uid)?;
        queue.is_ready = false;
        let (_, job) = queue.waiting.pop_front()?;
        queue.busy += 1;
        self.note_ready(uid);
        Some((uid, job))
    }

    fn done(&mut self, uid: u32) {
        if let Some(queue) = self.queues.get_mut(&uid) {
            queue.busy -= 1;
        }
        self.note_ready(uid);
    }
}

impl ClosePool {
    fn close(&'static self, uid: u32, job: Job) {
        let mut state = self.state.lock();
        state.push(uid, job);
        while state.threads < THREADS_MIN && self.start(&mut state) {}
        drop(state);
        self.changed.notify_one();
    }

    /// Starts a thread of the pool; it inherits the calling thread's confinement. Returns false if
    /// no thread can be started now; the jobs then wait.
    fn start(&'static self, state: &mut PoolState) -> bool {
        let thread = std::thread::Builder::new().name("blkkin-closer".to_owned());
        let is_started = thread.stack_size(STACK_SIZE).spawn(|| self.work()).is_ok();
        state.threads += usize::from(is_started);
        state.free += usize::from(is_started);
        is_started
    }

    fn work(&'static self) {
        IS_POOL_THREAD.set(true);
        let mut state = self.state.lock();
        loop {
            let Some(since) = state.next_since() else {
                if state.free > THREADS_MIN {
                    state.free -= 1;
                    state.threads -= 1;
                    return;
                }
                self.changed.wait(&mut state);
                continue;
            };
            if state.free == 1 && state.threads >= THREADS_MIN {
                if let Some(left) =
                    STANDBY_DELAY.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
                {
                    self.changed.wait_for(&mut state, left);
                    continue;
                }
                if state.threads < THREADS_MAX {
                    self.start(&mut state);
                }
            }
            let Some((uid, job)) = state.take() else { continue };
            state.free -= 1;
            drop(state);
            job();
            state = self.state.lock();
            state.free += 1;
            state.done(uid);
        }
    }
}
