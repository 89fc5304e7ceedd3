//! The server: it listens, lets nobody in who should not be, and hands requests to who answers them. Start at
//! [`Server::start`]; a request's way is in `route`.
//!
//! - Listeners are on this machine alone, unless there are a certificate and tokens, or networks that are trusted
//!   ([`StartError`]).
//! - Each request says to whom it was sent, and whose page sent it; `guard` looks at both, so that no page in a browser
//!   can use the server behind its user's back.
//! - Connections are limited, and the one that is quiet for longest makes room for a new one (`connections`). Who sends
//!   slowly is not waited for.
//! - Questions are asked on threads of their own, so many at a time, each for so long (`ask`).

mod ask;
mod assets;
mod connection;
mod connections;
mod exposition;
mod guard;
mod listener;
mod metrics;
mod pages;
mod process;
mod route;
mod server;
mod settings;
mod shared;
mod tls;

pub use server::{Conditions, Running, Server};
pub use settings::{Listen, Network, Settings, StartError, Tls};
