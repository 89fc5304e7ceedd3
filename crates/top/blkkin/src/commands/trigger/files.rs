//! Files of a trigger: its definition, its state, and its events, in a directory of the user.

use super::options::Add;
use crate::directories::state_directory;
use crate::exit::Error;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Files of one trigger.
pub(super) struct TriggerFiles {
    name: String,
    directory: PathBuf,
}

/// Parser of the words of a definition.
#[derive(clap::Parser)]
struct Words {
    #[command(flatten)]
    add: Add,
}

/// State of a trigger's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    Down,
    /// The process cannot take signals yet.
    Starting,
    Running(Pid),
}

/// Lock of a trigger's process.
pub(super) struct Lock(File);

impl Lock {
    /// Notes that the process takes signals.
    pub(super) fn set_ready(&mut self) -> io::Result<()> {
        writeln!(self.0, "{}", std::process::id())
    }
}

const SCHEMA: &str = "blkkin.trigger.v1";
/// Time limit for a process that was killed.
const KILL_TIME: Duration = Duration::from_secs(2);
/// Time limit for taking the lock, which other commands hold for moments.
const LOCK_TIME_MAX: Duration = Duration::from_secs(2);

/// Environment variable with the directory of the user's triggers.
const VARIABLE: &str = "BLKKIN_TRIGGERS";

fn home() -> Result<PathBuf, Error> {
    let set = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let set = set.map(|path| std::path::absolute(&path).unwrap_or(path.into()));
    set.or_else(|| state_directory("triggers"))
        .ok_or_else(|| Error::usage("there is no home directory for triggers").hint("set HOME"))
}

/// Returns the names of all of the user's triggers, sorted.
pub(super) fn names() -> Result<Vec<String>, Error> {
    let entries = match fs::read_dir(home()?) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| blkkin_lttng::is_component(name)).collect();
    names.sort();
    Ok(names)
}

impl TriggerFiles {
    /// Makes the directory of a new trigger with its definition: the agent's socket, and the words
    /// of the command line.
    pub(super) fn create(
        name: &str,
        agent: &str,
        words: &[OsString],
    ) -> Result<TriggerFiles, Error> {
        if !blkkin_lttng::is_component(name) {
            return Err(Error::usage(format!("`{name}` cannot be the name of a trigger"))
                .hint("names have no `/`, and no `.` at their start"));
        }
        let words: Option<Vec<&str>> = words.iter().map(|word| word.to_str()).collect();
        let words = words.ok_or_else(|| Error::usage("the command line is not UTF-8"))?;
        let home = home()?;
        let directory = home.join(name);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => Error::failed(format!("there is a trigger `{name}`"))
                .hint(format!("`blkkin trigger remove {name}` removes it")),
            _ => Error::failed(format!("cannot make {}: {error}", directory.display())),
        };
        DirBuilder::new().mode(0o700).recursive(true).create(&home).map_err(failed)?;
        DirBuilder::new().mode(0o700).create(&directory).map_err(failed)?;
        let files = TriggerFiles { name: name.to_owned(), directory: directory.clone() };
        let definition = json!({ "schema": SCHEMA, "agent": agent, "words": words });
        files.write("definition.json", &definition).map_err(failed)?;
        Ok(files)
    }

    /// Returns the files of a trigger that exists.
    pub(super) fn existing(name: &str) -> Result<TriggerFiles, Error> {
        let directory = home()?.join(name);
        if blkkin_lttng::is_component(name) && directory.is_dir() {
            return Ok(TriggerFiles { name: name.to_owned(), directory });
        }
        let names = names()?;
        let told = Error::failed(format!("there is no trigger `{name}`"));
        Err(match blkkin_filter::suggest(name, names.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `{near}`?")),
            None => told.hint("`blkkin trigger ls` lists them"),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the directory for the traces of the trigger's session.
    pub(super) fn events(&self) -> PathBuf {
        self.directory.join("events")
    }

    /// Returns the directory for the queue of spans.
    pub(super) fn queue(&self) -> PathBuf {
        self.directory.join("queue")
    }

    /// Returns the directory for the snapshot out of which requests are taken.
    pub(super) fn rings(&self) -> PathBuf {
        self.directory.join("rings")
    }

    /// Leaves the lower half of a trace id for the process.
    pub(super) fn ask_for(&self, request: u64) -> Result<(), Error> {
        let asked = self.directory.join("asked");
        let left = fs::create_dir_all(&asked)
            .and_then(|()| File::create(asked.join(format!("{request:016x}"))));
        left.map(drop).map_err(|error| Error::failed(format!("{}: {error}", asked.display())))
    }

    /// Takes the trace ids that were left for the process.
    pub(super) fn take_asked(&self) -> BTreeSet<u64> {
        let entries = fs::read_dir(self.directory.join("asked")).into_iter().flatten().flatten();
        let take = |entry: fs::DirEntry| {
            fs::remove_file(entry.path()).ok()?;
            u64::from_str_radix(&entry.file_name().to_string_lossy(), 16).ok()
        };
        entries.filter_map(take).collect()
    }

    /// Returns the words of the definition.
    pub(super) fn words(&self) -> Vec<String> {
        let definition = self.read("definition.json").unwrap_or_default();
        let words = definition["words"].as_array().into_iter().flatten();
        words.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    }

    /// Returns the socket of the trigger's agent, and its options.
    pub(super) fn definition(&self) -> Result<(String, Add), Error> {
        let path = self.directory.join("definition.json");
        let unusable = |why: String| Error::failed(format!("{}: {why}", path.display()));
        let definition =
            self.read("definition.json").map_err(|error| unusable(error.to_string()))?;
        let agent = definition["agent"].as_str().unwrap_or_default().to_owned();
        let words = ["blkkin trigger add".to_owned()].into_iter().chain(self.words());
        let parsed = <Words as clap::Parser>::try_parse_from(words);
        parsed.map(|words| (agent, words.add)).map_err(|error| unusable(error.to_string()))
    }

    /// Returns the state that the trigger's process has last written.
    pub(super) fn state(&self) -> Value {
        self.read("state.json").unwrap_or_default()
    }

    /// Returns whether the trigger has acted as often as it may.
    pub(super) fn is_over(&self) -> bool {
        self.state()["is_over"] == true
    }

    pub(super) fn set_state(&self, state: &Value) -> io::Result<()> {
        self.write("state.json", state)
    }

    fn read(&self, name: &str) -> io::Result<Value> {
        let text = fs::read(self.directory.join(name))?;
        serde_json::from_slice(&text).map_err(io::Error::other)
    }

    fn write(&self, name: &str, value: &Value) -> io::Result<()> {
        let temporary = self.directory.join(format!(".{name}.new"));
        fs::write(&temporary, format!("{value}\n"))?;
        fs::rename(temporary, self.directory.join(name))
    }

    /// Opens the log for the messages of a new process.
    pub(super) fn log(&self) -> io::Result<File> {
        File::create(self.directory.join("log"))
    }

    /// Returns the last line of the log.
    pub(super) fn last_message(&self) -> String {
        let text = fs::read_to_string(self.directory.join("log")).unwrap_or_default();
        text.lines().last().unwrap_or("without a message").to_owned()
    }

    fn lock_file(&self) -> io::Result<File> {
        let path = self.directory.join("lock");
        OpenOptions::new().create(true).truncate(false).write(true).read(true).open(path)
    }

    /// Takes the lock that the process of the trigger holds as long as it runs.
    pub(super) fn lock(&self) -> Result<Lock, Error> {
        let file = self.lock_file()?;
        let deadline = Instant::now() + LOCK_TIME_MAX;
        while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            if Instant::now() >= deadline {
                return Err(Error::failed(format!("trigger `{}` runs already", self.name)));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        // The id of an earlier process.
        file.set_len(0)?;
        Ok(Lock(file))
    }

    /// Returns the state of the trigger's process.
    pub(super) fn process(&self) -> Process {
        let Ok(mut file) = self.lock_file() else { return Process::Down };
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            return Process::Down;
        }
        let mut text = String::new();
        let _ = file.read_to_string(&mut text);
        text.trim().parse().ok().and_then(Pid::from_raw).map_or(Process::Starting, Process::Running)
    }

    /// Returns whether the definition is there. Without it, the trigger was removed.
    pub(super) fn exist(&self) -> bool {
        self.directory.join("definition.json").exists()
    }

    /// Sends a signal to the trigger's process. Returns false if it does not run.
    fn try_signal(&self, signal: Signal) -> io::Result<bool> {
        let Process::Running(pid) = self.process() else { return Ok(false) };
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(Errno::SRCH) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        // Another process may have got the id meanwhile, but not the lock with this id.
        if self.process() != Process::Running(pid) {
            return Ok(false);
        }
        match pidfd_send_signal(process, signal) {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Sends a signal to the trigger's process, which must run.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let name = &self.name;
        let failed = |error| Error::failed(format!("trigger `{name}` cannot be told: {error}"));
        match self.try_signal(signal).map_err(failed)? {
            true => Ok(()),
            false => Err(Error::failed(format!("trigger `{name}` does not run"))
                .hint(format!("`blkkin trigger start {name}` starts it"))),
        }
    }

    /// Ends the trigger's process, and waits until it has ended.
    pub(super) fn end(&self, time: Duration) -> Result<(), Error> {
        let name = &self.name;
        let failed = |error| Error::failed(format!("trigger `{name}` cannot be ended: {error}"));
        for (signal, time) in [(Signal::TERM, time), (Signal::KILL, KILL_TIME)] {
            let deadline = Instant::now() + time;
            let mut is_told = false;
            while self.process() != Process::Down {
                if Instant::now() >= deadline {
                    break;
                }
                is_told = is_told || self.try_signal(signal).map_err(failed)?;
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        match self.process() {
            Process::Down => Ok(()),
            _ => Err(Error::failed(format!("the process of trigger `{name}` does not end"))),
        }
    }

    /// Removes the files.
    pub(super) fn remove(&self) -> Result<(), Error> {
        Ok(remove_tree(&self.directory)?)
    }

    /// Removes the traces of the trigger's session.
    pub(super) fn remove_events(&self) -> Result<(), Error> {
        Ok(remove_tree(&self.events())?)
    }
}

/// Removes a directory, if it is there.
pub(super) fn remove_tree(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(io::Error::new(error.kind(), format!("cannot remove {}: {error}", path.display())))
        }
        _ => Ok(()),
    }
}
