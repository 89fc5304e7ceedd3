//! Requests from commands to the agent. [`Reply`](crate::Reply) documents the answers.

use crate::channel::Channel;
use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::limits::BODY_SIZE_MAX;
use crate::selection::{Processes, Selection};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// Messages from a command to the agent. Users can list and change only sessions to which they
    /// have access.
    pub enum Request up to BODY_SIZE_MAX {
        /// Creates a session, without starting it. Replies with `Written` if the session writes a
        /// trace.
        0x0301 CreateSession(session: Session = RecordForm),
        /// Starts recording in the session with this name.
        0x0302 StartSession(session: String = NAME),
        /// Stops recording in the session with this name. Replies `Done` once all recorded events
        /// have been written.
        0x0303 StopSession(session: String = NAME),
        /// Ends and removes the session with this name, but not its traces.
        0x0304 DestroySession(session: String = NAME),
        /// Deletes all events that the session has recorded so far, in rings and files.
        0x0305 ClearSession(session: String = NAME),
        /// Writes the current content of a session's rings to a trace. Replies with `Written`, the
        /// trace's directory.
        0x0306 Snapshot(snapshot: Snapshot = RecordForm),
        /// Lists the session with this name, or all sessions. Replies with `Session` for each
        /// session, followed by the session's `Channel`s, `Rule`s and `Loss` items.
        0x0307 ListSessions(session: Option<String> = Optional(NAME)),
        /// Adds a channel to a session.
        0x0308 CreateChannel(channel: NewChannel = RecordForm),
        /// Starts recording the selected events. The selection includes event types that programs
        /// add later.
        0x0309 EnableEvents(events: Events = RecordForm),
        /// Stops recording the selected events.
        0x030a DisableEvents(events: Events = RecordForm),
        /// Lists traced programs. Replies with `Application` for each program, followed by the
        /// program's `EventType`s if requested.
        0x030b ListApplications(applications: Applications = RecordForm),
        /// Reports the counters of the rings of one session, or of all sessions if the name is
        /// `None`. Replies with `Ring` for each used ring, with `Ended` and `Released` for freed
        /// rings, with `Loss`, and with `Quota` if the name is `None`.
        0x030c Status(session: Option<String> = Optional(NAME)),
        /// Reads the sampling rules of the user's programs. Replies with `Sampling`.
        0x030d GetSampling,
        /// Sets the sampling rules of the user's running and future programs. `None` leaves
        /// sampling to each program.
        0x030e SetSampling(rules: Option<String> = Optional(SAMPLING)),
        /// Limits the total size of a session's traces.
        0x030f LimitSession(limit: SessionLimit = RecordForm),
    }
}

record! {
    /// Configuration of a new session.
    pub struct Session {
        /// Name of the session, unique among the sessions of its user.
        pub name: String = NAME,
        /// Use of the recorded events: continuous trace or snapshots.
        pub purpose: Purpose = RecordForm,
        /// Directory to create for the recorded events or, in a snapshot session, the default for
        /// its snapshots. `None` lets the agent choose.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Limit on the size of a session's traces.
    pub struct SessionLimit {
        /// Name of the session to limit.
        pub session: String = NAME,
        /// Maximum total size of the session's traces in bytes, not counting indexes.
        pub size_max: u64 = Number,
    }
}

choice! {
    /// Use of the events that a session records.
    #[derive(Copy)]
    pub enum Purpose {
        /// Purpose of a session whose events are written to a trace continuously.
        0 "record" Record,
        /// Purpose of a session whose events stay in the rings until a snapshot is requested.
        1 "snapshot" Snapshot,
    }
}

record! {
    /// Request to write the current content of a session's rings to a trace.
    pub struct Snapshot {
        /// Name of the session whose rings are written.
        pub session: String = NAME,
        /// Directory to create for the trace. `None` selects a new directory in the session's
        /// output directory.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Channel to add to a session.
    pub struct NewChannel {
        /// Name of the session that the channel is added to.
        pub session: String = NAME,
        /// Configuration of the new channel.
        pub channel: Channel = RecordForm,
    }
}

record! {
    /// Selection of events to enable or disable in a channel.
    pub struct Events {
        /// Name of the session that the channel belongs to.
        pub session: String = NAME,
        /// Name of the channel; `None` selects the session's only channel. `EnableEvents` creates
        /// the channel if the session has none.
        pub channel: Option<String> = Optional(NAME),
        /// Events to enable or disable.
        pub selection: Selection = RecordForm,
    }
}

record! {
    /// Query for traced programs and their event types.
    pub struct Applications {
        /// Processes to include in the list.
        pub processes: Processes = RecordForm,
        /// Set if the programs' event types are listed too.
        pub event_types: bool = Flag,
    }
}
