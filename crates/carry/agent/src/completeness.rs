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
    /// Set if packets were written since the file was written.
    has_more: bool,
}

impl Completeness {
    /// Notes that a packet was written, whose last event is at `end_ns`.
    pub(crate) fn note(&mut self, end_ns: u64) {
        self.newest_ns = self.newest_ns.max(end_ns);
        self.has_more = true;
    }

    /// Returns whether packets may have events that are later than the declared time.
    pub(crate) fn is_due(&self) -> bool {
        self.has_more || self.newest_ns >= self.declared_ns && self.newest_ns > 0
    }

    /// Writes the time to the file in the session's directory, which wakes the forwarder. Without
    /// the file, viewers show events later.
    pub(crate) fn declare(&mut self, until_ns: u64, output: &Output) {
        if until_ns <= self.declared_ns {
            return;
        }
        let content = CompleteTime { until_ns }.encode();
        let written = self.open(output).and_then(|file| file.write_all_at(&content, 0));
        (self.declared_ns, self.has_more) = (until_ns, false);
        if written.is_err() {
            self.file = None;
        }
    }

    fn open(&mut self, output: &Output) -> io::Result<&File> {
        if self.file.is_none() {
            let path = output.path().join(COMPLETE_FILE);
            // An earlier agent may have made the file.
            let file = match output.create_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    output.open_file(&path)
                }
                created => created,
            };
            self.file = Some(file?);
        }
        self.file.as_ref().ok_or_else(|| io::ErrorKind::NotFound.into())
    }
}
