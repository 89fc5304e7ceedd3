//! The node daemon: gives traced programs their rings, reads the rings, and writes their packets as
//! traces.
//!
//! A single thread does all of it, and waits for events only: sockets, programs that wake it, and
//! the next drain of rings that are being written. A connection is a program's or a command's, as
//! its first message says; its process and user are those that the kernel reports. The daemon
//! trusts no other statement of a peer, and no peer can make it wait.
//!
//! The daemon writes packets as the rings hold them: it reads their headers, never an event.
//!
//! The modules form layers. [`Agent`] is the event loop. Below it, `node` carries out the effects
//! of handlers, which have no sockets: `recording` (what programs record), `requests` (what
//! commands change), `snapshots` and `directories`. The handlers change the state of `programs` and
//! `sessions`; quotas are in `quota`.

mod absence;
mod acceptor;
mod agent;
mod announcer;
mod attachment;
mod background;
mod catalog;
mod channel;
mod clearing;
mod clock;
mod command;
mod confine;
mod connection;
mod date;
mod deferred_close;
mod directories;
mod effect;
mod log;
mod losses;
mod metadata;
mod node;
mod notebook;
mod output;
mod owner;
mod pace;
mod page_cache;
mod peers;
mod process;
mod program;
mod program_trace;
mod programs;
mod quota;
mod ranges;
mod recording;
mod recovery;
mod requests;
mod resume;
mod rings;
mod rule_history;
mod saved;
mod session;
mod sessions;
mod size_limit;
mod snapshots;
mod source;
mod trace;
mod turns;

pub use agent::{Agent, Options};
pub use background::Background;
pub use date::now as date_now;
pub use quota::Limits;
