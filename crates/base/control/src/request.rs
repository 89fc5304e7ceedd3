//! What commands ask of the daemon. Each is answered as [`Reply`](crate::Reply) says.

use crate::channel::Channel;
use crate::form::{Flag, Number, Optional, Own};
use crate::limits::BODY_SIZE_MAX;
use crate::selection::{Processes, Selection};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// From a command to the daemon. Sessions are those that the user may see.
    pub enum Request up to BODY_SIZE_MAX {
        /// Makes a session, which is not started. Gives `Written`, if it writes.
        0x0301 CreateSession(session: Session = Own),
        /// Starts to record.
        0x0302 StartSession(session: String = NAME),
        /// Stops to record; done when all that was recorded is written.
        0x0303 StopSession(session: String = NAME),
        /// Forgets the session, once stopped; what it wrote stays.
        0x0304 DestroySession(session: String = NAME),
        /// Drops what was recorded so far, in rings and files.
        0x0305 ClearSession(session: String = NAME),
        /// Writes what the rings hold now. Gives `Written`.
        0x0306 Snapshot(snapshot: Snapshot = Own),
        /// Gives `Session`, and for each its `Channel`s and `Rule`s; only the one that is named, or
        /// all.
        0x0307 ListSessions(session: Option<String> = Optional(NAME)),
        /// Makes a channel.
        0x0308 CreateChannel(channel: NewChannel = Own),
        /// Records these events from now on, also those that are not known yet.
        0x0309 EnableEvents(events: Events = Own),
        /// Records these events no more.
        0x030a DisableEvents(events: Events = Own),
        /// Gives `Application`, and for each its `EventType`s if wanted.
        0x030b ListApplications(applications: Applications = Own),
        /// Gives `Ring` for each ring of the session that is named, or of all, and `Ended` for those
        /// that are no more.
        0x030c Status(session: Option<String> = Optional(NAME)),
        /// Gives `Sampling`.
        0x030d GetSampling,
        /// Tells the user's programs which requests to follow, those that run and those that are
        /// started later. None: as each decides itself.
        0x030e SetSampling(rules: Option<String> = Optional(SAMPLING)),
        /// Bounds what a session writes.
        0x030f LimitSession(limit: SessionLimit = Own),
    }
}

record! {
    /// A session, as it was asked for.
    pub struct Session {
        /// Its name.
        pub name: String = NAME,
        /// What it is for.
        pub purpose: Purpose = Own,
        /// Directory to make, for what is recorded or, by default, for snapshots. None: the daemon
        /// chooses.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Bound on what a session writes.
    pub struct SessionLimit {
        /// Name of the session.
        pub session: String = NAME,
        /// Bytes of all of its traces, indexes not counted.
        pub size_max: u64 = Number,
    }
}

choice! {
    /// What becomes of what a session records.
    #[derive(Copy)]
    pub enum Purpose {
        /// It is written.
        0 "record" Record,
        /// It stays in the rings, until a snapshot is asked for.
        1 "snapshot" Snapshot,
    }
}

record! {
    /// A snapshot of a session.
    pub struct Snapshot {
        /// Name of the session.
        pub session: String = NAME,
        /// Directory to make. None: as the session says.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// A channel of a session.
    pub struct NewChannel {
        /// Name of the session.
        pub session: String = NAME,
        /// The channel.
        pub channel: Channel = Own,
    }
}

record! {
    /// Events that a channel records, or does not.
    pub struct Events {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel. None: the session's only one, which is made if there is none.
        pub channel: Option<String> = Optional(NAME),
        /// Which events.
        pub selection: Selection = Own,
    }
}

record! {
    /// What to tell of applications.
    pub struct Applications {
        /// Which of them.
        pub processes: Processes = Own,
        /// Whether also to tell of their event types.
        pub event_types: bool = Flag,
    }
}
