//! Suggestions of similar names, for hints in error messages.

use super::error::MetadataError;

/// Maximum length of compared names in bytes, which bounds the time spent on a hint.
const LENGTH_MAX: usize = 64;
pub(crate) const CANDIDATES_MAX: usize = 4096;

/// Returns the candidate closest to `name`, with an edit distance of at most a third of the
/// characters of `name`; `None` if no candidate is that close, or if `name` is longer than
/// [`LENGTH_MAX`]. Ignores candidates longer than [`LENGTH_MAX`], candidates equal to `name`, and
/// all candidates after the first [`CANDIDATES_MAX`].
fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > LENGTH_MAX {
        return None;
    }
    let allowed = name.chars().count() / 3;
    candidates
        .into_iter()
        .take(CANDIDATES_MAX)
        .filter(|candidate| candidate.len() <= LENGTH_MAX && *candidate != name)
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|&(distance, _)| distance <= allowed)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Adds the nearest of `candidates` to the error as a hint, if [`nearest`] finds one.
pub(crate) fn did_you_mean<'c>(
    error: MetadataError,
    name: &str,
    candidates: impl IntoIterator<Item = &'c str>,
) -> MetadataError {
    match nearest(name, candidates) {
        Some(candidate) => error.hint(format!("did you mean `{candidate}`?")),
        None => error,
    }
}

/// Returns the Levenshtein distance between `a` and `b`, in characters.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (line, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn close_names_are_found_and_far_ones_are_not() {
        let check = |name, expected| {
            assert_eq!(nearest(name, ["uint8_t", "uint32_t", "timestamp", "len"]), expected);
        };
        check("uint8t", Some("uint8_t"));
        check("unit32_t", Some("uint32_t"));
        check("timestmap", Some("timestamp"));
        check("_len", Some("len"));
        check("frequency", None);
        check("x", None);
        check(&"l".repeat(1000), None);
    }
}
