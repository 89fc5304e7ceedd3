//! Asks a server over HTTP: a [`Connection`] to a [`Peer`], with TLS or without, for one request at a time; or a
//! [`Server`], for who has a URL and can wait. What comes back is bounded in size and time.

mod connection;
mod server;
mod tls;

pub use connection::{Answer, Connection, Peer};
pub use server::{Server, Settings};
pub use tls::Tls;
