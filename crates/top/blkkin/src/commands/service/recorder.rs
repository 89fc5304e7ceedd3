//! A registered recorder: its file in `recorders.d`, and its state, log and lock in a directory of
//! its own.

use crate::commands::session::saved;
use crate::definition::Definition;
use crate::directories::{configuration_directory, state_directory};
use crate::exit::Error;
use crate::process_lock::{Process, ProcessLock};
use serde_json::Value;
use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// A registered recorder.
#[derive(Clone, Debug)]
pub(super) struct Recorder {
    name: String,
    directories: Directories,
}

/// Directories of all recorders of a user.
#[derive(Clone, Debug)]
struct Directories {
    /// Directory of the recorders' files.
    files: PathBuf,
    /// Directory that has a directory for each recorder.
    states: PathBuf,
}

/// Environment variable with another directory for the files; their state is in `.state` there.
const VARIABLE: &str = "BLKKIN_RECORDERS";
const DIRECTORY: &str = "recorders.d";
/// Name of the directory with an empty file for each recorder that starts with the machine.
const ENABLED: &str = ".enabled";
const EXTENSION: &str = "toml";
/// Size in bytes of a log above which a new process begins another one and keeps only this one.
const LOG_SIZE_MAX: u64 = 1 << 20;

/// Returns whether the user has named another directory for recorders.
pub(super) fn has_own_directories() -> bool {
    std::env::var_os(VARIABLE).is_some_and(|value| !value.is_empty())
}

impl Directories {
    fn find() -> Result<Directories, Error> {
        if let Some(set) = std::env::var_os(VARIABLE).filter(|value| !value.is_empty()) {
            let files = std::path::absolute(&set).unwrap_or(set.into());
            let states = files.join(".state");
            return Ok(Directories { files, states });
        }
        let files = configuration_directory().map(|all| all.join(DIRECTORY));
        files
            .zip(state_directory("recorders"))
            .map(|(files, states)| Directories { files, states })
            .ok_or_else(|| {
                Error::usage("there is no home directory for recorders").hint("set HOME")
            })
    }
}

/// Returns whether a text can be a recorder's name, which is also a part of a systemd unit's name.
fn is_name(text: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-.".contains(letter);
    blkkin_lttng::is_component(text) && text.chars().all(is_plain)
}

/// Returns all recorders, sorted by their names.
pub(super) fn all() -> Result<Vec<Recorder>, Error> {
    let directories = Directories::find()?;
    let entries = match fs::read_dir(&directories.files) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => {
            return Err(Error::failed(format!(
                "cannot read {}: {error}",
                directories.files.display()
            )));
        }
    };
    let name_of = |entry: fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        let name = name.strip_suffix(&format!(".{EXTENSION}"))?;
        is_name(name).then(|| name.to_owned())
    };
    let mut names: Vec<String> = entries.flatten().filter_map(name_of).collect();
    names.sort();
    Ok(names.into_iter().map(|name| Recorder { name, directories: directories.clone() }).collect())
}

/// Returns the recorders with these names, or all of them if there are no names.
pub(super) fn named(names: &[String]) -> Result<Vec<Recorder>, Error> {
    if names.is_empty() {
        return all();
    }
    names.iter().map(|name| Recorder::existing(name)).collect()
}

impl Recorder {
    /// Returns a recorder that may not exist yet.
    pub(super) fn new(name: &str) -> Result<Recorder, Error> {
        if !is_name(name) {
            return Err(Error::usage(format!("`{name}` cannot be the name of a recorder"))
                .hint("names have letters, digits and any of _ - and ., but no . at their start"));
        }
        Ok(Recorder { name: name.to_owned(), directories: Directories::find()? })
    }

    pub(super) fn existing(name: &str) -> Result<Recorder, Error> {
        let recorder = Recorder::new(name)?;
        if recorder.file().exists() {
            return Ok(recorder);
        }
        let names: Vec<String> = all()?.into_iter().map(|one| one.name).collect();
        let told = Error::failed(format!("there is no recorder `{name}`"));
        Err(match blkkin_filter::suggest(name, names.iter().map(String::as_str)) {
            Some(near) => told.hint(format!("did you mean `{near}`?")),
            None => told.hint("`blkkin service list` lists them"),
        })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the recorder's file.
    pub(super) fn file(&self) -> PathBuf {
        self.directories.files.join(format!("{}.{EXTENSION}", self.name))
    }

    fn state_directory(&self) -> PathBuf {
        self.directories.states.join(&self.name)
    }

    /// Reads and checks the recorder's file.
    pub(super) fn definition(&self) -> Result<Definition, Error> {
        let path = self.file();
        self.checked(&path, &saved::read(&path)?)
    }

    /// Checks the text of a file at `path` for this recorder. The session has the recorder's name.
    pub(super) fn checked(&self, path: &Path, text: &str) -> Result<Definition, Error> {
        let mut definition = saved::parse(path, text)?;
        definition.session.name = self.name.clone();
        definition.check()?;
        Ok(definition)
    }

    /// Writes the recorder's file. Fails if it exists, unless it is to be replaced.
    pub(super) fn write(&self, text: &str, replaces: bool) -> Result<(), Error> {
        let path = self.file();
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                Error::failed(format!("there is a recorder `{}` already", self.name))
                    .hint("--replace replaces its file")
            }
            _ => Error::failed(format!("cannot write {}: {error}", path.display())),
        };
        fs::create_dir_all(&self.directories.files).map_err(failed)?;
        if !replaces {
            // Options of triggers may have secrets.
            let mut options = OpenOptions::new();
            let mut file =
                options.write(true).create_new(true).mode(0o600).open(&path).map_err(failed)?;
            return file.write_all(text.as_bytes()).map_err(failed);
        }
        let new = self.directories.files.join(format!(".{}.new", self.name));
        let replace = || {
            fs::write(&new, text)?;
            let before = fs::metadata(&path).map(|file| file.permissions());
            let permissions = before.unwrap_or_else(|_| Permissions::from_mode(0o600));
            fs::set_permissions(&new, permissions)?;
            fs::rename(&new, &path)
        };
        replace().map_err(failed)
    }

    /// Removes the recorder's files. What it has recorded stays.
    pub(super) fn remove(&self) -> Result<(), Error> {
        self.set_enabled(false)?;
        match fs::remove_dir_all(self.state_directory()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let path = self.file();
        fs::remove_file(&path)
            .map_err(|error| Error::failed(format!("cannot remove {}: {error}", path.display())))
    }

    /// Returns whether the recorder starts with the machine.
    pub(super) fn is_enabled(&self) -> bool {
        self.directories.files.join(ENABLED).join(&self.name).exists()
    }

    pub(super) fn set_enabled(&self, is_enabled: bool) -> Result<(), Error> {
        let directory = self.directories.files.join(ENABLED);
        let path = directory.join(&self.name);
        let done = match is_enabled {
            true => fs::create_dir_all(&directory).and_then(|()| File::create(&path).map(drop)),
            false => match fs::remove_file(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                done => done,
            },
        };
        done.map_err(|error| Error::failed(format!("cannot change {}: {error}", path.display())))
    }

    /// Makes the directory for state, log and lock.
    pub(super) fn prepare(&self) -> Result<(), Error> {
        let directory = self.state_directory();
        let made = DirBuilder::new().mode(0o700).recursive(true).create(&directory);
        made.map_err(|error| Error::failed(format!("cannot make {}: {error}", directory.display())))
    }

    /// Returns the lock that the recorder's process holds as long as it runs.
    pub(super) fn lock(&self) -> ProcessLock {
        ProcessLock::new(self.state_directory().join("lock"), format!("recorder `{}`", self.name))
    }

    pub(super) fn process(&self) -> Process {
        self.lock().process()
    }

    /// Returns the state that the recorder's process has last written; null if it has not.
    pub(super) fn state(&self) -> Value {
        let text = fs::read(self.state_directory().join("state.json")).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    pub(super) fn set_state(&self, state: &Value) -> io::Result<()> {
        let directory = self.state_directory();
        let new = directory.join(".state.new");
        fs::write(&new, format!("{state}\n"))?;
        fs::rename(new, directory.join("state.json"))
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.state_directory().join("log")
    }

    /// Opens the log for a new process. The one before is kept once this one is long.
    pub(super) fn open_log(&self) -> io::Result<File> {
        let path = self.log_path();
        if fs::metadata(&path).is_ok_and(|file| file.len() > LOG_SIZE_MAX) {
            fs::rename(&path, path.with_extension("1"))?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(path)
    }

    /// Returns the last message in the log, without its hint.
    pub(super) fn last_message(&self) -> String {
        let text = fs::read_to_string(self.log_path()).unwrap_or_default();
        let last = text.lines().rfind(|line| !line.starts_with("hint:"));
        last.unwrap_or("without a message").trim_start_matches("error: ").to_owned()
    }
}
