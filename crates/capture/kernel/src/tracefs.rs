//! The kernel's tracing file system: finds it or mounts it privately, and reads its descriptions of
//! events and system calls. Start at [`TraceFs::open`].

mod names;

use crate::event_format::{BYTES_MAX, EventFormat, FieldKind, FormatError};
use crate::system_calls;
use blkkin_sys::{DetachedMountError, mount_detached};
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, openat, statat};
use rustix::io::Errno;
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Directories on which the file system is usually mounted.
const MOUNT_POINTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
/// Maximum number of entries that are read from a directory.
const ENTRIES_MAX: usize = 100_000;
/// Maximum size of the list of functions in bytes. That of Linux 6.1 has about 2 MB.
const FUNCTIONS_SIZE_MAX: usize = 32 << 20;
/// Prefix of the tracepoints at the entry of system calls.
const ENTRY_PREFIX: &str = "sys_enter_";

/// Open tracing file system. Files are opened relative to its root directory.
#[derive(Debug)]
pub struct TraceFs {
    root: OwnedFd,
    /// Path of the root directory, for error messages.
    path: String,
}

/// Name of an event.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct EventName {
    /// Subsystem, such as `sched`.
    pub subsystem: String,
    /// Name within the subsystem, such as `sched_switch`.
    pub event: String,
}

/// System call with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SystemCall {
    /// Name of the tracepoints without `sys_enter_`, such as `openat` or `newstat`.
    pub name: String,
    /// Number in the register `rax`.
    pub number: u32,
    /// Arguments in order.
    pub arguments: Vec<Argument>,
}

/// Argument of a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Name of the parameter in the kernel.
    pub name: String,
    /// Type in C notation.
    pub type_text: String,
    /// Size in the tracepoint's record in bytes, which is 8 for arguments of all types.
    pub size: u32,
}

/// Error in finding or reading the tracing file system.
#[derive(Debug)]
pub enum TraceFsError {
    /// File system that is not mounted, and cannot be mounted by this process.
    NotPermitted,
    /// Kernel without the file system.
    Unsupported,
    /// Kernel that cannot mount a file system without a directory (before Linux 5.2).
    OldKernel,
    /// Failure to mount for another reason.
    Mount(DetachedMountError),
    /// File or directory that this process may not read.
    Denied {
        /// Path of the file.
        path: String,
    },
    /// Event that the kernel does not have.
    NoEvent {
        /// Subsystem and event, separated by a slash.
        name: String,
    },
    /// Kernel without tracepoints of system calls.
    NoSystemCalls,
    /// Kernel without a list of the functions that it can trace.
    NoFunctions,
    /// Failure to read a file or directory.
    Read {
        /// Path of the file.
        path: String,
        /// Cause of the failure.
        error: io::Error,
    },
    /// Description of an event that differs from the format.
    Format {
        /// Path of the file.
        path: String,
        /// Error in the text.
        error: FormatError,
    },
}

impl fmt::Display for TraceFsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TraceFsError::NotPermitted => f.write_str(
                "the tracing file system is not mounted: run as root (with CAP_SYS_ADMIN), or \
                 mount it first by `mount -t tracefs nodev /sys/kernel/tracing`",
            ),
            TraceFsError::Unsupported => f.write_str(
                "the kernel has no tracing file system: it was built without CONFIG_TRACING",
            ),
            TraceFsError::OldKernel => f.write_str(
                "the tracing file system is not mounted: mount it by `mount -t tracefs nodev \
                 /sys/kernel/tracing`, since only Linux 5.2 and later mount it privately",
            ),
            TraceFsError::Mount(error) => {
                write!(f, "cannot mount the tracing file system: {error}")
            }
            TraceFsError::Denied { path } => write!(
                f,
                "{path}: permission denied: run as root, or give a group access by `mount -o \
                 remount,gid=GROUP /sys/kernel/tracing` and `chmod -R g+rX /sys/kernel/tracing`"
            ),
            TraceFsError::NoEvent { name } => write!(f, "the kernel has no event {name}"),
            TraceFsError::NoSystemCalls => f.write_str(
                "the kernel has no tracepoints of system calls: it was built without \
                 CONFIG_FTRACE_SYSCALLS",
            ),
            TraceFsError::NoFunctions => f.write_str(
                "the kernel has no list of its functions: it was built without \
                 CONFIG_DYNAMIC_FTRACE; write names of functions without `*`",
            ),
            TraceFsError::Read { path, error } => write!(f, "{path}: {error}"),
            TraceFsError::Format { path, error } => write!(f, "{path}, {error}"),
        }
    }
}

impl std::error::Error for TraceFsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            TraceFsError::Mount(error) => Some(error),
            TraceFsError::Read { error, .. } => Some(error),
            TraceFsError::Format { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl TraceFs {
    /// Opens the tracing file system where it is mounted. If it is not mounted in the usual places,
    /// mounts it for this process alone; that mount ends with the returned value.
    pub fn open() -> Result<TraceFs, TraceFsError> {
        let mut denied = None;
        for path in MOUNT_POINTS {
            match open_mounted(path) {
                Ok(root) => return Ok(TraceFs { root, path: path.to_owned() }),
                Err(Errno::ACCESS | Errno::PERM) => denied = denied.or(Some(path)),
                Err(_) => {}
            }
        }
        let error = match TraceFs::mount() {
            Ok(found) => return Ok(found),
            Err(error) => error,
        };
        // Without rights a directory is unreadable whether or not the file system is mounted there.
        let is_mounted = denied.filter(|path| is_mount_point(path));
        match (error, is_mounted) {
            (TraceFsError::NotPermitted, Some(path)) => {
                Err(TraceFsError::Denied { path: path.to_owned() })
            }
            (error, _) => Err(error),
        }
    }

    /// Mounts the tracing file system for this process alone, also if it is mounted elsewhere.
    pub fn mount() -> Result<TraceFs, TraceFsError> {
        let root = mount_detached("tracefs").map_err(|error| {
            match Errno::from_raw_os_error(error.number) {
                Errno::PERM | Errno::ACCESS => TraceFsError::NotPermitted,
                Errno::NODEV => TraceFsError::Unsupported,
                Errno::NOSYS => TraceFsError::OldKernel,
                _ => TraceFsError::Mount(error),
            }
        })?;
        Ok(TraceFs { root, path: "tracefs".to_owned() })
    }

    /// Returns the root directory.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Returns the names of all events, in alphabetical order. A name may belong to an event that
    /// has been removed in the meantime, with its module.
    pub fn events(&self) -> Result<Vec<EventName>, TraceFsError> {
        let mut events = Vec::new();
        for subsystem in self.directories("events")? {
            let directory = format!("events/{subsystem}");
            let names = match self.directories(&directory) {
                // The subsystem's module has been removed.
                Err(TraceFsError::Read { error, .. })
                    if error.kind() == io::ErrorKind::NotFound =>
                {
                    continue;
                }
                names => names?,
            };
            for event in names {
                events.push(EventName { subsystem: subsystem.clone(), event });
            }
            if events.len() > ENTRIES_MAX {
                return Err(self.too_many("events"));
            }
        }
        events.sort_unstable();
        Ok(events)
    }

    /// Returns the layout of an event's records.
    pub fn format(&self, subsystem: &str, event: &str) -> Result<EventFormat, TraceFsError> {
        let no_event = || TraceFsError::NoEvent { name: format!("{subsystem}/{event}") };
        if !is_file_name(subsystem) || !is_file_name(event) {
            return Err(no_event());
        }
        let path = format!("events/{subsystem}/{event}/format");
        let text = match self.read(&path, BYTES_MAX) {
            Err(TraceFsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Err(no_event());
            }
            text => text?,
        };
        EventFormat::parse(&text)
            .map_err(|error| TraceFsError::Format { path: self.absolute(&path), error })
    }

    /// Returns a system call with its arguments, by the name of its tracepoint; `None` if the
    /// kernel lacks it, or its number is not known.
    pub fn system_call(&self, name: &str) -> Result<Option<SystemCall>, TraceFsError> {
        let Some(number) = system_calls::number(name) else { return Ok(None) };
        match self.format("syscalls", &format!("{ENTRY_PREFIX}{name}")) {
            Ok(format) => {
                let arguments = arguments(&format);
                Ok(Some(SystemCall { name: name.to_owned(), number, arguments }))
            }
            Err(TraceFsError::NoEvent { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Returns the system calls with their arguments, in the order of their numbers. Those
    /// whose numbers are not known are left out.
    pub fn system_calls(&self) -> Result<Vec<SystemCall>, TraceFsError> {
        let events = match self.directories("events/syscalls") {
            Err(TraceFsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                return Err(TraceFsError::NoSystemCalls);
            }
            events => events?,
        };
        let mut calls = Vec::new();
        for event in events {
            let Some(name) = event.strip_prefix(ENTRY_PREFIX) else { continue };
            let Some(number) = system_calls::number(name) else { continue };
            let arguments = arguments(&self.format("syscalls", &event)?);
            calls.push(SystemCall { name: name.to_owned(), number, arguments });
        }
        calls.sort_unstable_by_key(|call| call.number);
        Ok(calls)
    }

    /// Returns the names of the functions that can be traced, one a line. After the name of a
    /// module's function, there is the name of the module.
    pub(crate) fn traceable_functions(&self) -> Result<String, TraceFsError> {
        match self.read("available_filter_functions", FUNCTIONS_SIZE_MAX) {
            Err(TraceFsError::Read { error, .. }) if error.kind() == io::ErrorKind::NotFound => {
                Err(TraceFsError::NoFunctions)
            }
            text => text,
        }
    }

    /// Reads a text file by its path below the root directory.
    fn read(&self, path: &str, bytes_max: usize) -> Result<String, TraceFsError> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = openat(&self.root, path, flags, Mode::empty());
        let file = File::from(file.map_err(|error| self.failure(path, error.into()))?);
        let mut text = String::new();
        // A file beyond the limit is refused by the parser.
        let limit = bytes_max as u64 + 1;
        file.take(limit).read_to_string(&mut text).map_err(|error| self.failure(path, error))?;
        Ok(text)
    }

    /// Returns the names of the directories in a directory below the root.
    fn directories(&self, path: &str) -> Result<Vec<String>, TraceFsError> {
        let failed = |error: Errno| self.failure(path, error.into());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat(&self.root, path, flags, Mode::empty()).map_err(failed)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let is_directory = match entry.file_type() {
                FileType::Unknown => statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)
                    .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir()),
                file_type => file_type.is_dir(),
            };
            if is_directory && is_file_name(name) {
                names.push(name.to_owned());
            }
            if names.len() > ENTRIES_MAX {
                return Err(self.too_many(path));
            }
        }
        Ok(names)
    }

    fn failure(&self, path: &str, error: io::Error) -> TraceFsError {
        let path = self.absolute(path);
        match error.kind() {
            io::ErrorKind::PermissionDenied => TraceFsError::Denied { path },
            _ => TraceFsError::Read { path, error },
        }
    }

    fn too_many(&self, path: &str) -> TraceFsError {
        let error = io::Error::other("more than 100,000 entries");
        TraceFsError::Read { path: self.absolute(path), error }
    }

    fn absolute(&self, path: &str) -> String {
        format!("{}/{path}", self.path)
    }
}

/// Opens the root of a mounted file system. Fails if there is no directory `events`.
fn open_mounted(path: &str) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, path, flags, Mode::empty())?;
    openat(&root, "events", flags, Mode::empty())?;
    Ok(root)
}

/// Returns true if a file system is mounted on a directory.
fn is_mount_point(path: &str) -> bool {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    mounts.lines().any(|line| line.split(' ').nth(1) == Some(path))
}

/// Returns true for texts that name a file in a directory.
fn is_file_name(name: &str) -> bool {
    !name.contains(['/', '\0']) && !matches!(name, "" | "." | "..")
}

/// Returns the arguments of a system call from the format of its entry's tracepoint.
fn arguments(format: &EventFormat) -> Vec<Argument> {
    let fields = format.own_fields().iter().enumerate();
    // The first field is the number of the call, named `nr` in old kernels. New kernels that
    // record the text behind pointers have it in dynamic arrays after the arguments.
    let is_number = |index, name: &str| index == 0 && matches!(name, "__syscall_nr" | "nr");
    fields
        .filter(|entry| !is_number(entry.0, &entry.1.name))
        .map(|entry| entry.1)
        .filter(|field| field.kind == FieldKind::Plain)
        .map(|field| Argument {
            name: field.name.clone(),
            type_text: field.type_text.clone(),
            size: field.size,
        })
        .collect()
}

#[cfg(test)]
mod tests;
