//! State of sessions that an agent stores for its successor. The state file contains frames, as on
//! a connection; only agents read it.

use crate::channel::{Channel, Sharing};
use crate::encoding::{Flag, Number, RecordForm};
use crate::forwarding::ForwardTask;
use crate::limits::BODY_SIZE_MAX;
use crate::reply::{Loss, RedactedRule, RingTotals, Rule, SessionState};
use crate::request::Retention;
use crate::rotation::{Chunk, Rotation};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// One record of the state file.
    pub enum StateRecord up to BODY_SIZE_MAX {
        /// Configuration and state of a session.
        0x0501 Session(session: SavedSession = RecordForm),
        /// Channel of the session in the most recent `Session` record.
        0x0502 Channel(channel: Channel = RecordForm),
        /// Rule for a channel of the session in the most recent `Session` record. The records of a
        /// channel's rules are in the order of the rules.
        0x0503 Rule(rule: Rule = RecordForm),
        /// Trace of a program's rings, written for a session that an earlier record describes.
        0x0504 Trace(trace: SavedTrace = RecordForm),
        /// Sampling rules for the programs of one user.
        0x0505 Sampling(sampling: SavedSampling = RecordForm),
        /// Losses of a session from one cause. The record replaces earlier records with the same
        /// session and cause.
        0x0506 Loss(loss: SavedLoss = RecordForm),
        /// Completion of the trace with this UUID. The losses up to the trace's end have been
        /// counted.
        0x0507 Closed(trace: SavedCompletion = RecordForm),
        /// Totals over the freed rings of one channel. The record replaces earlier records of that
        /// channel.
        0x0508 Ended(ended: SavedRingTotals = RecordForm),
        /// Limit on the size of a session's traces.
        0x0509 Limit(limit: SavedLimit = RecordForm),
        /// Channel for events of the kernel, in place of a `Channel` record.
        0x050a KernelChannel(channel: Channel = RecordForm),
        /// In place of a `Rule` record, for a rule that redacts fields.
        0x050b RedactedRule(rule: RedactedRule = RecordForm),
        /// Retention of a session for snapshots.
        0x050c Retention(retention: SavedRetention = RecordForm),
        /// Number of a session whose traces are written without the page cache.
        0x050d Direct(number: u64 = Number),
        /// Sharing of the channel in the most recent `Channel` or `KernelChannel` record.
        0x050e Sharing(sharing: Sharing = RecordForm),
        /// Mark that the channel in the most recent such record was removed.
        0x050f Removed,
        /// Session that is forwarded to a relay. It may be destroyed already.
        0x0520 Forward(task: ForwardTask = RecordForm),
        /// Rotation of a session's trace. Records of its chunks follow, the oldest first.
        0x0530 Rotation(rotation: SavedRotation = RecordForm),
        /// Chunk of a session's trace.
        0x0531 Chunk(chunk: SavedChunk = RecordForm),
    }
}

record! {
    /// Configuration and state of a session.
    pub struct SavedSession {
        /// Number of the session, assigned by the agent. Other records refer to the session by it.
        pub number: u64 = Number,
        /// Description of the session, as shown to users.
        pub state: SessionState = RecordForm,
        /// Group id of the session's creator.
        pub group: u32 = Number,
        /// Set if the session may record programs of all users, not only its creator's.
        pub is_privileged: bool = Flag,
        /// Number of snapshots requested of the session so far.
        pub snapshots: u32 = Number,
    }
}

record! {
    /// Sampling rules for the programs of a user.
    pub struct SavedSampling {
        /// Id of the user to whose programs the rules apply.
        pub user: u32 = Number,
        /// Text of the rules, such as `1/100`.
        pub rules: String = SAMPLING,
    }
}

record! {
    /// Trace that contains the packets of a program's rings.
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
        /// Number of the session that lost events or packets ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Cause and counts of the losses.
        pub loss: Loss = RecordForm,
    }
}

record! {
    /// Mark that the trace with this UUID is complete.
    #[derive(Copy)]
    pub struct SavedCompletion {
        /// First half of the trace's UUID.
        pub uuid_first: u64 = Number,
        /// Second half of the trace's UUID.
        pub uuid_second: u64 = Number,
    }
}

record! {
    /// Totals over the freed rings of one channel, with the session's number.
    pub struct SavedRingTotals {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Totals over the rings, with the names of session and channel.
        pub ended: RingTotals = RecordForm,
    }
}

record! {
    /// Limit on the size of a session's traces.
    #[derive(Copy)]
    pub struct SavedLimit {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Maximum total size of the session's traces, in bytes.
        pub size_max: u64 = Number,
    }
}

record! {
    /// Retention of a session for snapshots, with the session's number.
    #[derive(Copy)]
    pub struct SavedRetention {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Events that the session retains.
        pub retention: Retention = RecordForm,
    }
}

record! {
    /// Rotation of a session's trace, with the session's number.
    pub struct SavedRotation {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Rotation of the session's trace.
        pub rotation: Rotation = RecordForm,
        /// Number of the next chunk.
        pub next_sequence: u64 = Number,
        /// Number of chunks that were removed because of a limit.
        pub removed: u64 = Number,
        /// Size of the removed chunks in bytes.
        pub removed_bytes: u64 = Number,
        /// Number of chunks for which the command has failed.
        pub hook_failures: u64 = Number,
    }
}

record! {
    /// Chunk of a session's trace, with the session's number.
    pub struct SavedChunk {
        /// Number of the session ([`SavedSession::number`]).
        pub number: u64 = Number,
        /// Description of the chunk, as shown to users.
        pub chunk: Chunk = RecordForm,
        /// Time of the chunk's first event, in nanoseconds since 1970; 0 for an empty chunk.
        pub begun_ns: u64 = Number,
        /// Device number of the chunk's directory.
        pub device: u64 = Number,
        /// Inode number of the chunk's directory.
        pub inode: u64 = Number,
    }
}
