//! Mapped files of a process, by `/proc/PID/maps`.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Number of files named `name` that process `pid` has mapped. The kernel splits a mapping with
/// differently treated parts, for instance one left out of core dumps, so lines are told apart by
/// inode.
pub fn mapped_files(pid: u32, name: &str) -> io::Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines = maps.lines().filter(|line| line.contains(name));
    let inodes: BTreeSet<&str> = lines.filter_map(|line| line.split_whitespace().nth(4)).collect();
    Ok(inodes.len())
}
