//! Lists the files that a process has mapped, from `/proc/PID/maps`.

use std::collections::BTreeSet;
use std::fs;
use std::io;

/// Returns the number of mapped files of process `pid` whose line in `maps` contains `name`. Counts
/// inodes, because the kernel splits a mapping into several lines if its parts have different
/// settings, such as exclusion from core dumps.
pub fn mapped_files(pid: u32, name: &str) -> io::Result<usize> {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    let lines = maps.lines().filter(|line| line.contains(name));
    let inodes: BTreeSet<&str> = lines.filter_map(|line| line.split_whitespace().nth(4)).collect();
    Ok(inodes.len())
}
