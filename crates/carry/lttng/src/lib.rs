//! LTTng's network protocols, both ends of each, without sockets.
//!
//! - [`relay`]: a producer sends sessions to a relay. [`relay::Command`] and [`relay::Reply`]
//!   travel on the control connection, [`relay::DataHeader`] and packets on the data connection.
//! - [`viewer`]: a viewer reads sessions from a relay, by a [`viewer::Request`] and a
//!   [`viewer::Reply`] at a time.
//!
//! [`Declarations`] finds the whole declarations of metadata. [`IndexEntry`] is what relays and
//! producers write to the index file of a stream.
//!
//! Each message decodes from a buffer that grows: `Ok(None)` means that the message is incomplete.
//! All integers are big-endian, and structures have no padding. Input is untrusted: sizes are
//! checked before memory is allocated, and a [`Fault`] names the message, the byte and the reason.

mod declarations;
mod fault;
mod index_file;
mod name;
mod packet_index;
pub mod relay;
pub mod viewer;
mod wire;

pub use declarations::Declarations;
pub use fault::{Fault, Reason};
pub use index_file::{INDEX_HEADER_SIZE, IndexEntry, IndexLayout, index_path};
pub use name::is_component;
pub use packet_index::PacketIndex;
