//! Control groups of version 2, by their directories.

use rustix::fs::statfs;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Type of the file system in whose directories the groups are.
const CGROUP2: u64 = 0x6367_7270;
/// Maximum depth of groups below a chosen one.
pub(crate) const DEPTH_MAX: usize = 32;

/// Control group with the groups below it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cgroup {
    path: PathBuf,
    pub(crate) id: u64,
}

impl Cgroup {
    /// Finds the group with this directory, or with this path below the root of all groups, such
    /// as `system.slice/cron.service`.
    pub fn find(path: &Path) -> io::Result<Cgroup> {
        match Cgroup::of_directory(path) {
            Ok(cgroup) => Ok(cgroup),
            Err(error) => {
                let Some(root) = root() else { return Err(error) };
                let below = path.strip_prefix("/").unwrap_or(path);
                Cgroup::of_directory(&root.join(below)).map_err(|_| error)
            }
        }
    }

    fn of_directory(path: &Path) -> io::Result<Cgroup> {
        let metadata = fs::metadata(path)?;
        if !metadata.is_dir() || statfs(path)?.f_type as u64 != CGROUP2 {
            let message = "not the directory of a control group of version 2";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
        }
        // The kernel numbers groups by the inodes of their directories.
        Ok(Cgroup { path: path.canonicalize()?, id: metadata.ino() })
    }

    /// Adds the ids of the processes that are now in the group or below it.
    pub(crate) fn add_processes(&self, pids: &mut BTreeSet<u32>) {
        add_processes(&self.path, DEPTH_MAX, pids);
    }
}

fn add_processes(path: &Path, depth_max: usize, pids: &mut BTreeSet<u32>) {
    // A group may be removed meanwhile; then it has no processes.
    let list = fs::read_to_string(path.join("cgroup.procs")).unwrap_or_default();
    // Processes of other PID namespaces have the id 0.
    pids.extend(list.lines().filter_map(|line| line.parse().ok()).filter(|pid: &u32| *pid != 0));
    if depth_max == 0 {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            add_processes(&entry.path(), depth_max - 1, pids);
        }
    }
}

/// Returns the directory on which the groups are mounted.
fn root() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut groups = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let (path, kind) = (words.next()?, words.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(path))
    });
    groups.next()
}
