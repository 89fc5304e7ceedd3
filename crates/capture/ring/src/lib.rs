//! Rings of CTF packets, in memory that a traced program shares with its node's daemon.
//!
//! A program records an event by copying it into the ring of the processor that it runs on, and
//! publishing it with one store: no locked instruction, no system call, no allocation. The daemon
//! reads from the other side. Start at [`Slot::record`] and [`Reader::take`].
//!
//! # The memory
//!
//! One file for each traced process and channel, made by the daemon, which seals it for good when
//! the process has mapped it ([`Cells::seal`]):
//!
//! ```text
//! 0        set header: a page; see `shape`. Written once, by the daemon, but for two words:
//!            SLEEPING   the daemon sets it before it sleeps; who clears it wakes the daemon
//!            DOZING     the same while it comes by itself, but not soon: who finds the ring filling up clears it
//! 4096     control of ring 0, 256 bytes:
//!   +0       WRITE      position of the next event, in bytes since ever; writers
//!   +8       LAST_TIME  when the last event happened; writers
//!   +16      LOST       events that found the ring full; writers
//!   +24      OWNER      process and thread that hold the ring, where that takes a lock; writers
//!   +32      UNPLACED   events that found no ring to write to; writers
//!   +40      CUT        events of which a string was shortened; writers
//!   +48      RESTART    where the ring last went on at its start, and which sub-buffer it left; writers
//!   +128     READ       the daemon needs nothing before this position; reader
//!   +136     NEXT, SIZE_BEFORE, SIZE_AFTER: what the daemon is writing to a file, for the one that comes
//!            after it if it is killed meanwhile; see [`Reader::announce`]; reader
//!   +160     BEFORE     events that were discarded in the ring that this one has replaced; reader
//!   +168     FORGOTTEN  of LOST and UNPLACED, those from before what was recorded was cleared; reader
//!   +176     FIRST      not 0: what the ring that this one has replaced holds is not wanted; reader
//! 4352     control of ring 1, …
//! page     data of ring 0: sub-buffers, then data of ring 1, …
//! ```
//!
//! The daemon allocates headers and controls; pages of data come when they are first written.
//!
//! There is a ring for each processor, and one more for threads that cannot use those. A position
//! is in the sub-buffer `position / size % count`. Positions may pass over sub-buffers: a ring of which all
//! sub-buffers but the last are read goes on at its start (see `Writer::next`), and the header of the one that
//! was left says how far away the next one is. So a reader that keeps up has the writer use two sub-buffers.
//!
//! Each sub-buffer is a CTF packet: a header ([`packet`]), then events, then nothing up to its end. Events
//! never cross sub-buffers. An event starts with its id (2 bytes) and its time (8 bytes); see [`Encoder`].
//!
//! # Who writes, and when it counts
//!
//! What lies before `WRITE` is complete; what lies behind is nothing yet. Writers change `WRITE`
//! in one of two ways, which may not be mixed on one ring:
//!
//! - **Restartable sequences** (module `rseq`): the event is copied behind `WRITE` and then `WRITE` is
//!   stored, in a stretch of code that the kernel restarts if the thread is preempted, moved or
//!   interrupted by a signal. So there is one writer on a processor at any time, without a lock.
//! - **A lock** (module `lock`): `OWNER` is taken, the same is done, and `OWNER` is given back. Nobody
//!   waits for it: who does not get it takes another ring. If its holder dies, it is taken over.
//!
//! Either way a writer that is killed at any instruction leaves all events before its own, and
//! nothing that others would have to wait for.
//!
//! # Who wakes the reader
//!
//! Each writer looks at `SLEEPING` when its event is published, on the quick path too: a load of a
//! line that nobody writes to as long as the reader is awake. Who finds it set and clears it writes to
//! the eventfd of [`Writer::waking`]. How the two sides do not miss each other is in
//! [`Cells::fall_asleep`].
//!
//! A reader that comes by itself need not be woken by anybody. But while there is little it comes seldom, and
//! then there may suddenly be much: who leaves a sub-buffer, and finds that more than a quarter of the ring has
//! not been read, looks at `DOZING` and wakes it in the same way. If that is missed, the reader comes as late as
//! it would have.
//!
//! # What the reader believes
//!
//! Nothing. All of the memory may be written by the traced program at any time. The reader keeps its
//! own position, takes words once, checks them against the shape that it chose itself, and copies
//! bytes before it looks at them; events that go to a file are not looked at, and not copied. It makes
//! packet headers anew. Nonsense ends the ring ([`Taken::Nonsense`]) and costs no other.

#[cfg(not(loom))]
mod backpressure;
mod brief;
mod cells;
mod clock;
mod encoder;
mod event_layout;
mod lock;
#[cfg(not(loom))]
mod long_event;
#[cfg(all(test, loom))]
mod models;
pub mod packet;
mod position;
mod reader;
#[cfg(not(loom))]
pub mod rooms;
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

pub use brief::{Brief, BriefRoom, Pen};
pub use cells::Cells;
pub use clock::Clock;
pub use encoder::{Encoder, Event, ROOM_SIZE, Room};
pub use event_layout::HEADER_SIZE;
#[cfg(not(loom))]
pub use long_event::with_long_event;
pub use reader::{Left, Moment, Packet, Reader, Taken};
#[cfg(not(loom))]
pub use shape::SHAPE_SIZE;
pub use shape::{
    EVENT_SIZE_DEFAULT, Mode, RINGS_MAX, SUBBUFFER_COUNT_MAX, SUBBUFFER_SIZE_MAX,
    SUBBUFFER_SIZE_MIN, Shape, ShapeError, WAIT_FOREVER,
};
#[cfg(not(loom))]
pub use slot::{Slot, StillUsed};
pub use writer::{Outcome, Writer};
