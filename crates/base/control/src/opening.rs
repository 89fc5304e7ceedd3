//! The first message of either side. All versions share the beginning of these bodies and all of
//! [`Refused`], so that incompatible peers can report the mismatch.

use crate::fault::{DecodeError, Reason};
use crate::form::{AnyVersion, Flag, Number, RecordForm};
use crate::limits::{OPENING_SIZE_MAX, PROGRAM_SIZE_MAX, REASON_SIZE_MAX, RELEASE_SIZE_MAX};
use crate::text::{Letters, Text};
use crate::version::Version;

pub(crate) const PROGRAM: Text = Text::new(Letters::Line, PROGRAM_SIZE_MAX);
pub(crate) const RELEASE: Text = Text::new(Letters::Line, RELEASE_SIZE_MAX);
const REASON: Text = Text::new(Letters::Lines, REASON_SIZE_MAX);

messages! {
    /// First message from a client.
    pub enum Opening up to OPENING_SIZE_MAX, once {
        /// Identifies the client.
        0x0001 Hello(hello: Hello = RecordForm),
    }
}

messages! {
    /// First message from the agent.
    pub enum Answer up to OPENING_SIZE_MAX, once {
        /// Accepts the client.
        0x0002 Welcome(welcome: Welcome = RecordForm),
        /// Refuses the client; the connection ends.
        0x0003 Refused(refused: Refused = RecordForm),
    }
}

record! {
    /// Identity of a client. The agent reads the process id and user id from the kernel instead.
    pub struct Hello {
        /// Version of the client's protocol.
        pub version: Version = RecordForm,
        /// Purpose of the connection.
        pub role: Role = RecordForm,
        /// Name of the program, for display.
        pub program: String = PROGRAM,
        /// Release of BlkKin that the program contains, for display.
        pub release: String = RELEASE,
    }
}

choice! {
    /// Purpose of a connection.
    pub enum Role {
        /// Program to be traced.
        0 "application" Application {
            /// Process id in the program's own PID namespace, which may differ from the agent's
            /// view.
            pid: u32 = Number,
            /// Time source of the program's events.
            clock: Clock = RecordForm,
        },
        /// Command that controls sessions and lists their state.
        1 "command" Command,
    }
}

choice! {
    /// Time source of a program's events.
    #[derive(Copy)]
    pub enum Clock {
        /// The processor's time-stamp counter.
        0 "tsc" Tsc,
        /// Nanoseconds of `CLOCK_MONOTONIC`, as the program sees it.
        1 "monotonic" Monotonic,
    }
}

record! {
    /// The agent's acceptance of a client.
    pub struct Welcome {
        /// Version of the agent's protocol. Neither side sends messages that the older version
        /// lacks.
        pub version: Version = RecordForm,
        /// Release of the agent, for display.
        pub release: String = RELEASE,
    }
}

record! {
    /// The agent's refusal of a client.
    pub struct Refused {
        /// Version of the agent's protocol.
        pub version: Version = AnyVersion,
        /// Whether a later attempt may succeed. If not, only another agent can accept the client.
        pub try_again: bool = Flag,
        /// Explanation for the user.
        pub reason: String = REASON,
    }
}

impl Refused {
    /// Makes the refusal of a connection whose first message cannot be decoded.
    pub fn because(error: &DecodeError) -> Refused {
        let ours = Version::OURS;
        let reason = match error.fault.reason {
            Reason::OtherVersion { theirs } if theirs > ours => format!(
                "this program speaks version {theirs} of BlkKin's protocol and the daemon of this \
                 machine {ours}; update the daemon, and restart it"
            ),
            Reason::OtherVersion { theirs } => format!(
                "this program speaks version {theirs} of BlkKin's protocol and the daemon of this \
                 machine {ours}; update BlkKin's library, or rebuild the program with it, and \
                 restart the program"
            ),
            _ => format!("the daemon does not understand this program: {error}"),
        };
        Refused { version: ours, try_again: false, reason }
    }
}
