//! What a daemon notes of its sessions, for the one that is started after it. Frames in a file, as on a
//! connection; nothing else reads it.

use crate::channel::Channel;
use crate::form::{Flag, Number, Own};
use crate::limits::BODY_SIZE_MAX;
use crate::reply::{Ended, Loss, Rule, SessionState};
use crate::text::{NAME, Path, SAMPLING};
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
        /// Losses of a session by one cause, in place of those noted before.
        0x0506 Loss(loss: SavedLoss = Own),
        /// The trace of that UUID has been ended, and nothing of it is missing that was not counted.
        0x0507 Closed(trace: SavedClosed = Own),
        /// What a channel's rings of ended programs have seen, in place of what was noted before.
        0x0508 Ended(ended: SavedEnded = Own),
        /// Bound on what a session writes.
        0x0509 Limit(limit: SavedLimit = Own),
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

record! {
    /// Losses of a session by one cause.
    pub struct SavedLoss {
        /// Number of the session.
        pub number: u64 = Number,
        /// The losses.
        pub loss: Loss = Own,
    }
}

record! {
    /// A trace that has been ended.
    #[derive(Copy)]
    pub struct SavedClosed {
        /// UUID of the trace, first half.
        pub uuid_first: u64 = Number,
        /// The second half.
        pub uuid_second: u64 = Number,
    }
}

record! {
    /// Counts of the rings of ended programs.
    pub struct SavedEnded {
        /// Number of the session.
        pub number: u64 = Number,
        /// The counts.
        pub ended: Ended = Own,
    }
}

record! {
    /// Bound on what a session writes.
    #[derive(Copy)]
    pub struct SavedLimit {
        /// Number of the session.
        pub number: u64 = Number,
        /// Bytes of all of its traces.
        pub size_max: u64 = Number,
    }
}
