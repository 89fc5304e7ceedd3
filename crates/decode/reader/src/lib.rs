//! Reader of CTF traces: finds traces, decodes their packets, and merges events in time order.
//!
//! [`open`] finds and opens [`Trace`]s. A [`Reading`] of them delivers events in one of three ways:
//! in order to a [`Consumer`], as ordered lines of text that [`LinePrinter`]s make on several
//! threads, or without order to [`Unordered`] consumers. The modules in the order of the data:
//! `file`, `scan` and `packets` (packets in stream files), `cursor` (events of one packet), `merge`
//! (events of all streams), `delivery` (range, filter, totals).
//!
//! # Order
//!
//! Events are delivered in order of time; events of one stream keep their order. Events of several
//! streams at the same nanosecond are ordered by the trace's UUID, the trace's name, the stream
//! class id, the stream id and the index of the event class in the metadata, and finally by the
//! order of the traces and their files. Each key is ascending, with absent values first or last as
//! in babeltrace2. Streams without an id are numbered by their paths within their class. The order
//! does not depend on the number of threads.

mod alignment;
mod bind;
mod cursor;
mod delivery;
mod discover;
mod error;
mod event;
mod event_merge;
mod file;
mod follow;
mod input;
mod limits;
mod lines;
mod live;
mod live_stream;
mod loss;
mod measurements;
mod merge;
mod packet;
mod packets;
mod reading;
mod scan;
mod stats;
mod stdin;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod text;
mod trace;
mod unordered;

pub use alignment::{Alignment, TimeBase};
pub use bind::BoundFilter;
pub use discover::{OpenTraces, Source, open};
pub use error::{Problem, ProblemKind};
pub use event::{Event, PacketView};
pub use event_merge::Consumer;
pub use follow::Follower;
pub use lines::{LinePrinter, Printing, Target};
pub use live::{LiveSet, LiveTrace};
pub use loss::{Loss, LossKind};
pub use packet::PacketLocation;
pub use reading::Reading;
pub use stats::{Progress, Stats};
pub use text::{Piece, Text};
pub use trace::{Stream, Trace};
pub use unordered::Unordered;
