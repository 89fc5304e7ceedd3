//! State of a connected command: its user, whether its last request is in progress, and a list that
//! is being sent.

use crate::catalog::Catalog;
use crate::deferred_close::DeferredClose;
use crate::owner::Owner;
use crate::program::{CATALOG_LIMITS, Program};
use crate::programs::Programs;
use crate::session::Session;
use crate::source::ConnectionId;
use blkkin_control::{Application, Decoder, Reply, Request, limits};
use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::path::Path;

/// State of a connected command, such as `blkkin session list`.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) decoder: Decoder<Request, DeferredClose<OwnedFd>>,
    pub(crate) requester: Requester,
    /// Set while the answer to the command's last request is incomplete.
    pub(crate) is_busy: bool,
    /// List of programs that is being sent, as fast as the command reads it.
    pub(crate) listing: Option<Listing>,
}

/// The user who makes a request, and whether the user may control sessions of other users.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Requester {
    pub(crate) owner: Owner,
    /// Set if the user may control all sessions.
    pub(crate) is_privileged: bool,
}

impl Requester {
    pub(crate) fn owns(self, session: &Session) -> bool {
        session.owner.uid == self.owner.uid
    }

    /// Returns whether the user may see and control a session.
    pub(crate) fn sees(self, session: &Session) -> bool {
        self.is_privileged || self.owns(session)
    }
}

/// Progress of sending a list of programs.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Connections of the programs that are not listed completely.
    pub(crate) programs: VecDeque<ConnectionId>,
    /// Index of the next event type to send, of the first program in `programs`; `None` until the
    /// program itself was sent.
    pub(crate) next_type: Option<usize>,
    pub(crate) with_types: bool,
}

impl Listing {
    /// Returns the next item of the list: a program, or one of its event types. Returns `None` at
    /// the end.
    pub(crate) fn next(&mut self, programs: &mut Programs) -> Option<Reply> {
        loop {
            let program = programs.get_mut(*self.programs.front()?).map(|program| {
                if self.next_type.is_none()
                    && let Some(catalog) = &mut program.catalog
                {
                    // Reads types that were added since the last drain. Types beyond the user's
                    // quota are missing from the list.
                    let _ = catalog.refresh(CATALOG_LIMITS);
                }
                &*program
            });
            let catalog = program.and_then(|program| program.catalog.as_ref());
            let types = catalog.map_or(&[][..], Catalog::types);
            match (program, self.next_type) {
                (Some(program), None) => {
                    self.next_type = Some(0);
                    return Some(Reply::Application(program_message(program)));
                }
                (Some(_), Some(next)) if self.with_types && next < types.len() => {
                    self.next_type = Some(next + 1);
                    return Some(Reply::EventType(types[next].clone()));
                }
                _ => {
                    self.programs.pop_front();
                    self.next_type = None;
                }
            }
        }
    }
}

/// Returns the message that describes a program in a list for a command.
fn program_message(program: &Program) -> Application {
    let process = &program.process;
    Application {
        pid: process.pid,
        pid_inner: program.pid_inner,
        uid: process.uid,
        program: program.name.clone(),
        executable: printable(&process.executable),
        release: program.release.clone(),
        clock: program.clock,
        event_type_count: program.catalog.as_ref().map_or(0, |one| one.types().len() as u32),
        event_types_refused: program.catalog.as_ref().map_or(0, Catalog::refused),
    }
}

/// Returns a path as text. Control characters become `?`, and the text is cut to the maximum size
/// in a message.
fn printable(path: &Path) -> String {
    let plain = |letter: char| if letter.is_control() { '?' } else { letter };
    let mut text: String = path.to_string_lossy().chars().map(plain).collect();
    while text.len() > limits::PATH_SIZE_MAX {
        text.pop();
    }
    text
}
