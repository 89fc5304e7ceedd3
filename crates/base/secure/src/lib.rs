//! Protection of network connections: files with certificates and keys, tokens, trusted networks,
//! and TLS for blocking connections.
//!
//! [`Channel`] encrypts and decrypts without a socket. [`Stream`] is a client's connection with
//! [`Credentials`]; [`ServerKeys::accept`] is the server's side. After the TLS handshake the client
//! sends a [`Greeting`] with its token, and the server answers whether it is admitted.

mod channel;
mod credentials;
mod error;
mod files;
mod greeting;
mod network;
mod server_keys;
mod stream;
mod tokens;

pub use channel::{Channel, TLS_FIRST_BYTE};
pub use credentials::Credentials;
pub use error::Error;
pub use files::{server_config, trusted_roots};
pub use greeting::{Greeting, GreetingError};
pub use network::Network;
pub use server_keys::ServerKeys;
pub use stream::{Refusal, Stream};
pub use tokens::{Access, Denial, TokenFiles, Tokens};

#[cfg(test)]
mod tests;
