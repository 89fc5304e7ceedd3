//! Ranges of user ids that one user owns, for containers (`/etc/subuid`). Resources of all these
//! ids are charged to the owner's account; otherwise the owner could have 65,536 quotas.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::time::SystemTime;

/// Ranges of user ids with their owners, as read from [`PATH`].
#[derive(Debug, Default)]
pub(crate) struct Ranges {
    modified: Option<SystemTime>,
    /// First user id, last user id and owner of each range, sorted by the first id.
    ranges: Vec<(u32, u32, u32)>,
}

pub(crate) const PATH: &str = "/etc/subuid";
/// Maximum number of bytes read from `/etc/subuid` and from `/etc/passwd`.
const SIZE_MAX: u64 = 1 << 20;
/// Lowest user id of a person. Ranges of system users are ignored, because a system user's
/// container daemon runs containers of several users.
const FIRST_PERSON: u32 = 1000;

impl Ranges {
    /// Reads [`PATH`] again if the file has changed.
    pub(crate) fn refresh(&mut self) {
        let modified = fs::metadata(PATH).and_then(|metadata| metadata.modified()).ok();
        if modified != self.modified {
            self.modified = modified;
            self.ranges = parse(&text_of(PATH), &text_of("/etc/passwd"));
        }
    }

    /// Returns the user who owns the user id `uid`; `uid` itself if it is in no range.
    pub(crate) fn owner_of(&self, uid: u32) -> u32 {
        let before = self.ranges.partition_point(|(first, ..)| *first <= uid);
        let range = before.checked_sub(1).map(|at| self.ranges[at]);
        range.filter(|(_, last, _)| uid <= *last).map_or(uid, |(.., owner)| owner)
    }
}

fn text_of(path: &str) -> String {
    let mut text = Vec::new();
    let _ = File::open(path).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut text));
    String::from_utf8_lossy(&text).into_owned()
}

fn parse(ranges: &str, users: &str) -> Vec<(u32, u32, u32)> {
    let users: HashMap<&str, u32> = users
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(':');
            Some((parts.next()?, parts.nth(1)?.parse().ok()?))
        })
        .collect();
    let range = |line: &str| {
        let mut parts = line.split(':');
        let owner = parts.next()?;
        let owner = users.get(owner).copied().or_else(|| owner.parse().ok())?;
        let first: u32 = parts.next()?.parse().ok()?;
        let count: u32 = parts.next()?.trim().parse().ok()?;
        let last = first.checked_add(count.checked_sub(1)?)?;
        (owner >= FIRST_PERSON && first > 0).then_some((first, last, owner))
    };
    let mut ranges: Vec<(u32, u32, u32)> = ranges.lines().filter_map(range).collect();
    ranges.sort_unstable();
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_for_containers_are_their_owners() {
        let users =
            "root:x:0:0::/:/bin/sh\nann:x:1000:1000::/:/bin/sh\ndock:x:998:998::/:/bin/sh\n";
        let text =
            "ann:100000:65536\n1001:165536:10\ndock:300000:65536\nnobody here\nann:9:\n:::\n";
        let ranges = Ranges { modified: None, ranges: parse(text, users) };
        let check = |uid: u32, expected: u32| assert_eq!(ranges.owner_of(uid), expected, "{uid}");
        check(0, 0);
        check(99_999, 99_999);
        check(100_000, 1000);
        check(165_535, 1000);
        check(165_536, 1001);
        check(165_545, 1001);
        check(165_546, 165_546);
        check(300_001, 300_001);
    }
}
