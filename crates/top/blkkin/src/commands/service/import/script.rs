//! Probe points of SystemTap's scripts, and the events of BlkKin at the same points.

/// A probe point of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) point: String,
    /// Patterns of the events there, or why nothing can be recorded.
    pub(super) events: Result<Vec<String>, &'static str>,
}

/// Probe points of SystemTap's library, with the kernel's tracepoints that they stand for.
const KNOWN: [(&str, &str); 12] = [
    ("ioblock.request", "block:block_bio_queue"),
    ("ioblock.end", "block:block_bio_complete"),
    ("ioscheduler_trace.elv_issue_request", "block:block_rq_issue"),
    ("ioscheduler_trace.elv_completed_request", "block:block_rq_complete"),
    ("scheduler.ctxswitch", "sched:sched_switch"),
    ("scheduler.wakeup", "sched:sched_wakeup"),
    ("scheduler.migrate", "sched:sched_migrate_task"),
    ("scheduler.process_fork", "sched:sched_process_fork"),
    ("scheduler.process_exit", "sched:sched_process_exit"),
    ("signal.send", "signal:signal_generate"),
    ("vm.kmalloc", "kmem:kmalloc"),
    ("vm.kfree", "kmem:kfree"),
];

/// Returns all probe points of a script, in their order.
pub(super) fn probes(script: &str) -> Vec<Probe> {
    let text = without_comments(script);
    let mut probes = Vec::new();
    let mut rest = text.as_str();
    while let Some(at) = find_word(rest, "probe") {
        let after = &rest[at + "probe".len()..];
        let end = end_of_points(after);
        let points = &after[..end];
        // An alias of a script stands for the points after its `=`.
        let points = points.rsplit_once('=').map_or(points, |(_, points)| points);
        for point in split_outside(points) {
            let point = point.trim().trim_end_matches(['?', '!', ' ']).to_owned();
            if !point.is_empty() {
                let events = events_at(&point);
                probes.push(Probe { point, events });
            }
        }
        rest = &after[end..];
    }
    probes
}

/// Returns the position of a word that is neither in quotes nor a part of another word.
fn find_word(text: &str, word: &str) -> Option<usize> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == '.';
    let (mut before, mut is_quoted) = (' ', false);
    for (at, letter) in text.char_indices() {
        let rest = text[at..].strip_prefix(word).filter(|_| !is_quoted && !is_part(before));
        if rest.is_some_and(|rest| rest.starts_with(char::is_whitespace)) {
            return Some(at);
        }
        is_quoted ^= letter == '"';
        before = letter;
    }
    None
}

/// Returns the length of the points before a handler: up to a `{` that does not follow a `.`, as in
/// `syscall.{open,close}`.
fn end_of_points(text: &str) -> usize {
    let (mut before, mut is_quoted) = (' ', false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '{' if !is_quoted && before != '.' => return at,
            _ => {}
        }
        before = letter;
    }
    text.len()
}

/// Splits a list at commas outside of parentheses, braces and quotes.
fn split_outside(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth, mut is_quoted) = (Vec::new(), 0, 0_u32, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '(' | '{' if !is_quoted => depth += 1,
            ')' | '}' if !is_quoted => depth = depth.saturating_sub(1),
            ',' if !is_quoted && depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// Returns the text with spaces instead of comments.
fn without_comments(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let (mut rest, mut is_quoted) = (text, false);
    while let Some(letter) = rest.chars().next() {
        let skipped = match letter {
            _ if is_quoted => 0,
            '#' => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |at| at + 2),
            _ => 0,
        };
        if skipped > 0 {
            plain.push(' ');
            rest = &rest[skipped..];
            continue;
        }
        is_quoted ^= letter == '"';
        plain.push(letter);
        rest = &rest[letter.len_utf8()..];
    }
    plain
}

/// Returns the patterns of the events at a probe point.
fn events_at(point: &str) -> Result<Vec<String>, &'static str> {
    let parts = split_point(point);
    let parts: Vec<(&str, Option<&str>)> =
        parts.iter().map(|(name, value)| (*name, value.as_deref())).collect();
    if let Some((_, event)) = KNOWN.iter().find(|(known, _)| *known == point) {
        return Ok(vec![(*event).to_owned()]);
    }
    let one = |event: String| Ok(vec![event]);
    match &parts[..] {
        [("begin" | "end" | "error" | "never", _), ..] => Err("nothing happens there"),
        [("timer", _), ..] => Err("it only runs its handler"),
        [("syscall" | "nd_syscall", None), (name, None), rest @ ..] => match rest {
            // One event has the arguments and the result.
            [] | [("return", None)] => {
                Ok(alternatives(name).map(|one| format!("syscall:{one}")).collect())
            }
            _ => Err("this form of a system call is not known"),
        },
        [("kernel", None), ("trace", Some(name))] => match name.split_once(':') {
            Some(_) => one((*name).to_owned()),
            None => one(format!("*:{name}")),
        },
        [("kernel", None) | ("module", Some(_)), ("function", Some(name)), rest @ ..] => {
            let name = name.split('@').next().unwrap_or(name);
            match rest {
                [] | [("call", None)] => one(format!("kprobe:{name}")),
                [("return", None)] => one(format!("kretprobe:{name}")),
                _ => Err("only calls and returns of functions can be recorded"),
            }
        }
        [("process", Some(program)), ("function", Some(name)), rest @ ..] => {
            let name = name.split('@').next().unwrap_or(name);
            match rest {
                [] | [("call", None)] => one(format!("uprobe:{program}:{name}")),
                [("return", None)] => one(format!("uretprobe:{program}:{name}")),
                _ => Err("only calls and returns of functions can be recorded"),
            }
        }
        [("process", Some(program)), ("mark", Some(name))] => {
            one(format!("usdt:{program}:*:{name}"))
        }
        [("process", Some(program)), ("provider", Some(provider)), ("mark", Some(name))] => {
            one(format!("usdt:{program}:{provider}:{name}"))
        }
        _ => Err("this probe point is not known; `blkkin probe ls` lists what can be recorded"),
    }
}

/// Returns the alternatives in a name such as `{open,close}`, or the name.
fn alternatives(name: &str) -> impl Iterator<Item = &str> {
    let inner = name.strip_prefix('{').and_then(|name| name.strip_suffix('}'));
    inner.unwrap_or(name).split(',').map(str::trim).filter(|one| !one.is_empty())
}

/// Splits a point at its dots into names, each with the text in quotes in its parentheses.
fn split_point(point: &str) -> Vec<(&str, Option<String>)> {
    let (mut parts, mut begin, mut is_quoted) = (Vec::new(), 0, false);
    for (at, letter) in point.char_indices() {
        match letter {
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => {
                parts.push(&point[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&point[begin..]);
    let part = |part: &'_ str| {
        let value = part.split_once('(').map(|(_, value)| value.trim_end_matches(')').trim());
        value.map(|value| value.trim_matches('"').to_owned())
    };
    parts.into_iter().map(|one| (one.split('(').next().unwrap_or(one).trim(), part(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: &[(&str, &[&str])]) {
        let found = probes(script);
        let found: Vec<(&str, Vec<&str>)> = found
            .iter()
            .map(|probe| {
                let events = probe.events.as_ref().map_or(&[][..], |events| &events[..]);
                (probe.point.as_str(), events.iter().map(String::as_str).collect())
            })
            .collect();
        let expected: Vec<(&str, Vec<&str>)> =
            expected.iter().map(|(point, events)| (*point, events.to_vec())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn points_become_events() {
        check(
            "probe syscall.open.return { x = $return }",
            &[("syscall.open.return", &["syscall:open"])],
        );
        check(
            "probe syscall.{open,close} {}",
            &[("syscall.{open,close}", &["syscall:open", "syscall:close"])],
        );
        check(
            "probe kernel.function(\"vfs_read@fs/read_write.c\").call, kernel.function(\"f\").return ? {}",
            &[
                ("kernel.function(\"vfs_read@fs/read_write.c\").call", &["kprobe:vfs_read"]),
                ("kernel.function(\"f\").return", &["kretprobe:f"]),
            ],
        );
        check(
            "probe kernel.trace(\"block_rq_issue\") {}",
            &[("kernel.trace(\"block_rq_issue\")", &["*:block_rq_issue"])],
        );
        check(
            "probe process(\"/usr/bin/a.out\").mark(\"go\"), process(\"b\").provider(\"p\").mark(\"m\") {}",
            &[
                ("process(\"/usr/bin/a.out\").mark(\"go\")", &["usdt:/usr/bin/a.out:*:go"]),
                ("process(\"b\").provider(\"p\").mark(\"m\")", &["usdt:b:p:m"]),
            ],
        );
        check("probe ioblock.request {}", &[("ioblock.request", &["block:block_bio_queue"])]);
    }

    #[test]
    fn other_texts_are_no_probes() {
        check(
            "# probe a {}\n// probe b {}\n/* probe c {} */ global probes\nprobe begin { log(\"probe d {\") }",
            &[("begin", &[])],
        );
        check(
            "probe alias = syscall.read { } probe alias {}",
            &[("syscall.read", &["syscall:read"]), ("alias", &[])],
        );
        check(
            "probe kernel.function(\"f\").inline, timer.ms(10) {}",
            &[("kernel.function(\"f\").inline", &[]), ("timer.ms(10)", &[])],
        );
        check("", &[]);
        check("probe", &[]);
        check("probe \"", &[("\"", &[])]);
    }
}
