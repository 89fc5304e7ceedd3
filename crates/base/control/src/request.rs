//! Requests from commands to the agent. [`Reply`](crate::Reply) documents the answers.

use crate::channel::Channel;
use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::forwarding::{DroppedPackets, ForwardReport, SessionForward, SpoolSize};
use crate::limits::BODY_SIZE_MAX;
use crate::redaction::{Redaction, redactions};
use crate::rotation::{HookReport, SessionRotation};
use crate::selection::{Processes, Selection};
use crate::text::{NAME, Path, SAMPLING};
use std::path::PathBuf;

messages! {
    /// Messages from a command to the agent. Users can list and change only sessions to which they
    /// have access.
    pub enum Request up to BODY_SIZE_MAX {
        /// Creates a session and its output directory, without starting the session. Replies with
        /// `Written`, the directory.
        0x0301 CreateSession(session: Session = RecordForm),
        /// Starts recording in the session with this name.
        0x0302 StartSession(session: String = NAME),
        /// Stops recording in the session with this name. Writes all recorded events to traces; in
        /// a snapshot session, the events stay in the rings. Replies with the session's `Loss`
        /// items.
        0x0303 StopSession(session: String = NAME),
        /// Ends and removes the session with this name, but not its traces. Replies with the
        /// session's `Loss` items.
        0x0304 DestroySession(session: String = NAME),
        /// Deletes all events that the session has recorded so far, in rings and traces, but not in
        /// snapshots.
        0x0305 ClearSession(session: String = NAME),
        /// Copies the current content of a session's rings to new traces, one for each program.
        /// Replies with `Written`, the directory of these traces.
        0x0306 Snapshot(snapshot: Snapshot = RecordForm),
        /// Lists the session with this name, or all sessions. Replies with `Session` for each
        /// session, followed by the session's `Channel`s, `Rule`s and `Loss` items.
        0x0307 ListSessions(session: Option<String> = Optional(NAME)),
        /// Adds a channel to a session.
        0x0308 CreateChannel(channel: NewChannel = RecordForm),
        /// Adds to a channel a rule that enables the selected events. The selection includes event
        /// types that programs add later.
        0x0309 EnableEvents(events: Events = RecordForm),
        /// Adds to a channel a rule that disables the selected events.
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
        /// Adds to a session a channel for events of the kernel.
        0x0310 CreateKernelChannel(channel: NewChannel = RecordForm),
        /// Adds to a channel of the kernel a rule that enables the selected probes. Creates the
        /// channel if the session has none for the kernel.
        0x0311 EnableKernelEvents(events: Events = RecordForm),
        /// Adds to a channel of the kernel a rule that disables the selected probes.
        0x0312 DisableKernelEvents(events: Events = RecordForm),
        /// Enables events as `EnableKernelEvents` does, with redactions of their fields. An older
        /// agent refuses this request, and so cannot record the fields' contents.
        0x0313 EnableRedactedEvents(events: RedactedEvents = RecordForm),
        /// Creates a session for snapshots as `CreateSession` does, with the events to retain. An
        /// older agent refuses this request, and so creates no session that retains less.
        0x0314 CreateRetainingSession(new: RetainingSession = RecordForm),
        /// Waits until the traces of a session have changed, because packets were written or
        /// removed. Replies with `Changes`.
        0x0315 AwaitChange(awaited: AwaitedChange = RecordForm),
        /// Copies the recent content of a session's rings as `Snapshot` does. An older agent
        /// refuses this request, and so copies no more than was requested.
        0x0316 RecentSnapshot(recent: RecentSnapshot = RecordForm),
        /// Waits until the agent's process has got the signal for triggers (SIGUSR1) more often
        /// than `seen`; `None` for a reply at once. Replies with `Changes`, the number of signals.
        0x0317 AwaitSignal(seen: Option<u64> = Optional(Number)),
        /// Forwards a session to a relay. An older agent refuses this request, and so creates no
        /// session whose events stay on the machine.
        0x0320 ForwardSession(forward: SessionForward = RecordForm),
        /// Requests the sessions to forward, for the agent's forwarder only. Replies with all
        /// `ForwardTask`s, at the first request at once, else when they differ from those of the
        /// last reply.
        0x0321 AwaitForwarding(is_first: bool = Flag),
        /// Reports the progress of a forwarded session, for the agent's forwarder only.
        0x0322 ReportForwarding(report: ForwardReport = RecordForm),
        /// Reports dropped packets of a spool, for the agent's forwarder only.
        0x0323 ReportDropped(dropped: DroppedPackets = RecordForm),
        /// Reports the size of a spool, for the agent's forwarder only.
        0x0324 ReportSpoolSize(size: SpoolSize = RecordForm),
        /// Divides the trace of a session into chunks. The session must not have been started yet.
        0x0330 DivideSession(rotation: SessionRotation = RecordForm),
        /// Closes the chunk that is being written, and continues in a new one. Replies with
        /// `Written`, the closed chunk's directory, once nothing is written to it any longer.
        /// Replies with `Done` alone if nothing was recorded since the last rotation.
        0x0331 RotateSession(session: String = NAME),
        /// Lists the chunks of a session, also of one that was destroyed a short time ago. Replies
        /// with `Chunks` and then `Chunk` for each chunk, the oldest first.
        0x0332 ListChunks(session: String = NAME),
        /// Reports that the command for a closed chunk has ended.
        0x0333 ReportHook(report: HookReport = RecordForm),
        /// Writes the traces of a session without the page cache. The session must not have been
        /// started yet.
        0x0334 WriteDirectly(session: String = NAME),
        /// Adds to a session a channel without events of its own, whose memory is divided among
        /// its parts.
        0x0335 CreateSharedChannel(new: NewSharedChannel = RecordForm),
        /// Adds to a session a part of a shared channel: a channel for events of the same kind,
        /// with the same contexts and mode.
        0x0336 CreatePart(part: NewPart = RecordForm),
        /// Removes a channel. Its events stay in the session's traces; in a session for snapshots,
        /// they are dropped. Its name can be given again to a channel with the same contexts.
        0x0337 RemoveChannel(channel: ChannelName = RecordForm),
    }
}

record! {
    /// Configuration of a new session.
    pub struct Session {
        /// Name of the session, unique among the sessions of its user.
        pub name: String = NAME,
        /// Use of the recorded events: continuous trace or snapshots.
        pub purpose: Purpose = RecordForm,
        /// Directory to create for the session's traces. In a snapshot session, it contains the
        /// snapshots that request no other directory. `None` lets the agent choose.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Configuration of a new session for snapshots, with the events to retain.
    pub struct RetainingSession {
        /// Configuration of the session; its purpose is [`Purpose::Snapshot`].
        pub session: Session = RecordForm,
        /// Events to retain in the session's rings.
        pub retention: Retention = RecordForm,
    }
}

record! {
    /// Events that a session for snapshots retains in its rings.
    #[derive(Copy, Default)]
    pub struct Retention {
        /// Time in milliseconds for which events are retained: snapshots contain the packets that
        /// ended within it. `None` for no limit.
        pub keep_ms: Option<u64> = Optional(Number),
        /// Maximum size in bytes of the rings of one program for one channel, unless the channel
        /// states both the number and the size of its sub-buffers. `None` lets the agent choose.
        pub memory: Option<u64> = Optional(Number),
    }
}

record! {
    /// Limit on the size of a session's traces.
    pub struct SessionLimit {
        /// Name of the session to limit.
        pub session: String = NAME,
        /// Maximum total size of the session's traces in bytes, not counting metadata, indexes and
        /// snapshots.
        pub size_max: u64 = Number,
    }
}

record! {
    /// Wait for a change of a session's traces.
    pub struct AwaitedChange {
        /// Name of the session.
        pub session: String = NAME,
        /// Number of changes that the command has seen: the reply is sent when the session has
        /// another one. `None` for a reply at once.
        pub seen: Option<u64> = Optional(Number),
    }
}

choice! {
    /// Use of the events that a session records.
    #[derive(Copy)]
    pub enum Purpose {
        /// Purpose of a session whose events are written to a trace continuously.
        0 "record" Record,
        /// Purpose of a session whose events stay in the rings. Each `Snapshot` request copies them
        /// to traces.
        1 "snapshot" Snapshot,
    }
}

record! {
    /// Request to copy the current content of a session's rings to new traces.
    pub struct Snapshot {
        /// Name of the session whose rings are copied.
        pub session: String = NAME,
        /// Directory to create for the traces. `None` selects a new directory in the session's
        /// output directory.
        pub output: Option<PathBuf> = Optional(Path),
    }
}

record! {
    /// Request to copy the recent content of a session's rings.
    pub struct RecentSnapshot {
        /// Session and directory.
        pub snapshot: Snapshot = RecordForm,
        /// Time in milliseconds before the request: packets that ended earlier are left out.
        pub keep_ms: u64 = Number,
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
    /// Shared channel to add to a session.
    pub struct NewSharedChannel {
        /// Name of the session that the channel is added to.
        pub session: String = NAME,
        /// Configuration of the new channel.
        pub channel: Channel = RecordForm,
        /// Set if the channel is for events of the kernel.
        pub is_kernel: bool = Flag,
    }
}

record! {
    /// Channel of a session, by its name.
    pub struct ChannelName {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the channel.
        pub channel: String = NAME,
    }
}

record! {
    /// Part of a shared channel to add to a session.
    pub struct NewPart {
        /// Name of the session.
        pub session: String = NAME,
        /// Name of the new channel.
        pub channel: String = NAME,
        /// Name of the shared channel.
        pub of: String = NAME,
        /// Maximum size of the new channel's rings, in percent of the shared channel's: 1 to 100.
        pub percent: u32 = Number,
    }
}

record! {
    /// Selection of events to enable or disable in a channel.
    pub struct Events {
        /// Name of the session that the channel belongs to.
        pub session: String = NAME,
        /// Name of the channel; `None` selects the session's only channel, or its only channel for
        /// events of the kernel. `EnableEvents` and `EnableKernelEvents` create the channel if the
        /// session has none.
        pub channel: Option<String> = Optional(NAME),
        /// Events to enable or disable.
        pub selection: Selection = RecordForm,
    }
}

record! {
    /// Selection of events of the kernel to enable, of which some fields are redacted.
    pub struct RedactedEvents {
        /// Events to enable.
        pub events: Events = RecordForm,
        /// Redactions of the events' fields.
        pub redactions: Vec<Redaction> = redactions(1),
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
