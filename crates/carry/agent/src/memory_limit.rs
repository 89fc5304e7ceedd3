//! Memory limits of control groups, which bound the memory of the processes in them.

use std::fs;
use std::path::{Component, Path};

/// Returns the memory limit of a process in bytes: the lowest limit of its control group and of the
/// groups around it, as the agent sees them. `None` if there is no limit, or if it is unknown.
pub(crate) fn memory_limit(pid: u32) -> Option<u64> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    memory_limit_of(&groups, Path::new(CGROUPS))
}

/// Directory at which the kernel's control groups are mounted.
pub(crate) const CGROUPS: &str = "/sys/fs/cgroup";

/// Returns the lowest memory limit of the control groups in `groups`, the content of a process's
/// file `cgroup`. Reads the limits of version 2 below `root`, and those of version 1 below
/// `root/memory`.
fn memory_limit_of(groups: &str, root: &Path) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let (root, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => return None,
        };
        let group = Path::new(path.trim_start_matches('/'));
        // A group outside of the agent's namespace is above the mounted root.
        let is_below = |part| matches!(part, Component::Normal(_));
        let group = if group.components().all(is_below) { group } else { Path::new("") };
        let limit = |group: &Path| {
            fs::read_to_string(root.join(group).join(file)).ok()?.trim().parse::<u64>().ok()
        };
        group.ancestors().filter_map(limit).min()
    });
    limits.min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_limits_of_groups_are_known() {
        let root = tempfile::tempdir().unwrap();
        let limit = |group: &str, file: &str, text: &str| {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join(file), text).unwrap();
        };
        limit("a", "memory.max", "4096\n");
        limit("a/b", "memory.max", "max\n");
        limit("a/c", "memory.max", "100\n");
        limit("memory/d", "memory.limit_in_bytes", "7\n");
        limit("memory", "memory.limit_in_bytes", "9223372036854771712\n");
        let of = |groups| memory_limit_of(groups, root.path());
        assert_eq!(of("0::/a/b\n"), Some(4096));
        assert_eq!(of("0::/a/c\n"), Some(100));
        assert_eq!(of("0::/\n"), None);
        assert_eq!(of("0::/../../a/c\n"), None);
        assert_eq!(of("3:cpu:/a/c\n2:memory,hugetlb:/d\n0::/a\n"), Some(7));
        assert_eq!(of("2:memory:/e\n"), Some(9_223_372_036_854_771_712));
        assert_eq!(of("no group"), None);
    }
}
