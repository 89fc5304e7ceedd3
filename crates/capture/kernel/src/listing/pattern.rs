//! Comparison of names with a pattern, in which `*` stands for any number of characters.

use blkkin_filter::Glob;

/// Returns a function that compares names with a pattern.
pub(super) fn matcher(pattern: &str) -> impl Fn(&str) -> bool {
    let pieces: Vec<&str> = pattern.split('*').collect();
    let (glob, exact) = (Glob::new(&pieces), pattern.to_owned());
    move |name| match &glob {
        Some(glob) => glob.matches(name.as_bytes()),
        None => exact == name,
    }
}
