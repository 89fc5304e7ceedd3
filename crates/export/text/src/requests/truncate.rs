//! Truncation of texts to a number of characters.

/// Truncates a text to `most` characters. The beginning is retained, as it is the most informative.
pub(super) fn truncate_text(text: &str, most: usize, ascii: bool) -> String {
    if text.chars().count() <= most { text.to_owned() } else { truncate_always(text, most, ascii) }
}

/// Returns the start of a text, followed by dots even if the text would fit; at most `most`
/// characters including the dots.
pub(super) fn truncate_always(text: &str, most: usize, ascii: bool) -> String {
    let dots = if ascii { ".." } else { "…" };
    let keep = most.saturating_sub(dots.chars().count());
    text.chars().take(keep).chain(dots.chars()).take(most).collect()
}
