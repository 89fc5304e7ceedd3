//! State of processes when they are chosen, as events: their names, parents, directories and open
//! files. With them a reader on any machine knows which file a descriptor meant.

use crate::call_type::PATH_SIZE_MAX;
use crate::event_type::{Integer, event_type};
use blkkin_control::{EventType, FieldKind};
use blkkin_ring::packet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Maximum number of descriptors of one process that are recorded.
const FILES_MAX: usize = 1 << 16;
/// Size in bytes from which on a packet is complete.
const PACKET_SIZE: usize = 64 << 10;

/// Descriptions of the events, with ids from `first`.
pub fn event_types(first: u16) -> [EventType; 2] {
    let unsigned = || Integer::unsigned(4).field();
    let text = || FieldKind::String;
    let process =
        [("of_pid", unsigned()), ("parent", unsigned()), ("name", text()), ("cwd", text())];
    let file = [("of_pid", unsigned()), ("fd", Integer::signed(4).field()), ("path", text())];
    [
        event_type(first, "state:process".to_owned(), process),
        event_type(first + 1, "state:file".to_owned(), file),
    ]
}

/// Writer of the state of processes, as packets of a stream of its own.
#[derive(Debug)]
pub struct StateWriter {
    first: u16,
    uuid: [u8; 16],
    stream: u32,
    /// Index of the stream among those of its class.
    ring: u32,
    number: u64,
    /// Events of the packet that is being filled, after room for its header.
    buffer: Vec<u8>,
    begin: u64,
    end: u64,
}

/// Identity of the trace and the stream that state is written to.
#[derive(Clone, Copy, Debug)]
pub struct StateStream {
    /// UUID of the trace.
    pub uuid: [u8; 16],
    /// Id of the stream class.
    pub stream: u32,
    /// Index of the stream, which no ring has.
    pub ring: u32,
    /// Id of the first event type, as for [`event_types`].
    pub first: u16,
}

impl StateWriter {
    /// Creates a writer.
    pub fn new(to: StateStream) -> StateWriter {
        let StateStream { uuid, stream, ring, first } = to;
        let buffer = vec![0; packet::SIZE];
        StateWriter { first, uuid, stream, ring, number: 0, buffer, begin: 0, end: 0 }
    }

    /// Adds the state of a process at `time`, which must not be before that of earlier events.
    /// Passes each packet that is complete to `put`. Leaves out the parts of the state that this
    /// process is not permitted to read.
    pub fn add(&mut self, pid: u32, time: u64, put: &mut impl FnMut(&[u8])) {
        let Some(process) = Process::read(pid) else { return };
        let mut fields = Vec::new();
        fields.extend_from_slice(&pid.to_le_bytes());
        fields.extend_from_slice(&process.parent.to_le_bytes());
        put_string(&mut fields, &process.name);
        put_string(&mut fields, &process.directory);
        self.event(0, pid, time, &fields);
        for (fd, path) in files(pid) {
            fields.clear();
            fields.extend_from_slice(&pid.to_le_bytes());
            fields.extend_from_slice(&fd.to_le_bytes());
            put_string(&mut fields, path.as_os_str().as_bytes());
            self.event(1, pid, time, &fields);
            if self.buffer.len() >= PACKET_SIZE {
                self.flush(put);
            }
        }
    }

    fn event(&mut self, index: u16, pid: u32, time: u64, fields: &[u8]) {
        if self.buffer.len() == packet::SIZE {
            self.begin = time;
        }
        self.end = self.end.max(time);
        self.buffer.extend_from_slice(&(self.first + index).to_le_bytes());
        self.buffer.extend_from_slice(&time.to_le_bytes());
        self.buffer.extend_from_slice(&pid.to_le_bytes());
        self.buffer.extend_from_slice(&pid.to_le_bytes());
        self.buffer.extend_from_slice(fields);
    }

    /// Passes the last packet to `put`, if it has an event.
    pub fn flush(&mut self, put: &mut impl FnMut(&[u8])) {
        if self.buffer.len() == packet::SIZE {
            return;
        }
        let size = self.buffer.len() as u64;
        let header = packet::Header {
            uuid: self.uuid,
            stream: self.stream,
            cpu: self.ring,
            first_time: self.begin,
            last_time: self.end,
            content_size: size,
            packet_size: size,
            number: self.number,
            discarded: 0,
        };
        self.buffer[..packet::SIZE].copy_from_slice(&header.to_bytes());
        put(&self.buffer);
        self.buffer.truncate(packet::SIZE);
        self.number += 1;
    }
}

fn put_string(to: &mut Vec<u8>, text: &[u8]) {
    let size = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    to.extend_from_slice(&text[..size.min(PATH_SIZE_MAX - 1)]);
    to.push(0);
}

/// Process as `/proc` shows it.
struct Process {
    parent: u32,
    name: Vec<u8>,
    directory: Vec<u8>,
}

impl Process {
    fn read(pid: u32) -> Option<Process> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read(folder.join("stat")).ok()?;
        // The name is in parentheses, and may contain any byte.
        let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
        let end = stat.iter().rposition(|byte| *byte == b')').filter(|end| *end >= begin)?;
        let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
        let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
        let directory = fs::read_link(folder.join("cwd")).unwrap_or_default();
        let directory = directory.as_os_str().as_bytes().to_vec();
        Some(Process { parent, name: stat[begin..end].to_vec(), directory })
    }
}

/// Returns the descriptors of a process and their paths.
fn files(pid: u32) -> impl Iterator<Item = (i32, PathBuf)> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten();
    let files = entries.filter_map(|entry| {
        let entry = entry.ok()?;
        let fd = entry.file_name().to_str()?.parse().ok()?;
        Some((fd, fs::read_link(entry.path()).ok()?))
    });
    files.take(FILES_MAX)
}
