//! Names without formats, which are cheap to read: of system calls, and of functions.

use super::{ENTRY_PREFIX, TraceFs, TraceFsError};
use crate::system_calls;
use std::io;

/// Maximum size in bytes of the list of functions. Linux 6.18 has about 60,000 functions in 3 MB.
const FUNCTIONS_BYTES_MAX: usize = 64 << 20;

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

    /// Returns the names of the kernel's functions to which probes can be attached, in the order of
    /// the kernel. Some kernels do not have this list, or do not let it be read.
    pub fn traceable_functions(&self) -> Result<Vec<String>, TraceFsError> {
        let text = self.read("available_filter_functions", FUNCTIONS_BYTES_MAX)?;
        // The name of a module follows the name of its function.
        let names = text.lines().filter_map(|line| line.split_ascii_whitespace().next());
        Ok(names.map(str::to_owned).collect())
    }
}
