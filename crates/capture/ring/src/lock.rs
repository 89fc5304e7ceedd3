//! Recording with a lock on the ring, for events that no restartable sequence can record.
//!
//! No writer waits for the lock. A writer that fails to lock one ring tries another; so does a
//! signal handler that finds the lock held by its own thread. As with a sequence, the holder's last
//! store publishes all others. So a dead holder leaves nothing but the lock, which is taken over.
//! The lock of a function that its thread has left by a jump is taken over too (see `identity`).
//!
//! ```text
//! OWNER: bits 0 to 21   thread, 0 if the lock is free
//!             22 to 43  process of the thread
//!             44 to 63  number of times that the lock was acquired
//! ```
//!
//! The process is included because children write to their parent's rings. The count distinguishes
//! a dead holder from a live thread with the same id, so that a takeover does not affect the live
//! thread. (Linux has no ids of more than 22 bits.)
//!
//! After a fork in a signal handler, both processes seem to hold the lock. So the last store is a
//! compare-and-swap: only one of the processes publishes its event, and only the process that still
//! holds the lock releases it.

use crate::cells::{Cells, Word};
use crate::shape::{Mode, Shape};
use crate::switch::SubbufferSwitch;
#[cfg(loom)]
use loom::sync::atomic::fence;
use std::cell::Cell;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
#[cfg(not(loom))]
use std::sync::atomic::fence;

/// Guard of a ring's lock: this thread may write to the ring until the guard is dropped.
pub(crate) struct RingLock<'c> {
    cells: &'c Cells,
    control: usize,
    pub(crate) ring: usize,
    /// Value that this guard stored in `OWNER`. `OWNER` has another value if the lock was taken
    /// over.
    owner: u64,
    /// Index of this lock in the thread's list of locks; the list's length if the list was full.
    record: usize,
}

/// A function that tries to lock a ring: its process and thread as in `OWNER`, and the address of
/// its [`StackMark`].
#[derive(Clone, Copy)]
struct Claimant {
    holder: u64,
    mark: usize,
}

fn address<T>(word: &T) -> usize {
    std::ptr::from_ref(word).addr()
}

/// Number of low bits of `OWNER` that identify the holder. The other bits are the count.
const HOLDER_BITS: u32 = 44;
#[cfg(not(loom))]
const ID_BITS: u32 = 22;
const HOLDER: u64 = (1 << HOLDER_BITS) - 1;

/// Returns the new value of `OWNER` when `holder` locks a ring: the count of the previous value
/// `before` is incremented.
fn owner_word(before: u64, holder: u64) -> u64 {
    let turn = (before >> HOLDER_BITS).wrapping_add(1);
    turn << HOLDER_BITS | holder
}

/// Stack variable of the function that holds a ring's lock. The variable's address shows whether
/// the function has returned or was left by a jump. (A cell, so that it is not promoted to a
/// constant.)
#[derive(Default)]
pub(crate) struct StackMark(Cell<u8>);

/// Locks one of `rings` for the function that owns `mark`. Tries the current processor's ring
/// first.
pub(crate) fn lock_one<'c>(
    cells: &'c Cells,
    shape: &Shape,
    rings: Range<usize>,
    mark: &StackMark,
) -> Option<RingLock<'c>> {
    let count = rings.len();
    let own = identity::cpu() % count;
    let claimant = Claimant { holder: identity::thread(), mark: address(&mark.0) };
    for _ in 0..ROUNDS {
        for offset in 0..count {
            let ring = rings.start + (own + offset) % count;
            let owner = cells.word(shape.control_of(ring), Word::Owner);
            let before = owner.load(Relaxed);
            if before & HOLDER == 0
                && let Some(lock) = try_lock(cells, shape, ring, before, claimant)
            {
                return Some(lock);
            }
        }
        identity::pause();
    }
    take_over(cells, shape, rings, claimant)
}

/// Number of rounds over all rings before a writer searches for the lock of a dead holder. A holder
/// keeps the lock for some ten nanoseconds, unless it is preempted.
const ROUNDS: usize = if cfg!(loom) { 1 } else { 64 };

/// Locks the ring if `OWNER` still is `before`; returns `None` otherwise.
fn try_lock<'c>(
    cells: &'c Cells,
    shape: &Shape,
    ring: usize,
    before: u64,
    claimant: Claimant,
) -> Option<RingLock<'c>> {
    let control = shape.control_of(ring);
    let owner = owner_word(before, claimant.holder);
    // Acquire: pairs with the release in `RingLock::drop`, so that the last holder's words and
    // bytes are seen. After a dead holder, the stores before the last release are seen.
    let word = cells.word(control, Word::Owner);
    word.compare_exchange(before, owner, Acquire, Relaxed).ok()?;
    let record = identity::remember(owner, address(word), claimant.mark);
    Some(RingLock { cells, control, ring, owner, record })
}

/// Locks one of `rings` that is free by now, or takes over the lock of a dead holder or of a
/// function left by a jump on this thread.
#[cold]
fn take_over<'c>(
    cells: &'c Cells,
    shape: &Shape,
    rings: Range<usize>,
    claimant: Claimant,
) -> Option<RingLock<'c>> {
    let count = rings.len();
    let first = identity::rotation();
    let mut checks = 0;
    for offset in 0..count {
        let ring = rings.start + (first + offset) % count;
        let control = shape.control_of(ring);
        let word = cells.word(control, Word::Owner);
        let before = word.load(Relaxed);
        let is_abandoned = match before & HOLDER {
            0 => true,
            own if own == claimant.holder => {
                identity::is_abandoned(before, address(word), claimant.mark)
            }
            other => {
                checks += 1;
                checks <= LIVENESS_CHECKS_MAX && !identity::exists(other)
            }
        };
        if is_abandoned && let Some(lock) = try_lock(cells, shape, ring, before, claimant) {
            return Some(lock);
        }
    }
    None
}

/// Maximum number of system calls of one search that check whether a lock's holder is alive. Each
/// search begins at another ring.
const LIVENESS_CHECKS_MAX: usize = 4;

impl RingLock<'_> {
    /// Appends an event. Returns false if another writer has taken over the lock and written, or if
    /// a forked copy of this writer has.
    pub(crate) fn append(&self, place: usize, bytes: &[u8], write: u64, time: u64) -> bool {
        self.cells.copy_in(place, bytes);
        let is_done = self.publish(write, write.wrapping_add(bytes.len() as u64), time);
        if is_done {
            let recorded = self.cells.load(self.control, Word::Recorded, Relaxed);
            self.cells.store(self.control, Word::Recorded, recorded.wrapping_add(1), Relaxed);
        }
        is_done
    }

    /// Leaves a sub-buffer and begins the next one. Returns false in the same cases as
    /// [`append`](Self::append).
    pub(crate) fn switch(&self, mode: Mode, write: u64, switch: &SubbufferSwitch) -> bool {
        if mode == Mode::Overwrite {
            // Release: a reader that copies bytes of this sub-buffer's new contents also sees at
            // least the current position; pairs with the acquire fence in
            // `Reader::write_after_copies`.
            fence(Release);
        }
        if let Some((place, end, discarded)) = &switch.leave {
            self.cells.copy_in(place + crate::packet::LAST_TIME, end);
            self.cells.copy_in(place + crate::packet::DISCARDED, discarded);
        }
        self.cells.copy_in(switch.begin.0, &switch.begin.1);
        if self.cells.load_own(self.control, Word::Restart) != switch.restart {
            self.cells.store(self.control, Word::Restart, switch.restart, Relaxed);
        }
        self.publish(write, switch.write, switch.time)
    }

    fn publish(&self, write: u64, next: u64, time: u64) -> bool {
        // Release: a reader that sees the time sees the position before it; pairs with the reader's
        // acquire in `Cells::try_state`. A packet that ends at this time must not end before that
        // position.
        self.cells.store(self.control, Word::LastTime, time, Release);
        // Release: pairs with the reader's acquire in `Reader::take`; a reader that sees the
        // position sees the bytes before it.
        let word = self.cells.word(self.control, Word::Write);
        word.compare_exchange(write, next, Release, Relaxed).is_ok()
    }

    /// Counts an event that found the ring full.
    pub(crate) fn count_lost(&self) {
        let lost = self.cells.load_own(self.control, Word::Lost);
        self.cells.store(self.control, Word::Lost, lost.wrapping_add(1), Relaxed);
    }
}

impl Drop for RingLock<'_> {
    fn drop(&mut self) {
        identity::forget(self.record);
        // If the lock was taken over, `OWNER` stays as it is. It can change between the load and
        // the store only by a fork in a signal handler here. The store may then release the lock of
        // another writer. So two writers may hold the lock, but only one of them can publish an
        // event at a position.
        let owner = self.cells.word(self.control, Word::Owner);
        if owner.load(Relaxed) == self.owner {
            // Release: pairs with the next holder's acquire in `try_lock`.
            owner.store(self.owner & !HOLDER, Release);
        }
    }
}

/// Identity of the claimant, liveness of other holders, and the list of this thread's locks.
#[cfg(not(loom))]
mod identity {
    use super::{Cell, HOLDER, ID_BITS};
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    /// A lock that a function of this thread took.
    #[derive(Clone, Copy)]
    struct LockRecord {
        owner: u64,
        /// Address of `OWNER`; 0 if the record is free.
        word: usize,
        /// Address of the function's [`StackMark`](super::StackMark).
        mark: usize,
    }

    const NONE: LockRecord = LockRecord { owner: 0, word: 0, mark: 0 };

    /// Maximum number of recorded locks per thread. A thread holds several locks only if signal
    /// handlers interrupt it within the nanoseconds in which it holds one. A lock that a jump has
    /// left stays recorded until it is taken over.
    const LOCKS_MAX: usize = 8;

    thread_local! {
        /// Locks that this thread holds, and locks whose function was left by a jump.
        static LOCKS: [Cell<LockRecord>; LOCKS_MAX] = const { [const { Cell::new(NONE) }; LOCKS_MAX] };
    }

    pub(super) fn thread() -> u64 {
        let (process, thread) = blkkin_sys::process_and_thread();
        (u64::from(process) << ID_BITS | u64::from(thread)) & HOLDER
    }

    pub(super) fn cpu() -> usize {
        blkkin_sys::current_cpu()
    }

    pub(super) fn exists(holder: u64) -> bool {
        let thread = holder & ((1 << ID_BITS) - 1);
        blkkin_sys::thread_exists((holder >> ID_BITS) as u32, thread as u32)
    }

    pub(super) fn pause() {
        std::hint::spin_loop();
    }

    /// Returns a counter, incremented by each call, that selects the first ring to check. So all
    /// rings are checked in rotation, although one event cannot check all of them.
    pub(super) fn rotation() -> usize {
        static TURN: AtomicUsize = AtomicUsize::new(0);
        TURN.fetch_add(1, Relaxed)
    }

    /// Records a lock and returns the record's index. Returns [`LOCKS_MAX`], and records nothing,
    /// if all records are in use. A signal handler that interrupts this function frees its own
    /// record before it returns.
    pub(super) fn remember(owner: u64, word: usize, mark: usize) -> usize {
        LOCKS.with(|locks| {
            let free = locks.iter().position(|lock| lock.get().word == 0);
            if let Some(free) = free {
                locks[free].set(LockRecord { owner, word, mark });
            }
            free.unwrap_or(LOCKS_MAX)
        })
    }

    pub(super) fn forget(record: usize) {
        LOCKS.with(|locks| {
            if let Some(lock) = locks.get(record) {
                lock.set(NONE);
            }
        });
    }

    /// Returns true if the function that locked the ring for this thread has returned or was left
    /// by a jump. The lock's record is then freed. `own` is the address of the caller's mark.
    pub(super) fn is_abandoned(owner: u64, word: usize, own: usize) -> bool {
        LOCKS.with(|locks| {
            let is_same = |lock: LockRecord| lock.owner == owner && lock.word == word;
            let found = locks.iter().find(|lock| is_same(lock.get()));
            let left = found.filter(|lock| blkkin_sys::has_left_frame(lock.get().mark, own));
            left.inspect(|lock| lock.set(NONE)).is_some()
        })
    }
}

/// Replacement of `identity` for models: threads never die and never jump, and there is one
/// processor.
#[cfg(loom)]
mod identity {
    use super::HOLDER;
    use std::hash::{DefaultHasher, Hash, Hasher};

    pub(super) fn thread() -> u64 {
        let mut hasher = DefaultHasher::new();
        loom::thread::current().id().hash(&mut hasher);
        hasher.finish() & HOLDER | 1
    }

    pub(super) fn cpu() -> usize {
        0
    }

    pub(super) fn exists(_: u64) -> bool {
        true
    }

    pub(super) fn pause() {}

    pub(super) fn rotation() -> usize {
        0
    }

    pub(super) fn remember(_: u64, _: usize, _: usize) -> usize {
        0
    }

    pub(super) fn forget(_: usize) {}

    pub(super) fn is_abandoned(_: u64, _: usize, _: usize) -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicPtr, AtomicUsize};

    fn rings(count: usize) -> (Cells, Shape) {
        let shape = Shape { rings: count, ..Shape::default() };
        let (_, cells) = Cells::create(c"test", &shape).unwrap();
        (cells, shape)
    }

    /// Returns the number of rings that can be locked, each by a separate function call.
    #[inline(never)]
    fn count_free(cells: &Cells, shape: &Shape) -> usize {
        let mark = StackMark::default();
        let lock = lock_one(cells, shape, 0..shape.rings, &mark);
        if lock.is_some() { 1 + count_free(cells, shape) } else { 0 }
    }

    /// Locks `count` rings deep in the stack, and returns without unlocking them, like a jump out
    /// of a signal handler.
    #[inline(never)]
    fn jump(depth: usize, count: usize, cells: &Cells, shape: &Shape) {
        let mark = StackMark::default();
        if depth > 0 {
            jump(depth - 1, count, cells, shape);
        } else if count > 0 {
            std::mem::forget(lock_one(cells, shape, 0..shape.rings, &mark));
            jump(0, count - 1, cells, shape);
        }
        std::hint::black_box(&mark);
    }

    #[test]
    fn a_ring_that_was_left_by_a_jump_is_taken_back() {
        let (cells, shape) = rings(3);
        for _ in 0..10 {
            jump(20, 3, &cells, &shape);
            assert!(cells.word(shape.control_of(2), Word::Owner).load(Relaxed) & HOLDER != 0);
            assert_eq!(count_free(&cells, &shape), 3);
        }
    }

    #[test]
    fn a_ring_that_an_outer_function_holds_is_not() {
        let (cells, shape) = rings(3);
        let mark = StackMark::default();
        let lock = lock_one(&cells, &shape, 0..3, &mark);
        assert_eq!(count_free(&cells, &shape), 2);
        drop(lock);
        assert_eq!(count_free(&cells, &shape), 3);
    }

    /// A ring locked by an interrupted function stays locked, whether the handler's stack is part
    /// of the thread's stack or on the heap.
    #[test]
    fn a_ring_that_an_interrupted_function_holds_is_not() {
        static RINGS: AtomicPtr<(Cells, Shape)> = AtomicPtr::new(std::ptr::null_mut());
        static FREE: AtomicUsize = AtomicUsize::new(99);
        extern "C" fn handle(_: libc::c_int) {
            // SAFETY: set below, and lives until the signal has been handled.
            #[expect(unsafe_code)]
            let (cells, shape) = unsafe { &*RINGS.load(Acquire) };
            FREE.store(count_free(cells, shape), Relaxed);
        }
        // One stack is an array on this thread's stack; the other is on the heap.
        let mut on_own_stack = [0u8; 32 << 10];
        let mut elsewhere = vec![0u8; 32 << 10];
        for stack in [&mut on_own_stack[..], &mut elsewhere[..]] {
            let mut rings = rings(3);
            RINGS.store(&raw mut rings, Release);
            let (cells, shape) = &rings;
            let mark = StackMark::default();
            let lock = lock_one(cells, shape, 0..3, &mark);
            // SAFETY: all fields may be zero; the stack outlives the signal, which is delivered at
            // once.
            #[expect(unsafe_code)]
            unsafe {
                let mut description: libc::stack_t = std::mem::zeroed();
                description.ss_sp = stack.as_mut_ptr().cast();
                description.ss_size = stack.len();
                let mut before: libc::stack_t = std::mem::zeroed();
                assert_eq!(libc::sigaltstack(&description, &mut before), 0);
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = handle as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
                assert_eq!(libc::raise(libc::SIGUSR1), 0);
                assert_eq!(libc::sigaltstack(&before, std::ptr::null_mut()), 0);
            }
            assert_eq!(FREE.swap(99, Relaxed), 2);
            drop(lock);
        }
    }

    /// A forked copy of the holder that continues later than the original neither publishes an
    /// event nor releases the lock.
    #[test]
    fn a_copy_of_a_holder_publishes_nothing_and_gives_nothing_back() {
        let (cells, shape) = rings(2);
        let mark = StackMark::default();
        let first = lock_one(&cells, &shape, 0..1, &mark).unwrap();
        let (control, place) = (first.control, shape.data_of(0).start);
        let copy = RingLock { cells: &cells, ..first };
        assert!(first.append(place, &[1; 16], 0, 5));
        drop(first);
        let next = lock_one(&cells, &shape, 0..1, &mark).unwrap();
        assert!(!copy.append(place, &[1; 16], 0, 5));
        drop(copy);
        assert!(lock_one(&cells, &shape, 0..1, &mark).is_none(), "it is held");
        assert_eq!(cells.load(control, Word::Write, Relaxed), 16);
        assert!(next.append(place + 16, &[2; 16], 16, 6));
        assert_eq!(cells.load(control, Word::Write, Relaxed), 32);
    }

    /// A takeover fails if the count in `OWNER` has changed, so it cannot affect a live thread that
    /// has a dead thread's id.
    #[test]
    fn no_two_holders_look_the_same() {
        let (cells, shape) = rings(2);
        let mark = StackMark::default();
        let owner = cells.word(shape.control_of(0), Word::Owner);
        let mut seen = Vec::new();
        for _ in 0..3 {
            let lock = lock_one(&cells, &shape, 0..1, &mark).unwrap();
            seen.push(owner.load(Relaxed));
            drop(lock);
            seen.push(owner.load(Relaxed));
        }
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 6);
        assert!(try_lock(&cells, &shape, 0, seen[0], Claimant { holder: 7, mark: 0 }).is_none());
    }

    #[test]
    fn counts_of_owners_wrap() {
        assert_eq!(owner_word(u64::MAX, 5), 5);
        assert_eq!(owner_word(0, 5), 1 << HOLDER_BITS | 5);
    }
}
