//! Forwarding of sessions to relays: what commands request, what the forwarder is told, and what it
//! reports.

use crate::encoding::{Flag, Number, Optional, RecordForm};
use crate::limits::{MESSAGE_SIZE_MAX, PATH_SIZE_MAX};
use crate::text::{Letters, NAME, Path, Text};
use std::path::PathBuf;

const TARGET: Text = Text::new(Letters::Name, PATH_SIZE_MAX);
const TROUBLE: Text = Text::new(Letters::Lines, MESSAGE_SIZE_MAX);

record! {
    /// Request to forward a session to a relay.
    pub struct SessionForward {
        /// Name of the session to forward.
        pub session: String = NAME,
        /// Destination of its packets.
        pub destination: Destination = RecordForm,
    }
}

record! {
    /// Relay to which a session is forwarded.
    pub struct Destination {
        /// Address of the relay: `net://HOST[:CONTROL_PORT[:DATA_PORT]]`, or `nets://` for TLS.
        pub target: String = TARGET,
        /// Set if the session's directory is only a spool, from which packets are removed that the
        /// relay has acknowledged.
        pub is_spool: bool = Flag,
        /// Set if the oldest packets are dropped when the spool reaches its size limit, rather than
        /// new events.
        pub drops_oldest: bool = Flag,
    }
}

record! {
    /// Session that the forwarder is to send to a relay.
    pub struct ForwardTask {
        /// Number of the session, assigned by the agent.
        pub number: u64 = Number,
        /// Name of the session.
        pub name: String = NAME,
        /// User id of the session's owner, with whose rights its directory is accessed.
        pub user: u32 = Number,
        /// Group id of the session's owner.
        pub group: u32 = Number,
        /// Directory of the session's traces.
        pub directory: PathBuf = Path,
        /// Destination of the packets.
        pub destination: Destination = RecordForm,
        /// Set if the session is destroyed: the task ends when the relay has everything.
        pub has_ended: bool = Flag,
        /// Size in bytes of the packets that the forwarder was asked to drop since it has started.
        pub to_drop: u64 = Number,
    }
}

record! {
    /// Report that the forwarder has dropped packets to make room in a spool.
    #[derive(Copy)]
    pub struct DroppedPackets {
        /// Number of the session ([`ForwardTask::number`]).
        pub number: u64 = Number,
        /// Value of [`ForwardTask::to_drop`] that this report answers.
        pub to_drop: u64 = Number,
        /// Number of packets that were dropped since the last report.
        pub packets: u64 = Number,
        /// Size of these packets in bytes.
        pub bytes: u64 = Number,
    }
}

record! {
    /// Report of the size of a spool's packets, when the forwarder begins to send them.
    #[derive(Copy)]
    pub struct SpoolSize {
        /// Number of the session ([`ForwardTask::number`]).
        pub number: u64 = Number,
        /// Space of the packets on the disk, in bytes.
        pub bytes: u64 = Number,
    }
}

record! {
    /// Report of the forwarder about one session.
    pub struct ForwardReport {
        /// Number of the session ([`ForwardTask::number`]).
        pub number: u64 = Number,
        /// Progress of the session.
        pub progress: ForwardProgress = RecordForm,
        /// Number of bytes that were removed from the spool since the last report.
        pub bytes_removed: u64 = Number,
        /// Set if the task has ended, because the relay has everything of a destroyed session.
        pub is_delivered: bool = Flag,
    }
}

record! {
    /// Progress of forwarding a session.
    #[derive(Default)]
    pub struct ForwardProgress {
        /// Set if the relay has accepted a session, and the connection lasts.
        pub is_connected: bool = Flag,
        /// Number of packets that the forwarder has sent since it started.
        pub packets: u64 = Number,
        /// Size of these packets in bytes.
        pub bytes: u64 = Number,
        /// Path of the session at the relay; empty before the first connection.
        pub path: String = TROUBLE,
        /// Why packets are not sent; `None` if they are.
        pub trouble: Option<String> = Optional(TROUBLE),
    }
}

record! {
    /// Forwarding of a session, for users.
    pub struct Forwarding {
        /// Name of the session.
        pub session: String = NAME,
        /// Destination of the packets.
        pub destination: Destination = RecordForm,
        /// Progress so far.
        pub progress: ForwardProgress = RecordForm,
        /// Set if the session is destroyed, and the relay does not have all of it yet.
        pub has_ended: bool = Flag,
    }
}
