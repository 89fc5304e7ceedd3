//! Scribe's protocol, client and server: the method `Log`, which transfers messages in categories
//! (early Zipkin clients send their spans as such messages), and the methods of the base service
//! `fb303`.
//!
//! - [`Frames`] and [`Service`] are a server without sockets, which turns frames into replies.
//!   A [`Handler`] implements the methods. [`Server`] adds a port and a thread for each connection.
//! - [`Batch`] and [`Client`] are the client. [`Sender`] retries each batch until the batch is
//!   accepted or the patience is exhausted, with the delays of a [`Backoff`].
//! - [`base64`] decodes messages of category `zipkin` as leniently as Zipkin does.
//!
//! Input is untrusted: [`Limits`] are enforced before memory is allocated, and a [`Fault`] names
//! the offending byte.

mod backoff;
pub mod base64;
mod batch;
mod binary;
mod client;
mod close_reason;
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
pub use close_reason::CloseReason;
pub use codes::{ResultCode, Status};
pub use entries::{Entries, Entry};
pub use fault::{Fault, Reason};
pub use frame::{FrameError, Frames};
pub use message::Header;
pub use reply::{Answer, read_reply};
pub use request::{Limits, Request, read_request};
pub use sender::{DeliveryError, Sender, SenderCounts, SenderOptions};
pub use server::{RunningServer, Server, ServerCounters, ServerOptions};
pub use service::{ConnectionAction, Handler, Service};

/// The default port of Scribe servers.
pub const PORT: u16 = 1463;
