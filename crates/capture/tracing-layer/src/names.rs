//! Derives the names of event types and their fields.

use tracing_core::{Level, Metadata};

/// Maximum size of an event type's or field's name, in bytes.
const SIZE_MAX: usize = 255;

/// Returns the name of a callsite's event type, `PROVIDER:NAME`.
pub(crate) fn event_name(metadata: &Metadata<'_>) -> String {
    let target = metadata.target().replace("::", ".").replace(':', "_");
    let provider = if target.is_empty() { "tracing" } else { &target };
    // `tracing` names an event without an explicit name "event FILE:LINE".
    let name = metadata.name();
    let name = name.strip_prefix("event ").unwrap_or(name);
    let name = if name.is_empty() { "_" } else { name };
    let mut whole = clean(provider, SIZE_MAX / 2, |char| !is_special(char));
    whole.push(':');
    whole.push_str(&clean(name, SIZE_MAX - whole.len(), |char| !is_special(char)));
    whole
}

/// Returns true for a character that could be misread in metadata, in a pattern for names, or on a
/// screen.
fn is_special(char: char) -> bool {
    char.is_control() || matches!(char, '"' | '\\' | '*')
}

/// Returns at most `size_max` bytes of a text. Characters for which `is_good` is false are replaced
/// by `_`.
fn clean(text: &str, size_max: usize, is_good: impl Fn(char) -> bool) -> String {
    let mut clean = String::new();
    for char in text.chars() {
        let char = if is_good(char) { char } else { '_' };
        if clean.len() + char.len_utf8() > size_max {
            break;
        }
        clean.push(char);
    }
    clean
}

/// Returns a field name that is valid in metadata and is not among `names`.
pub(crate) fn field_name(name: &str, names: &[&str]) -> String {
    let mut name = clean(name, SIZE_MAX - 32, |char| char.is_ascii_alphanumeric() || char == '_');
    if name.is_empty() || name.starts_with(|char: char| char.is_ascii_digit()) {
        name.insert(0, '_');
    }
    while names.contains(&&*name) {
        name.push('_');
    }
    name
}

pub(crate) fn level(level: &Level) -> blkkin_trace::Level {
    match *level {
        Level::ERROR => blkkin_trace::Level::Error,
        Level::WARN => blkkin_trace::Level::Warning,
        Level::INFO => blkkin_trace::Level::Info,
        Level::DEBUG => blkkin_trace::Level::DebugLine,
        Level::TRACE => blkkin_trace::Level::Debug,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_have_names_of_their_own() {
        let mut names: Vec<String> = Vec::new();
        for name in ["http.method", "http_method", "r#type", "0", "", "start", "é", "http-method"]
        {
            let known: Vec<&str> =
                ["start"].into_iter().chain(names.iter().map(|name| &**name)).collect();
            let name = field_name(name, &known);
            names.push(name);
        }
        let expected =
            ["http_method", "http_method_", "r_type", "_0", "_", "start_", "__", "http_method__"];
        assert_eq!(names, expected);
    }

    #[test]
    fn long_names_are_cut() {
        let name = clean(&"é".repeat(1000), SIZE_MAX, |_| true);
        assert_eq!(name, "é".repeat(127));
        assert_eq!(clean("a\"b\\c\nd*e", SIZE_MAX, |char| !is_special(char)), "a_b_c_d_e");
    }
}
