//! Suggestions for misspelt names ("did you mean").

/// Maximum length in bytes of names to compare. It bounds the work on hostile input.
const LENGTH_MAX: usize = 64;

/// Returns the candidate nearest to `name`; `None` if all are too different. Depending on the
/// length of `name`, 1 to 4 edits are permitted. The first of equally near candidates is returned.
/// Case does not count. Names of more than 64 bytes count as too different.
pub fn suggest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let limit = (name.len() / 3).clamp(1, 4);
    let mut best = None;
    let mut best_distance = limit + 1;
    for candidate in candidates {
        // A distance of the candidate's whole length means that nothing is similar.
        let Some(distance) = distance(name, candidate) else { continue };
        if distance < best_distance && distance < candidate.len() {
            best_distance = distance;
            best = Some(candidate);
        }
    }
    best
}

/// Returns the edit distance of two names (optimal string alignment, by rows): the smallest number
/// of insertions, deletions, replacements and swaps of neighbours that turn `a` into `b`. Returns
/// `None` if a name is too long.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > LENGTH_MAX || b.len() > LENGTH_MAX {
        return None;
    }
    let mut before_last = [0; LENGTH_MAX + 1];
    let mut last: [usize; LENGTH_MAX + 1] = std::array::from_fn(|column| column);
    for i in 0..a.len() {
        let mut row = [i + 1; LENGTH_MAX + 1];
        for j in 0..b.len() {
            let replaced = usize::from(!a[i].eq_ignore_ascii_case(&b[j]));
            let mut least = (last[j] + replaced).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before_last[j - 1] + 1);
            }
            row[j + 1] = least;
        }
        before_last = last;
        last = row;
    }
    Some(last[b.len()])
}

#[cfg(test)]
mod tests {
    use super::{distance, suggest};

    #[test]
    fn distances() {
        let check = |a: &str, b: &str, expected| {
            assert_eq!(distance(a, b), Some(expected), "{a} {b}");
            assert_eq!(distance(b, a), Some(expected), "{b} {a}");
        };
        check("", "", 0);
        check("", "abc", 3);
        check("trce_id", "trace_id", 1);
        check("ab", "ba", 1);
        check("kitten", "sitting", 3);
        check("Name", "name", 0);
        assert_eq!(distance(&"a".repeat(65), "a"), None);
    }

    #[test]
    fn suggestions() {
        let check = |name: &str, candidates: &[&str], expected| {
            assert_eq!(suggest(name, candidates.iter().copied()), expected, "{name}");
        };
        check("trce_id", &["span_id", "trace_id", "time"], Some("trace_id"));
        check("TRACE_ID", &["trace_id"], Some("trace_id"));
        check("nmae", &["name", "time"], Some("name"));
        check("x", &["y"], None);
        check("len", &["offset", "flags"], None);
        check("lenght", &["length", "lengths"], Some("length"));
        check("", &["a", "b"], None);
    }
}
