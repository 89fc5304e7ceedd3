//! File systems mounted for this process alone: no directory leads to them, so that other processes
//! do not see them.

use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};
use std::fmt;
use std::os::fd::OwnedFd;

/// Failed step of [`mount_detached`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DetachedMountError {
    /// Name of the system call that failed.
    pub call: &'static str,
    /// Error number of the system call, such as `libc::EPERM`.
    pub number: i32,
}

impl fmt::Display for DetachedMountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.call, std::io::Error::from_raw_os_error(self.number))
    }
}

impl std::error::Error for DetachedMountError {}

/// Mounts a file system of the kernel, such as `tracefs`, without attaching it to a directory. It
/// is unmounted when the returned directory and all files opened below it are closed. Programs on
/// it cannot be executed, and its device files cannot be opened.
///
/// Requires `CAP_SYS_ADMIN` and Linux 5.2.
pub fn mount_detached(file_system: &str) -> Result<OwnedFd, DetachedMountError> {
    let failed =
        |call| move |error: Errno| DetachedMountError { call, number: error.raw_os_error() };
    let context = fsopen(file_system, FsOpenFlags::FSOPEN_CLOEXEC).map_err(failed("fsopen"))?;
    fsconfig_create(&context).map_err(failed("fsconfig"))?;
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes).map_err(failed("fsmount"))
}

#[cfg(all(test, feature = "testing"))]
mod tests {
    use super::mount_detached;
    use crate::testing::skip;
    use rustix::fs::{Mode, OFlags, openat};
    use std::os::fd::AsRawFd;

    /// A detached file system can be used by its descriptor, and no process sees it.
    #[test]
    fn detached_file_systems_are_in_no_list_of_mounts() {
        let root = match mount_detached("tmpfs") {
            Ok(root) => root,
            Err(error) => {
                let test = "detached_file_systems_are_in_no_list_of_mounts";
                return skip(test, &format!("mounting needs CAP_SYS_ADMIN: {error}"));
            }
        };
        let flags = OFlags::CREATE | OFlags::WRONLY;
        openat(&root, "file", flags, Mode::RUSR).expect("a file on the new file system");
        let path = format!("/proc/self/fdinfo/{}", root.as_raw_fd());
        let text = std::fs::read_to_string(path).expect("the descriptor's state");
        let id = text.lines().find_map(|line| line.strip_prefix("mnt_id:")).expect("an id");
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("a list of mounts");
        let mut ids = mounts.lines().filter_map(|line| line.split(' ').next());
        assert!(!ids.any(|other| other == id.trim()), "{mounts}");
    }

    #[test]
    fn unknown_file_systems_are_refused_by_fsopen() {
        let error = mount_detached("no-such-file-system").expect_err("no such file system");
        assert_eq!(error.call, "fsopen");
        assert!(error.to_string().starts_with("fsopen: "), "{error}");
    }
}
