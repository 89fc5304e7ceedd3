//! Requests of commands to the agent. [`Reply`](crate::Reply) documents the answers.

use crate::channel::Channel;
use crate::form::{Flag, Number, Optional, RecordForm};
use crate::limits::BODY_SIZE_MAX;
use crate::selection::{Processes, Selection};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// Messages from a command to the agent. A user sees and changes only sessions to which the
    /// user has access.
    pub enum Request up to BODY_SIZE_MAX {
        /// Creates a session, without starting it. Replies with `Written`, if the session writes.
        0x0301 CreateSession(session: Session = RecordForm),
        /// Starts recording.
        0x0302 StartSession(session: String = NAME),
        /// Stops recording; replies `Done` once all recorded events have been written.
        0x0303 StopSession(session: String = NAME),
        /// Removes a stopped session; its traces remain.
        0x0304 DestroySession(session: String = NAME),
        /// Deletes all events recorded so far, in rings and files.
        0x0305 ClearSession(session: String = NAME),
        /// Writes the current content of the rings. Replies with `Written`.
        0x0306 Snapshot(snapshot: Snapshot = RecordForm),
        /// Lists the named session, or all sessions. Replies with `Session`, each followed by its
        /// `Channel`s and `Rule`s.
        0x0307 ListSessions(session: Option<String> = Optional(NAME)),
        /// Creates a channel.
        0x0308 CreateChannel(channel: NewChannel = RecordForm),
        /// Records the selected events from now on, including event types that programs add later.
        0x0309 EnableEvents(events: Events = RecordForm),
        /// Stops recording the selected events.
        0x030a DisableEvents(events: Events = RecordForm),
        /// Lists traced programs. Replies with `Application`, each followed by its `EventType`s if
        /// requested.
        0x030b ListApplications(applications: Applications = RecordForm),
        /// Reports the rings of the named session, or of all sessions. Replies with `Ring` for each
        /// ring, and `Ended` for rings that have been freed.
        0x030c Status(session: Option<String> = Optional(NAME)),
        /// Reads the sampling rules. Replies with `Sampling`.
        0x030d GetSampling,
        /// Sets the sampling rules of the user's programs, both running and started later. `None`
        /// leaves sampling to each program.
        0x030e SetSampling(rules: Option<String> = Optional(SAMPLING)),
        /// Limits the size of a session's traces.
        0x030f LimitSession(limit: SessionLimit = RecordForm),
    }
}

record! {
    /// Configuration of a session.
    pub struct Session {
        /// Name of the session.
        pub name: String = NAME,
        /// Use of the recorded events.
        pub purpose: Purpose = RecordForm,
        /// Directory to create for the recorded events or, by default, for snapshots. `None` lets
        /// the agent choose.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Limit on the size of a session's traces.
    pub struct SessionLimit {
        /// Name of the session.
        pub session: String = NAME,
        /// Maximum size of all the session's traces in bytes, without indexes.
        pub size_max: u64 = Number,
    }
}

choice! {
    /// Use of the events that a session records.
    #[derive(Copy)]
    pub enum Purpose {
        /// Events are written continuously.
        0 "record" Record,
        /// Events stay in the rings until a snapshot is requested.
        1 "snapshot" Snapshot,
    }
}

record! {
    /// Request for a snapshot of a session.
    pub struct Snapshot {
        /// Name of the session.
        pub session: String = NAME,
        /// Directory to create. `None` selects the session's output directory.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Channel to add to a session.
    pub struct NewChannel {
        /// Name of the session.
        pub session: String = NAME,
        /// Configuration of the channel.
        pub channel: Channel = RecordForm,
    }
}

record! {
    /// Events to enable or disable in a channel.
    pub struct Events {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel. `None` selects the session's only channel, which is created if the
        /// session has none.
        pub channel: Option<String> = Optional(NAME),
        /// Events to enable or disable.
        pub selection: Selection = RecordForm,
    }
}

record! {
    /// Query for traced programs.
    pub struct Applications {
        /// Processes to list.
        pub processes: Processes = RecordForm,
        /// Whether to list the programs' event types too.
        pub event_types: bool = Flag,
    }
}
