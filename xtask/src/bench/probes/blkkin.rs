//! `blkkin io` as a recorder: attached without choosing the load, recording to a trace, and
//! printing JSON. Start at [`Blkkin`].

use super::background::{Background, Ending, count_lines};
use super::case::Case;
use super::load::NAME;
use super::recorder::{Recorder, Run, Workspace};
use crate::bench::blkkin::count;
use crate::tools::at;
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

pub(super) const NOT_CHOSEN: &str = "blkkin io, not chosen";
pub(super) const RECORDED: &str = "blkkin io -o";
const SHOWN: &str = "blkkin io --json";

/// Name of a program that does not run.
const NO_SUCH_NAME: &str = "no-such-name";

/// Exit statuses of a recording that was interrupted: success, lost events, and Ctrl-C.
const CODES: [i32; 3] = [0, 3, 130];

/// Output of `blkkin io`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// Probes are attached, and the load is not recorded.
    NotChosen,
    /// Events are written to a trace.
    Recorded,
    /// Operations are printed as JSON.
    Shown,
}

/// `blkkin io` in one mode.
pub(super) struct Blkkin {
    pub(super) program: String,
    pub(super) mode: Mode,
}

impl Blkkin {
    fn has_started(&self, id: u32) -> bool {
        let status = Command::new(&self.program)
            .args(["io", "apps", "ls", "--recording", &id.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        status.is_ok_and(|status| status.success())
    }

    fn delivered(&self, trace: &Path, output: &Path, case: &Case) -> Result<Option<u64>, String> {
        let names = case.call.system_calls.iter().map(|call| call.name);
        Ok(match self.mode {
            Mode::NotChosen => None,
            Mode::Recorded => {
                let names: Vec<String> =
                    names.map(|name| format!("name == \"syscall:{name}\"")).collect();
                Some(count(&self.program, trace, Some(&names.join(" || ")))?)
            }
            Mode::Shown => {
                let texts: Vec<String> = names.map(|name| format!("\"call\":\"{name}\"")).collect();
                Some(count_lines(output, &texts)?)
            }
        })
    }
}

impl Recorder for Blkkin {
    fn name(&self) -> &'static str {
        match self.mode {
            Mode::NotChosen => NOT_CHOSEN,
            Mode::Recorded => RECORDED,
            Mode::Shown => SHOWN,
        }
    }

    fn is_peer(&self) -> bool {
        false
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let (trace, output) = (workspace.folder.join("trace"), workspace.folder.join("blkkin.out"));
        match fs::remove_dir_all(&trace) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(at(&trace)(error));
            }
            _ => {}
        }
        let mut command = Command::new(&self.program);
        let app = if self.mode == Mode::NotChosen { NO_SUCH_NAME } else { NAME };
        command.args(["io", "--app", app]);
        match self.mode {
            Mode::Shown => command.arg("--json"),
            Mode::NotChosen | Mode::Recorded => command.arg("-o").arg(&trace),
        };
        let mut background = Background::start(&mut command, &output)?;
        let id = background.id();
        background.wait_until(|| self.has_started(id))?;
        let cost = workspace.load.run(case)?;
        let Ending { code, usage, log } = background.interrupt()?;
        if !code.is_some_and(|code| CODES.contains(&code)) {
            return Err(format!("`blkkin io` failed: {}", log.trim()));
        }
        let delivered = self.delivered(&trace, &output, case)?;
        let lost = delivered.map(|_| lost(&log));
        Ok(Run { delivered, lost, usage: Some(usage), ..Run::bare(cost, case) })
    }
}

/// Returns the number of lost events in a warning of `blkkin io`: `warning: 12 events lost, …`.
fn lost(log: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let position = words.iter().position(|word| word.starts_with("lost"))?;
        words.get(position.checked_sub(2)?)?.parse().ok()
    };
    log.lines().filter_map(count).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::lost;

    #[test]
    fn losses_are_parsed() {
        let log = "2091 events in 0.2 s, 149 KiB in trace\n\
                   warning: 12345 events lost, because the buffer was full; --buffer SIZE …\n";
        assert_eq!(lost(log), 12345);
        assert_eq!(lost("warning: 1 event lost, because the buffer was full"), 1);
        assert_eq!(lost("2091 events in 0.2 s, 149 KiB in lost\n"), 0);
        assert_eq!(lost("lost\n"), 0);
    }
}
