//! LTTng's network protocols, both ends of each, without sockets.
//!
//! - [`relay`]: a producer sends sessions to a relay. [`relay::Command`] and [`relay::Reply`]
//!   travel on the control connection, [`relay::DataHeader`] and packets on the data connection.
//! - [`viewer`]: a viewer reads sessions from a relay, by a [`viewer::Request`] and a
//!   [`viewer::Reply`] at a time.
//!
//! [`Declarations`] finds the whole declarations of metadata.
//!
//! Each message decodes from a buffer that grows: `Ok(None)` means that the message is incomplete.
//! All integers are big-endian, and structures have no padding. Input is untrusted: sizes are
//! checked before memory is allocated, and a [`Fault`] names the message, the byte and the reason.

mod declarations;
mod fault;
mod name;
pub mod relay;
pub mod viewer;
mod wire;

pub use declarations::Declarations;
pub use fault::{Fault, Reason};
pub use name::is_component;
