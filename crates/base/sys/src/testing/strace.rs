//! Programs under `strace`, which kills them in a system call or makes a call fail. Start at
//! [`traced`] and [`Fault`]. Such a program is an ignored test, which [`own_test`] turns into a
//! command. [`points`] lists the calls at which the program can be killed, and
//! [`run_on_two_threads`] runs the trials. [`figure`] reports a measured figure. [`env_number`]
//! gives the number of trials, and [`deadline`] a time limit.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// Returns the strace command with which a program's command line is prefixed. `calls` are the
/// traced calls, `inject` is the fault to inject, and `to` is the path of the log.
pub fn traced(calls: &[&str], inject: Option<&str>, to: &Path) -> Vec<String> {
    let mut words: Vec<String> = ["strace", "-f", "-qq", "-o"].map(str::to_owned).to_vec();
    // `?` because not every architecture has every call.
    let calls: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let calls = calls.join(",");
    words.extend([to.display().to_string(), "-e".to_owned(), format!("trace={calls}")]);
    if let Some(inject) = inject {
        words.extend(["-e".to_owned(), format!("inject={calls}:{inject}")]);
    }
    words
}

/// Returns a command that runs one ignored test of this executable. The words in `starter` precede
/// the command. Panics if there is no such test, because the harness would run nothing and succeed.
pub fn own_test<S: AsRef<OsStr>>(starter: &[S], test: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    assert!(ignored_tests().contains(test), "this executable has no ignored test `{test}`");
    let mut command = match starter {
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(own);
            command
        }
        [] => Command::new(own),
    };
    // With several threads the harness would report after a minute that the test still runs.
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// Returns the names of this executable's ignored tests.
fn ignored_tests() -> &'static BTreeSet<String> {
    static NAMES: OnceLock<BTreeSet<String>> = OnceLock::new();
    NAMES.get_or_init(|| {
        let own = std::env::current_exe().expect("a program");
        let list = Command::new(own).args(["--list", "--ignored", "--format=terse"]).output();
        let list = String::from_utf8(list.expect("a list of tests").stdout).expect("UTF-8");
        list.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
    })
}

/// Returns the time limit for an operation with a promised duration. It is the promised duration if
/// `BLKKIN_FIGURES` is set, and otherwise ten times as long, since a machine that builds is busy.
pub fn deadline(promised: Duration) -> Duration {
    match std::env::var_os("BLKKIN_FIGURES") {
        Some(_) => promised,
        None => promised * 10,
    }
}

/// Parses strace's log. Returns for each call the largest number of times that one thread made it,
/// because injection counts calls per thread.
pub fn most_calls(log: &Path, calls: &[&'static str]) -> BTreeMap<&'static str, u64> {
    let text = std::fs::read_to_string(log).expect("what strace has noted");
    let mut of_threads: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        let Some((call, _)) = rest.trim_start().split_once('(') else { continue };
        *of_threads.entry((thread, call)).or_default() += 1;
    }
    let most =
        |call| of_threads.iter().filter(|((_, of), _)| *of == call).map(|(_, count)| *count).max();
    calls.iter().filter_map(|&call| Some((call, most(call)?))).collect()
}

/// Lists the points at which a run can be killed, as pairs of a call's name and number. `counts` is
/// the result of [`most_calls`]: numbers count the calls of one thread.
pub fn points(counts: &BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    counts
        .iter()
        .flat_map(|(&call, &count)| (1..=count).map(move |number| (call, number)))
        .collect()
}

/// Runs `work` on two threads, once with the items at even indexes and once with those at odd
/// indexes. Two threads need less time than one, because both mostly wait for a disk or for strace.
pub fn run_on_two_threads<T: Copy + Sync, R: Send>(
    all: &[T],
    work: impl Fn(&[T]) -> R + Sync,
) -> [R; 2] {
    let work = &work;
    let every_second =
        |first| move || work(&all.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        [0, 1].map(|first| scope.spawn(every_second(first))).map(|it| it.join().expect("all holds"))
    })
}

/// Counts the occurrences of `answer` in a strace log with file paths. Fails if an answer precedes
/// the sync of the last write to a file whose path contains `part`. In the traced run, the client
/// must wait for each answer.
pub fn answers_behind_syncs(log: &str, part: &str, answer: &str) -> Result<u64, String> {
    // Path of the last written file, until the file is synced.
    let mut written: Option<&str> = None;
    let mut syncing: BTreeMap<&str, &str> = BTreeMap::new();
    let mut answers = 0;
    for line in log.lines() {
        let (thread, rest) = line.split_once(' ').ok_or("no thread")?;
        let rest = rest.trim_start();
        let path = rest.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        let path = path.map(|(path, _)| path).filter(|path| path.contains(part));
        match (rest.starts_with("<..."), path) {
            (false, Some(path)) if rest.starts_with("pwrite64(") => written = Some(path),
            (false, Some(path)) if rest.starts_with("fdatasync(") => {
                if rest.ends_with("<unfinished ...>") {
                    syncing.insert(thread, path);
                } else if rest.ends_with(" = 0") && written == Some(path) {
                    written = None;
                }
            }
            (true, _) if rest.contains("fdatasync resumed") => {
                let path = syncing.remove(thread);
                if rest.ends_with(" = 0") && written == path {
                    written = None;
                }
            }
            (false, None) if rest.contains(answer) => {
                if let Some(path) = written {
                    return Err(format!("answered before {path} is durable: {rest}"));
                }
                answers += 1;
            }
            _ => {}
        }
    }
    Ok(answers)
}

/// Disk error that strace injects into a program.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// Name of the system call that fails.
    pub call: &'static str,
    /// Number of the first failing call, counted from 1 in each thread.
    pub number: u64,
    /// Name of the error that the call returns, such as `EIO`.
    pub error: &'static str,
    /// Set if all later calls fail too. If clear, [`Fault::TIMES`] calls fail.
    pub stays: bool,
}

impl Fault {
    /// Number of consecutive calls that fail if the error is not permanent.
    pub const TIMES: u64 = 3;

    /// Returns the disk faults to inject into a run. For each system call except those on sockets,
    /// a temporary and a permanent fault begin at each of its calls. Faults of `write` begin at the
    /// fourth call at the earliest, and are temporary. `counts` is the result of [`most_calls`].
    pub fn all(counts: &BTreeMap<&'static str, u64>, error: &'static str) -> Vec<Fault> {
        let mut all = Vec::new();
        // Temporary and permanent errors in sequence, so that an even sample contains both.
        for stays in [false, true] {
            for (&call, &count) in counts {
                // A test also reports its progress by `write`, which must not fail until the
                // harness has written its header, and never permanently.
                let is_write = call == "write";
                let first = if is_write { 4 } else { 1 };
                let is_of_disk = !["connect", "sendto", "sendmsg", "writev"].contains(&call);
                if is_of_disk && !(is_write && stays) {
                    all.extend((first..=count).map(|number| Fault { call, number, error, stays }));
                }
            }
        }
        all
    }

    /// Returns the strace command with which a program's command line is prefixed to inject the
    /// error.
    pub fn starter(self) -> Vec<String> {
        let Fault { call, number, error, stays } = self;
        let last = if stays { "+".to_owned() } else { format!("..{}", number + Fault::TIMES - 1) };
        let inject = format!("error={error}:when={number}{last}");
        traced(&[call], Some(&inject), Path::new("/dev/null"))
    }
}

/// Returns at most `count` of the items in `all`, at equal distances. If `count` is 0, returns the
/// first item.
pub fn sample<T>(all: Vec<T>, count: u64) -> Vec<T> {
    let step = (all.len() as u64).div_ceil(count.max(1)).max(1) as usize;
    all.into_iter().step_by(step).collect()
}

/// Returns the number in an environment variable; `usual` if the variable is unset. Longer test
/// runs set the variable.
pub fn env_number(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect(variable))
}

/// Reports a measured figure for a promised property. Writes it to the file in `BLKKIN_FIGURES` if
/// that is set, and to standard output if `TEST_LOUD` is set.
pub fn figure(promise: &str, what: &str) {
    if std::env::var_os("TEST_LOUD").is_some() {
        let told = writeln!(std::io::stdout().lock(), "{promise}: {what}");
        told.expect("somebody to say it to");
    }
    let Some(path) = std::env::var_os("BLKKIN_FIGURES") else { return };
    let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
    let line = format!("{promise}\t{what}\n");
    file.and_then(|mut file| file.write_all(line.as_bytes())).expect("to note the figure");
}
