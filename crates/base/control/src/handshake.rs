//! The first message of each side: the client's [`Opening`] and the agent's [`Answer`]. All
//! versions share the beginning of the bodies of `Hello` and `Welcome`, and all of [`Refused`]. So
//! incompatible peers can report the mismatch.

use crate::encoding::{AnyVersion, Flag, Number, RecordForm};
use crate::fault::{DecodeError, Reason};
use crate::limits::{OPENING_SIZE_MAX, PROGRAM_SIZE_MAX, REASON_SIZE_MAX, RELEASE_SIZE_MAX};
use crate::text::{Letters, Text};
use crate::version::Version;

pub(crate) const PROGRAM: Text = Text::new(Letters::Line, PROGRAM_SIZE_MAX);
pub(crate) const RELEASE: Text = Text::new(Letters::Line, RELEASE_SIZE_MAX);
pub(crate) const REASON: Text = Text::new(Letters::Lines, REASON_SIZE_MAX);

messages! {
    /// First message from a client.
    pub enum Opening up to OPENING_SIZE_MAX, once {
        /// States the client's version and role.
        0x0001 Hello(hello: Hello = RecordForm),
    }
}

messages! {
    /// First message from the agent, in answer to the client's [`Opening`]. A [`Refused`] may be
    /// sent before the `Opening` arrives.
    pub enum Answer up to OPENING_SIZE_MAX, once {
        /// Accepts the client; the connection enters the phase of the client's role.
        0x0002 Welcome(welcome: Welcome = RecordForm),
        /// Refuses the client; the connection ends.
        0x0003 Refused(refused: Refused = RecordForm),
    }
}

record! {
    /// Identity of a client. The agent reads the client's user id, and the process id in the
    /// agent's PID namespace, from the kernel.
    pub struct Hello {
        /// Version of the protocol that the client uses.
        pub version: Version = RecordForm,
        /// Purpose of the connection; selects the messages of the next phase.
        pub role: Role = RecordForm,
        /// Name of the program, for display.
        pub program: String = PROGRAM,
        /// Release of BlkKin that the program was built with, for display.
        pub release: String = RELEASE,
    }
}

choice! {
    /// Purpose for which a client connects.
    pub enum Role {
        /// Role of a program to be traced.
        0 "application" Application {
            /// Process id in the program's own PID namespace. In the agent's namespace, the process
            /// may have another id.
            pid: u32 = Number,
            /// Source of the timestamps of the program's events.
            clock: Clock = RecordForm,
        },
        /// Role of a command, which controls sessions and lists their state.
        1 "command" Command,
        /// Role of the tracer that records the kernel's events for the agent. Its events have
        /// timestamps of `CLOCK_MONOTONIC`.
        2 "kernel" Kernel,
    }
}

choice! {
    /// Source of the timestamps of a program's events.
    #[derive(Copy)]
    pub enum Clock {
        /// The processor's time-stamp counter.
        0 "tsc" Tsc,
        /// Nanoseconds of `CLOCK_MONOTONIC` in the program's time namespace.
        1 "monotonic" Monotonic,
    }
}

record! {
    /// Message by which the agent accepts a client.
    pub struct Welcome {
        /// Version of the protocol that the agent uses. The older of the two sides' versions
        /// determines which messages may be sent.
        pub version: Version = RecordForm,
        /// Release of BlkKin that the agent belongs to, for display.
        pub release: String = RELEASE,
    }
}

record! {
    /// Message by which the agent refuses a client.
    pub struct Refused {
        /// Version of the protocol that the agent uses.
        pub version: Version = AnyVersion,
        /// Set if a later attempt may succeed. If clear, this agent will not accept the client, but
        /// another agent may.
        pub try_again: bool = Flag,
        /// Explanation of the refusal, shown to the user.
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
