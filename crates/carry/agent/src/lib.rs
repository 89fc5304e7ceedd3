//! The node daemon: gives traced programs their rings, reads them, and writes what they hold as traces.
//!
//! One thread does all of it, and waits for nothing but work: sockets, programs that wake it, and the next
//! look at rings that are being written. Programs and commands are told apart by what they say first, and
//! known by what the kernel says of them. None of what they say is believed, and none of them can make it
//! wait.
//!
//! What leaves it are packets, as the rings had them: it reads their headers, never an event.

mod application;
mod attach;
mod background;
mod behind;
mod bound;
mod caller;
mod catalog;
mod clear;
mod clock;
mod confine;
mod connection;
mod date;
mod departed;
mod door;
mod engine;
mod foreign;
mod log;
mod losses;
mod metadata;
mod output;
mod outputs;
mod owner;
mod pace;
mod process;
mod quota;
mod ranges;
mod requests;
mod rings;
mod saved;
mod session;
mod snapshot;
mod trace;

pub use background::Background;
pub use date::now as date_now;
pub use engine::{Agent, Options};
pub use quota::Limits;
