//! Scribe's protocol, in which programs hand lines of categories to each other, and Zipkin's first senders their
//! spans: `Log`, and what `fb303` asks of any service. Both ends of it.
//!
//! - [`Frames`] and [`Service`] are a server without sockets: frames of bytes in, replies out. [`Server`] puts them on
//!   a port, a thread for each connection, and asks a [`Handler`].
//! - [`Batch`] and [`Client`] are the other end; [`Sender`] tries until all has come, when [`Backoff`] says.
//! - [`base64`] reads messages of category `zipkin` as leniently as Zipkin does.
//!
//! Bytes are hostile: [`Limits`] hold before anything is allocated, and what is wrong is a [`Fault`] with its byte.

mod backoff;
pub mod base64;
mod batch;
mod binary;
mod client;
mod codes;
mod entries;
mod fault;
mod frame;
mod message;
mod reply;
mod request;
mod sender;
mod server;
mod service;

pub use backoff::Backoff;
pub use batch::Batch;
pub use client::{Client, ClientError, ClientOptions};
pub use codes::{ResultCode, Status};
pub use entries::{Entries, Entry};
pub use fault::{Fault, Reason};
pub use frame::{Frames, Misfit};
pub use message::Header;
pub use reply::{Answer, read_reply};
pub use request::{Limits, Request, read_request};
pub use sender::{GaveUp, Sender, SenderCounts, SenderOptions};
pub use server::{Closed, Running, Server, ServerCounters, ServerOptions};
pub use service::{Handler, Next, Service};

/// Where Scribe's servers listen by custom.
pub const PORT: u16 = 1463;
