//! State of sessions that an agent stores for its successor: frames in a file, as on a connection.
//! Only agents read the file.

use crate::channel::Channel;
use crate::encoding::{Flag, Number, RecordForm};
use crate::limits::BODY_SIZE_MAX;
use crate::reply::{Loss, RingTotals, Rule, SessionState};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// Record of the state file.
    pub enum StateRecord up to BODY_SIZE_MAX {
        /// Configuration and state of a session.
        0x0501 Session(session: SavedSession = RecordForm),
        /// Channel of the session in the most recent `Session` record.
        0x0502 Channel(channel: Channel = RecordForm),
        /// Rule for a channel of the session in the most recent `Session` record, in the order of
        /// the rules.
        0x0503 Rule(rule: Rule = RecordForm),
        /// Trace of a program's rings, recorded by a session that an earlier record describes.
        0x0504 Trace(trace: SavedTrace = RecordForm),
        /// Sampling rules for the programs of one user.
        0x0505 Sampling(sampling: SavedSampling = RecordForm),
        /// Losses of a session from one cause. The record replaces earlier records with the same
        /// session and cause.
        0x0506 Loss(loss: SavedLoss = RecordForm),
        /// Completion of the trace with this UUID: all of its missing packets have been counted.
        0x0507 Closed(trace: SavedCompletion = RecordForm),
        /// Totals of a channel's rings of ended programs. The record replaces earlier records of
        /// that channel.
        0x0508 Ended(ended: SavedRingTotals = RecordForm),
        /// Limit on the size of a session's traces.
        0x0509 Limit(limit: SavedLimit = RecordForm),
    }
}

record! {
    /// Configuration and state of a session.
    pub struct SavedSession {
        /// Number of the session, assigned by the agent. Other records refer to the session by it.
        pub number: u64 = Number,
        /// Description of the session, as shown to users.
        pub state: SessionState = RecordForm,
        /// Id of the group that the session's creator belongs to.
        pub group: u32 = Number,
        /// Set if the session may record programs of all users.
        pub is_privileged: bool = Flag,
        /// Number of snapshots taken of the session so far.
        pub snapshots: u32 = Number,
    }
}

record! {
    /// Sampling rules for the programs of a user.
    pub struct SavedSampling {
        /// Id of the user. The rules apply to this user's programs.
        pub user: u32 = Number,
        /// Text of the rules, such as `1/100`.
        pub rules: String = SAMPLING,
    }
}

record! {
    /// Trace to which the rings of a program are written.
    pub struct SavedTrace {
        /// Number of the session ([`SavedSession::number`]).
        pub session: u64 = Number,
        /// Name of the session with the number `session`.
        pub name: String = NAME,
        /// Process id, as the agent sees it.
        pub pid: u32 = Number,
        /// First half of the trace's UUID.
        pub uuid_first: u64 = Number,
        /// Second half of the trace's UUID.
        pub uuid_second: u64 = Number,
        /// Directory of the trace, which may not have been created yet.
        pub directory: PathBuf = Path,
    }
}

record! {
    /// Losses of a session from one cause, with the session's number.
    pub struct SavedLoss {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Cause and counts of the losses.
        pub loss: Loss = RecordForm,
    }
}

record! {
    /// UUID of a trace that is complete.
    #[derive(Copy)]
    pub struct SavedCompletion {
        /// First half of the trace's UUID.
        pub uuid_first: u64 = Number,
        /// Second half of the trace's UUID.
        pub uuid_second: u64 = Number,
    }
}

record! {
    /// Totals of a channel's rings of ended programs, with the session's number.
    pub struct SavedRingTotals {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Totals of the rings, with the names of session and channel.
        pub ended: RingTotals = RecordForm,
    }
}

record! {
    /// Limit on the size of a session's traces.
    #[derive(Copy)]
    pub struct SavedLimit {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Maximum size of all the session's traces in bytes.
        pub size_max: u64 = Number,
    }
}
