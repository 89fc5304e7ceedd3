//! Output: the directory of a session at the relay, and the chunks in it. All connections that a
//! producer opens for one session share an output.

use crate::chunk::{Chunk, format_time};
use blkkin_lttng::relay::CreateSession;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::SystemTime;

/// Directory of a session.
#[derive(Debug)]
pub(crate) struct Output {
    /// Path below the relay's output directory.
    pub(crate) path: String,
    pub(crate) directory: PathBuf,
    chunks: Mutex<HashMap<u64, Weak<Chunk>>>,
}

/// Maximum number of outputs with the same name; each gets a number.
const SAME_NAME_MAX: u32 = 10_000;

impl Output {
    /// Makes the directory of a session below `root`. Its name is that of LTTng's relay; a number
    /// is appended if the name is taken. Fails if the directory would be within that of another
    /// session.
    pub(crate) fn create(root: &Path, session: &CreateSession) -> io::Result<Output> {
        let name = match () {
            () if !session.base_path.is_empty() => session.base_path.clone(),
            () if session.has_time_in_name => session.name.clone(),
            () => {
                let created_s = match session.created_s {
                    0 => now_s(),
                    created_s => created_s,
                };
                format!("{}-{}", session.name, format_time(created_s, "%Y%m%d-%H%M%S"))
            }
        };
        let wanted = format!("{}/{name}", session.host);
        let above = Path::new(&wanted).ancestors().skip(1);
        if above.filter(|above| above.components().count() > 1).any(|it| holds_traces(root, it)) {
            let why = format!("{wanted} is within the directory of another session");
            return Err(io::Error::other(why));
        }
        let mut path = wanted.clone();
        for number in 2..SAME_NAME_MAX {
            let directory = root.join(&path);
            if let Some(parent) = directory.parent() {
                fs::create_dir_all(parent)?;
            }
            match fs::create_dir(&directory) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path = format!("{wanted}-{number}");
                }
                made => {
                    return made.map(|()| Output { path, directory, chunks: Mutex::default() });
                }
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Opens the directory of an earlier snapshot of the same session.
    pub(crate) fn of_snapshot(root: &Path, path: String) -> Output {
        let directory = root.join(&path);
        Output { path, directory, chunks: Mutex::default() }
    }

    /// Returns the chunk with this id for one more session, and makes it if it is missing.
    pub(crate) fn chunk(
        &self,
        id: u64,
        created_s: u64,
        name: Option<&str>,
    ) -> io::Result<Arc<Chunk>> {
        let mut chunks = self.chunks.lock();
        chunks.retain(|_, chunk| chunk.strong_count() > 0);
        let chunk = match chunks.get(&id).and_then(Weak::upgrade) {
            Some(chunk) => chunk,
            None => {
                let chunk = Arc::new(Chunk::create(&self.directory, id, created_s, name)?);
                chunks.insert(id, Arc::downgrade(&chunk));
                chunk
            }
        };
        chunk.add_user();
        Ok(chunk)
    }
}

/// Returns whether a directory below `root` is that of a session.
fn holds_traces(root: &Path, directory: &Path) -> bool {
    let directory = root.join(directory);
    ["ust", "kernel", "archives", "metadata"].iter().any(|name| directory.join(name).exists())
}

/// Returns the present time in seconds since 1970.
pub(crate) fn now_s() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
