//! The traced program's side of a ring: the position of the next event, and the switch to another
//! sub-buffer. The modules `rseq` and `lock` make the changes atomic.

#[cfg(not(loom))]
use crate::backpressure::{NOT_STALLED, RoomWait};
use crate::cells::{Cells, Word};
#[cfg(not(loom))]
use crate::clock::Clock;
use crate::encoder::Event;
use crate::lock::{self, RingLock, StackMark};
use crate::packet::{self, Header};
#[cfg(not(loom))]
use crate::position::unread;
use crate::position::{is_before, restart_of};
#[cfg(all(target_arch = "x86_64", not(loom)))]
use crate::rseq::{self, Sequences};
#[cfg(not(loom))]
use crate::shape::ShapeError;
use crate::shape::{Mode, Shape};
use crate::switch::SubbufferSwitch;
#[cfg(not(loom))]
use blkkin_sys::Waker;
use std::sync::atomic::Ordering::{Acquire, Relaxed};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicU64, Ordering::SeqCst, compiler_fence};

/// Result of recording an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The event is in a ring.
    Recorded,
    /// The ring was full. The event is counted as lost.
    Full,
    /// All rings that could record the event were locked, or other writers took over each lock that
    /// the event's writer acquired. The event is counted as lost.
    NoRing,
    /// The event does not fit into an empty sub-buffer, or one of its fields did not fit while the
    /// event was encoded. The event is counted as lost.
    TooLarge,
    /// The slot has no writer; the event is not counted.
    NoWriter,
}

/// Writer of events into a set of rings, for any number of threads and signal handlers.
#[derive(Debug)]
pub struct Writer {
    pub(crate) cells: Cells,
    pub(crate) shape: Shape,
    #[cfg(not(loom))]
    clock: Clock,
    #[cfg(not(loom))]
    waker: Waker,
    /// Sum of all rings' read positions at the end of the last wait for room in which nothing was
    /// read; [`NOT_STALLED`] before. Events do not wait while the sum is the same.
    #[cfg(not(loom))]
    stalled: AtomicU64,
    /// The clock's time in models, incremented by each reading.
    #[cfg(loom)]
    ticks: std::sync::atomic::AtomicU64,
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    sequences: Option<Sequences>,
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(crate) addresses: rseq::RingAddresses,
}

#[cfg(all(target_arch = "x86_64", not(loom)))]
// SAFETY: `addresses` are those of `cells`, which the writer owns.
#[expect(unsafe_code)]
unsafe impl rseq::HasRingAddresses for Writer {
    const ADDRESSES_AT: usize = std::mem::offset_of!(Writer, addresses);
}

/// Next step of a writer that records an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The event fits into the sub-buffer at the current position.
    Append,
    /// The next sub-buffer must be begun before the event is appended.
    Begin(SubbufferChange),
}

/// Positions of the sub-buffer to leave and of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SubbufferChange {
    /// Position of the sub-buffer to leave; `None` if no sub-buffer of the ring has been begun.
    from: Option<u64>,
    /// Position of the next sub-buffer in order.
    to: u64,
}

impl Plan {
    /// Plans an event of `size` bytes at position `write`. Returns `None` if the event is too large
    /// for any sub-buffer.
    #[inline(always)]
    pub(crate) fn new(shape: &Shape, write: u64, size: usize) -> Option<Plan> {
        let subbuffer = shape.subbuffer_size as u64;
        let used = write % subbuffer;
        // Events never reach the last byte. So a position at the start of a sub-buffer always means
        // that the sub-buffer has not been begun: it is the ring's first one.
        if used != 0 && used + (size as u64) < subbuffer {
            return Some(Plan::Append);
        }
        if packet::SIZE + size >= shape.subbuffer_size {
            return None;
        }
        let start = write - used;
        Some(match used {
            0 => Plan::Begin(SubbufferChange { from: None, to: start }),
            _ => Plan::Begin(SubbufferChange {
                from: Some(start),
                to: start.wrapping_add(subbuffer),
            }),
        })
    }
}

/// Sub-buffer that a writer is about to begin, which may be the ring's first one after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct NextSubbuffer {
    /// Position at which the sub-buffer starts.
    to: u64,
    /// New value of the ring's `RESTART`.
    restart: u64,
}

/// Result of an attempt to record with the lock of a ring.
struct LockedAttempt {
    /// Outcome for the event; `None` if the lock was taken over.
    outcome: Option<Outcome>,
    /// Set if the attempt began a sub-buffer and more than a quarter of the ring is unread, so that
    /// a dozing reader must be woken.
    is_filling_up: bool,
}

impl Writer {
    /// Returns a writer for memory that the agent has prepared.
    #[cfg(not(loom))]
    pub fn new(cells: Cells, clock: Clock) -> Result<Writer, ShapeError> {
        let shape = cells.shape()?;
        blkkin_sys::find_functions_of_recording();
        Ok(Writer {
            #[cfg(target_arch = "x86_64")]
            addresses: rseq::RingAddresses::new(&cells, &shape),
            cells,
            shape,
            clock,
            waker: Waker::none(),
            stalled: AtomicU64::new(NOT_STALLED),
            #[cfg(target_arch = "x86_64")]
            sequences: Sequences::find(),
        })
    }

    /// Makes the writer wake the reader through `fd`, an eventfd, which remains the caller's and
    /// may be closed at any time. Registers this process for the reader's barriers, which can take
    /// some milliseconds the first time. Without this call the writer does not wake the reader.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_eventfd(mut self, fd: i32) -> Writer {
        // Without barriers in the kernel a wake-up may be missed, which the reader allows for: see
        // `Cells::fall_asleep`.
        blkkin_sys::register_for_barriers();
        self.waker = Waker::new(fd);
        self
    }

    /// Tells the reader that all threads that write into the rings are registered for its barriers,
    /// if the kernel has barriers. The caller ensures that only threads of this process write.
    #[cfg(not(loom))]
    #[must_use]
    pub fn with_registration(self) -> Writer {
        if blkkin_sys::register_for_barriers() {
            self.cells.set_registered();
        }
        self
    }

    /// Returns a writer for models, whose memory has no header page.
    #[cfg(loom)]
    pub fn new(cells: Cells, shape: Shape) -> Writer {
        Writer { cells, shape, ticks: 1.into() }
    }

    /// Disables restartable sequences, as if the C library or the kernel did not support them. Must
    /// be called before the first event.
    #[must_use]
    pub fn without_sequences(mut self) -> Writer {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        {
            self.sequences = None;
        }
        let _ = &mut self;
        self
    }

    /// Returns the sequences for the fast path; `None` unless the clock is the time-stamp counter,
    /// because the fast path reads no other clock.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    pub(crate) fn tsc_sequences(&self) -> Option<Sequences> {
        self.sequences.filter(|_| self.clock == Clock::Tsc)
    }

    /// Excludes most of the memory from this process's core dumps; see [`Cells::limit_dump`].
    #[cfg(not(loom))]
    pub fn limit_dump(&self) {
        self.cells.limit_dump(&self.shape);
    }

    /// Returns the clock that gives the times of this writer's events.
    #[cfg(not(loom))]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the shape of the rings.
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Returns the maximum size in bytes of an event for these rings, with its header.
    pub fn event_size_max(&self) -> usize {
        self.shape.event_size_max()
    }

    /// Counts an event with a shortened string.
    #[cold]
    pub(crate) fn count_cut(&self) {
        self.cells.word(self.shape.control_of(0), Word::Cut).fetch_add(1, Relaxed);
    }

    /// Records an event with the current time, if possible in the current processor's ring. Waits
    /// for room in a full ring as long as [`Shape::wait_us`] permits, and wakes the reader if it
    /// sleeps. [`crate::Slot::record`] is faster.
    #[cold]
    pub fn record(&self, event: &mut Event<'_>) -> Outcome {
        #[cfg(not(loom))]
        let mut wait = RoomWait::new(self.shape.wait_us);
        loop {
            #[cfg(not(loom))]
            let may_wait = wait.may_wait(&self.cells, &self.shape, &self.stalled);
            #[cfg(loom)]
            let may_wait = false;
            let outcome = self.record_without_wake(event, may_wait);
            #[cfg(not(loom))]
            self.wake_reader();
            if outcome != Outcome::Full || !may_wait {
                return outcome;
            }
            #[cfg(not(loom))]
            {
                self.rouse_reader();
                wait.pause();
            }
        }
    }

    /// Records an event in the last ring, with that ring's lock. Does not touch the other rings,
    /// whose writers may use another protocol, such as programs in the kernel. Wakes a sleeping
    /// reader. If `may_wait` is true, an event that finds the ring full is not counted as lost.
    #[cfg(not(loom))]
    pub fn record_in_last_ring(&self, event: &mut Event<'_>, may_wait: bool) -> Outcome {
        let last = self.shape.rings - 1;
        let outcome = self.record_with_lock(event, last..self.shape.rings, may_wait);
        self.wake_reader();
        outcome
    }

    /// Records an event without waking a sleeping reader; a dozing reader is woken if the ring
    /// fills up. If `may_wait` is true, an event that finds the ring full is not counted as lost.
    fn record_without_wake(&self, event: &mut Event<'_>, may_wait: bool) -> Outcome {
        #[cfg(all(target_arch = "x86_64", not(loom)))]
        if let Some(sequences) = self.sequences {
            return self.record_in_sequence(sequences, event, may_wait);
        }
        self.record_with_lock(event, 0..self.shape.rings, may_wait)
    }

    /// Wakes the reader if it sleeps. Called after each attempt to record an event; on the fast
    /// path, only if the flag may be set.
    #[cfg(not(loom))]
    pub(crate) fn wake_reader(&self) {
        // The position was stored before, in program order. The reader's barrier (see
        // `Cells::fall_asleep`) orders that store before the load of the flag.
        compiler_fence(SeqCst);
        if self.cells.wake() {
            self.waker.wake();
        }
    }

    /// Wakes the reader if it dozes. Called when a ring fills up, and while an event waits for
    /// room.
    #[cfg(not(loom))]
    fn rouse_reader(&self) {
        if self.cells.rouse() {
            self.waker.wake();
        }
    }

    /// Records an event with a restartable sequence in the current processor's ring, or else with
    /// the lock of the additional ring.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    fn record_in_sequence(
        &self,
        sequences: Sequences,
        event: &mut Event<'_>,
        may_wait: bool,
    ) -> Outcome {
        // An attempt fails only if this thread was preempted or interrupted, if another writer ran
        // on this processor, or in a child that uses its parent's area. Single-stepping by a
        // debugger makes each attempt fail.
        for tries in 0..TRIES_MAX {
            if tries > 0 && sequences.is_foreign_area() {
                break;
            }
            let Some(cpu) = sequences.cpu().filter(|cpu| *cpu < self.shape.rings - 1) else {
                break;
            };
            let control = self.shape.control_of(cpu);
            // Only threads on this processor store the word, and the sequence checks it again.
            let write = self.cells.load_own(control, Word::Write);
            match Plan::new(&self.shape, write, event.copied_size()) {
                Some(Plan::Append) => {
                    // Read after `write`, so that the time is not before that of any event up to
                    // there. If the sequence succeeds, no event was recorded in between. Nor was
                    // there an aborted sequence: that may have stored its time, which the reader
                    // may have used as the end of a packet.
                    let last_time = self.cells.load_own(control, Word::LastTime);
                    let time = self.clock.now().max(last_time);
                    event.set_time(time);
                    let placed = rseq::PlacedEvent {
                        cpu,
                        control,
                        data: self.place(cpu, write),
                        event,
                        write,
                        next: write.wrapping_add(event.size() as u64),
                        last_time,
                        time,
                    };
                    if sequences.append(&self.cells, &placed) {
                        return Outcome::Recorded;
                    }
                }
                Some(Plan::Begin(change)) => {
                    if let Some(outcome) =
                        self.begin_in_sequence(sequences, cpu, write, change, may_wait)
                    {
                        return outcome;
                    }
                }
                None => return self.too_large(cpu),
            }
        }
        // For threads that the C library has not registered, children with their parent's area,
        // processors that were added later, and threads whose attempts have all failed.
        let last = self.shape.rings - 1;
        self.record_with_lock(event, last..self.shape.rings, may_wait)
    }

    #[cfg(all(target_arch = "x86_64", not(loom)))]
    #[cold]
    fn begin_in_sequence(
        &self,
        sequences: Sequences,
        cpu: usize,
        write: u64,
        change: SubbufferChange,
        may_wait: bool,
    ) -> Option<Outcome> {
        let control = self.shape.control_of(cpu);
        let Some(next) = self.next(control, change) else {
            if may_wait {
                return Some(Outcome::Full);
            }
            let lost = self.cells.load_own(control, Word::Lost);
            return sequences.count_lost(&self.cells, cpu, control, lost).then_some(Outcome::Full);
        };
        let switch = self.switch(cpu, write, change.from, next);
        if sequences.switch(&self.cells, cpu, control, write, &switch) && switch.is_filling_up {
            self.rouse_reader();
        }
        None
    }

    /// Records an event in one of `rings`, with that ring's lock. Counts the event as unplaced if
    /// all of these rings are locked, or after [`LOCK_TRIES_MAX`] takeovers.
    #[inline(never)]
    pub(crate) fn record_with_lock(
        &self,
        event: &mut Event<'_>,
        rings: std::ops::Range<usize>,
        may_wait: bool,
    ) -> Outcome {
        let mark = StackMark::default();
        for _ in 0..LOCK_TRIES_MAX {
            let lock = lock::lock_one(&self.cells, &self.shape, rings.clone(), &mark);
            let Some(lock) = lock else { break };
            let LockedAttempt { outcome, is_filling_up } =
                self.record_in_lock(event, &lock, may_wait);
            // Unlocked before the wake-up: the reader may run at once, and other writers need the
            // ring.
            drop(lock);
            #[cfg(not(loom))]
            if is_filling_up {
                self.rouse_reader();
            }
            #[cfg(loom)]
            let _ = is_filling_up;
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        let control = self.shape.control_of(rings.start);
        self.cells.word(control, Word::Unplaced).fetch_add(1, Relaxed);
        Outcome::NoRing
    }

    /// Records an event in the ring that `lock` holds, and begins the next sub-buffer if the event
    /// does not fit.
    fn record_in_lock(
        &self,
        event: &mut Event<'_>,
        lock: &RingLock<'_>,
        may_wait: bool,
    ) -> LockedAttempt {
        let control = self.shape.control_of(lock.ring);
        let mut is_filling_up = false;
        let outcome = loop {
            let write = self.cells.load_own(control, Word::Write);
            match Plan::new(&self.shape, write, event.copied_size()) {
                Some(Plan::Append) => {
                    let last_time = self.cells.load_own(control, Word::LastTime);
                    let time = self.now_after_loads().max(last_time);
                    event.set_time(time);
                    let place = self.place(lock.ring, write);
                    let is_done = lock.append(place, event.bytes(), write, time);
                    break is_done.then_some(Outcome::Recorded);
                }
                Some(Plan::Begin(change)) => {
                    let Some(next) = self.next(control, change) else {
                        if !may_wait {
                            lock.count_lost();
                        }
                        break Some(Outcome::Full);
                    };
                    let switch = self.switch(lock.ring, write, change.from, next);
                    if !lock.switch(self.shape.mode, write, &switch) {
                        break None;
                    }
                    is_filling_up |= switch.is_filling_up;
                }
                None => break Some(self.too_large(lock.ring)),
            }
        };
        LockedAttempt { outcome, is_filling_up }
    }

    /// Returns the sub-buffer to begin after `change.from`; `change.to` is the next one in order.
    /// Returns `None` if the reader still needs the contents of that sub-buffer.
    ///
    /// In overwrite mode, the sub-buffer is always the next one in order. In discard mode, if the
    /// reader keeps up, a ring uses its first two sub-buffers in turn, so that the others allocate
    /// no memory and these stay in the cache. For that, the ring restarts at its first sub-buffer
    /// if all sub-buffers before `from` are read. Unread events in `from` stay there until they are
    /// read. If the ring fills up before that, the sub-buffer `from` is skipped.
    fn next(&self, control: usize, change: SubbufferChange) -> Option<NextSubbuffer> {
        let SubbufferChange { from, to } = change;
        if self.shape.mode == Mode::Overwrite {
            return Some(NextSubbuffer { to, restart: 0 });
        }
        let (size, ring) = (self.shape.subbuffer_size as u64, self.shape.ring_size() as u64);
        let index = |position: u64| position % ring / size;
        // Acquire: pairs with the reader's release in `Reader::take`; the reader must have read the
        // sub-buffer before it is overwritten.
        let read = self.cells.load(control, Word::Read, Acquire);
        let restart = self.cells.load_own(control, Word::Restart);
        if let Some((start, left)) = restart_of(&self.shape, restart, to)
            && is_before(read, start)
        {
            let to = if index(to) == left { to.wrapping_add(size) } else { to };
            return (to.wrapping_sub(start) < ring).then_some(NextSubbuffer { to, restart });
        }
        if let Some(from) = from.filter(|from| index(*from) > 0 && !is_before(read, *from)) {
            let to = (from - from % ring).wrapping_add(ring);
            return Some(NextSubbuffer { to, restart: to | index(from) });
        }
        let end = to.wrapping_add(size);
        (end.wrapping_sub(read) <= ring).then_some(NextSubbuffer { to, restart: 0 })
    }

    /// Computes the stores that leave one sub-buffer and begin the next.
    fn switch(
        &self,
        ring: usize,
        write: u64,
        from: Option<u64>,
        next: NextSubbuffer,
    ) -> SubbufferSwitch {
        let NextSubbuffer { to, restart } = next;
        let control = self.shape.control_of(ring);
        let last_time = self.cells.load_own(control, Word::LastTime);
        let time = self.now_after_loads().max(last_time);
        let discarded = self.cells.lost(&self.shape, ring);
        let leave = from.map(|from| {
            let mut end = [0; 24];
            end[..8].copy_from_slice(&time.to_le_bytes());
            let content = write.wrapping_sub(from) * 8;
            end[8..16].copy_from_slice(&content.to_le_bytes());
            let distance = to.wrapping_sub(from) * 8;
            end[16..].copy_from_slice(&distance.to_le_bytes());
            (self.place(ring, from), end, discarded.to_le_bytes())
        });
        let header = Header {
            uuid: self.shape.uuid,
            stream: self.shape.stream,
            cpu: ring as u32,
            first_time: time,
            last_time: time,
            content_size: packet::SIZE as u64,
            packet_size: self.shape.subbuffer_size as u64,
            number: to.wrapping_sub(self.shape.start) / self.shape.subbuffer_size as u64,
            discarded,
        };
        let begin = (self.place(ring, to), header.to_bytes());
        #[cfg(loom)]
        let is_filling_up = false;
        #[cfg(not(loom))]
        let is_filling_up = from.is_some() && {
            let read = self.cells.load(control, Word::Read, Relaxed);
            unread(&self.shape, restart, read, to)
                > self.shape.ring_size() as u64 / DOZE_WAKE_DIVISOR
        };
        SubbufferSwitch {
            leave,
            is_filling_up,
            begin,
            #[cfg(all(target_arch = "x86_64", not(loom)))]
            last_time,
            time,
            write: to.wrapping_add(packet::SIZE as u64),
            restart,
        }
    }

    fn now_after_loads(&self) -> u64 {
        #[cfg(loom)]
        return self.ticks.fetch_add(1, Relaxed);
        #[cfg(not(loom))]
        self.clock.now_after_loads()
    }

    /// Returns the offset of a position in the memory.
    #[inline(always)]
    pub(crate) fn place(&self, ring: usize, position: u64) -> usize {
        self.shape.data_of(ring).start + (position % self.shape.ring_size() as u64) as usize
    }

    #[cold]
    fn too_large(&self, ring: usize) -> Outcome {
        let control = self.shape.control_of(ring);
        self.cells.word(control, Word::Unplaced).fetch_add(1, Relaxed);
        Outcome::TooLarge
    }
}

/// Divisor of the ring's size: a dozing reader is woken once more than a quarter of the ring is
/// unread.
#[cfg(not(loom))]
const DOZE_WAKE_DIVISOR: u64 = 4;

/// Maximum number of attempts with restartable sequences, before an event is recorded with the
/// lock.
#[cfg(all(target_arch = "x86_64", not(loom)))]
const TRIES_MAX: usize = 1000;

/// Maximum number of locks that one event loses to takeovers by other writers, before the event is
/// counted as unplaced.
const LOCK_TRIES_MAX: usize = 4;
