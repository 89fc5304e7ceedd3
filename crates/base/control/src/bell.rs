//! The bell of a traced program: a page of shared memory by which a daemon that is started after the program
//! has it connect. The program holds the page's file open under a high number, where the daemon finds it in
//! `/proc/PID/fd`, and looks at one word when it comes by an event of which nobody has decided yet.

use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Name of the file, as `/proc` shows it behind `/memfd:`.
pub const NAME: &std::ffi::CStr = c"blkkin-bell";
/// First word: what the page is, and its version.
pub const MAGIC: u64 = u64::from_le_bytes(*b"blkbell1");
/// Places of words, in bytes: what the page is, …
pub const KIND: u64 = 0;
/// … the number of the daemon that asks the program to connect, 0 for none, …
pub const RING: u64 = 8;
/// … seccomp filters that the program had when it made the page, [`UNKNOWN`] if it cannot tell, …
pub const FILTERS: u64 = 16;
/// … and [marks](mark_of) of the sockets where it looks for daemons.
pub const SOCKETS: u64 = 24;
/// Most sockets of a program.
pub const SOCKETS_MAX: usize = 4;
/// Bytes that hold all words.
pub const SIZE: usize = SOCKETS as usize + 8 * SOCKETS_MAX;
/// Number of filters where it is not known.
pub const UNKNOWN: u64 = u64::MAX;
/// Numbers under which the file is looked for: the first free one from 512 on, or a low one where programs may
/// not have so many.
pub const DESCRIPTORS: [Range<u32>; 2] = [512..576, 3..24];

/// Stands for a socket's path; never 0. Not secret: a program that is asked in vain looks for the daemon once.
pub fn mark_of(path: &Path) -> u64 {
    // FNV-1a.
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
        let mark = |path: &str| mark_of(Path::new(path));
        assert_eq!(mark(""), 0xcbf2_9ce4_8422_2325);
        // As published for FNV-1a.
        assert_eq!(mark("foobar"), 0x8594_4171_f739_67e8);
        assert_ne!(mark("/run/blkkin/agent.sock"), mark("/run/user/0/blkkin/agent.sock"));
    }
}
