//! The node agent: gives traced programs their rings, reads the rings, and writes their packets as
//! traces.
//!
//! A single thread runs the event loop. The loop waits only for descriptors, such as sockets and
//! the eventfds of programs, and for deadlines, such as the next drain of rings that are being
//! written. The first message of a connection says whether the peer is a program or a command. The
//! kernel reports the peer's process and user. No message of a peer is trusted, and no peer can
//! block the agent.
//!
//! The agent writes events as they are in the rings, without decoding their fields. It generates
//! the headers of the packets.
//!
//! The modules form layers. [`Agent`] is the event loop. Below it, `node` carries out the effects
//! of handlers, which have no sockets: `recording` (what programs record), `requests` (what
//! commands change), `snapshots` and `directories`. The handlers change the state of `programs` and
//! `sessions`; quotas are in `quota`.

mod absence;
mod acceptor;
mod agent;
mod announcer;
mod approved_probes;
mod attachment;
mod background;
mod catalog;
mod change_waits;
mod channel;
mod chunk_meter;
mod chunk_name;
mod chunk_removal;
mod chunks;
mod clearing;
mod clock;
mod command;
mod completeness;
mod confine;
mod connection;
mod date;
mod deferred_close;
mod direct;
mod directories;
mod dividing;
mod effect;
mod fair_queue;
mod forwarding;
mod log;
mod losses;
mod memory_limit;
mod metadata;
mod node;
mod notebook;
mod output;
mod owner;
mod pace;
mod page_cache;
mod peers;
mod pending_rotation;
mod process;
mod program;
mod program_trace;
mod programs;
mod quota;
mod ranges;
mod reach;
mod recording;
mod recovery;
mod requests;
mod resume;
mod rings;
mod rotating;
mod rule_history;
mod saved;
mod session;
mod sessions;
mod sharing;
mod size_limit;
mod snapshots;
mod source;
mod trace;
mod waiting_process;

pub use agent::{Agent, Options};
pub use background::Background;
pub use confine::confine_forwarder;
pub use date::now as date_now;
pub use metadata::{KernelTrace, schema_of_rings};
pub use program_trace::new_uuid;
pub use quota::Limits;
pub use waiting_process::WaitingProcess;
