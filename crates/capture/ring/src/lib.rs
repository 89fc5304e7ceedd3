//! Rings of CTF packets, in memory that a traced program shares with its node's agent.
//!
//! A program records an event by copying it into the ring of the processor that it runs on, and
//! publishing it with one store. The fast path has no locked instruction, no system call and no
//! allocation. The agent reads the rings. Start at [`Slot::record`] and [`Reader::take`].
//!
//! # The memory
//!
//! One file for each traced process and channel, created by the agent. The agent seals the file
//! once the process has mapped it or has ended ([`Cells::seal`]):
//!
//! ```text
//! 0        set header: a page; see `shape`. Written by the agent before it shares the memory, but
//!          for two words:
//!            SLEEPING   set by the agent before it sleeps; the writer that clears it wakes the
//!                       agent
//!            DOZING     set while the agent polls at a long interval; cleared, with a wake-up, by
//!                       a writer whose ring fills up
//! 4096     control of ring 0, 256 bytes:
//!   +0       WRITE      position of the next event, in bytes since the start; writers
//!   +8       LAST_TIME  time of the last event, or a later time; writers
//!   +16      LOST       events discarded because the ring was full; writers
//!   +24      OWNER      process and thread that hold the ring's lock; writers
//!   +32      UNPLACED   events that were too large, or could lock no ring; writers
//!   +40      CUT        events with a shortened string; writers
//!   +48      RESTART    last restart of the ring: position, and index of the sub-buffer before it;
//!                       writers
//!   +56      RECORDED   events recorded, approximately; writers
//!   +128     READ       events before this position may be overwritten; reader
//!   +136     NEXT, SIZE_BEFORE, SIZE_AFTER: the agent's pending write to a file, for its successor
//!            if it is killed; see [`Reader::store_pending_write`]; reader
//!   +160     BEFORE     events discarded in the rings that this one has replaced; reader
//!   +168     FORGOTTEN  part of LOST and UNPLACED from before recordings were cleared; reader
//!   +176     FIRST      not 0: the contents of the replaced rings are to be discarded; reader
//!   +184     COUNTED    part of LOST and UNPLACED that the reader has added to its totals; reader
//! 4352     control of ring 1, …
//! page     data of ring 0: sub-buffers, then data of ring 1, …
//! ```
//!
//! The agent allocates headers and controls; pages of data are allocated when they are first
//! written.
//!
//! There is one ring for each processor, and an additional ring for threads that cannot use those.
//! Position `p` is in the sub-buffer `p / size % count`. In discard mode, positions may skip
//! sub-buffers: when a sub-buffer other than the first is full and all sub-buffers before it are
//! read, the ring restarts at its first sub-buffer (see `Writer::next`). The header of the full
//! sub-buffer then gives the distance to the next one. So a writer whose reader keeps up uses only
//! two sub-buffers.
//!
//! Each sub-buffer is a CTF packet: a header ([`packet`]), then events, then unused bytes. Events
//! never cross sub-buffers. An event starts with its id (2 bytes) and its time (8 bytes); see
//! [`Encoder`].
//!
//! # Writing
//!
//! Bytes before `WRITE` are complete; bytes after it have no meaning yet. Writers change `WRITE` in
//! one of two ways, which must not be mixed on one ring:
//!
//! - **Restartable sequences** (module `rseq`): the event is copied to `WRITE` and then `WRITE` is
//!   stored, in a stretch of code that the kernel aborts if the thread is preempted, migrated or
//!   interrupted by a signal. So a processor has one writer at any time, without a lock.
//! - **A lock** (module `lock`): the writer sets `OWNER`, does the same, and clears `OWNER`. No
//!   writer waits for the lock: a writer that fails to lock one ring tries another. The lock of a
//!   dead holder is taken over.
//!
//! Either way a writer that is killed at any instruction leaves all earlier events intact, and no
//! lock that blocks other writers.
//!
//! # Waking the reader
//!
//! Each writer checks `SLEEPING` after it has published its event, on the fast path too: a load of
//! a cache line that is not written to while the reader is awake. A writer that finds the flag set
//! and clears it writes to the eventfd of [`Writer::with_eventfd`]. [`Cells::fall_asleep`] explains
//! why no wake-up is missed.
//!
//! A reader that polls need not be woken. But with little data it polls at a long interval, and a
//! burst may fill the ring meanwhile. So a writer that leaves a sub-buffer, and finds more than a
//! quarter of the ring unread, checks `DOZING` and wakes the reader in the same way. So does a
//! writer that waits for room. If that wake-up is missed, the reader still polls at its interval.
//!
//! # Trust
//!
//! The reader trusts nothing: the traced program may write to all of the memory at any time. The
//! reader keeps its own position, loads each word once, checks it against the shape that it chose
//! itself, and copies bytes before it examines them. Events that are [consumed in
//! place](Reader::take_in_place) are written to a file without a copy; of these, the reader
//! examines only the time of a packet's first event. Packet headers are generated by the reader.
//! Invalid data end the ring ([`TakeOutcome::Invalid`]) and affect no other ring.

#[cfg(not(loom))]
mod backpressure;
mod cells;
mod clock;
mod encoder;
mod event_layout;
mod fast_encoder;
#[cfg(not(loom))]
pub mod large_event_memory;
#[cfg(not(loom))]
pub mod layout;
mod lock;
#[cfg(not(loom))]
mod long_event;
#[cfg(all(test, loom))]
mod models;
pub mod packet;
mod position;
mod reader;
#[cfg(all(target_arch = "x86_64", not(loom)))]
mod rseq;
mod shape;
#[cfg(not(loom))]
mod slot;
#[cfg(all(test, not(loom)))]
mod stress;
mod string_budget;
mod strings;
mod switch;
#[cfg(not(loom))]
mod wake;
mod writer;

pub use cells::Cells;
pub use clock::Clock;
pub use encoder::{Encoder, Event, ROOM_SIZE, Room};
pub use event_layout::HEADER_SIZE;
pub use fast_encoder::{Brief, BriefRoom, Pen};
#[cfg(not(loom))]
pub use long_event::with_long_event;
pub use reader::{OldestEvent, Packet, Reader, ReaderState, RingState, TakeOutcome};
#[cfg(not(loom))]
pub use shape::{DESCRIPTION, SHAPE_SIZE};
pub use shape::{
    EVENT_SIZE_DEFAULT, Mode, RINGS_MAX, SUBBUFFER_COUNT_MAX, SUBBUFFER_SIZE_MAX,
    SUBBUFFER_SIZE_MIN, Shape, ShapeError, WAIT_FOREVER,
};
#[cfg(not(loom))]
pub use slot::{Slot, WriterInUse};
pub use writer::{Outcome, Writer};
