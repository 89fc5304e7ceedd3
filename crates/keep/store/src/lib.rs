//! What every store of spans can do: take batches ([`SpanStore::accept`]), and answer questions about what it keeps.
//! A store is written once for all who ask; who asks is written once for all stores.
//!
//! - A [`Batch`] is taken as it came from the network, in any format of `export/wire`. It is [`Accepted`] when it is as
//!   durable as the store makes it, and can be found.
//! - A [`Query`] asks for requests that spans with certain [`Condition`]s are part of. The answer is a [`Page`] of
//!   [`Summary`]s; whole requests are asked for by their ids.
//! - [`Link`]s say which service calls which, and [`Latency`] how long what matches takes; [`Heat`] says it over time,
//!   and a [`Difference`] what is special about spans in a box of it.
//!
//! What is the same for all stores is here too: whether a [`Query`] holds for a request, what its [`Summary`] is and
//! which page it is on, and the [`Linker`]. A [`MemoryStore`] puts it together in the plainest way.

mod accept;
mod cancel;
mod condition;
mod difference;
mod error;
mod heat;
mod interval;
mod latency;
mod link;
mod memory;
mod otlp;
mod query;
mod same;
mod store;
mod summary;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod zipkin;

pub use accept::{Accepted, Batch, Done, Policy, Refusal};
pub use cancel::{Cancel, check, is_cancelled};
pub use condition::{Case, Condition, Number, TagTest, TextField, TextTest, doubts, text_of};
pub use difference::{Area, Difference, Spoken, Tally, Topic, words_of};
pub use error::Error;
pub use heat::Heat;
pub use interval::{DatedCounter, Interval, time_of_day_ns};
pub use latency::{Durations, Example, Latency};
pub use link::{Call, Link, Linker};
pub use memory::{MemoryStore, Room};
pub use otlp::{Attribute, SpanEvent, SpanLink};
pub use query::{Order, Page, Place, Query, Window};
pub use same::{compare, fingerprint};
pub use store::{Counters, LossTimes, SpanStore, TagField};
pub use summary::{ServiceSpans, Summary, began_ns, root_of};
