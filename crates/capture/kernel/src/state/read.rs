//! State as `/proc` and `/sys` show it. What cannot be read is left out.

use crate::call_type::PATH_SIZE_MAX;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Maximum number of descriptors, of threads, and of maps of one process.
const PARTS_MAX: usize = 1 << 14;
/// Maximum length of a line about a map: the longest path, with all its bytes escaped, and the
/// fields before it.
const MAP_LINE_MAX: u64 = (4 * PATH_SIZE_MAX + 100) as u64;
/// Bytes of a sector in `/sys`.
const SECTOR_SIZE: u64 = 512;
/// Number of bits of a device's minor number, in the kernel's own numbers of devices.
const MINOR_BITS: u32 = 20;

/// Process.
pub(super) struct Process {
    pub(super) parent: u32,
    pub(super) name: Vec<u8>,
    pub(super) directory: Vec<u8>,
}

/// Reads a process; `None` if it has ended.
pub(super) fn process(pid: u32) -> Option<Process> {
    let folder = PathBuf::from(format!("/proc/{pid}"));
    let stat = fs::read(folder.join("stat")).ok()?;
    // The name is in parentheses, and may contain any byte.
    let begin = stat.iter().position(|byte| *byte == b'(')? + 1;
    let end = stat.iter().rposition(|byte| *byte == b')').filter(|end| *end >= begin)?;
    let rest = std::str::from_utf8(&stat[end + 1..]).ok()?;
    let parent = rest.split_whitespace().nth(1)?.parse().ok()?;
    let directory = fs::read_link(folder.join("cwd")).unwrap_or_default();
    let directory = directory.as_os_str().as_bytes().to_vec();
    Some(Process { parent, name: stat[begin..end].to_vec(), directory })
}

/// Returns the descriptors of a process and their paths.
pub(super) fn files(pid: u32) -> impl Iterator<Item = (i32, Vec<u8>)> {
    numbered(format!("/proc/{pid}/fd")).filter_map(|(descriptor, path)| {
        let path = fs::read_link(path).ok()?;
        Some((i32::try_from(descriptor).ok()?, path.as_os_str().as_bytes().to_vec()))
    })
}

/// Returns the threads of a process and their names.
pub(super) fn threads(pid: u32) -> impl Iterator<Item = (u32, Vec<u8>)> {
    numbered(format!("/proc/{pid}/task")).filter_map(|(thread, path)| {
        let mut name = fs::read(path.join("comm")).ok()?;
        name.pop_if(|byte| *byte == b'\n');
        Some((thread, name))
    })
}

/// Part of a file that is mapped as a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mapping {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) offset: u64,
    pub(super) path: Vec<u8>,
}

/// Returns the programs and libraries that a process has mapped.
pub(super) fn maps(pid: u32) -> impl Iterator<Item = Mapping> {
    let mut file = File::open(format!("/proc/{pid}/maps")).ok().map(BufReader::new);
    let lines = std::iter::from_fn(move || {
        let mut line = Vec::new();
        let read = file.as_mut()?.take(MAP_LINE_MAX).read_until(b'\n', &mut line);
        line.pop_if(|byte| *byte == b'\n');
        read.is_ok_and(|size| size > 0).then_some(line)
    });
    lines.filter_map(|line| mapping(&line)).take(PARTS_MAX)
}

/// Reads a line such as `55d0-55d8 r-xp 00001000 08:01 123    /bin/cat`. Returns `None` for memory
/// that is no file, or that is not executable.
fn mapping(line: &[u8]) -> Option<Mapping> {
    // Address, rights, offset, device, inode, and the path behind spaces.
    let fields: Vec<&[u8]> = line.splitn(6, |byte| *byte == b' ').collect();
    let [addresses, rights, offset, _, _, path] = fields[..] else { return None };
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    let (start, end) = std::str::from_utf8(addresses).ok()?.split_once('-')?;
    let offset = number(std::str::from_utf8(offset).ok()?)?;
    let (start, end, path) = (number(start)?, number(end)?, path.trim_ascii_start());
    let is_program = rights.get(2) == Some(&b'x') && path.first() == Some(&b'/');
    is_program.then(|| Mapping { start, end, offset, path: path.to_vec() })
}

/// Disk or partition.
pub(super) struct Disk {
    /// Number as in the kernel's tracepoints.
    pub(super) device: u32,
    /// Size in bytes.
    pub(super) size: u64,
    pub(super) name: Vec<u8>,
}

/// Returns the disks and partitions of the machine.
pub(super) fn disks() -> impl Iterator<Item = Disk> {
    fs::read_dir("/sys/class/block").into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        let number = |file: &str| fs::read_to_string(entry.path().join(file)).ok();
        let numbers = number("dev")?;
        let (major, minor) = numbers.trim().split_once(':')?;
        let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
        let sectors: u64 = number("size")?.trim().parse().ok()?;
        Some(Disk {
            device: major << MINOR_BITS | minor,
            size: sectors.saturating_mul(SECTOR_SIZE),
            name: entry.file_name().as_bytes().to_vec(),
        })
    })
}

/// Returns the entries of a folder whose names are numbers.
fn numbered(folder: impl AsRef<Path>) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(|entry| {
        let entry = entry.ok()?;
        Some((entry.file_name().to_str()?.parse().ok()?, entry.path()))
    });
    entries.take(PARTS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_those_of_programs() {
        let line = b"55d0c000-55d1c000 r-xp 00001000 08:01 123    /bin/a (deleted) /b";
        let expected = Mapping {
            start: 0x55d0_c000,
            end: 0x55d1_c000,
            offset: 0x1000,
            path: b"/bin/a (deleted) /b".to_vec(),
        };
        assert_eq!(mapping(line), Some(expected));
        for other in [
            &b""[..],
            b"/bin/a",
            b"55d0c000 r-xp 00001000 08:01 123 /bin/a",
            b"55d0c000-55d1c000 r--p 00001000 08:01 123 /bin/a",
            b"55d0c000-55d1c000 r-xp 00000000 00:00 0 [vdso]",
            b"55d0c000-55d1c000 r-xp 00000000 00:00 0    [anon:x/usr/lib/a.so]",
            b"55d0c000-55d1c000 r-xp 00000000 00:00 0 ",
            b"55d0c000-55d1c000 r-xp x 08:01 123 /bin/a",
        ] {
            assert_eq!(mapping(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn this_process_is_as_it_is() {
        let pid = std::process::id();
        let own = process(pid).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        let program = std::env::current_exe().unwrap();
        let path = program.as_os_str().as_bytes();
        assert!(maps(pid).any(|map| map.path == path && map.start < map.end));
        let file = fs::File::open(&program).unwrap();
        let descriptor = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(files(pid).any(|one| one == (descriptor, path.to_vec())));
        let thread = std::thread::Builder::new().name("state of x".to_owned());
        let barrier = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let wait_twice = || [barrier.wait(), barrier.wait()];
            thread.spawn_scoped(scope, wait_twice).unwrap();
            barrier.wait();
            let names: Vec<_> = threads(pid).map(|(_, name)| name).collect();
            barrier.wait();
            assert!(names.contains(&b"state of x".to_vec()), "{names:?}");
        });
        assert!(process(u32::MAX).is_none() && files(u32::MAX).next().is_none());
    }
}
