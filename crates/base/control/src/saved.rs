//! What a daemon notes of its sessions, for the one that is started after it. Frames in a file, as on a
//! connection; nothing else reads it.

use crate::application::{NAME, SAMPLING};
use crate::channel::Channel;
use crate::form::{Flag, Number, Own, Path};
use crate::limits::BODY_SIZE_MAX;
use crate::reply::{Rule, SessionState};
use std::path::PathBuf;

messages! {
    /// What is noted.
    pub enum Saved up to BODY_SIZE_MAX {
        /// A session.
        0x0501 Session(session: SavedSession = Own),
        /// A channel of the session that came last.
        0x0502 Channel(channel: Channel = Own),
        /// Which events a channel of that session records, in their order.
        0x0503 Rule(rule: Rule = Own),
        /// A trace of a session that came before.
        0x0504 Trace(trace: SavedTrace = Own),
        /// Which requests a user's programs follow.
        0x0505 Sampling(sampling: SavedSampling = Own),
    }
}

record! {
    /// A session.
    pub struct SavedSession {
        /// The daemon's number for it.
        pub number: u64 = Number,
        /// What users know of it.
        pub state: SessionState = Own,
        /// Group of who made it.
        pub group: u32 = Number,
        /// Whether it may record programs of all users.
        pub is_privileged: bool = Flag,
        /// Snapshots so far.
        pub snapshots: u32 = Number,
    }
}

record! {
    /// Rules of sampling.
    pub struct SavedSampling {
        /// User id of whose programs follow them.
        pub user: u32 = Number,
        /// The rules, as text.
        pub rules: String = SAMPLING,
    }
}

record! {
    /// A trace that a program's rings go to.
    pub struct SavedTrace {
        /// Number of the session.
        pub session: u64 = Number,
        /// Name of the session, which has that number.
        pub name: String = NAME,
        /// Process, as the daemon sees it.
        pub pid: u32 = Number,
        /// UUID of the trace, first and second half.
        pub uuid_first: u64 = Number,
        /// The second half.
        pub uuid_second: u64 = Number,
        /// Where it is, or is to be.
        pub directory: PathBuf = Path,
    }
}
