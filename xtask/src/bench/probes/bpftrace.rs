//! bpftrace as a recorder: a script that prints the same fields as `blkkin io`, and one that only
//! counts. Start at [`Bpftrace`].

use super::background::{Background, count_lines};
use super::case::{Call, Case, Subject, SystemCall};
use super::load::NAME;
use super::recorder::{Recorder, Run, Workspace};
use super::tracefs;
use crate::tools::at;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

pub(super) const PROGRAM: &str = "bpftrace";
pub(super) const PRINTING: &str = "bpftrace, printing";
const COUNTING: &str = "bpftrace, counting";

/// Pages of each processor's buffer: 4 MiB, as in `blkkin io`.
const BUFFER_PAGES: &str = "1024";

/// bpftrace with one of two scripts.
pub(super) struct Bpftrace {
    /// Set if each system call is printed; otherwise they are only counted.
    pub(super) is_printing: bool,
}

impl Recorder for Bpftrace {
    fn name(&self) -> &'static str {
        if self.is_printing { PRINTING } else { COUNTING }
    }

    fn records(&self, call: &Call) -> bool {
        match call.subject {
            Subject::SystemCalls => true,
            Subject::Function | Subject::Usdt => !self.is_printing,
            Subject::Waits => false,
        }
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let ready = workspace.folder.join("bpftrace.ready");
        let (script, output) =
            (workspace.folder.join("script.bt"), workspace.folder.join("bpftrace.out"));
        let _ = fs::remove_file(&ready);
        let program = workspace.load.program();
        let body = match case.call.subject {
            Subject::SystemCalls if self.is_printing => printing(case.call),
            Subject::Function => count_by(&format!("uprobe:{}:bench_hit", program.display())),
            Subject::Usdt => count_by(&format!("usdt:{}:bench:hit", program.display())),
            Subject::SystemCalls | Subject::Waits => counting(case.call),
        };
        fs::write(&script, begin(&ready) + &body).map_err(at(&script))?;
        // `system` in the script is unsafe for bpftrace. Fully buffered output is the fastest.
        let mut command = command(&["--unsafe", "-B", "full"]);
        let mut background = Background::start(command.arg(&script), &output)?;
        background.wait_until(|| ready.exists())?;
        let cost = workspace.load.run(case)?;
        // A signal that bpftrace 0.17 receives while it prints ends it only at the next event.
        background.wait_until_idle()?;
        let ending = background.interrupt()?;
        if ending.code != Some(0) {
            return Err(format!("bpftrace failed: {}", ending.log.trim()));
        }
        let delivered = match self.is_printing {
            true => count_lines(&output, &[format!("event {NAME} ")])?,
            false => {
                let text = fs::read_to_string(&output).map_err(at(&output))?;
                counted(&text).ok_or_else(|| format!("bpftrace printed `{}`", text.trim()))?
            }
        };
        let lost = match self.is_printing {
            true => lost(&messages(&output)?) + lost(&ending.log),
            false => 0,
        };
        let (delivered, lost, usage) = (Some(delivered), Some(lost), Some(ending.usage));
        Ok(Run { delivered, lost, usage, ..Run::bare(cost, case) })
    }
}

/// Returns a command for bpftrace with these options.
pub(super) fn command(options: &[&str]) -> Command {
    let mut command = tracefs::command(PROGRAM);
    command.args(options).env("BPFTRACE_PERF_RB_PAGES", BUFFER_PAGES);
    command
}

/// Returns the probe that makes the file `ready`. bpftrace executes `system` once all probes are
/// attached.
fn begin(ready: &Path) -> String {
    format!("BEGIN {{ system(\"touch {}\"); }}\n", ready.display())
}

/// Returns the probes that print each system call.
fn printing(call: &Call) -> String {
    call.system_calls.iter().map(printing_one).collect()
}

/// Returns the probes at entry and exit of a system call. Tuples in one map have the same types, so
/// each system call has a map of its own.
fn printing_one(call: &SystemCall) -> String {
    let SystemCall { name, numbers, text } = call;
    let mut arguments: String = numbers.iter().map(|name| format!(", args->{name}")).collect();
    let mut script = format!("tracepoint:syscalls:sys_enter_{name} /comm == \"{NAME}\"/ {{ ");
    let _ = write!(script, "@{name}[tid] = (nsecs{arguments}); ");
    if let Some(text) = text {
        let _ = write!(script, "@text[tid] = args->{text}; ");
    }
    let mut format: String = numbers.iter().map(|name| format!(" {name}=%d")).collect();
    arguments = (1..=numbers.len()).map(|index| format!(", $entry.{index}")).collect();
    if let Some(text) = text {
        let _ = write!(format, " {text}=%s");
        arguments += ", str(@text[tid])";
    }
    let _ = write!(
        script,
        "}}\ntracepoint:syscalls:sys_exit_{name} /comm == \"{NAME}\"/ {{ $entry = @{name}[tid]; \
         printf(\"event %s %d %d {name}{format} ret=%d ns=%d\\n\", comm, pid, tid{arguments}, \
         args->ret, nsecs - $entry.0); delete(@{name}[tid]); ",
    );
    if text.is_some() {
        script += "delete(@text[tid]); ";
    }
    script + "}\n"
}

/// Returns the probes that count system calls by program.
fn counting(call: &Call) -> String {
    let probe = |call: &SystemCall| format!("tracepoint:syscalls:sys_enter_{}", call.name);
    let probes: Vec<String> = call.system_calls.iter().map(probe).collect();
    count_by(&probes.join(", "))
}

/// Returns the script that counts events of probes by program.
fn count_by(probes: &str) -> String {
    format!("{probes} {{ @count[comm] = count(); }}\n")
}

/// Returns the load's count in the output of [`counting`].
fn counted(output: &str) -> Option<u64> {
    let key = format!("@count[{NAME}]: ");
    output.lines().find_map(|line| line.strip_prefix(&key)?.trim().parse().ok())
}

/// Returns the lines of bpftrace's output about losses.
fn messages(output: &Path) -> Result<String, String> {
    let grep = Command::new("grep").args(["--text", "Lost "]).arg(output).output();
    let output = grep.map_err(|error| format!("cannot start grep: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns the number of lost events in messages: `Lost 12 events`.
fn lost(messages: &str) -> u64 {
    let count = |line: &str| -> Option<u64> {
        let (_, rest) = line.split_once("Lost ")?;
        rest.split_once(" event")?.0.parse().ok()
    };
    messages.lines().filter_map(count).sum::<u64>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::probes::case::READ;

    #[test]
    fn output_is_parsed() {
        let output = "Attaching 2 probes...\n\n\n@count[sh]: 3\n@count[bench-calls]: 2000000\n";
        assert_eq!(counted(output), Some(2_000_000));
        assert_eq!(counted("@count[bench-calls-2]: 7\n"), None);
        assert_eq!(lost("Lost 12 events\nLost 3 events\n"), 15);
        assert_eq!(lost("WARNING: Lost 1 event\n"), 1);
        assert_eq!(lost("Lost events\n"), 0);
    }

    #[test]
    fn script_prints_all_fields() {
        let expected = "tracepoint:syscalls:sys_enter_read /comm == \"bench-calls\"/ { \
             @read[tid] = (nsecs, args->fd, args->count); }\n\
             tracepoint:syscalls:sys_exit_read /comm == \"bench-calls\"/ { $entry = @read[tid]; \
             printf(\"event %s %d %d read fd=%d count=%d ret=%d ns=%d\\n\", comm, pid, tid, \
             $entry.1, $entry.2, args->ret, nsecs - $entry.0); delete(@read[tid]); }\n";
        assert_eq!(printing(&READ), expected);
    }

    #[test]
    fn script_prints_strings() {
        let call = SystemCall { name: "openat", numbers: &["dfd"], text: Some("filename") };
        let script = printing_one(&call);
        assert!(script.contains("@text[tid] = args->filename; }"), "{script}");
        assert!(script.contains("dfd=%d filename=%s ret=%d"), "{script}");
        assert!(script.contains("$entry.1, str(@text[tid]), args->ret"), "{script}");
        assert!(script.ends_with("delete(@openat[tid]); delete(@text[tid]); }\n"), "{script}");
    }
}
