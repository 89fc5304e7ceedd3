//! Replies that the agent sends to commands.

use crate::application::EventType;
use crate::channel::Channel;
use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::handshake::{Clock, PROGRAM, RELEASE};
use crate::limits::{BODY_SIZE_MAX, CODE_SIZE_MAX, MESSAGE_SIZE_MAX, PATH_SIZE_MAX};
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
        /// Confirms that the request has been carried out. No further items follow.
        0x0401 Done,
        /// Reports that the request has failed. Items sent before this reply remain valid.
        0x0402 Failed(failed: Failed = RecordForm),
        /// Item that describes a session.
        0x0403 Session(session: SessionState = RecordForm),
        /// Channel of the session in the most recent `Session` item.
        0x0404 Channel(channel: Channel = RecordForm),
        /// Rule for a channel of the session in the most recent `Session` item. A later rule takes
        /// precedence over earlier ones.
        0x0405 Rule(rule: Rule = RecordForm),
        /// Item that describes a traced program.
        0x0406 Application(application: Application = RecordForm),
        /// Event type of the program in the most recent `Application` item.
        0x0407 EventType(event_type: EventType = RecordForm),
        /// Item with the counters of a ring.
        0x0408 Ring(ring: Ring = RecordForm),
        /// Sampling rules that apply to the user's programs.
        0x0409 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Directory of a trace that has been or will be written.
        0x040a Written(path: PathBuf = Path),
        /// Totals of the rings of ended programs, for each channel that had such rings.
        0x040b Ended(ended: RingTotals = RecordForm),
        /// Quota of a user on one resource, and its use.
        0x040c Quota(quota: Quota = RecordForm),
        /// Totals of a channel's rings that were retained for snapshots and then evicted to free
        /// memory.
        0x040d Released(released: EvictedRings = RecordForm),
        /// Losses of a session from one cause: an item in replies to `Status`, `ListSessions`,
        /// `StopSession` and `DestroySession`.
        0x040e Loss(loss: Loss = RecordForm),
    }
}

record! {
    /// Explanation of why a request failed.
    pub struct Failed {
        /// Code for scripts: a constant of [`code`], or a code that a newer agent has added.
        pub code: String = CODE,
        /// Cause of the failure: a lower-case fragment.
        pub message: String = MESSAGE,
        /// Remedy that the user can apply, if one is known.
        pub hint: Option<String> = Optional(MESSAGE),
    }
}

/// Codes of failures, for scripts. A code never changes its meaning.
pub mod code {
    /// The agent does not know the request, which is of a newer version.
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
    /// The session records although the request requires a stopped session, or the reverse.
    pub const WRONG_STATE: &str = "wrong-state";
    /// A filter, pattern, size or rule is invalid.
    pub const BAD_VALUE: &str = "bad-value";
    /// The request exceeds the user's quota.
    pub const QUOTA: &str = "quota";
    /// The directory or a file cannot be written.
    pub const OUTPUT: &str = "output";
}

record! {
    /// Description of a session, as shown to users.
    pub struct SessionState {
        /// Configuration of the session, with the values that the agent chose.
        pub session: Session = RecordForm,
        /// State of the session's recording.
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
        /// The session has been started and records events.
        1 "active" Active,
        /// The session has been stopped.
        2 "stopped" Stopped,
    }
}

record! {
    /// Rule for the events of a channel.
    pub struct Rule {
        /// Name of the channel, unique in its session.
        pub channel: String = NAME,
        /// Set if the rule enables the selected events, clear if it disables them.
        pub enabled: bool = Flag,
        /// Events that the rule enables or disables.
        pub selection: Selection = RecordForm,
    }
}

record! {
    /// Description of a traced program, as shown to users.
    pub struct Application {
        /// Process id, as the agent sees it.
        pub pid: u32 = Number,
        /// Process id in the program's own PID namespace, as the program reports it.
        pub pid_inner: u32 = Number,
        /// User id that the program runs under.
        pub uid: u32 = Number,
        /// Name that the program reports.
        pub program: String = PROGRAM,
        /// Path of the executable; empty if unknown.
        pub executable: String = EXECUTABLE,
        /// Release of the tracing library in the program.
        pub release: String = RELEASE,
        /// Source of the timestamps of the program's events.
        pub clock: Clock = RecordForm,
        /// Number of event types in the program's catalog.
        pub event_type_count: u32 = Number,
        /// Number of event types that do not fit into the catalog or that the agent cannot decode,
        /// in addition to `event_type_count`. Their events are not recorded.
        pub event_types_refused: u32 = Number,
    }
}

record! {
    /// Counters of a ring, counted from the ring's creation. A rate is the difference between two
    /// replies.
    pub struct Ring {
        /// Name of the session that records into the ring.
        pub session: String = NAME,
        /// Name of the channel that the ring belongs to.
        pub channel: String = NAME,
        /// Id of the process that writes to the ring.
        pub pid: u32 = Number,
        /// CPU of the ring; `None` for the ring of threads without access to per-CPU rings.
        pub cpu: Option<u32> = Optional(Number),
        /// Time at which the counters were read, in nanoseconds of `CLOCK_MONOTONIC`.
        pub time_ns: u64 = Number,
        /// Number of events recorded so far, as the program counts them; `None` if the count is
        /// unavailable.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Number of events dropped because the ring was full.
        pub events_discarded: u64 = Number,
        /// Number of packets that the agent has read from the ring.
        pub packets_taken: u64 = Number,
        /// Number of packets overwritten before the agent read them.
        pub packets_lost: u64 = Number,
        /// Number of bytes written to the ring.
        pub bytes_written: u64 = Number,
        /// Number of bytes in the ring that the agent has not read yet.
        pub bytes_waiting: u64 = Number,
        /// Capacity of the ring in bytes.
        pub size: u64 = Number,
        /// Number of events whose strings were shortened, in all rings of the process and channel
        /// together. Only one ring of the process and channel reports this number.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Totals over the freed rings of a channel, so that their losses stay visible.
    pub struct RingTotals {
        /// Name of the session that recorded into the rings.
        pub session: String = NAME,
        /// Name of the channel that the rings belonged to.
        pub channel: String = NAME,
        /// Number of freed rings in the totals.
        pub rings: u32 = Number,
        /// Number of events recorded; `None` if the count is unavailable.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Number of events dropped because a ring was full.
        pub events_discarded: u64 = Number,
        /// Number of packets that the agent read from the rings.
        pub packets_taken: u64 = Number,
        /// Number of packets overwritten before the agent read them.
        pub packets_lost: u64 = Number,
        /// Number of bytes written to the rings.
        pub bytes_written: u64 = Number,
        /// Number of events whose strings were shortened.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Limit on one resource, over all connections, programs and sessions of a user.
    pub struct Quota {
        /// Id of the user that the limit applies to.
        pub uid: u32 = Number,
        /// Name of the resource: a code for scripts, such as `ring-bytes`.
        pub what: String = CODE,
        /// Amount in use, in the unit of the resource.
        pub used: u64 = Number,
        /// Maximum permitted amount, in the unit of the resource.
        pub limit: u64 = Number,
        /// Number of requests refused because of this limit.
        pub refused: u64 = Number,
    }
}

record! {
    /// Totals over rings of ended programs or agents that were retained for snapshots. The agent
    /// evicted them when the user's programs needed the memory.
    pub struct EvictedRings {
        /// Name of the session that recorded into the rings.
        pub session: String = NAME,
        /// Name of the channel that the rings belonged to.
        pub channel: String = NAME,
        /// Number of rings that were evicted.
        pub rings: u64 = Number,
        /// Number of packets lost with the rings; no snapshot will contain them.
        pub packets_lost: u64 = Number,
    }
}

record! {
    /// Losses of a session from one cause since the session's creation.
    pub struct Loss {
        /// Name of the session that lost events or packets.
        pub session: String = NAME,
        /// Set if the session has been destroyed.
        pub is_destroyed: bool = Flag,
        /// Cause to which the losses are attributed.
        pub cause: Cause = RecordForm,
        /// Number of lost events, without the events in lost packets.
        pub events: u64 = Number,
        /// Number of lost packets, whose events are not counted in `events`.
        pub packets: u64 = Number,
        /// Number of losses of unknown size: programs, traces, rings or event types for which lost
        /// events could not be counted.
        pub uncounted: u64 = Number,
        /// Error message of the most recent loss; `None` if the loss had none.
        pub reason: Option<String> = Optional(MESSAGE),
    }
}

choice! {
    /// Cause of a loss of events or packets.
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
        /// The agent could not store or decode the description of an event type.
        6 "event-types" EventTypes,
        /// A program wrote invalid data into its ring.
        7 "damaged" Damaged,
        /// Packets were overwritten before they were read.
        8 "overwritten" Overwritten,
        /// A program and its agent ended at the same time.
        9 "cut-off" CutOff,
    }
}
