//! Descriptors that other processes have passed on, or hold the other end of. To close one may take as long as its
//! owner likes: a TCP socket lingers, a file system in user space does not answer, a socket's queue holds more of
//! both. So [`Foreign`] is closed by threads that may be lost, wherever it is dropped.
//!
//! Usually one thread closes, and another one stands by. If something has waited for [`LATE`], the other one steps
//! in, and has one more stand by. A user can have [`BUSY_MAX`] threads wait; what else is of that user waits behind
//! them, and others' is closed as before.

use crate::quota::{Account, Share};
use blkkin_sys::socket::{Socket, close_at_once};
use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Deref;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Something whose closing may wait for another process.
#[derive(Debug)]
pub(crate) struct Foreign<T: Close> {
    /// Always there, but while it is dropped.
    value: Option<T>,
    /// The user who can have its closing wait.
    uid: u32,
    /// Quotas that it takes until it is closed.
    shares: Vec<Share>,
}

/// How something is closed.
pub(crate) trait Close: Send + 'static {
    /// Closes it, which may wait.
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

impl<T: Close> Foreign<T> {
    pub(crate) fn new(value: T, uid: u32) -> Foreign<T> {
        Foreign { value: Some(value), uid, shares: Vec::new() }
    }

    /// That user answers for it.
    pub(crate) fn is_of(&mut self, uid: u32) {
        self.uid = uid;
    }

    /// Gives `share` back when this is closed.
    pub(crate) fn hold(&mut self, share: Share) {
        self.shares.push(share);
    }
}

impl<T: Close> Drop for Foreign<T> {
    fn drop(&mut self) {
        let Some(value) = self.value.take() else { return };
        let shares = std::mem::take(&mut self.shares);
        let close = move || {
            value.close();
            drop(shares);
        };
        match IS_CLOSER.get() {
            true => close(),
            false => CLOSER.close(self.uid, Box::new(close)),
        }
    }
}

impl<T: Close> Deref for Foreign<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.value.as_ref().expect("it is there until it is dropped")
    }
}

impl<T: Close + AsFd> AsFd for Foreign<T> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.deref().as_fd()
    }
}

/// Whether more may be received of what a user passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Intake {
    Open,
    /// Not in this turn: so much waits to be closed.
    Later,
    /// It has waited too long: somebody has it wait.
    Never,
}

/// Whether more may be received of what that user passes, as far as it can be closed again.
pub(crate) fn intake_of(uid: u32) -> Intake {
    let state = CLOSER.lock();
    let lane = state.lanes.get(&uid).filter(|lane| lane.waiting.len() >= WAITING_MAX);
    match lane.and_then(|lane| lane.waiting.front()) {
        None => Intake::Open,
        Some((since, _)) if since.elapsed() < STUCK => Intake::Later,
        Some(_) => Intake::Never,
    }
}

/// Does something for a user that may wait for as long as the user likes, on a thread that may be lost.
pub(crate) fn run(account: &Account, job: Box<dyn FnOnce() + Send>) {
    CLOSER.close(account.uid(), job);
}

/// How long something waits before another thread steps in.
const LATE: Duration = Duration::from_millis(100);
/// Threads that one user can have wait.
const BUSY_MAX: usize = 8;
/// Threads in all.
const THREADS_MAX: usize = 256;
/// Threads that are there if nothing waits.
const THREADS_MIN: usize = 2;
const STACK_SIZE: usize = 128 << 10;
/// Things of one user that wait to be closed, above which no more are received. With what comes with one message
/// it is less than the descriptors that are kept for the daemon's own work.
const WAITING_MAX: usize = 256;
/// How long the first of so many waits before what else the user passes is refused.
const STUCK: Duration = Duration::from_secs(2);

type Job = Box<dyn FnOnce() + Send>;

static CLOSER: Closer = Closer { state: Mutex::new(State::new()), changed: Condvar::new() };

thread_local! {
    static IS_CLOSER: Cell<bool> = const { Cell::new(false) };
}

/// The threads that close, and what waits for them.
struct Closer {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    lanes: BTreeMap<u32, Lane>,
    /// Users whose next job may be taken, in turn.
    ready: VecDeque<u32>,
    threads: usize,
    /// Threads that do not close anything now.
    free: usize,
}

/// What waits of one user.
#[derive(Default)]
struct Lane {
    waiting: VecDeque<(Instant, Job)>,
    /// Threads that close something of this user.
    busy: usize,
    is_ready: bool,
}

impl State {
    const fn new() -> State {
        State { lanes: BTreeMap::new(), ready: VecDeque::new(), threads: 0, free: 0 }
    }

    fn push(&mut self, uid: u32, job: Job) {
        self.lanes.entry(uid).or_default().waiting.push_back((Instant::now(), job));
        self.note_ready(uid);
    }

    fn note_ready(&mut self, uid: u32) {
        // If many users have threads wait, each has fewer.
        let busy_max = if self.threads > THREADS_MAX / 2 { 1 } else { BUSY_MAX };
        let Some(lane) = self.lanes.get_mut(&uid) else { return };
        if lane.waiting.is_empty() {
            if lane.busy == 0 {
                self.lanes.remove(&uid);
            }
        } else if lane.busy < busy_max && !lane.is_ready {
            lane.is_ready = true;
            self.ready.push_back(uid);
        }
    }

    /// Since when the next job has waited.
    fn next_since(&self) -> Option<Instant> {
        let lane = self.lanes.get(self.ready.front()?)?;
        lane.waiting.front().map(|(since, _)| *since)
    }

    fn take(&mut self) -> Option<(u32, Job)> {
        let uid = self.ready.pop_front()?;
        let lane = self.lanes.get_mut(&uid)?;
        lane.is_ready = false;
        let (_, job) = lane.waiting.pop_front()?;
        lane.busy += 1;
        self.note_ready(uid);
        Some((uid, job))
    }

    fn done(&mut self, uid: u32) {
        if let Some(lane) = self.lanes.get_mut(&uid) {
            lane.busy -= 1;
        }
        self.note_ready(uid);
    }
}

impl Closer {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn close(&'static self, uid: u32, job: Job) {
        let mut state = self.lock();
        state.push(uid, job);
        while state.threads < THREADS_MIN && self.start(&mut state) {}
        drop(state);
        self.changed.notify_one();
    }

    /// Starts a thread, which is confined as the one that calls this. False if there can be none now; what waits
    /// is closed when there is one.
    fn start(&'static self, state: &mut State) -> bool {
        let thread = std::thread::Builder::new().name("blkkin-closer".to_owned());
        let is_started = thread.stack_size(STACK_SIZE).spawn(|| self.work()).is_ok();
        state.threads += usize::from(is_started);
        state.free += usize::from(is_started);
        is_started
    }

    fn work(&'static self) {
        IS_CLOSER.set(true);
        let mut state = self.lock();
        loop {
            let Some(since) = state.next_since() else {
                if state.free > THREADS_MIN {
                    state.free -= 1;
                    state.threads -= 1;
                    return;
                }
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            if state.free == 1 && state.threads >= THREADS_MIN {
                if let Some(left) = LATE.checked_sub(since.elapsed()).filter(|left| !left.is_zero())
                {
                    let waited = self.changed.wait_timeout(state, left);
                    state = waited.unwrap_or_else(PoisonError::into_inner).0;
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
            state = self.lock();
            state.free += 1;
            state.done(uid);
        }
    }
}
