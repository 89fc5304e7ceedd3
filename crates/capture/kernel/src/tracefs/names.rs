//! Names of system calls without formats, which are cheap to read, and the mount point.

use super::{ENTRY_PREFIX, TraceFs, TraceFsError};
use crate::system_calls;
use std::io;

impl TraceFs {
    /// Returns the directory on which the file system is mounted; `None` if it is mounted for this
    /// process alone.
    pub fn mount_point(&self) -> Option<&str> {
        Some(&*self.path).filter(|path| path.starts_with('/'))
    }

    /// Returns the names of the system calls, in alphabetical order. Those whose numbers are not
    /// known are left out.
    pub fn system_call_names(&self) -> Result<Vec<String>, TraceFsError> {
        let events = match self.directories("events/syscalls") {
            Err(TraceFsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TraceFsError::NoSystemCalls);
            }
            events => events?,
        };
        let names = events.iter().filter_map(|event| event.strip_prefix(ENTRY_PREFIX));
        let known = names.filter(|name| system_calls::number(name).is_some());
        let mut names: Vec<String> = known.map(str::to_owned).collect();
        names.sort_unstable();
        Ok(names)
    }
}
