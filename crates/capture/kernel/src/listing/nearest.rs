//! Suggestions for patterns that match nothing.

use super::Listing;
use super::kind::ProbeKind;
use blkkin_filter::suggest;
use std::collections::BTreeSet;

/// Maximum number of suggestions.
const SUGGESTIONS_MAX: usize = 5;

impl Listing {
    /// Returns the names that are most similar to a pattern that matches nothing, at most five.
    /// For an unknown word in front of a colon, returns the pattern with a known one.
    pub fn nearest(&self, pattern: &str) -> Vec<String> {
        let kinds: Vec<ProbeKind> = match pattern.split_once(':') {
            Some((word, _)) => match ProbeKind::of_word(word) {
                Some(kind) => vec![kind],
                None => ProbeKind::ALL.to_vec(),
            },
            None => ProbeKind::ALL.to_vec(),
        };
        let names = kinds.into_iter().flat_map(|kind| self.names(kind).unwrap_or_default());
        nearest_of(pattern, &names.collect::<Vec<_>>())
    }
}

fn nearest_of(pattern: &str, names: &[String]) -> Vec<String> {
    let literal = pattern.replace('*', "");
    let (prefix, last) = literal.rsplit_once(':').unwrap_or(("", &literal));
    let mut found: Vec<String> = Vec::new();
    let mut add = |name: &str| {
        if found.len() < SUGGESTIONS_MAX && !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    };
    let prefixes: BTreeSet<&str> = names.iter().map(|name| split(name).0).collect();
    if !prefix.is_empty() && !prefixes.contains(prefix) {
        let near = suggest(prefix, prefixes.iter().copied());
        let near = near.or_else(|| {
            let longer = |known: &&&str| known.starts_with(prefix) || prefix.starts_with(**known);
            prefixes.iter().find(longer).copied()
        });
        if let Some(near) = near {
            let rest = pattern.split_once(':').map_or("*", |parts| parts.1);
            add(&format!("{near}:{rest}"));
        }
    }
    if last.is_empty() {
        return found;
    }
    names.iter().filter(|name| split(name).1 == last).for_each(|name| add(name));
    if let Some(near) = suggest(&literal, names.iter().map(String::as_str)) {
        add(near);
    }
    if let Some(near) = suggest(last, names.iter().map(|name| split(name).1)) {
        names.iter().filter(|name| split(name).1 == near).for_each(|name| add(name));
    }
    names.iter().filter(|name| name.contains(last)).for_each(|name| add(name));
    found
}

/// Splits a name at its first colon.
fn split(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or(("", name))
}

#[cfg(test)]
mod tests {
    use super::nearest_of;

    #[test]
    fn suggestions_for_patterns() {
        let names = [
            "syscall:openat",
            "syscall:openat2",
            "syscall:unlinkat",
            "block:block_rq_issue",
            "raw:block_rq_issue",
            "process:exec",
        ];
        let names = names.map(str::to_owned);
        let check = |pattern: &str, expected: &[&str]| {
            assert_eq!(nearest_of(pattern, &names), expected, "{pattern}");
        };
        check("openat", &["syscall:openat", "syscall:openat2"]);
        check("syscall:opneat", &["syscall:openat"]);
        check("block_rq_isue", &["block:block_rq_issue", "raw:block_rq_issue"]);
        check("blk:*", &[]);
        check("blok:*", &["block:*"]);
        check("syscalls:open*", &["syscall:open*", "syscall:openat", "syscall:openat2"]);
        check("link", &["syscall:unlinkat"]);
        check("*xyzzy*", &[]);
    }
}
