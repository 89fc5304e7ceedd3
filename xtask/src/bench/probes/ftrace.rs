//! The kernel's own trace buffer as a recorder: an instance in tracefs, and a process for each
//! processor that copies its binary pages to a file. Start at [`Ftrace`].

use super::case::Case;
use super::load::NAME;
use super::recorder::{Recorder, Run, Setting};
use super::tracefs::Mount;
use crate::process::end;
use crate::tools::at;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// Size of each processor's buffer in KiB, as in `blkkin io`.
const BUFFER_SIZE_KIB: &str = "4096";

/// Time that the copying processes have to empty the buffers before they are ended.
const SETTLE_TIME: Duration = Duration::from_millis(500);

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

    fn measure(&self, place: &Setting<'_>, case: &Case) -> Result<Run, String> {
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
        let copies = processors.iter().enumerate().map(|(index, processor)| {
            let output = place.folder.join(format!("ftrace-{index}.raw"));
            Copy::start(&processor.join("trace_pipe_raw"), &output)
        });
        let copies: Vec<Copy> = copies.collect::<Result<_, _>>()?;
        let cost = place.load.run(case)?;
        std::thread::sleep(SETTLE_TIME);
        drop(copies);
        let mut sum = Stats::default();
        for processor in processors {
            let path = processor.join("stats");
            let stats = Stats::parse(&fs::read_to_string(&path).map_err(at(&path))?);
            sum.read += stats.read;
            sum.lost += stats.lost;
        }
        // Each system call has two events.
        let (delivered, lost) = (Some(sum.read / 2), Some(sum.lost / 2));
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

/// A process that copies a processor's buffer to a file, ended on drop.
struct Copy(Child);

impl Copy {
    fn start(pipe: &Path, output: &Path) -> Result<Copy, String> {
        let child = Command::new("cat")
            .arg(pipe)
            .stdin(Stdio::null())
            .stdout(File::create(output).map_err(at(output))?)
            .spawn()
            .map_err(|error| format!("cannot start cat: {error}"))?;
        Ok(Copy(child))
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Counters of a processor's buffer.
#[derive(Debug, Default, PartialEq)]
struct Stats {
    /// Number of events that were copied.
    read: u64,
    /// Number of events that were overwritten or not recorded.
    lost: u64,
}

impl Stats {
    fn parse(text: &str) -> Stats {
        let number = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            line.and_then(|line| line.trim().parse().ok()).unwrap_or(0)
        };
        let lost: u64 = ["overrun", "commit overrun", "dropped events"].map(number).iter().sum();
        Stats { read: number("read events"), lost }
    }
}

#[cfg(test)]
mod tests {
    use super::Stats;

    #[test]
    fn counters_are_parsed() {
        let text = "entries: 0\noverrun: 5\ncommit overrun: 1\nbytes: 0\n\
                    oldest event ts:  4475.605599\nnow ts:  4477.625084\n\
                    dropped events: 2\nread events: 6006\n";
        assert_eq!(Stats::parse(text), Stats { read: 6006, lost: 8 });
        assert_eq!(Stats::parse("x"), Stats::default());
    }
}
