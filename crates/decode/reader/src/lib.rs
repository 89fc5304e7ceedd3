//! Packets become events: finds traces, reads their streams, and merges events in time order.
//!
//! [`open`] finds and opens [`Trace`]s, [`Reading`] walks their events with a [`Consumer`]. Below
//! these lie, in the order in which data passes: `file` and `packets` (what a stream file holds),
//! `cursor` (the events of one stream), `merge` (of many), `slices` and `run` (of many at once,
//! on several threads).
//!
//! # Order
//!
//! Events come in order of time; within a stream they keep their order. Where two streams have
//! events at the same nanosecond, the order is that of the trace's UUID, the trace's name, the
//! stream class id, the stream id and the event class id, each ascending and absent ones first or
//! last as babeltrace2 has them, and at last the order of the paths. It does not depend on the
//! number of threads.

mod bind;
mod cursor;
mod discover;
mod error;
mod event;
mod file;
mod follow;
mod loss;
mod merge;
mod packets;
mod run;
mod slices;
mod stdin;
mod trace;

pub use bind::BoundFilter;
pub use discover::{Opened, Source, open};
pub use error::{Problem, ProblemKind};
pub use event::{Event, PacketView};
pub use loss::{Loss, LossKind};
pub use packets::PacketPlace;
pub use run::{Consumer, Progress, Reading, Stats, Unordered};
pub use trace::{Stream, Trace};
