//! Words of CTF 2 and their meanings, for the reader and the writer.

use super::json::{Problem, quote};
use crate::schema::{BitOrder, ByteOrder, Encoding, Role, Scope};

/// CTF 2's words for byte orders, in the property `byte-order`.
pub(super) const BYTE_ORDERS: [(&str, ByteOrder); 2] =
    [("little-endian", ByteOrder::Little), ("big-endian", ByteOrder::Big)];

/// CTF 2's words for bit orders, in the property `bit-order`.
pub(super) const BIT_ORDERS: [(&str, BitOrder); 2] =
    [("first-to-last", BitOrder::FirstToLast), ("last-to-first", BitOrder::LastToFirst)];

/// CTF 2's words for character encodings, in the property `encoding`.
pub(super) const ENCODINGS: [(&str, Encoding); 5] = [
    ("utf-8", Encoding::Utf8),
    ("utf-16be", Encoding::Utf16Be),
    ("utf-16le", Encoding::Utf16Le),
    ("utf-32be", Encoding::Utf32Be),
    ("utf-32le", Encoding::Utf32Le),
];

/// CTF 2's words for roles, in the order in which the writer lists them.
pub(super) const ROLES: [(&str, Role); 11] = [
    ("packet-magic-number", Role::Magic),
    ("metadata-stream-uuid", Role::Uuid),
    ("data-stream-class-id", Role::StreamClassId),
    ("data-stream-id", Role::StreamInstanceId),
    ("packet-total-length", Role::PacketSize),
    ("packet-content-length", Role::ContentSize),
    ("default-clock-timestamp", Role::Timestamp),
    ("packet-end-default-clock-timestamp", Role::PacketEnd),
    ("discarded-event-record-counter-snapshot", Role::EventsDiscarded),
    ("packet-sequence-number", Role::PacketSeqNum),
    ("event-record-class-id", Role::EventClassId),
];

/// Words for LTTng's log levels in the attribute `log-level`; a word's index is its level.
pub(super) const LOG_LEVELS: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug:system",
    "debug:program",
    "debug:process",
    "debug:module",
    "debug:unit",
    "debug:function",
    "debug:line",
    "debug",
];

/// Key in a fragment's `attributes` for the attributes that LTTng defines.
pub(super) const LTTNG_NAMESPACE: &str = "lttng.org,2009";
/// Key in a fragment's `attributes` for the attributes that babeltrace defines.
pub(super) const BABELTRACE_NAMESPACE: &str = "babeltrace.org,2020";

/// Returns whether CTF 2 defines `role` for fields in `scope`.
pub(super) fn role_belongs(role: Role, scope: Scope) -> bool {
    match role {
        Role::Magic | Role::Uuid | Role::StreamClassId | Role::StreamInstanceId => {
            scope == Scope::PacketHeader
        }
        Role::ContentSize
        | Role::PacketSize
        | Role::PacketSeqNum
        | Role::EventsDiscarded
        | Role::PacketEnd => scope == Scope::PacketContext,
        Role::EventClassId => scope == Scope::EventHeader,
        Role::Timestamp => matches!(scope, Scope::PacketContext | Scope::EventHeader),
    }
}

/// Returns the meaning of `word` in `table`. An unknown word is an error with the hint of
/// [`unknown_word`].
pub(super) fn meaning<T: Copy>(word: &str, table: &[(&str, T)]) -> Result<T, Problem> {
    let found = table.iter().find(|(name, _)| *name == word);
    found
        .map(|&(_, meaning)| meaning)
        .ok_or_else(|| unknown_word(word, table.iter().map(|entry| entry.0)))
}

/// Returns the word for `meaning`, or the table's first word for a meaning that the table lacks.
pub(super) fn word<T: Copy + PartialEq>(meaning: T, table: &[(&'static str, T)]) -> &'static str {
    let found = table.iter().find(|entry| entry.1 == meaning).or(table.first());
    found.map_or("", |entry| entry.0)
}

/// Makes the error for a word that is not in `known`. The hint is the nearest known word. If no
/// known word is near enough, the hint is the list of all known words, or is missing if there are
/// more than six.
pub(super) fn unknown_word<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Problem {
    const LIST_MAX: usize = 6;
    let known: Vec<&str> = known.collect();
    let nearest = known.iter().map(|name| (distance(word, name), *name)).min();
    let hint = match nearest {
        Some((distance, name)) if distance <= name.len() / 3 => {
            Some(format!("did you mean `{name}`?"))
        }
        _ if known.len() <= LIST_MAX => Some(format!("known are `{}`", known.join("`, `"))),
        _ => None,
    };
    Problem::new(format!("{} is not known here", quote(word))).hint(hint)
}

/// Returns the edit distance: the number of letters to change, add or remove. If `from` is more
/// than twice as long as `to`, returns the length of `from` without a comparison.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    if from.len() > 2 * to.len() {
        return from.len();
    }
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (column, &other) in to.iter().enumerate() {
            let changed = diagonal + usize::from(letter != other);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
