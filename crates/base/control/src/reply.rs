//! Replies that the agent sends to commands.

use crate::application::EventType;
use crate::channel::{Channel, Sharing};
use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::forwarding::{ForwardTask, Forwarding};
use crate::handshake::{Clock, PROGRAM, RELEASE};
use crate::limits::{BODY_SIZE_MAX, CODE_SIZE_MAX, MESSAGE_SIZE_MAX, PATH_SIZE_MAX};
use crate::redaction::{Redaction, redactions};
use crate::request::{Retention, Session};
use crate::rotation::{Chunk, Chunks};
use crate::selection::Selection;
use crate::text::{Letters, NAME, Path, SAMPLING, Text};
use std::path::PathBuf;

const CODE: Text = Text::new(Letters::Word, CODE_SIZE_MAX);
const MESSAGE: Text = Text::new(Letters::Lines, MESSAGE_SIZE_MAX);
const EXECUTABLE: Text = Text::new(Letters::Line, PATH_SIZE_MAX);

messages! {
    /// Messages from the agent to a command. The reply to a request consists of items and a final
    /// `Done` or `Failed`.
    pub enum Reply up to BODY_SIZE_MAX {
        /// Confirms that the request has been carried out. No further items follow.
        0x0401 Done,
        /// Reports that the request has failed. Items sent before this reply remain valid.
        0x0402 Failed(failed: Failed = RecordForm),
        /// Item that describes a session.
        0x0403 Session(session: SessionState = RecordForm),
        /// Channel of the session in the most recent `Session` item.
        0x0404 Channel(channel: Channel = RecordForm),
        /// Rule for a channel of the session in the most recent `Session` item. A later rule of the
        /// channel takes precedence over earlier ones.
        0x0405 Rule(rule: Rule = RecordForm),
        /// Item that describes a traced program.
        0x0406 Application(application: Application = RecordForm),
        /// Event type of the program in the most recent `Application` item.
        0x0407 EventType(event_type: EventType = RecordForm),
        /// Item with the counters of a ring.
        0x0408 Ring(ring: Ring = RecordForm),
        /// Sampling rules of the user's programs; `None` if the user has set none.
        0x0409 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Directory of a new session's traces or snapshots, or of a completed snapshot.
        0x040a Written(path: PathBuf = Path),
        /// Totals over the freed rings of one channel.
        0x040b Ended(ended: RingTotals = RecordForm),
        /// Quota of a user on one resource, and its use.
        0x040c Quota(quota: Quota = RecordForm),
        /// Totals over the evicted rings of one channel, which had been retained for snapshots.
        0x040d Released(released: EvictedRings = RecordForm),
        /// Losses of a session from one cause. Replies to `Status`, `ListSessions`, `StopSession`
        /// and `DestroySession` contain this item.
        0x040e Loss(loss: Loss = RecordForm),
        /// Channel for events of the kernel, in the session of the most recent `Session` item.
        0x040f KernelChannel(channel: Channel = RecordForm),
        /// In place of `Rule`, for a rule that redacts fields.
        0x0410 RedactedRule(rule: RedactedRule = RecordForm),
        /// Retention of the session in the most recent `Session` item, or of the session whose
        /// snapshot was requested. Sent if the session's creator has stated one.
        0x0411 Retention(retention: Retention = RecordForm),
        /// Reach of a program's rings for one channel. Replies to `Status`, to `Snapshot` and to
        /// `ListSessions` of a single session contain this item for sessions for snapshots.
        0x0412 Reach(reach: Reach = RecordForm),
        /// Number of changes of a session's traces, or of signals, since the agent has started. It
        /// differs from earlier ones after each change.
        0x0413 Changes(changes: u64 = Number),
        /// Session to forward, for the forwarder.
        0x0420 ForwardTask(task: ForwardTask = RecordForm),
        /// Forwarding of the session in the most recent `Session` item. Replies to `Status` contain
        /// this item, too, also for destroyed sessions that the relay does not have yet.
        0x0421 Forwarding(forwarding: Forwarding = RecordForm),
        /// Summary of the chunks of a session whose trace is divided. Replies to `ListSessions`
        /// and `ListChunks` contain this item.
        0x0430 Chunks(chunks: Chunks = RecordForm),
        /// Chunk of the session in the most recent `Chunks` item.
        0x0431 Chunk(chunk: Chunk = RecordForm),
        /// Limit on the size of the traces of the session in the most recent `Session` item, in
        /// bytes. Sent if the session has one.
        0x0432 SizeMax(size_max: u64 = Number),
        /// Duration of the longest write in nanoseconds, of the session in the most recent
        /// `Session` item. Sent if its traces are written without the page cache.
        0x0433 Direct(slowest_ns: u64 = Number),
        /// Sharing of the channel in the most recent `Channel` or `KernelChannel` item.
        0x0434 Sharing(sharing: Sharing = RecordForm),
    }
}

record! {
    /// Description of a request's failure.
    pub struct Failed {
        /// Code for scripts: a constant of [`code`], or a code that a newer agent has added.
        pub code: String = CODE,
        /// Cause of the failure, as a lower-case fragment of a sentence.
        pub message: String = MESSAGE,
        /// Remedy that the user can apply, if one is known.
        pub hint: Option<String> = Optional(MESSAGE),
    }
}

/// Failure codes for scripts. The meaning of a code never changes.
pub mod code {
    /// Code for a request of a newer version, which the agent does not support.
    pub const UNKNOWN_REQUEST: &str = "unknown-request";
    /// Code for an unknown session, or one that the user has no access to.
    pub const NO_SUCH_SESSION: &str = "no-such-session";
    /// Code for the creation of a session whose name is in use.
    pub const SESSION_EXISTS: &str = "session-exists";
    /// Code for a channel that the session does not have, and for `DisableEvents` in a session
    /// without channels.
    pub const NO_SUCH_CHANNEL: &str = "no-such-channel";
    /// Code for the creation of a channel whose name is in use.
    pub const CHANNEL_EXISTS: &str = "channel-exists";
    /// Code for a request that names no channel although the session has several.
    pub const WHICH_CHANNEL: &str = "which-channel";
    /// Code for a request that the session's state or purpose does not permit.
    pub const WRONG_STATE: &str = "wrong-state";
    /// Code for an invalid filter, size, number of sub-buffers, waiting time or sampling rule.
    pub const BAD_VALUE: &str = "bad-value";
    /// Code for a request that exceeds the user's quota or a fixed limit.
    pub const QUOTA: &str = "quota";
    /// Code for a directory or file that cannot be created, written or removed, whatever the cause.
    pub const OUTPUT: &str = "output";
    /// Code for a request that the user's rights do not permit.
    pub const NOT_PERMITTED: &str = "not-permitted";
    /// Code for a session that cannot be forwarded to a relay.
    pub const FORWARD: &str = "forward";
    /// Code for events of the kernel that cannot be recorded.
    pub const KERNEL: &str = "kernel";
}

record! {
    /// Description of a session, as shown to users.
    pub struct SessionState {
        /// Configuration of the session, with the values that the agent chose.
        pub session: Session = RecordForm,
        /// State of the session: new, recording or stopped.
        pub activity: Activity = RecordForm,
        /// User id of the session's creator.
        pub owner: u32 = Number,
        /// Time of creation, in nanoseconds since 1970.
        pub created_ns: u64 = Number,
    }
}

choice! {
    /// State of a session: new, recording or stopped.
    #[derive(Copy)]
    pub enum Activity {
        /// State of a session that has never been started.
        0 "new" New,
        /// State of a session that has been started and records events.
        1 "active" Active,
        /// State of a session that has been stopped.
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
    /// Rule for events of the kernel, of which some fields are redacted.
    pub struct RedactedRule {
        /// Rule without the redactions.
        pub rule: Rule = RecordForm,
        /// Redactions of the events' fields.
        pub redactions: Vec<Redaction> = redactions(1),
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
        /// Name of the program, as the program reports it.
        pub program: String = PROGRAM,
        /// Path of the executable; empty if unknown.
        pub executable: String = EXECUTABLE,
        /// Release of the tracing library in the program.
        pub release: String = RELEASE,
        /// Source of the timestamps of the program's events.
        pub clock: Clock = RecordForm,
        /// Number of event types that the agent has read from the program's catalog.
        pub event_type_count: u32 = Number,
        /// Number of refused event types, not included in `event_type_count`: they exceed a limit
        /// of the program or the agent, or cannot be decoded. Their events are not recorded.
        pub event_types_refused: u32 = Number,
    }
}

record! {
    /// Counters of a ring since the ring's creation. The difference between two replies gives a
    /// rate.
    pub struct Ring {
        /// Name of the session that records into the ring.
        pub session: String = NAME,
        /// Name of the channel that the ring belongs to.
        pub channel: String = NAME,
        /// Id of the process that writes to the ring.
        pub pid: u32 = Number,
        /// CPU of the ring; `None` for the additional ring of threads that cannot use a CPU's ring.
        pub cpu: Option<u32> = Optional(Number),
        /// Time at which the counters were read, in nanoseconds of `CLOCK_MONOTONIC`.
        pub time_ns: u64 = Number,
        /// Number of events recorded so far, as counted by the program; `None` if the count is
        /// unavailable.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Number of events that the program dropped: the ring was full, all usable rings were
        /// locked, or the event was larger than a sub-buffer.
        pub events_discarded: u64 = Number,
        /// Number of packets that the agent has consumed from the ring.
        pub packets_taken: u64 = Number,
        /// Number of packets overwritten before the agent read them.
        pub packets_lost: u64 = Number,
        /// Number of bytes that the agent has read from the ring, plus `bytes_waiting`. Excludes
        /// bytes that were overwritten or cleared unread.
        pub bytes_written: u64 = Number,
        /// Approximate number of bytes in the ring that the agent has not read yet.
        pub bytes_waiting: u64 = Number,
        /// Capacity of the ring in bytes.
        pub size: u64 = Number,
        /// Number of events whose strings were shortened, summed over all rings of the process in
        /// the channel. The item of CPU 0 has the sum; the items of the other rings report 0.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Reach of the rings that a program has for a channel: how far back their events go.
    pub struct Reach {
        /// Name of the session that records into the rings.
        pub session: String = NAME,
        /// Name of the channel that the rings belong to.
        pub channel: String = NAME,
        /// Id of the process that writes to the rings.
        pub pid: u32 = Number,
        /// Set if no ring has overwritten an event yet, so that the rings have all events since the
        /// beginning of the recording or since it was cleared.
        pub is_complete: bool = Flag,
        /// Age of the oldest event in nanoseconds. If events were overwritten, the lowest such age
        /// of the rings with overwritten events. 0 if there is no event.
        pub age_ns: u64 = Number,
        /// Allocated size of the rings in bytes.
        pub memory: u64 = Number,
        /// Size that the rings have once each of them is full, in bytes.
        pub memory_max: u64 = Number,
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
        /// Number of events that programs dropped, as in [`Ring::events_discarded`].
        pub events_discarded: u64 = Number,
        /// Number of packets that the agent consumed from the rings.
        pub packets_taken: u64 = Number,
        /// Number of lost packets: overwritten before the agent read them, unwritten when their
        /// program ended, or in rings of an earlier agent that this agent could not adopt.
        pub packets_lost: u64 = Number,
        /// Number of bytes that the agent read from the rings.
        pub bytes_written: u64 = Number,
        /// Number of events whose strings were shortened.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// Limit of a user on one resource, over all connections, programs and sessions.
    pub struct Quota {
        /// Id of the user that the limit applies to.
        pub uid: u32 = Number,
        /// Name of the resource, such as `ring-bytes`; stable for scripts.
        pub what: String = CODE,
        /// Amount in use, in the unit of the resource.
        pub used: u64 = Number,
        /// Maximum permitted amount, in the unit of the resource.
        pub limit: u64 = Number,
        /// Number of refused reservations of the resource. For `ring-bytes`, it also counts the
        /// rings that were removed because the user exceeded the limit.
        pub refused: u64 = Number,
    }
}

record! {
    /// Totals over evicted rings. The agent retains rings for snapshots after their program or
    /// agent has ended, and evicts them when, for example, the user's programs need the memory.
    pub struct EvictedRings {
        /// Name of the session that recorded into the rings.
        pub session: String = NAME,
        /// Name of the channel that the rings belonged to.
        pub channel: String = NAME,
        /// Number of rings that were evicted.
        pub rings: u64 = Number,
        /// Number of packets in the evicted rings; no snapshot will contain them.
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
        /// Cause of the losses.
        pub cause: Cause = RecordForm,
        /// Number of lost events, without the events in lost packets.
        pub events: u64 = Number,
        /// Number of lost packets, whose events are not counted in `events`.
        pub packets: u64 = Number,
        /// Number of losses of unknown size: programs, traces, rings or event types whose lost
        /// events could not be counted.
        pub uncounted: u64 = Number,
        /// Error message of the most recent loss that had one; `None` if no loss had one.
        pub reason: Option<String> = Optional(MESSAGE),
    }
}

choice! {
    /// Cause of a loss of events or packets.
    #[derive(Copy, PartialOrd, Ord)]
    pub enum Cause {
        /// Full ring: the program recorded faster than the agent read. Includes events that were
        /// larger than a sub-buffer, and events for which the program could lock no ring.
        0 "ring-full" RingFull,
        /// Output error: the trace could not be written, for example because the disk was full.
        1 "output" Output,
        /// Size limit: the session's traces reached their maximum size on disk, or the file system
        /// has no more free space than the agent must leave.
        2 "size" Size,
        /// No agent was reading the rings, or the agent freed rings with unread events.
        3 "agent-away" AgentAway,
        /// Quota: the user's programs reached the user's limit.
        4 "quota" Quota,
        /// Failure to set up a program's rings.
        5 "attach" Attach,
        /// Refused event types, which exceeded a limit or could not be decoded.
        6 "event-types" EventTypes,
        /// Damage: a program wrote invalid data into its ring.
        7 "damaged" Damaged,
        /// Overwritten packets that had not been read yet.
        8 "overwritten" Overwritten,
        /// The program and its agent ended before the events in the program's rings were read.
        9 "cut-off" CutOff,
        /// Events of the kernel whose probes could not be attached, or did not run.
        10 "probe" Probe,
    }
}
