//! Conversion of names to names that are valid in CTF 1.8.

use std::collections::HashSet;

/// Makes `name` unique by a number suffix, and adds the result to `taken`.
pub(super) fn unique(name: String, taken: &mut HashSet<String>) -> String {
    let mut candidate = name.clone();
    let mut number = 1;
    while !taken.insert(candidate.clone()) {
        number += 1;
        candidate = format!("{name}_{number}");
    }
    candidate
}

/// Converts a name to a valid name of a structure member: letters, digits and underscores. An
/// initial digit or a keyword is permitted, because the writer puts an underscore before such
/// names.
pub(super) fn member(name: &str) -> String {
    match name {
        "" => "field".to_owned(),
        "_" => "field_".to_owned(),
        _ => name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect(),
    }
}

/// Converts a name to a unique identifier for a variant's option or a clock. `otherwise` replaces
/// an empty name, and precedes a name that is a keyword or starts with a digit.
pub(super) fn option(name: &str, otherwise: &str, taken: &mut HashSet<String>) -> String {
    let mut plain = if name.is_empty() { otherwise.to_owned() } else { member(name) };
    if plain.starts_with(|c: char| c.is_ascii_digit()) || crate::tsdl::is_keyword(&plain) {
        plain = format!("{otherwise}_{plain}");
    }
    // Readers strip one leading underscore, and babeltrace2 aborts on two options of the same name.
    let mut candidate = plain.clone();
    let mut number = 1;
    while !taken.insert(strip_underscore(&candidate).to_owned()) {
        number += 1;
        candidate = format!("{plain}_{number}");
    }
    candidate
}

/// Returns an option's name as readers show it, without one leading underscore.
pub(super) fn strip_underscore(name: &str) -> &str {
    name.strip_prefix('_').unwrap_or(name)
}

/// Returns whether a name is valid as an option's name without conversion.
pub(super) fn is_option(name: &str) -> bool {
    !name.is_empty()
        && name.chars().all(is_plain)
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && !crate::tsdl::is_keyword(name)
}

fn is_plain(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric()
}
