//! Probes that an administrator has approved: members of the agent's group may record them,
//! although other events of the kernel are for root only. An approval may demand redactions.

use blkkin_control::Redaction;
use blkkin_control::limits::EVENT_NAME_SIZE_MAX;
use blkkin_control::rules::Pattern;
use std::fs;
use std::io;

/// File with a pattern of approved probes in each line, such as `block:*`, and redactions after it,
/// such as `filename=hash`. Lines that begin with `#` are comments.
pub(crate) const PATH: &str = "/etc/blkkin/kernel-probes";
/// Maximum size of the file in bytes.
const SIZE_MAX: u64 = 64 << 10;
/// Prefix of tracepoints that users may leave out.
const TRACEPOINT: &str = "tracepoint:";

/// Approved probes, in the order of the file.
#[derive(Debug, Default)]
pub(crate) struct Approvals(Vec<Approval>);

/// Line of the file.
#[derive(Debug)]
struct Approval {
    text: String,
    pattern: Pattern,
    /// Redactions of the probes' events.
    redactions: Vec<Redaction>,
}

impl Approvals {
    /// Reads the file. If it does not exist, nothing is approved.
    pub(crate) fn read() -> io::Result<Approvals> {
        match fs::metadata(PATH) {
            Ok(metadata) if metadata.len() > SIZE_MAX => {
                Err(io::Error::other(format!("{PATH} is longer than {SIZE_MAX} bytes")))
            }
            Ok(_) => Approvals::parse(&fs::read_to_string(PATH)?)
                .map_err(|error| io::Error::other(format!("{PATH}, {error}"))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Approvals::default()),
            Err(error) => Err(error),
        }
    }

    /// Parses the text of the file. An error begins with the number of the line.
    fn parse(text: &str) -> Result<Approvals, String> {
        let lines = text.lines().map(str::trim).enumerate();
        let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let approval = |(index, line)| {
            Approval::parse(line).map_err(|error| format!("line {}: {error}", index + 1))
        };
        lines.map(approval).collect::<Result<_, _>>().map(Approvals)
    }

    /// Returns the redactions without which events with these names may not be recorded, or the
    /// first name that is not approved. A pattern in `names` is approved if an approved pattern
    /// matches its text: it then matches all probes that the pattern matches. The redactions of
    /// each line hold for the events that it matches, whichever line has approved them.
    pub(crate) fn check<'n>(&self, names: &'n [String]) -> Result<Vec<Redaction>, &'n str> {
        let is_approved = |name: &&String| self.0.iter().any(|one| one.approves(name));
        if let Some(unapproved) = names.iter().find(|name| !is_approved(name)) {
            return Err(unapproved);
        }
        let meant = self.0.iter().filter(|one| names.iter().any(|name| one.may_match(name)));
        Ok(meant.flat_map(|one| one.redactions.iter().cloned()).collect())
    }
}

impl Approval {
    /// Parses a line: a pattern, then words with redactions. The pattern may contain spaces, and a
    /// path with `=`.
    fn parse(line: &str) -> Result<Approval, String> {
        let (mut text, mut redactions) = (line, Vec::new());
        while let Some((before, last)) = text.rsplit_once(char::is_whitespace)
            && last.contains('=')
            && !last.contains(['/', ':'])
        {
            for redaction in last.split(',').filter(|redaction| !redaction.is_empty()) {
                let redaction: Redaction = redaction.parse().map_err(|error| format!("{error}"))?;
                redactions.push(redaction);
            }
            text = before.trim_end();
        }
        // Names of the kernel's events have no spaces, and paths of programs may.
        let is_of_program = PROGRAMS.iter().any(|kind| text.starts_with(kind));
        if let Some((_, word)) = text.rsplit_once(char::is_whitespace).filter(|_| !is_of_program) {
            return Err(format!("`{word}` is no redaction: write FIELD=length or FIELD=hash"));
        }
        if text.len() > EVENT_NAME_SIZE_MAX {
            return Err(format!("a pattern has at most {EVENT_NAME_SIZE_MAX} bytes"));
        }
        let events = text.strip_prefix(TRACEPOINT).unwrap_or(text);
        for redaction in &mut redactions {
            redaction.events = Some(events.to_owned());
        }
        Ok(Approval { text: text.to_owned(), pattern: Pattern::new(text), redactions })
    }

    /// Returns whether a name in a rule is approved.
    fn approves(&self, name: &str) -> bool {
        self.pattern.fits(name.as_bytes()) && covers(&self.text, name)
    }

    /// Returns false if no event has a name that both the approved pattern and a name in a rule
    /// match. Of two patterns with stars, and of two probes that may have several spellings, such
    /// as `kprobe:f` and `kprobe:f+0`, this is not found out.
    fn may_match(&self, name: &str) -> bool {
        let has_any_kind = self.text.split(':').next().is_some_and(|kind| kind.contains('*'));
        let may_spell = |kind: &&str| has_any_kind || self.text.starts_with(kind);
        if SPELLINGS.iter().any(|kind| name.starts_with(kind) && may_spell(kind)) {
            return true;
        }
        let [own, name] =
            [&*self.text, name].map(|one| one.strip_prefix(TRACEPOINT).unwrap_or(one));
        let fits = |pattern: &str, text: &str| Pattern::new(pattern).fits(text.as_bytes());
        own.contains('*') && name.contains('*') || fits(own, name) || fits(name, own)
    }
}

/// Prefix of events that `request:*` does not select in a rule either: they tell much more than
/// other events of requests.
const REQUEST_CALLS: &str = "request:syscall:";

/// Returns false for system calls of requests, unless the approved pattern names them or is `*`.
fn covers(approved: &str, name: &str) -> bool {
    !name.starts_with(REQUEST_CALLS) || approved == "*" || approved.starts_with(REQUEST_CALLS)
}

/// Kinds of probes in programs, whose paths may contain spaces.
const PROGRAMS: [&str; 3] = ["uprobe:", "uretprobe:", "usdt:"];
/// Kinds of probes that may be written in several ways.
const SPELLINGS: [&str; 8] =
    ["kprobe:", "kretprobe:", "fentry:", "fexit:", "raw:", "uprobe:", "uretprobe:", "usdt:"];

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, names: &[&str]) -> Result<Vec<String>, String> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let checked = Approvals::parse(text).unwrap().check(&names).map_err(str::to_owned);
        let text = |one: &Redaction| format!("{} {one}", one.events.as_deref().unwrap_or("none"));
        checked.map(|redactions| redactions.iter().map(text).collect())
    }

    fn approved(text: &str, names: &[&str]) -> bool {
        check(text, names) == Ok(Vec::new())
    }

    #[test]
    fn a_pattern_is_approved_by_one_that_covers_it() {
        let text = "# disks\nblock:*\n\n  syscall:openat  \nkprobe:vfs_*\n";
        assert!(approved(text, &["block:block_rq_issue", "block:*", "block:*issue"]));
        assert!(approved(text, &["syscall:openat", "kprobe:vfs_un*"]));
        let refused = |names: &[&str]| check(text, names).unwrap_err();
        assert_eq!(refused(&["block:x", "syscall:*"]), "syscall:*");
        assert_eq!(refused(&["*"]), "*");
        assert_eq!(refused(&["kprobe:*"]), "kprobe:*");
        assert_eq!(refused(&["# disks"]), "# disks");
    }

    #[test]
    fn calls_of_requests_are_approved_by_their_prefix() {
        let check = |text: &str, name: &str| approved(text, &[name]);
        assert!(check("request:*", "request:wait") && check("request:*", "request:*"));
        assert!(!check("request:*", "request:syscall:read"));
        assert!(!check("request:*\nsyscall:*", "request:syscall:*"));
        assert!(check("request:syscall:*", "request:syscall:read"));
        assert!(check("*", "request:syscall:*"));
    }

    #[test]
    fn without_a_file_nothing_is_approved() {
        assert_eq!(check("", &["block:*"]).unwrap_err(), "block:*");
        assert!(approved("", &[]));
    }

    /// A line's redactions hold also for events that another line approves without redactions.
    #[test]
    fn redactions_of_all_lines_hold() {
        let text = "syscall:*\nsyscall:open*  file*=hash,name=length  x=hash\n\
                    uprobe:/a b=c:f\ntracepoint:task:* *=length\n";
        let open =
            ["syscall:open* x=hash", "syscall:open* file*=hash", "syscall:open* name=length"];
        let check = |names: &[&str]| check(text, names).unwrap();
        assert_eq!(check(&["syscall:openat"]), open);
        assert_eq!(check(&["syscall:close", "syscall:*"])[..3], open);
        assert_eq!(check(&["syscall:close"]), [""; 0]);
        assert_eq!(check(&["tracepoint:task:task_rename"]), ["task:* *=length"]);
        assert_eq!(check(&["uprobe:/a b=c:f"]), [""; 0]);
    }

    /// A prefix that users may leave out does not avoid a redaction.
    #[test]
    fn redactions_hold_for_all_forms_of_a_name() {
        let all = check("*\nsyscall:openat filename=hash", &["tracepoint:syscall:openat"]);
        assert_eq!(all.unwrap(), ["syscall:openat filename=hash"]);
        for approved in ["kprobe:open", "*open", "kprobe:*n"] {
            let text = format!("kprobe:*\n{approved} *=hash");
            let found = check(&text, &["kprobe:open+0x0"]).unwrap();
            assert_eq!(found, [format!("{approved} *=hash")]);
        }
    }

    #[test]
    fn a_mistaken_redaction_is_an_error() {
        let error = Approvals::parse("# a\nsyscall:openat filename=md5").unwrap_err();
        assert!(error.starts_with("line 2: `filename=md5` is no redaction"), "{error}");
        for (rest, word) in
            [("filename= hash", "hash"), ("x=hash # why", "why"), ("x:hash", "x:hash")]
        {
            let error = Approvals::parse(&format!("syscall:openat {rest}")).unwrap_err();
            assert!(error.starts_with(&format!("line 1: `{word}` is no redaction")), "{error}");
        }
        assert!(Approvals::parse(&format!("{} x=hash", "y".repeat(300))).is_err());
    }
}
