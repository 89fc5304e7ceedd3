//! The bell of a traced program: a page of shared memory through which an agent that started after
//! the program requests a connection. Until the program's first connection, the page's file stays
//! open under a high descriptor number ([`DESCRIPTORS`]), where the agent finds it in
//! `/proc/PID/fd`. The program reads the page when it records an event whose type no agent has
//! enabled or disabled yet.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Name of the page's memory file; `/proc` shows it after `/memfd:`.
pub const NAME: &std::ffi::CStr = c"blkkin-bell";
/// Magic number with the page's version; the first word of the page.
pub const MAGIC: u64 = u64::from_le_bytes(*b"blkbell1");
/// Byte offset of the magic number.
pub const KIND: u64 = 0;
/// Byte offset of the call: a number that an agent writes to request a connection, new for each
/// request; 0 without a request.
pub const CALL: u64 = 8;
/// Byte offset of the number of seccomp filters that the program had when it made the page;
/// [`UNKNOWN`] if the program could not count them.
pub const FILTERS: u64 = 16;
/// Byte offset of the table of sockets on which the program expects agents. Each entry is the
/// [hash](socket_hash) of a socket's path, or 0 if unused.
pub const SOCKETS: u64 = 24;
/// Maximum number of sockets in a page.
pub const SOCKETS_MAX: usize = 4;
/// Size in bytes of the words from the magic number to the last socket's hash.
pub const SIZE: usize = SOCKETS as usize + 8 * SOCKETS_MAX;
/// Value at [`FILTERS`] if the program could not count its seccomp filters.
pub const UNKNOWN: u64 = u64::MAX;
/// Ranges of descriptor numbers in which an agent searches for the page's file. The program moves
/// the file to the lowest free number from 512 on. If the program's descriptor limit forbids such
/// numbers, the file keeps its original number.
pub const DESCRIPTORS: [Range<u32>; 2] = [512..576, 3..24];

/// Returns the FNV-1a hash of a socket's path; never 0. Collisions are harmless: after a false
/// match, the program searches for an agent in vain.
pub fn socket_hash(path: &Path) -> u64 {
    let hash = path.as_os_str().as_bytes().iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    hash.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_are_told_apart() {
        let mark = |path: &str| socket_hash(Path::new(path));
        assert_eq!(mark(""), 0xcbf2_9ce4_8422_2325);
        // Published test value of FNV-1a.
        assert_eq!(mark("foobar"), 0x8594_4171_f739_67e8);
        assert_ne!(mark("/run/blkkin/agent.sock"), mark("/run/user/0/blkkin/agent.sock"));
    }
}
