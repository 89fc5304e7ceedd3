//! Commands that wait until the traces of a session change.

use crate::session::{Session, SessionId};
use crate::source::ConnectionId;

/// Commands that wait for a change.
#[derive(Debug, Default)]
pub(crate) struct ChangeWaits {
    list: Vec<ChangeWait>,
}

#[derive(Debug)]
struct ChangeWait {
    command: ConnectionId,
    session: SessionId,
    /// Number of changes that the command has seen; `None` if it waits for no other one.
    seen: Option<u64>,
}

impl ChangeWaits {
    /// Adds a command, which has no other request under way.
    pub(crate) fn add(&mut self, command: ConnectionId, session: SessionId, seen: Option<u64>) {
        self.list.push(ChangeWait { command, session, seen });
    }

    /// Forgets a command that has disconnected.
    pub(crate) fn forget(&mut self, connection: ConnectionId) {
        self.list.retain(|wait| wait.command != connection);
    }

    /// Takes the commands whose wait is over, with the number of changes; `None` if the session no
    /// longer exists.
    pub(crate) fn take_due(&mut self, sessions: &[Session]) -> Vec<(ConnectionId, Option<u64>)> {
        let mut due = Vec::new();
        self.list.retain(|wait| {
            let session = sessions.iter().find(|session| session.id == wait.session);
            let changes = session.map(|session| session.size_limit.changes());
            let is_over = changes.is_none_or(|changes| wait.seen != Some(changes));
            if is_over {
                due.push((wait.command, changes));
            }
            !is_over
        });
        due
    }
}
