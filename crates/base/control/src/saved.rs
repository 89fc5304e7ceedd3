//! State of sessions that an agent stores for its successor: frames in a file, as on a connection.
//! Only agents read the file.

use crate::channel::Channel;
use crate::form::{Flag, Number, RecordForm};
use crate::limits::BODY_SIZE_MAX;
use crate::reply::{Ended, Loss, Rule, SessionState};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// Record of the state file.
    pub enum Saved up to BODY_SIZE_MAX {
        /// A session.
        0x0501 Session(session: SavedSession = RecordForm),
        /// A channel of the most recently stored session.
        0x0502 Channel(channel: Channel = RecordForm),
        /// A rule of a channel of that session, in the order of the rules.
        0x0503 Rule(rule: Rule = RecordForm),
        /// A trace of an earlier session in the file.
        0x0504 Trace(trace: SavedTrace = RecordForm),
        /// Sampling rules of a user's programs.
        0x0505 Sampling(sampling: SavedSampling = RecordForm),
        /// Losses of a session from one cause; replaces earlier records of that cause.
        0x0506 Loss(loss: SavedLoss = RecordForm),
        /// The trace with this UUID is complete: all of its missing packets have been counted.
        0x0507 Closed(trace: SavedClosed = RecordForm),
        /// Totals of a channel's rings of ended programs; replaces earlier records of that channel.
        0x0508 Ended(ended: SavedEnded = RecordForm),
        /// Limit on the size of a session's traces.
        0x0509 Limit(limit: SavedLimit = RecordForm),
    }
}

record! {
    /// Configuration and state of a session.
    pub struct SavedSession {
        /// The agent's number for the session.
        pub number: u64 = Number,
        /// State shown to users.
        pub state: SessionState = RecordForm,
        /// Group id of the session's creator.
        pub group: u32 = Number,
        /// Whether the session may record programs of all users.
        pub is_privileged: bool = Flag,
        /// Number of snapshots so far.
        pub snapshots: u32 = Number,
    }
}

record! {
    /// Sampling rules of a user.
    pub struct SavedSampling {
        /// User id.
        pub user: u32 = Number,
        /// Text of the rules.
        pub rules: String = SAMPLING,
    }
}

record! {
    /// Trace of a program's rings.
    pub struct SavedTrace {
        /// Number of the session.
        pub session: u64 = Number,
        /// Name of the session with that number.
        pub name: String = NAME,
        /// Process id, as the agent sees it.
        pub pid: u32 = Number,
        /// First half of the trace's UUID.
        pub uuid_first: u64 = Number,
        /// Second half of the trace's UUID.
        pub uuid_second: u64 = Number,
        /// Present or future directory of the trace.
        pub directory: PathBuf = Path,
    }
}

record! {
    /// Losses of a session from one cause.
    pub struct SavedLoss {
        /// Number of the session.
        pub number: u64 = Number,
        /// Cause and counts of the losses.
        pub loss: Loss = RecordForm,
    }
}

record! {
    /// Completed trace.
    #[derive(Copy)]
    pub struct SavedClosed {
        /// First half of the trace's UUID.
        pub uuid_first: u64 = Number,
        /// Second half of the trace's UUID.
        pub uuid_second: u64 = Number,
    }
}

record! {
    /// Totals of the rings of ended programs.
    pub struct SavedEnded {
        /// Number of the session.
        pub number: u64 = Number,
        /// Totals of the rings.
        pub ended: Ended = RecordForm,
    }
}

record! {
    /// Limit on the size of a session's traces.
    #[derive(Copy)]
    pub struct SavedLimit {
        /// Number of the session.
        pub number: u64 = Number,
        /// Maximum size of all the session's traces in bytes.
        pub size_max: u64 = Number,
    }
}
