//! Names of the chunks of a session's trace, from a pattern: conversions of `strftime`, and
//! `{host}`, `{session}` and `{seq}`. Also the UUIDs of the traces in chunks.

use jiff::Zoned;
use jiff::fmt::strtime;

/// Pattern of chunks' names, unless the session's creator has stated one.
pub(crate) const DEFAULT: &str = "{session}-%Y%m%d-%H%M%S-{seq}";
/// Maximum size of a chunk's name in bytes. A number may be appended.
const SIZE_MAX: usize = 240;

/// Values of a pattern's placeholders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NameParts<'n> {
    pub(crate) host: &'n str,
    pub(crate) session: &'n str,
    /// Number of the chunk in its session.
    pub(crate) sequence: u64,
}

/// Returns the name of a chunk that is opened at `time`. Fails if the pattern is invalid, or if the
/// name cannot be that of a directory.
pub(crate) fn expand(pattern: &str, time: &Zoned, parts: NameParts<'_>) -> Result<String, String> {
    let mut name = String::new();
    let mut rest = pattern;
    while let Some(at) = rest.find('{') {
        name += &format_time(&rest[..at], time)?;
        let (key, after) = rest[at + 1..].split_once('}').ok_or("a `{` lacks its `}`")?;
        match key {
            "host" => name += parts.host,
            "session" => name += parts.session,
            "seq" => name += &format!("{:06}", parts.sequence),
            _ => {
                let known = ["host", "session", "seq"];
                let near = blkkin_filter::suggest(key, known);
                let near = near.map(|near| format!(", did you mean `{{{near}}}`?"));
                let near = near.unwrap_or(", only {host}, {session} and {seq}".to_owned());
                return Err(format!("there is no `{{{key}}}`{near}"));
            }
        }
        rest = after;
    }
    name += &format_time(rest, time)?;
    let is_bad = |letter: char| letter == '/' || letter.is_control();
    match name {
        name if name.contains(is_bad) => Err(format!("gives `{name}`, which is no file name")),
        name if name.starts_with('.') || name.is_empty() => {
            Err(format!("gives `{name}`, but names must not be empty or start with a dot"))
        }
        name if name.len() > SIZE_MAX => {
            Err(format!("gives names of more than {SIZE_MAX} bytes: `{name}`"))
        }
        name => Ok(name),
    }
}

fn format_time(pattern: &str, time: &Zoned) -> Result<String, String> {
    strtime::format(pattern, time).map_err(|error| format!("`{pattern}`: {error}"))
}

/// Returns the UUID of a program's trace in a chunk, from the UUID of the program's rings. Chunks
/// have distinct UUIDs, because a reader would otherwise take the counts of one chunk for those of
/// the next: the counts start at 0 in each.
pub(crate) fn trace_uuid(rings: [u8; 16], sequence: u64) -> [u8; 16] {
    let mut uuid = rings;
    let [.., low] = halves(rings);
    uuid[8..].copy_from_slice(&(low & !NODE | low.wrapping_add(sequence) & NODE).to_be_bytes());
    uuid
}

/// Returns whether `trace` is the UUID of a trace of these rings, in any chunk.
pub(crate) fn is_uuid_of(rings: [u8; 16], trace: [u8; 16]) -> bool {
    let ([high, low], [other_high, other_low]) = (halves(rings), halves(trace));
    high == other_high && low & !NODE == other_low & !NODE
}

/// Bits of the second half of a UUID that are random and contain neither version nor variant.
const NODE: u64 = (1 << 48) - 1;

fn halves(uuid: [u8; 16]) -> [u64; 2] {
    [0, 8].map(|at| {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&uuid[at..at + 8]);
        u64::from_be_bytes(bytes)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(pattern: &str) -> Result<String, String> {
        let time: Zoned = "2026-11-28T17:05:06+00:00[UTC]".parse().unwrap();
        let parts = NameParts { host: "node1", session: "we%b", sequence: 7 };
        expand(pattern, &time, parts)
    }

    #[test]
    fn patterns_have_times_and_placeholders() {
        assert_eq!(name(DEFAULT).unwrap(), "we%b-20261128-170506-000007");
        assert_eq!(name("{host}_%H.{seq}").unwrap(), "node1_17.000007");
        assert_eq!(name("100%%-%F").unwrap(), "100%-2026-11-28");
    }

    #[test]
    fn bad_patterns_are_refused() {
        let refusal = |pattern: &str| name(pattern).unwrap_err();
        assert!(refusal("{sesion}").contains("did you mean `{session}`?"));
        assert!(refusal("{seq").contains("lacks its `}`"));
        assert!(refusal("%!").contains("%!"));
        assert!(refusal("a/b").contains("no file name"));
        assert!(refusal("%D").contains("no file name"));
        assert!(refusal(".{seq}").contains("start with a dot"));
        assert!(refusal("").contains("empty"));
        assert!(refusal(&"x".repeat(241)).contains("240 bytes"));
    }

    #[test]
    fn chunks_have_uuids_of_their_own() {
        let rings = *b"0123456789abcdef";
        let of_chunks = [1, 2, u64::MAX].map(|sequence| trace_uuid(rings, sequence));
        assert_eq!(trace_uuid(rings, 0), rings);
        for (at, uuid) in of_chunks.iter().enumerate() {
            assert!(is_uuid_of(rings, *uuid) && *uuid != rings, "{at}");
            assert!(!is_uuid_of(*b"another-56789abc", *uuid));
            assert!(of_chunks.iter().skip(at + 1).all(|other| other != uuid));
        }
    }
}
