//! Reach of the rings of snapshot sessions: how far back their events go, as a table, as JSON, and
//! as advice if they reach less far than the session's creator has asked.

use crate::table::{Align, Table};
use crate::values::{retention_text, span_text};
use blkkin_control::{Reach, Reply, Retention};
use serde_json::{Value, json};
use std::time::Duration;

/// Returns the reaches in an agent's replies.
pub(crate) fn from_replies(replies: &[Reply]) -> Vec<Reach> {
    let reach = |reply: &Reply| match reply {
        Reply::Reach(reach) => Some(reach.clone()),
        _ => None,
    };
    replies.iter().filter_map(reach).collect()
}

/// Returns the retention in an agent's replies about one session.
pub(crate) fn retention_of(replies: &[Reply]) -> Option<Retention> {
    replies.iter().find_map(|reply| match reply {
        Reply::Retention(retention) => Some(*retention),
        _ => None,
    })
}

/// Formats a table of reaches. `retention_of` returns the retention of a session, and `name_of` the
/// name of a program.
pub(crate) fn table<'n>(
    reaches: &[Reach],
    retention_of: impl Fn(&str) -> Option<Retention>,
    name_of: impl Fn(u32) -> &'n str,
    color: bool,
) -> String {
    let mut table = Table::new(&[
        ("SESSION", Align::Left),
        ("CHANNEL", Align::Left),
        ("PROGRAM", Align::Left),
        ("PID", Align::Right),
        ("REACHES BACK", Align::Right),
        ("KEEP", Align::Right),
        ("MEMORY", Align::Right),
        ("AT MOST", Align::Right),
    ]);
    for reach in reaches {
        let keep_ms = retention_of(&reach.session).and_then(|retention| retention.keep_ms);
        table.row(vec![
            reach.session.as_str().into(),
            reach.channel.as_str().into(),
            name_of(reach.pid).into(),
            reach.pid.to_string().into(),
            age_text(reach).into(),
            keep_ms.map(retention_text).unwrap_or_default().into(),
            blkkin_text::info::units::bytes(reach.memory).into(),
            blkkin_text::info::units::bytes(reach.memory_max).into(),
        ]);
    }
    table.print(color)
}

/// Formats how far back rings reach.
fn age_text(reach: &Reach) -> String {
    let age = span_text(Duration::from_nanos(reach.age_ns));
    match (reach.is_complete, reach.age_ns) {
        (true, 0) => "no event yet".to_owned(),
        (true, _) => format!("all, {age}"),
        (false, _) => age,
    }
}

/// Returns a line for each program whose rings reach less far than the session's retention asks,
/// with the option that helps.
pub(crate) fn advice(
    reaches: &[Reach],
    retention_of: impl Fn(&str) -> Option<Retention>,
) -> Vec<String> {
    let short = reaches.iter().filter_map(|reach| {
        let keep_ms = retention_of(&reach.session)?.keep_ms?;
        (!reach.is_complete && reach.age_ns / 1_000_000 < keep_ms).then(|| line(reach, keep_ms))
    });
    short.collect()
}

fn line(reach: &Reach, keep_ms: u64) -> String {
    let Reach { session, channel, pid, memory_max, .. } = reach;
    format!(
        "session {session}, channel {channel}, process {pid}: the rings reach back {}, not {}; a \
         session with --memory {} would at this rate",
        span_text(Duration::from_nanos(reach.age_ns)),
        retention_text(keep_ms),
        memory_text(memory_for(reach, keep_ms).max(*memory_max)),
    )
}

/// Returns the size of rings that reach back for a time at the present rate. Rings grow by powers
/// of two.
fn memory_for(reach: &Reach, keep_ms: u64) -> u64 {
    let age_ms = (reach.age_ns / 1_000_000).max(1);
    let factor = keep_ms.div_ceil(age_ms).checked_next_power_of_two().unwrap_or(u64::MAX);
    reach.memory_max.saturating_mul(factor)
}

/// Formats a size in the syntax of `--memory`, rounded up to MiB.
fn memory_text(size: u64) -> String {
    format!("{}M", size.div_ceil(1 << 20))
}

/// Converts reaches to JSON.
pub(crate) fn to_json(reaches: &[Reach]) -> Value {
    let one = |reach: &Reach| {
        let Reach { session, channel, pid, is_complete, age_ns, memory, memory_max } = reach;
        json!({
            "session": session,
            "channel": channel,
            "pid": pid,
            "complete": is_complete,
            "age_ns": age_ns,
            "memory": memory,
            "memory_max": memory_max,
        })
    };
    reaches.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(is_complete: bool, age_ms: u64) -> Reach {
        let age_ns = age_ms * 1_000_000;
        let (memory, memory_max) = (4096, (48 << 20) + 8192);
        let (session, channel) = ("flight".to_owned(), "c".to_owned());
        Reach { session, channel, pid: 7, is_complete, age_ns, memory, memory_max }
    }

    #[test]
    fn who_reaches_less_far_than_asked_learns_what_helps() {
        let check = |reach: Reach, keep_ms, expected: &[&str]| {
            let retention = Some(Retention { keep_ms, memory: None });
            assert_eq!(advice(&[reach], |_| retention), expected);
        };
        check(reach(true, 41_000), Some(120_000), &[]);
        check(reach(false, 120_000), Some(120_000), &[]);
        check(reach(false, 41_000), None, &[]);
        let line = "session flight, channel c, process 7: the rings reach back 41s, not 2min; a \
                    session with --memory 193M would at this rate";
        check(reach(false, 41_000), Some(120_000), &[line]);
    }

    #[test]
    fn reaches_in_words() {
        assert_eq!(age_text(&reach(true, 0)), "no event yet");
        assert_eq!(age_text(&reach(true, 41_000)), "all, 41s");
        assert_eq!(age_text(&reach(false, 200_000)), "3min 20s");
    }
}
