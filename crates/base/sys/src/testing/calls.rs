//! Programs that end in one of their system calls, or have one fail, by `strace`: start at [`traced`] and [`Fault`]. Such
//! a program is an ignored test, of which [`own_test`] makes a command; [`points`] are where it can be killed, and
//! [`by_two`] tries them. What was done is told by [`figure`], how much to do is asked by [`amount`], and how soon by
//! [`deadline`].

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// The words before a program that is traced: which of its calls, what is done to them, and where they are noted.
pub fn traced(calls: &[&str], inject: Option<&str>, to: &Path) -> Vec<String> {
    let mut words: Vec<String> = ["strace", "-f", "-qq", "-o"].map(str::to_owned).to_vec();
    // Not each machine has each of them.
    let calls: Vec<String> = calls.iter().map(|call| format!("?{call}")).collect();
    let calls = calls.join(",");
    words.extend([to.display().to_string(), "-e".to_owned(), format!("trace={calls}")]);
    if let Some(inject) = inject {
        words.extend(["-e".to_owned(), format!("inject={calls}:{inject}")]);
    }
    words
}

/// A test of this program, which is ignored otherwise, as a program of its own, by the words before it.
pub fn own_test<S: AsRef<OsStr>>(starter: &[S], test: &str) -> Command {
    let own = std::env::current_exe().expect("a program");
    let mut command = match starter {
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(own);
            command
        }
        [] => Command::new(own),
    };
    // With several threads the harness tells after a minute that the program still runs.
    command.args([test, "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
    command
}

/// How long something may take that is promised within a time: as long as that where promises are measured, and much
/// longer elsewhere, as a machine that builds has other things to do.
pub fn deadline(promised: Duration) -> Duration {
    match std::env::var_os("BLKKIN_FIGURES") {
        Some(_) => promised,
        None => promised * 10,
    }
}

/// How many of each call a thread made at most, by what was noted: threads count their own calls.
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

/// Each single call of a life with so many: where a program can be killed.
pub fn points(counts: &BTreeMap<&'static str, u64>) -> Vec<(&'static str, u64)> {
    counts
        .iter()
        .flat_map(|(&call, &count)| (1..=count).map(move |number| (call, number)))
        .collect()
}

/// Does something with all, on two threads, each of which has every second one: most of the time they wait, for a disk or
/// for strace. What alternates in `all` is separated by that.
pub fn by_two<T: Copy + Sync, R: Send>(all: &[T], work: impl Fn(&[T]) -> R + Sync) -> [R; 2] {
    let work = &work;
    let every_second =
        |first| move || work(&all.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
    std::thread::scope(|scope| {
        [0, 1].map(|first| scope.spawn(every_second(first))).map(|it| it.join().expect("all holds"))
    })
}

/// How many answers there were, by what was noted with the paths of files; unless one came before what was written to
/// a file with this part of a path was made durable. Who asks waits for each answer.
pub fn answers_behind_syncs(log: &str, part: &str, answer: &str) -> Result<u64, String> {
    // The file that was written to last, as long as that is not durable.
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

/// What a disk refuses: in which call, from which of them on, and how.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The call.
    pub call: &'static str,
    /// Which one of a thread's.
    pub number: u64,
    /// The name of the error.
    pub error: &'static str,
    /// Whether all that follow are refused, too; else some.
    pub stays: bool,
}

impl Fault {
    /// How often it refuses, if not for good.
    pub const TIMES: u64 = 3;

    /// All that there are in a life with so many calls, of those that disks can refuse.
    pub fn all(counts: &BTreeMap<&'static str, u64>, error: &'static str) -> Vec<Fault> {
        let mut all = Vec::new();
        // One after the other, so that some of all are some of both.
        for stays in [false, true] {
            for (&call, &count) in counts {
                // By `write` a program also says what it has done: not before the test harness has, and not for good.
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

    /// The words before a program that meets it.
    pub fn starter(self) -> Vec<String> {
        let Fault { call, number, error, stays } = self;
        let last = if stays { "+".to_owned() } else { format!("..{}", number + Fault::TIMES - 1) };
        let inject = format!("error={error}:when={number}{last}");
        traced(&[call], Some(&inject), Path::new("/dev/null"))
    }
}

/// At most so many of all, evenly.
pub fn some_of<T>(all: Vec<T>, count: u64) -> Vec<T> {
    let step = (all.len() as u64).div_ceil(count.max(1)).max(1) as usize;
    all.into_iter().step_by(step).collect()
}

/// A number that an environment variable may say, for longer runs.
pub fn amount(variable: &str, usual: u64) -> u64 {
    std::env::var(variable).map_or(usual, |text| text.parse().expect(variable))
}

/// Tells what a test has done, to whoever runs it to see that promises hold.
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
