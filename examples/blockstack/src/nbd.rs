//! The NBD server: block devices for whoever speaks the protocol of network block devices. [`handshake`] and
//! [`request`] know the protocol and do no I/O; [`server`] asks the composer, or has a volume in [`memory`], and makes
//! the traces of requests.

pub(crate) mod handshake;
pub(crate) mod memory;
pub(crate) mod request;
pub(crate) mod server;
