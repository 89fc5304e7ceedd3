//! Server that receives spans over HTTP, gRPC and Scribe, and answers queries over HTTP: listeners,
//! access control, and the routing of requests. Start at [`Server::start`]; `route` shows the
//! stages of a request.
//!
//! - Listeners bind only to loopback addresses, unless there are a certificate and tokens, or
//!   trusted networks ([`StartError`]). For Scribe, only loopback addresses are ever permitted.
//! - `guard` checks the `Host` of each HTTP request against DNS rebinding, the `Origin` of requests
//!   other than GET, HEAD and OPTIONS against cross-site requests, and the token.
//! - The number of connections is limited. At the limit, a new connection evicts the connection
//!   that has been idle for longest (`connections`). Slow senders are timed out.
//! - Queries run on blocking threads, a limited number at a time, each with a deadline (`queries`).

mod assets;
mod connection;
mod connections;
mod counts;
mod exposition;
mod guard;
mod listener;
mod metrics;
mod pages;
mod process;
mod queries;
mod response;
mod route;
mod server;
mod settings;
mod shared;
mod tls;

pub use server::{Entrance, Running, Server, ServerState};
pub use settings::{Listen, Settings, StartError, Tls};
