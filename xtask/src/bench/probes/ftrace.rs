//! The kernel's own trace buffer as a recorder: an instance in tracefs, and a thread for each
//! processor that copies its binary pages to a file. Start at [`Ftrace`].

use super::case::Case;
use super::load::NAME;
use super::recorder::{Recorder, Run, Workspace};
use super::tracefs::Mount;
use crate::tools::at;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Size of each processor's buffer in KiB, as in `blkkin io`.
const BUFFER_SIZE_KIB: &str = "4096";

/// Time that the copying threads have to empty the buffers before they are ended, and the
/// interval between two checks.
const SETTLE_TIME_MAX: Duration = Duration::from_secs(20);
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

/// Pause of a copying thread after it has emptied its buffer.
const COPY_INTERVAL: Duration = Duration::from_millis(1);

/// Maximum size of one read from a buffer, in bytes.
const READ_SIZE: usize = 64 << 10;

/// A mounted tracefs for recording.
pub(super) struct Ftrace {
    mount: Mount,
}

impl Ftrace {
    /// Mounts tracefs below `folder`.
    pub(super) fn new(folder: &Path) -> Result<Ftrace, String> {
        Ok(Ftrace { mount: Mount::new(folder.join("tracefs"))? })
    }
}

impl Recorder for Ftrace {
    fn name(&self) -> &'static str {
        "ftrace's buffer"
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let instance = Instance::new(&self.mount.path)?;
        instance.write("buffer_size_kb", BUFFER_SIZE_KIB)?;
        for call in case.call.system_calls {
            for edge in ["enter", "exit"] {
                let event = format!("events/syscalls/sys_{edge}_{}", call.name);
                instance.write(&format!("{event}/filter"), &format!("comm == \"{NAME}\""))?;
                instance.write(&format!("{event}/enable"), "1")?;
            }
        }
        let processors = instance.processors()?;
        let copies = Copies::start(&processors, &workspace.folder)?;
        let cost = workspace.load.run(case)?;
        let start = Instant::now();
        let mut stats = Stats::of(&processors)?;
        while stats.unread > 0 && start.elapsed() < SETTLE_TIME_MAX {
            std::thread::sleep(CHECK_INTERVAL);
            stats = Stats::of(&processors)?;
        }
        copies.finish()?;
        // Each system call has two events.
        let (delivered, lost) = (Some(stats.read / 2), Some(stats.lost / 2));
        Ok(Run { delivered, lost, ..Run::bare(cost, case) })
    }
}

/// An instance of the trace buffer, removed on drop.
struct Instance(PathBuf);

impl Instance {
    /// Makes an instance, in place of that of a bench that was killed.
    fn new(tracefs: &Path) -> Result<Instance, String> {
        let path = tracefs.join("instances/blkkin-bench");
        let _ = fs::remove_dir(&path);
        fs::create_dir(&path).map_err(at(&path))?;
        Ok(Instance(path))
    }

    fn write(&self, name: &str, text: &str) -> Result<(), String> {
        let path = self.0.join(name);
        fs::write(&path, text).map_err(at(&path))
    }

    fn processors(&self) -> Result<Vec<PathBuf>, String> {
        let path = self.0.join("per_cpu");
        let entries = fs::read_dir(&path).map_err(at(&path))?;
        entries.map(|entry| Ok(entry.map_err(at(&path))?.path())).collect()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

/// Threads that copy the processors' buffers to files, ended on drop.
struct Copies {
    is_stopping: Arc<AtomicBool>,
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Copies {
    fn start(processors: &[PathBuf], folder: &Path) -> Result<Copies, String> {
        let is_stopping = Arc::new(AtomicBool::new(false));
        let mut copies = Copies { is_stopping: is_stopping.clone(), threads: Vec::new() };
        for (index, processor) in processors.iter().enumerate() {
            let (pipe, output) =
                (processor.join("trace_pipe_raw"), folder.join(format!("ftrace-{index}.raw")));
            let from = File::options()
                .read(true)
                .custom_flags(nix::libc::O_NONBLOCK)
                .open(&pipe)
                .map_err(at(&pipe))?;
            let to = File::create(&output).map_err(at(&output))?;
            let is_stopping = is_stopping.clone();
            copies.threads.push(std::thread::spawn(move || copy(from, to, &is_stopping)));
        }
        Ok(copies)
    }

    fn finish(mut self) -> Result<(), String> {
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let done = thread.join().map_err(|_| "a copying thread has failed")?;
            done.map_err(|error| format!("trace_pipe_raw: {error}"))?;
        }
        Ok(())
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // The instance can be removed only if its files are closed.
        self.is_stopping.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// Copies a buffer's pages until it is empty after `is_stopping` was set. The end of the file means
/// nothing: the kernel also reports it for a buffer that is empty for a moment.
fn copy(mut from: File, mut to: File, is_stopping: &AtomicBool) -> io::Result<()> {
    let mut buffer = vec![0; READ_SIZE];
    loop {
        match from.read(&mut buffer) {
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return Err(error),
            Ok(size @ 1..) => to.write_all(&buffer[..size])?,
            _ if is_stopping.load(Ordering::Relaxed) => return Ok(()),
            _ => std::thread::sleep(COPY_INTERVAL),
        }
    }
}

/// Counters of the processors' buffers.
#[derive(Debug, Default, PartialEq)]
struct Stats {
    /// Number of events in the buffer.
    unread: u64,
    /// Number of events that were copied.
    read: u64,
    /// Number of events that were overwritten or not recorded.
    lost: u64,
}

impl Stats {
    /// Returns the sums over all processors.
    fn of(processors: &[PathBuf]) -> Result<Stats, String> {
        let mut sum = Stats::default();
        for processor in processors {
            let path = processor.join("stats");
            let stats = Stats::parse(&fs::read_to_string(&path).map_err(at(&path))?);
            sum.unread += stats.unread;
            sum.read += stats.read;
            sum.lost += stats.lost;
        }
        Ok(sum)
    }

    fn parse(text: &str) -> Stats {
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
        };
        let lost: u64 = ["overrun", "commit overrun", "dropped events"].map(number).iter().sum();
        Stats { unread: number("entries"), read: number("read events"), lost }
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn counters_are_parsed() {
        let text = "entries: 7\noverrun: 5\ncommit overrun: 1\nbytes: 0\n\
                    oldest event ts:  4475.605599\nnow ts:  4477.625084\n\
                    dropped events: 2\nread events: 6006\n";
        assert_eq!(Stats::parse(text), Stats { unread: 7, read: 6006, lost: 8 });
        assert_eq!(Stats::parse("x"), Stats::default());
    }
}
