//! Chunk: a part of a session in a directory of its own. A session begins with one chunk in its
//! directory; a rotation begins another one.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Directory of completed chunks in a session's directory.
const ARCHIVES: &str = "archives";

/// A chunk of an output. Consumer daemons of one session share it.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) id: u64,
    created_s: u64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    directory: PathBuf,
    /// Directories at the top of `directory` that belong to the chunk.
    tops: BTreeSet<String>,
    /// Number of sessions that write the chunk.
    users: u32,
    /// Set if a session asked to remove the chunk.
    is_deleted: bool,
    /// Set if a session asked to move the chunk to the completed chunks.
    is_completed: bool,
}

impl Chunk {
    /// Makes a chunk of the output in `session`. The first chunk is in the session's directory
    /// itself, later ones and those with a name of their own are below. Fails if a directory has
    /// that name already.
    pub(crate) fn create(
        session: &Path,
        id: u64,
        created_s: u64,
        name: Option<&str>,
    ) -> io::Result<Chunk> {
        let directory = match name {
            Some(name) => session.join(name),
            None if id == 0 => session.to_owned(),
            None => session.join(ARCHIVES).join(format!("{}-{id}", date(created_s))),
        };
        if name.is_some() {
            fs::create_dir(&directory)?;
        }
        let state = State {
            directory,
            tops: BTreeSet::new(),
            users: 0,
            is_deleted: false,
            is_completed: false,
        };
        Ok(Chunk { id, created_s, state: Mutex::new(state) })
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.state.lock().is_deleted
    }

    /// Makes the directory of a trace in the chunk, and opens files in it. The chunk does not move
    /// meanwhile.
    pub(crate) fn open_in<T>(
        &self,
        path: &str,
        open: impl FnOnce(&Path) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut state = self.state.lock();
        let directory = state.directory.join(path);
        fs::create_dir_all(directory.join("index"))?;
        let top = path.split('/').next().unwrap_or_default();
        if !top.is_empty() {
            state.tops.insert(top.to_owned());
        }
        open(&directory)
    }

    pub(crate) fn add_user(&self) {
        self.state.lock().users += 1;
    }

    /// Marks the chunk for removal.
    pub(crate) fn delete(&self) {
        self.state.lock().is_deleted = true;
    }

    /// Marks the chunk as completed.
    pub(crate) fn complete(&self) {
        self.state.lock().is_completed = true;
    }

    /// Ends the use of the chunk by a session. After the last use, the chunk is removed or moved to
    /// its final place below `session` if it was marked so.
    pub(crate) fn end_use(&self, session: &Path, closed_s: u64) -> io::Result<()> {
        let mut state = self.state.lock();
        state.users = state.users.saturating_sub(1);
        if state.users > 0 {
            return Ok(());
        }
        let is_root = state.directory == session;
        if state.is_deleted {
            return match is_root {
                true => {
                    let tops = std::mem::take(&mut state.tops);
                    tops.iter().try_for_each(|top| remove(&session.join(top)))
                }
                false => remove(&state.directory),
            };
        }
        if !state.is_completed {
            return Ok(());
        }
        let name = format!("{}-{}-{}", date(self.created_s), date(closed_s), self.id);
        let to = session.join(ARCHIVES).join(name);
        if is_root {
            fs::create_dir_all(&to)?;
            for top in &state.tops {
                fs::rename(session.join(top), to.join(top))?;
            }
        } else if state.directory.exists() {
            fs::rename(&state.directory, &to)?;
        }
        state.directory = to;
        Ok(())
    }
}

fn remove(directory: &Path) -> io::Result<()> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Formats a time as LTTng does in names of chunks: `20261121T174501+0000`.
fn date(seconds: u64) -> String {
    format_time(seconds, "%Y%m%dT%H%M%S%z")
}

/// Formats a time in seconds since 1970, in the relay's time zone.
pub(crate) fn format_time(seconds: u64, format: &str) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    time.to_zoned(TimeZone::system()).strftime(format).to_string()
}
