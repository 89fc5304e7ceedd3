//! Probes that an administrator has approved: members of the agent's group may record them,
//! although other events of the kernel are for root only.

use blkkin_control::rules::Pattern;
use std::fs;
use std::io;

/// File with a pattern of approved probes in each line, such as `block:*`. Lines that begin with
/// `#` are comments.
pub(crate) const PATH: &str = "/etc/blkkin/kernel-probes";
/// Maximum size of the file in bytes.
const SIZE_MAX: u64 = 64 << 10;

/// Returns the first of `names` that is not approved. A pattern in `names` is approved if an
/// approved pattern matches its text: it then matches all probes that the pattern matches.
pub(crate) fn find_unapproved(names: &[String]) -> io::Result<Option<&str>> {
    let text = match fs::metadata(PATH) {
        Ok(metadata) if metadata.len() > SIZE_MAX => {
            return Err(io::Error::other(format!("{PATH} is longer than {SIZE_MAX} bytes")));
        }
        Ok(_) => fs::read_to_string(PATH)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error),
    };
    Ok(unapproved(&text, names))
}

fn unapproved<'n>(text: &str, names: &'n [String]) -> Option<&'n str> {
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let approved: Vec<(&str, Pattern)> = lines.map(|line| (line, Pattern::new(line))).collect();
    let is_approved = |name: &&String| {
        approved.iter().any(|(text, one)| one.fits(name.as_bytes()) && covers(text, name))
    };
    names.iter().find(|name| !is_approved(name)).map(String::as_str)
}

/// Prefix of events that `request:*` does not select in a rule either: they tell much more than
/// other events of requests.
const REQUEST_CALLS: &str = "request:syscall:";

/// Returns false for system calls of requests, unless the approved pattern names them or is `*`.
fn covers(approved: &str, name: &str) -> bool {
    !name.starts_with(REQUEST_CALLS) || approved == "*" || approved.starts_with(REQUEST_CALLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_approved_by_one_that_covers_it() {
        let text = "# disks\nblock:*\n\n  syscall:openat  \nkprobe:vfs_*\n";
        let check = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            unapproved(text, &names).map(str::to_owned)
        };
        assert_eq!(check(&["block:block_rq_issue", "block:*", "block:*issue"]), None);
        assert_eq!(check(&["syscall:openat", "kprobe:vfs_un*"]), None);
        assert_eq!(check(&["block:x", "syscall:*"]).as_deref(), Some("syscall:*"));
        assert_eq!(check(&["*"]).as_deref(), Some("*"));
        assert_eq!(check(&["kprobe:*"]).as_deref(), Some("kprobe:*"));
        assert_eq!(check(&["# disks"]).as_deref(), Some("# disks"));
    }

    #[test]
    fn calls_of_requests_are_approved_by_their_prefix() {
        let check = |text: &str, name: &str| unapproved(text, &[name.to_owned()]).is_none();
        assert!(check("request:*", "request:wait") && check("request:*", "request:*"));
        assert!(!check("request:*", "request:syscall:read"));
        assert!(!check("request:*\nsyscall:*", "request:syscall:*"));
        assert!(check("request:syscall:*", "request:syscall:read"));
        assert!(check("*", "request:syscall:*"));
    }

    #[test]
    fn without_a_file_nothing_is_approved() {
        assert_eq!(unapproved("", &["block:*".to_owned()]), Some("block:*"));
        assert_eq!(unapproved("", &[]), None);
    }
}
