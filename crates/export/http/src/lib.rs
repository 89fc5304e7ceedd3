//! HTTP client with bounded answers: a [`Connection`] to a [`Peer`], with or without TLS, for one
//! request at a time; and a blocking [`Server`] for callers with a URL.

mod connection;
mod server;
mod tls;

pub use connection::{Answer, Connection, Peer};
pub use server::{Server, Settings};
pub use tls::Tls;
