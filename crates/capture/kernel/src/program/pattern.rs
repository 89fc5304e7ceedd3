//! [`Pattern`]: name of functions that a user gives, with `*` for any number of characters.

use super::demangle::Demangled;
use blkkin_filter::Glob;

/// Returns a function that tells if a pair of names matches two patterns.
pub(crate) fn matches_pattern(first: &str, second: &str) -> impl Fn(&str, &str) -> bool {
    let (first, second) = (Pattern::new(first), Pattern::new(second));
    move |one, other| first.is_match(one.as_bytes()) && second.is_match(other.as_bytes())
}

/// Pattern of names of functions.
#[derive(Debug)]
pub(super) enum Pattern<'p> {
    Exact(&'p [u8]),
    Glob(Glob),
}

impl<'p> Pattern<'p> {
    pub(super) fn new(text: &'p str) -> Pattern<'p> {
        let pieces: Vec<&str> = text.split('*').collect();
        Glob::new(&pieces).map_or(Pattern::Exact(text.as_bytes()), Pattern::Glob)
    }

    /// Returns true if the pattern matches the whole name.
    pub(super) fn is_match(&self, name: &[u8]) -> bool {
        match self {
            Pattern::Exact(text) => *text == name,
            Pattern::Glob(glob) => glob.matches(name),
        }
    }

    /// Returns true if the pattern matches the demangled name, with or without parameters.
    pub(super) fn is_demangled_match(&self, name: &Demangled) -> bool {
        self.is_match(name.full.as_bytes())
            || name.short.as_ref().is_some_and(|short| self.is_match(short.as_bytes()))
    }
}
