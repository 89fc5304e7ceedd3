//! What either side says first. How these bodies begin, and all of [`Refused`], is the same in all
//! versions, so that each can tell the other that they do not fit.

use crate::fault::{DecodeError, Reason};
use crate::form::{AnyVersion, Flag, Number, Own};
use crate::limits::{OPENING_SIZE_MAX, PROGRAM_SIZE_MAX, REASON_SIZE_MAX, RELEASE_SIZE_MAX};
use crate::text::{Letters, Text};
use crate::version::Version;

pub(crate) const PROGRAM: Text = Text::new(Letters::Line, PROGRAM_SIZE_MAX);
pub(crate) const RELEASE: Text = Text::new(Letters::Line, RELEASE_SIZE_MAX);
const REASON: Text = Text::new(Letters::Lines, REASON_SIZE_MAX);

messages! {
    /// What whoever connects says first.
    pub enum Opening up to OPENING_SIZE_MAX, once {
        /// Who it is.
        0x0001 Hello(hello: Hello = Own),
    }
}

messages! {
    /// What the daemon says first.
    pub enum Answer up to OPENING_SIZE_MAX, once {
        /// Go on.
        0x0002 Welcome(welcome: Welcome = Own),
        /// No; the connection ends.
        0x0003 Refused(refused: Refused = Own),
    }
}

record! {
    /// Who connects. Whose process it is, the daemon asks the kernel.
    pub struct Hello {
        /// What it speaks.
        pub version: Version = Own,
        /// What it wants.
        pub role: Role = Own,
        /// Name of the program, to be shown.
        pub program: String = PROGRAM,
        /// Release of BlkKin that it has in it, to be shown.
        pub release: String = RELEASE,
    }
}

choice! {
    /// What a connection is for.
    pub enum Role {
        /// To be traced.
        0 "application" Application {
            /// Its process id as it sees it, which is another in a namespace of its own.
            pid: u32 = Number,
            /// Where it takes times from.
            clock: Clock = Own,
        },
        /// To ask and tell what is traced.
        1 "command" Command,
    }
}

choice! {
    /// Where the times of a program's events come from.
    #[derive(Copy)]
    pub enum Clock {
        /// The processor's counter.
        0 "tsc" Tsc,
        /// Nanoseconds of `CLOCK_MONOTONIC`, as the program sees it.
        1 "monotonic" Monotonic,
    }
}

record! {
    /// The daemon knows what it needs to know.
    pub struct Welcome {
        /// What it speaks. Neither side sends what the older one does not know.
        pub version: Version = Own,
        /// Release of the daemon, to be shown.
        pub release: String = RELEASE,
    }
}

record! {
    /// Why there is no connection.
    pub struct Refused {
        /// What the daemon speaks.
        pub version: Version = AnyVersion,
        /// Whether it may be otherwise later, so that it is worth another try. If not, only another
        /// daemon can help.
        pub try_again: bool = Flag,
        /// For the user.
        pub reason: String = REASON,
    }
}

impl Refused {
    /// For a connection of which the first message cannot be understood.
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
