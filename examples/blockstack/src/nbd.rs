//! The NBD server, which provides network block devices. [`handshake`] and [`request`] implement
//! the protocol without I/O; [`server`] calls the composer or uses a volume in [`memory`], and
//! starts the trace of each request that it forwards or executes.

pub(crate) mod handshake;
pub(crate) mod memory;
pub(crate) mod request;
pub(crate) mod server;
