//! Files that a process has mapped, by `/proc/PID/maps`.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Returns the number of files named `name` that process `pid` has mapped. The kernel splits a mapping of which
/// parts are treated differently, for instance left out of core dumps, so lines are told apart by inode.
pub fn mapped_files(pid: u32, name: &str) -> io::Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines = maps.lines().filter(|line| line.contains(name));
    let inodes: BTreeSet<&str> = lines.filter_map(|line| line.split_whitespace().nth(4)).collect();
    Ok(inodes.len())
}
