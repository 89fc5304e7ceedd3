//! What the daemon answers to commands.

use crate::application::EventType;
use crate::channel::Channel;
use crate::form::{Flag, Number, Optional, Own};
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
    /// From the daemon to a command: for each request items, and then `Done` or `Failed`.
    pub enum Reply up to BODY_SIZE_MAX {
        /// There are no more items, and what was asked for is done.
        0x0401 Done,
        /// It is not done. Items that came before hold.
        0x0402 Failed(failed: Failed = Own),
        /// A session.
        0x0403 Session(session: SessionState = Own),
        /// A channel of the session that came last.
        0x0404 Channel(channel: Channel = Own),
        /// Which events a channel of that session records. Later ones hold against earlier ones.
        0x0405 Rule(rule: Rule = Own),
        /// A traced program.
        0x0406 Application(application: Application = Own),
        /// An event type of the application that came last.
        0x0407 EventType(event_type: EventType = Own),
        /// A ring.
        0x0408 Ring(ring: Ring = Own),
        /// Which requests are followed.
        0x0409 Sampling(rules: Option<String> = Optional(SAMPLING)),
        /// Where a trace is.
        0x040a Written(path: PathBuf = Path),
        /// What the rings of programs that have ended have seen, for each channel that had some.
        0x040b Ended(ended: Ended = Own),
        /// What a user may have the daemon hold.
        0x040c Quota(quota: Quota = Own),
        /// What was kept of a channel for snapshots, and had to make room.
        0x040d Released(released: Released = Own),
        /// What a session has lost by one cause: items of `Status`, `ListSessions`, `StopSession` and
        /// `DestroySession`.
        0x040e Loss(loss: Loss = Own),
    }
}

record! {
    /// Why something is not done.
    pub struct Failed {
        /// For scripts: a word of [`code`], or of a newer daemon.
        pub code: String = CODE,
        /// What went wrong: a lower-case fragment.
        pub message: String = MESSAGE,
        /// What to do about it.
        pub hint: Option<String> = Optional(MESSAGE),
    }
}

/// Words for failures, which stay the same.
pub mod code {
    /// A request of a newer version.
    pub const UNKNOWN_REQUEST: &str = "unknown-request";
    /// There is no such session, or the user may not see it.
    pub const NO_SUCH_SESSION: &str = "no-such-session";
    /// There is a session of that name.
    pub const SESSION_EXISTS: &str = "session-exists";
    /// The session has no such channel.
    pub const NO_SUCH_CHANNEL: &str = "no-such-channel";
    /// The session has a channel of that name.
    pub const CHANNEL_EXISTS: &str = "channel-exists";
    /// The session has several channels, and none was named.
    pub const WHICH_CHANNEL: &str = "which-channel";
    /// It can only be done while the session does not record, or only while it does.
    pub const WRONG_STATE: &str = "wrong-state";
    /// A filter, pattern, size or rule that makes no sense.
    pub const BAD_VALUE: &str = "bad-value";
    /// It would take more than the user may have.
    pub const QUOTA: &str = "quota";
    /// The directory or a file cannot be written.
    pub const OUTPUT: &str = "output";
}

record! {
    /// A session, as it is.
    pub struct SessionState {
        /// As it was asked for, with what the daemon chose.
        pub session: Session = Own,
        /// Whether it records.
        pub activity: Activity = Own,
        /// User id of who made it.
        pub owner: u32 = Number,
        /// When it was made, in nanoseconds since 1970.
        pub created_ns: u64 = Number,
    }
}

choice! {
    /// Whether a session records.
    #[derive(Copy)]
    pub enum Activity {
        /// It was never started.
        0 "new" New,
        /// It does.
        1 "active" Active,
        /// It did.
        2 "stopped" Stopped,
    }
}

record! {
    /// Events that a channel records, or does not.
    pub struct Rule {
        /// Name of the channel.
        pub channel: String = NAME,
        /// Whether it records them.
        pub enabled: bool = Flag,
        /// Which events.
        pub selection: Selection = Own,
    }
}

record! {
    /// A traced program.
    pub struct Application {
        /// Its process, as the daemon sees it.
        pub pid: u32 = Number,
        /// Its process, as it says that it sees itself.
        pub pid_inner: u32 = Number,
        /// Its user.
        pub uid: u32 = Number,
        /// What it calls itself.
        pub program: String = PROGRAM,
        /// Path of its executable; empty if it cannot be known.
        pub executable: String = EXECUTABLE,
        /// Release of the library in it.
        pub release: String = RELEASE,
        /// Where it takes times from.
        pub clock: Clock = Own,
        /// How many event types it has told of.
        pub event_type_count: u32 = Number,
        /// How many more it has, that it could not tell or that nobody understands: their events are not
        /// recorded.
        pub event_types_refused: u32 = Number,
    }
}

record! {
    /// What a ring has seen. All counts are since it was made; for rates, ask twice.
    pub struct Ring {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// Process that writes to it.
        pub pid: u32 = Number,
        /// Processor whose ring it is; none for threads that cannot use those.
        pub cpu: Option<u32> = Optional(Number),
        /// When it was looked at: nanoseconds of `CLOCK_MONOTONIC`.
        pub time_ns: u64 = Number,
        /// Events in it so far, as the program counts them; none if nobody has.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Events that found it full.
        pub events_discarded: u64 = Number,
        /// Packets that were taken out of it.
        pub packets_taken: u64 = Number,
        /// Packets that were overwritten before.
        pub packets_lost: u64 = Number,
        /// Bytes written to it.
        pub bytes_written: u64 = Number,
        /// Bytes that wait in it.
        pub bytes_waiting: u64 = Number,
        /// Bytes that it holds.
        pub size: u64 = Number,
        /// Events with shortened strings in all rings of the process and channel. Counted at one of
        /// them.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// What rings have seen that are no more, all of a channel together, so that no loss goes with
    /// them.
    pub struct Ended {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// How many rings they were.
        pub rings: u32 = Number,
        /// Events in them; none if nobody has counted them.
        pub events_recorded: Option<u64> = Optional(Number),
        /// Events that found them full.
        pub events_discarded: u64 = Number,
        /// Packets that were taken out of them.
        pub packets_taken: u64 = Number,
        /// Packets that were overwritten before.
        pub packets_lost: u64 = Number,
        /// Bytes written to them.
        pub bytes_written: u64 = Number,
        /// Events with shortened strings.
        pub events_cut: u64 = Number,
    }
}

record! {
    /// What all connections, programs and sessions of one user have the daemon hold.
    pub struct Quota {
        /// The user.
        pub uid: u32 = Number,
        /// What it is: a word for scripts, such as `ring-bytes`.
        pub what: String = CODE,
        /// How much there is of it.
        pub used: u64 = Number,
        /// How much there may be.
        pub limit: u64 = Number,
        /// How often more was asked for.
        pub refused: u64 = Number,
    }
}

record! {
    /// Rings whose programs or daemons have ended, which were kept for snapshots until their user's programs
    /// needed the room.
    pub struct Released {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
        /// How many rings they were.
        pub rings: u64 = Number,
        /// Packets that no snapshot will have.
        pub packets_lost: u64 = Number,
    }
}

record! {
    /// What a session has lost by one cause since it was made.
    pub struct Loss {
        /// Name of the session.
        pub session: String = NAME,
        /// Whether the session has been destroyed.
        pub is_destroyed: bool = Flag,
        /// Why.
        pub cause: Cause = Own,
        /// Number of events.
        pub events: u64 = Number,
        /// Number of packets, whose events are not in `events`.
        pub packets: u64 = Number,
        /// Number of programs, traces, rings or event types of which an unknown number of events was lost.
        pub uncounted: u64 = Number,
        /// Error of the last such loss.
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
        /// The session has reached its bound on disk.
        2 "size" Size,
        /// No agent read the rings.
        3 "agent-away" AgentAway,
        /// The user's programs hold as much as one user may have.
        4 "quota" Quota,
        /// A program could not be given rings.
        5 "attach" Attach,
        /// Event types that the agent could not keep or understand.
        6 "event-types" EventTypes,
        /// A program wrote invalid data into its ring.
        7 "damaged" Damaged,
        /// Packets were overwritten before they were read.
        8 "overwritten" Overwritten,
        /// A program and its agent ended at the same time.
        9 "cut-off" CutOff,
    }
}
