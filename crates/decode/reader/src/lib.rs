//! Packets become events: finds traces, reads their streams, and merges events in time order.
//!
//! [`open`] finds and opens [`Trace`]s, a [`Reading`] of them passes their events on: in order to
//! a [`Consumer`], as ordered lines of text made on several threads by [`LinePrinter`]s, or
//! without order to [`Unordered`] consumers. Below these lie, as data passes: `file`, `scan`
//! and `packets` (what stream files hold), `cursor` (the events of one packet), `merge` (of many
//! streams), `work` (range, filter, accounts).
//!
//! # Order
//!
//! Events come in order of time; within a stream they keep their order. Where two streams have
//! events at the same nanosecond, the order is that of the trace's UUID, the trace's name, the
//! stream class id, the stream id and the event class id, each ascending and absent ones first or
//! last as babeltrace2 has them, and at last the order of the paths. Streams without an id have
//! that of their place among the paths of their class. It does not depend on the
//! number of threads.

mod bind;
mod cursor;
mod delivery;
mod discover;
mod error;
mod event;
mod file;
mod follow;
mod input;
mod limits;
mod lines;
mod loss;
mod merge;
mod ordered;
mod packet;
mod packets;
mod reading;
mod scan;
mod stats;
mod stdin;
mod text;
mod trace;
mod unordered;

pub use bind::BoundFilter;
pub use discover::{Opened, Source, open};
pub use error::{Problem, ProblemKind};
pub use event::{Event, PacketView};
pub use follow::Follower;
pub use lines::{LinePrinter, Printing, Target};
pub use loss::{Loss, LossKind};
pub use ordered::Consumer;
pub use packet::PacketPlace;
pub use reading::Reading;
pub use stats::{Progress, Stats};
pub use text::{Piece, Text};
pub use trace::{Stream, Trace};
pub use unordered::Unordered;
