//! Replies of the agent to commands.

use crate::application::EventType;
use crate::channel::Channel;
use crate::form::{Flag, Number, Optional, RecordForm};
use crate::limits::{BODY_SIZE_MAX, CODE_SIZE_MAX, MESSAGE_SIZE_MAX, PATH_SIZE_MAX};
use crate::opening::{Clock, PROGRAM, RELEASE};
use crate::request::Session;
use crate::selection::Selection;
use crate::text::{Letters, NAME, Path, SAMPLING, Text};
use std::path::PathBuf;

const CODE: Text = Text::new(Letters::Word, CODE_SIZE_MAX);
const MESSAGE: Text = Text::new(Letters::Lines, MESSAGE_SIZE_MAX);
const EXECUTABLE: Text = Text::new(Letters::Line, PATH_SIZE_MAX);

messages! {
    /// Messages from the agent to a command: for each request its items, and then `Done` or
    /// `Failed`.
    pub enum Reply up to BODY_SIZE_MAX {
        /// The request has been carried out, and has no more items.
        0x0401 Done,
        /// The request has failed. Items sent earlier remain valid.
        0x0402 Failed(failed: Failed = RecordForm),
        /// A session.
        0x0403 Session(session: SessionState = RecordForm),
        /// A channel of the most recently sent session.
        0x0404 Channel(channel: Channel = RecordForm),
        /// A rule of a channel of that session. A later rule takes precedence over earlier ones.
        0x0405 Rule(rule: Rule = RecordForm),
        /// A traced program.
        0x0406 Application(application: Application = RecordForm),
        /// An event type of the most recently sent application.
        0x0407 EventType(event_type: EventType = RecordForm),
        /// State of a ring.
        0x0408 Ring(ring: Ring = RecordForm),
        /// Sampling rules in force.
        0x0409 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Directory of a trace.
        0x040a Written(path: PathBuf = Path),
        /// Totals of the rings of ended programs, for each channel that had such rings.
        0x040b Ended(ended: Ended = RecordForm),
        /// Quota of a user on one resource, and its use.
        0x040c Quota(quota: Quota = RecordForm),
        /// Rings of a channel that were retained for snapshots and evicted to free memory.
        0x040d Released(released: Released = RecordForm),
        /// Losses of a session from one cause: items of `Status`, `ListSessions`, `StopSession` and
        /// `DestroySession`.
        0x040e Loss(loss: Loss = RecordForm),
    }
}

record! {
    /// Failure of a request.
    pub struct Failed {
        /// Code for scripts: one of [`code`], or one that a newer agent has added.
        pub code: String = CODE,
        /// Cause of the failure: a lower-case fragment.
        pub message: String = MESSAGE,
        /// Remedy, if one is known.
        pub hint: Option<String> = Optional(MESSAGE),
    }
}

/// Codes of failures. They never change.
pub mod code {
    /// The request is of a newer version.
    pub const UNKNOWN_REQUEST: &str = "unknown-request";
    /// No session has that name, or the user has no access to it.
    pub const NO_SUCH_SESSION: &str = "no-such-session";
    /// A session of that name exists.
    pub const SESSION_EXISTS: &str = "session-exists";
    /// The session has no such channel.
    pub const NO_SUCH_CHANNEL: &str = "no-such-channel";
    /// The session has a channel of that name already.
    pub const CHANNEL_EXISTS: &str = "channel-exists";
    /// The session has several channels, and the request names none.
    pub const WHICH_CHANNEL: &str = "which-channel";
    /// The request requires that the session is stopped, or that it records.
    pub const WRONG_STATE: &str = "wrong-state";
    /// A filter, pattern, size or rule is invalid.
    pub const BAD_VALUE: &str = "bad-value";
    /// The request exceeds the user's quota.
    pub const QUOTA: &str = "quota";
    /// The directory or a file cannot be written.
    pub const OUTPUT: &str = "output";
}

record! {
    /// State of a session.
    pub struct SessionState {
        /// Configuration, with the values that the agent chose.
        pub session: Session = RecordForm,
        /// State of recording.
        pub activity: Activity = RecordForm,
        /// User id of the session's creator.
        pub owner: u32 = Number,
        /// Time of creation, in nanoseconds since 1970.
        pub created_ns: u64 = Number,
    }
}

choice! {
    /// State of a session's recording.
    #[derive(Copy)]
    pub enum Activity {
        /// The session has never been started.
        0 "new" New,
        /// The session records.
        1 "active" Active,
        /// The session has been stopped.
        2 "stopped" Stopped,
    }
}

record! {
    /// Rule of a channel.
    pub struct Rule {
        /// Name of the channel.
        pub channel: String = NAME,
        /// Whether the events are recorded.
        pub enabled: bool = Flag,
        /// Events that the rule enables or disables.
        pub selection: Selection = RecordForm,
    }
}

record! {
    /// Traced program, as the agent sees it.
    pub struct Application {
        /// Process id, as the agent sees it.
        pub pid: u32 = Number,
        /// Process id in the program's own PID namespace, as the program reports it.
        pub pid_inner: u32 = Number,
        /// User id.
        pub uid: u32 = Number,
        /// Name that the program reports.
        pub program: String = PROGRAM,
        /// Path of the executable; empty if unknown.
        pub executable: String = EXECUTABLE,
        /// Release of the tracing library in the program.
        pub release: String = RELEASE,
        /// Time source of the program's events.
        pub clock: Clock = RecordForm,
        /// Number of event types in the program's catalog.
        pub event_type_count: u32 = Number,
        /// Number of further event types that do not fit into the catalog or that the agent cannot
        /// decode. Their events are not recorded.
        pub event_types_refused: u32 = Number,
    }
}

record! {
    /// State of a ring. All counters start at the ring's creation; a rate is the difference between
    /// two replies.
    pub struct Ring {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// Process that writes to the ring.
        pub pid: u32 = Number,
        /// CPU of the ring; `None` for the ring of threads without access to per-CPU rings.
        pub cpu: Option<u32> = Optional(Number),
        /// Time of the snapshot in nanoseconds of `CLOCK_MONOTONIC`.
        pub time_ns: u64 = Number,
        /// Number of events recorded so far, as the program counts them; `None` without a count.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Number of events dropped because the ring was full.
        pub events_discarded: u64 = Number,
        /// Number of packets read from the ring.
        pub packets_taken: u64 = Number,
        /// Number of packets overwritten before they were read.
        pub packets_lost: u64 = Number,
        /// Number of bytes written to the ring.
        pub bytes_written: u64 = Number,
        /// Number of bytes not read yet.
        pub bytes_waiting: u64 = Number,
        /// Capacity of the ring in bytes.
        pub size: u64 = Number,
        /// Number of events with shortened strings, in all rings of the process and channel
        /// together. Only one of these rings reports the number.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Totals of a channel's freed rings, so that their losses stay visible.
    pub struct Ended {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// Number of rings.
        pub rings: u32 = Number,
        /// Number of events recorded; `None` without a count.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Number of events dropped because a ring was full.
        pub events_discarded: u64 = Number,
        /// Number of packets read from the rings.
        pub packets_taken: u64 = Number,
        /// Number of packets overwritten before they were read.
        pub packets_lost: u64 = Number,
        /// Number of bytes written to the rings.
        pub bytes_written: u64 = Number,
        /// Number of events with shortened strings.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Limit on one resource, over all connections, programs and sessions of a user.
    pub struct Quota {
        /// User id.
        pub uid: u32 = Number,
        /// Name of the resource: a code for scripts, such as `ring-bytes`.
        pub what: String = CODE,
        /// Amount in use.
        pub used: u64 = Number,
        /// Maximum permitted amount.
        pub limit: u64 = Number,
        /// Number of requests refused because of this limit.
        pub refused: u64 = Number,
    }
}

record! {
    /// Rings of ended programs or agents that were retained for snapshots, and evicted when their
    /// user's programs needed the memory.
    pub struct Released {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// Number of rings.
        pub rings: u64 = Number,
        /// Number of lost packets, which no snapshot will contain.
        pub packets_lost: u64 = Number,
    }
}

record! {
    /// Losses of a session from one cause since the session's creation.
    pub struct Loss {
        /// Name of the session.
        pub session: String = NAME,
        /// Whether the session has been destroyed.
        pub is_destroyed: bool = Flag,
        /// Cause of the losses.
        pub cause: Cause = RecordForm,
        /// Number of lost events.
        pub events: u64 = Number,
        /// Number of lost packets, whose events are not counted in `events`.
        pub packets: u64 = Number,
        /// Number of programs, traces, rings or event types with an unknown number of lost events.
        pub uncounted: u64 = Number,
        /// Error of the most recent loss.
        pub reason: Option<String> = Optional(MESSAGE),
    }
}

choice! {
    /// Cause of a loss.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Cause {
        /// The program recorded faster than the agent read its rings.
        0 "ring-full" RingFull,
        /// The trace could not be written, such as on a full disk.
        1 "output" Output,
        /// The session reached its limit on disk space.
        2 "size" Size,
        /// No agent read the rings.
        3 "agent-away" AgentAway,
        /// The user's programs reached the user's quota.
        4 "quota" Quota,
        /// A program's rings could not be set up.
        5 "attach" Attach,
        /// The agent could not store or decode an event type.
        6 "event-types" EventTypes,
        /// A program wrote invalid data into its ring.
        7 "damaged" Damaged,
        /// Packets were overwritten before they were read.
        8 "overwritten" Overwritten,
        /// A program and its agent ended at the same time.
        9 "cut-off" CutOff,
    }
}
