//! Commands that wait until the traces of a session change, or the agent gets a signal.

use crate::session::{Session, SessionId};
use crate::source::ConnectionId;
use std::collections::HashMap;

/// Commands that wait for a change.
#[derive(Debug, Default)]
pub(crate) struct ChangeWaits {
    list: Vec<ChangeWait>,
    /// Number of signals for triggers that the agent has got.
    signals: u64,
}

/// Change that a command waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Awaited {
    Session(SessionId),
    Signal,
}

#[derive(Debug)]
struct ChangeWait {
    command: ConnectionId,
    awaited: Awaited,
    /// Number of changes that the command has seen; `None` if it waits for no other one.
    seen: Option<u64>,
}

impl ChangeWaits {
    /// Adds a command, which has no other request under way.
    pub(crate) fn add(&mut self, command: ConnectionId, awaited: Awaited, seen: Option<u64>) {
        self.list.push(ChangeWait { command, awaited, seen });
    }

    /// Counts signals.
    pub(crate) fn add_signals(&mut self, count: u64) {
        self.signals += count;
    }

    /// Forgets a command that has disconnected.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.list.retain(|wait| wait.command != connection);
    }

    /// Takes the commands whose wait is over, with the number of changes; `None` if the session no
    /// longer exists.
    pub(crate) fn take_due(&mut self, sessions: &[Session]) -> Vec<(ConnectionId, Option<u64>)> {
        if self.list.is_empty() {
            return Vec::new();
        }
        let changes = |session: &Session| (session.id, session.size_limit.changes());
        let all: HashMap<SessionId, u64> = sessions.iter().map(changes).collect();
        let mut due = Vec::new();
        self.list.retain(|wait| {
            let changes = match wait.awaited {
                Awaited::Session(session) => all.get(&session).copied(),
                Awaited::Signal => Some(self.signals),
            };
            let is_over = changes.is_none_or(|changes| wait.seen != Some(changes));
            if is_over {
                due.push((wait.command, changes));
            }
            !is_over
        });
        due
    }
}
