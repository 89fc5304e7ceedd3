//! State of the process when recording starts, as events: name, parent, working directory and open
//! files. With them a reader on any machine knows which file a descriptor meant. The events are
//! those of the crate `kernel`.

use blkkin_trace::{Encoder, EventType, Fields, Kind, Level, Value};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::parent_id;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Maximum number of descriptors that are recorded. More would fill the rings.
const FILES_MAX: usize = 4096;

static PROCESS: EventType =
    EventType::new("state:process", Level::Info, &["of_pid", "parent", "name", "cwd"], ("", 0));
static FILE: EventType =
    EventType::new("state:file", Level::Info, &["of_pid", "fd", "path"], ("", 0));

/// Bitmap of the channels that record the state events and for which the state has been recorded.
static RECORDED_FOR: AtomicU64 = AtomicU64::new(0);

/// Text that need not be UTF-8.
struct Text<'t>(&'t [u8]);

impl Value for Text<'_> {
    const KIND: Kind = Kind::String;

    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.put_bytes_as_string(self.0);
    }
}

type ProcessFields<'t> = (u32, u32, Text<'t>, Text<'t>);
type FileFields<'t> = (u32, i32, Text<'t>);

/// Records the state if a channel records its events and the state has not been recorded for that
/// channel yet. Called on the tracer's thread after a change of the rules.
pub(crate) fn record_if_new() {
    PROCESS.register(<ProcessFields<'_> as Fields>::KINDS);
    FILE.register(<FileFields<'_> as Fields>::KINDS);
    let wanted = match PROCESS.is_decided() {
        true => PROCESS.wanted_word().load(Relaxed),
        false => return,
    };
    let known = RECORDED_FOR.swap(wanted, Relaxed);
    if wanted & !known != 0 {
        record();
    }
}

/// Makes the next change of the rules record the state again. Called in a forked child, on its only
/// thread.
pub(crate) fn forget() {
    RECORDED_FOR.store(0, Relaxed);
}

fn record() {
    let pid = std::process::id();
    let name = fs::read("/proc/self/comm").unwrap_or_default();
    let name = Text(name.strip_suffix(b"\n").unwrap_or(&name));
    let directory = std::env::current_dir().unwrap_or_default();
    let directory = Text(directory.as_os_str().as_bytes());
    PROCESS.record::<ProcessFields<'_>>((pid, parent_id(), name, directory));
    let Ok(entries) = fs::read_dir("/proc/self/fd") else { return };
    let own = format!("/proc/{pid}/fd");
    for entry in entries.flatten().take(FILES_MAX) {
        let fd = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let (Some(fd), Ok(path)) = (fd, fs::read_link(entry.path())) else { continue };
        // The descriptor by which the folder is read.
        if path != Path::new(&own) {
            let path = Text(path.as_os_str().as_bytes());
            FILE.record::<FileFields<'_>>((pid, fd, path));
        }
    }
}
