//! Files of a trigger: its definition, its state, and its events, in a directory of the user.

use super::options::Add;
use crate::directories::state_directory;
use crate::exit::Error;
use crate::process_lock::{Process, ProcessLock};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

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

const SCHEMA: &str = "blkkin.trigger.v1";
/// Environment variable with the directory of the user's triggers.
const VARIABLE: &str = "BLKKIN_TRIGGERS";

fn home() -> Result<PathBuf, Error> {
    let set = std::env::var_os(VARIABLE).filter(|value| !value.is_empty());
    let set = set.map(|path| std::path::absolute(&path).unwrap_or(path.into()));
    set.or_else(|| state_directory("triggers"))
        .ok_or_else(|| Error::usage("there is no home directory for triggers").hint("set HOME"))
}

/// Parses the words of a command line after `trigger add`.
pub(super) fn parse_words(words: impl Iterator<Item = String>) -> Result<Add, clap::Error> {
    let all = ["blkkin trigger add".to_owned()].into_iter().chain(words);
    <Words as clap::Parser>::try_parse_from(all).map(|words| words.add)
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
        let parsed = parse_words(self.words().into_iter());
        parsed.map(|add| (agent, add)).map_err(|error| unusable(error.to_string()))
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

    /// Returns the lock that the process of the trigger holds as long as it runs.
    pub(super) fn lock(&self) -> ProcessLock {
        ProcessLock::new(self.directory.join("lock"), format!("trigger `{}`", self.name))
    }

    /// Returns the state of the trigger's process.
    pub(super) fn process(&self) -> Process {
        self.lock().process()
    }

    /// Returns whether the definition is there. Without it, the trigger was removed.
    pub(super) fn exist(&self) -> bool {
        self.directory.join("definition.json").exists()
    }

    /// Sends a signal to the trigger's process, which must run.
    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let name = &self.name;
        match self.lock().signal(signal)? {
            true => Ok(()),
            false => Err(Error::failed(format!("trigger `{name}` does not run"))
                .hint(format!("`blkkin trigger start {name}` starts it"))),
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
