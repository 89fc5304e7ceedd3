//! Time up to which the traces of a forwarded session are complete, for its forwarder. Viewers of a
//! relay deliver events in the order of time, and therefore need it of idle streams, too.

use crate::output::Output;
use blkkin_control::{COMPLETE_FILE, CompleteTime};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Completeness of a session, and the file with it.
#[derive(Debug, Default)]
pub(crate) struct Completeness {
    file: Option<File>,
    /// Time in the file.
    declared_ns: u64,
    /// Latest time in the session's packets.
    newest_ns: u64,
    /// Latest time in the packets after which another turn was asked for.
    awaited_ns: u64,
    /// Number of changes of the traces' size when the file was written.
    changes: u64,
    /// Set for sessions of an earlier agent: programs may still return with events of the past, and
    /// traces have clocks that the earlier agent has measured. Nothing is complete then.
    is_resumed: bool,
}

impl Completeness {
    /// Makes the completeness of a session; `is_resumed` is set if an earlier agent has created it.
    pub(crate) fn new(is_resumed: bool) -> Completeness {
        Completeness { is_resumed, ..Completeness::default() }
    }

    /// Notes that a packet was written, whose last event is at `end_ns`.
    pub(crate) fn note(&mut self, end_ns: u64) {
        self.newest_ns = self.newest_ns.max(end_ns);
    }

    /// Returns whether the file is to be written: packets have events that are later than the
    /// declared time, or the traces have changed otherwise. `changes` is the number of changes of
    /// their size.
    pub(crate) fn is_due(&self, changes: u64) -> bool {
        changes != self.changes || self.is_behind()
    }

    fn is_behind(&self) -> bool {
        self.newest_ns >= self.declared_ns && self.newest_ns > 0 && !self.is_resumed
    }

    /// Returns whether the file does not declare the latest events yet, which were recorded while
    /// the rings were drained: it can be written in the next turn. Returns this once for these
    /// events.
    pub(crate) fn needs_turn(&mut self) -> bool {
        self.is_behind()
            && std::mem::replace(&mut self.awaited_ns, self.newest_ns) != self.newest_ns
    }

    /// Writes the file in the session's directory, which wakes the forwarder: it waits for this
    /// file, and not for each of the others. `until_ns` is `None` if it is unknown up to when the
    /// traces are complete; the earlier time holds then.
    pub(crate) fn declare(&mut self, until_ns: Option<u64>, changes: u64, output: &Output) {
        let until_ns = until_ns.filter(|_| !self.is_resumed).unwrap_or(0).max(self.declared_ns);
        if until_ns == self.declared_ns && changes == self.changes {
            return;
        }
        let content = CompleteTime { until_ns }.encode();
        let written = self.open(output).and_then(|file| file.write_all_at(&content, 0));
        // Without the file, the forwarder waits for the others.
        match written {
            Ok(()) => (self.declared_ns, self.changes) = (until_ns, changes),
            Err(_) => self.file = None,
        }
    }

    fn open(&mut self, output: &Output) -> io::Result<&File> {
        if self.file.is_none() {
            let path = output.path().join(COMPLETE_FILE);
            // An earlier agent may have made the file. This one may not open it: see `confine`.
            match output.remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => self.file = Some(output.create_file(&path)?),
            }
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
