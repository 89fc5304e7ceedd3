//! Names that CTF 1.8 can say.

use std::collections::HashSet;

/// `name`, or the like of it that is not taken yet; takes it.
pub(super) fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 1;
    while !taken.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

/// A structure member's name: letters, digits and underscores. A first digit or a keyword is no
/// problem, since names are written with an underscore before them.
pub(super) fn member(name: &str) -> String {
    match name {
        "" => "field".to_owned(),
        "_" => "field_".to_owned(),
        _ => name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect(),
    }
}

/// The name of a variant's option or of a clock: an identifier, no keyword, not taken yet.
pub(super) fn option(name: &str, otherwise: &str, taken: &mut HashSet<String>) -> String {
    let mut plain = if name.is_empty() { otherwise.to_owned() } else { member(name) };
    if plain.starts_with(|c: char| c.is_ascii_digit()) || crate::tsdl::is_keyword(&plain) {
        plain = format!("{otherwise}_{plain}");
    }
    // Readers take one underscore off, and babeltrace2 ends at two options of one name.
    let mut candidate = plain.clone();
    let mut number = 1;
    while !taken.insert(bare(&candidate).to_owned()) {
        number += 1;
        candidate = format!("{plain}_{number}");
    }
    candidate
}

/// An option's name as people see it.
pub(super) fn bare(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// Whether a name can stay an option's name.
pub(super) fn is_option(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(is_plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !crate::tsdl::is_keyword(name)
}

fn is_plain(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}
