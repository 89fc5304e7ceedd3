//! Checks of redactions against the events of this kernel.

use super::plan;
use crate::redaction::is_redactable;
use blkkin_control::rules::Pattern;
use blkkin_control::{EventType, KernelRule, Redaction};
use blkkin_filter::{Filter, Step, suggest};

/// Reason why a filter is refused that uses a text which an administrator wants redacted.
pub(super) const IS_REDACTED: &str =
    "which the administrator lets be recorded only redacted; leave it out of the filter";

/// Fails if a redaction of the rule is for no text and no bytes of the rule's events. A `*` may be
/// for none, and so may a redaction of some of the events, which users do not write themselves.
/// `events` are the kernel's, and `types_of` returns the types of the events that a name stands
/// for.
pub(super) fn check(
    rule: &KernelRule,
    events: &[String],
    types_of: impl Fn(&str) -> Vec<EventType>,
) -> Result<(), String> {
    let is_checked = |one: &&Redaction| one.events.is_none() && one.field != "*";
    let mut unknown: Vec<&Redaction> = rule.redactions.iter().filter(is_checked).collect();
    let (mut texts, mut others) = (Vec::new(), Vec::new());
    for name in plan::selected(&rule.selection, events) {
        if unknown.is_empty() {
            break;
        }
        for EventType { name, fields, .. } in types_of(&name) {
            for field in fields {
                if !is_redactable(&field.kind) {
                    others.push((field.name, name.clone()));
                    continue;
                }
                unknown.retain(|one| !Pattern::new(&one.field).fits(field.name.as_bytes()));
                texts.push(field.name);
            }
        }
    }
    let Some(Redaction { field, .. }) = unknown.first() else { return Ok(()) };
    if let Some((_, event)) = others.iter().find(|(name, _)| name == field) {
        return Err(format!("`{field}` of `{event}` is no text and no bytes: it is not redacted"));
    }
    let near = suggest(field, texts.iter().map(String::as_str));
    let hint = near.map(|near| format!("; did you mean `{near}`?")).unwrap_or_default();
    let events = rule.selection.names.join(", ");
    Err(format!("`{events}`: no event has a text `{field}` to redact{hint}"))
}

/// Returns the text in a filter that an administrator wants redacted: whoever may choose filters
/// could guess it. `scoped` are redactions of some events. Names of probes that no list has may
/// stand for several events, so that each of the redactions counts for them.
pub(super) fn used_text<'f>(
    filter: &'f Filter,
    name: &str,
    scoped: &[&Redaction],
) -> Option<&'f str> {
    let counts = |one: &&&Redaction| plan::is_explicit(name) || one.holds_for(name);
    let fields: Vec<Pattern> =
        scoped.iter().filter(counts).map(|one| Pattern::new(&one.field)).collect();
    let mut used = filter.operands().iter().filter_map(|operand| match operand.path.first() {
        Some(Step::Name(field)) => Some(field.as_str()),
        _ => None,
    });
    used.find(|used| fields.iter().any(|field| field.fits(used.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A filter by which a text could be guessed is found, others are not.
    #[test]
    fn texts_in_filters_are_found() {
        let of = |events: &str, text: &str| Redaction {
            events: Some(events.to_owned()),
            ..text.parse().unwrap()
        };
        let redactions = [of("syscall:open*", "file*=hash"), of("kprobe:f", "name=length")];
        let scoped: Vec<&Redaction> = redactions.iter().collect();
        let check = |text: &str, name: &str, expected: Option<&str>| {
            let filter = Filter::parse(text).unwrap();
            assert_eq!(used_text(&filter, name, &scoped), expected, "{text}, {name}");
        };
        check("ret < 0 && !(filename != \"/a*\")", "syscall:openat", Some("filename"));
        check("has(filename)", "syscall:openat", Some("filename"));
        check("ret < 0", "syscall:openat", None);
        check("filename == \"a\"", "syscall:execve", None);
        check("name == \"a\"", "syscall:openat", None);
        check("name == \"a\"", "kprobe:*", Some("name"));
    }
}
