//! Resolution of operands in filters to the fields of spans. Start at [`Field`].

use super::TextField;
use blkkin_filter::{Filter, FilterError, Operand, OperandKind, PseudoField, Step, suggest};
use blkkin_model::Kind;

/// Field of a span that a filter can test.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// `service`, `remote` (or `remote_service`) or `name` (or `$event.name`): a text of the span.
    Text(TextField),
    Kind,
    Duration,
    /// `start`, `time` or `$event.time`: the start of the span, in nanoseconds since 1970.
    Start,
    Error,
    /// `status`: error, ok or unset.
    Status,
    TraceId,
    Root,
    Annotation,
    /// `event`: the name of an event of the span.
    Event,
    /// `event.KEY`: an attribute of an event of the span.
    EventAttribute(String),
    /// `link`: the trace id of a link's target.
    Link,
    /// `link.KEY`: an attribute of a link of the span.
    LinkAttribute(String),
    /// `any`: any text of the span.
    AnyText,
    /// `trace.duration`: the duration of the request, not of the span.
    TraceDuration,
    /// `tag.KEY`: a tag. `KEY` alone is the same tag unless it is the name of another field.
    Tag(String),
}

/// Span kinds by their name in filters.
pub(super) const KINDS: [(&str, Kind); 5] = [
    ("internal", Kind::Internal),
    ("client", Kind::Client),
    ("server", Kind::Server),
    ("producer", Kind::Producer),
    ("consumer", Kind::Consumer),
];

/// Names of the span statuses in filters.
pub(super) const STATUSES: [&str; 3] = ["error", "ok", "unset"];

/// Field names that [`suggest_field`] suggests for a misspelt name.
const NAMES: [&str; 13] = [
    "service",
    "remote",
    "name",
    "kind",
    "duration",
    "start",
    "error",
    "status",
    "trace_id",
    "root",
    "annotation",
    "event",
    "link",
];

/// Returns the name in [`NAMES`] that is most similar to an operand. `None` if no name is similar,
/// if the operand is itself in [`NAMES`], or if the operand is not a single name.
pub(super) fn suggest_field(operand: &Operand) -> Option<&'static str> {
    match (operand.kind, operand.path.as_slice()) {
        (OperandKind::Payload, [Step::Name(name)]) if !NAMES.contains(&name.as_str()) => {
            suggest(name, NAMES)
        }
        _ => None,
    }
}

/// Recognizes an operand `event.KEY` or `link.KEY`; `None` for any other operand. Returns "an
/// event" or "a link" for the message, and the operand's text. The author of the filter may have
/// meant a tag with that text as its key.
pub(super) fn attribute_owner(operand: &Operand) -> Option<(&'static str, String)> {
    let (OperandKind::Payload, [Step::Name(owner), Step::Name(_), ..]) =
        (operand.kind, operand.path.as_slice())
    else {
        return None;
    };
    let owner = match owner.as_str() {
        "event" => "an event",
        "link" => "a link",
        _ => return None,
    };
    Some((owner, operand.to_string()))
}

impl Field {
    /// Resolves an operand of a filter to a field. Unknown names are keys of tags.
    pub(super) fn of(filter: &Filter, operand: &Operand) -> Result<Field, FilterError> {
        let refused = |message: String, hint: &str| {
            Err(FilterError::unsupported(filter, operand.span, message, Some(hint.to_owned())))
        };
        match operand.kind {
            OperandKind::Payload => {}
            OperandKind::Pseudo(PseudoField::Name) => return Ok(Field::Text(TextField::Name)),
            OperandKind::Pseudo(PseudoField::Time) => return Ok(Field::Start),
            _ => {
                let hint = "what is known of a span are its fields and its tags, `tag.KEY`";
                return refused(format!("spans have no `{operand}`"), hint);
            }
        }
        let mut names = Vec::new();
        for step in &operand.path {
            match step {
                Step::Name(name) => names.push(name.as_str()),
                Step::Index(_) => {
                    return refused("tags have no elements".to_owned(), "compare all of its text");
                }
            }
        }
        Ok(match names.as_slice() {
            ["service"] => Field::Text(TextField::Service),
            ["remote" | "remote_service"] => Field::Text(TextField::RemoteService),
            ["name"] => Field::Text(TextField::Name),
            ["kind"] => Field::Kind,
            ["duration"] => Field::Duration,
            ["start" | "time"] => Field::Start,
            ["error"] => Field::Error,
            ["status"] => Field::Status,
            ["trace_id"] => Field::TraceId,
            ["root"] => Field::Root,
            ["annotation"] => Field::Annotation,
            ["event"] => Field::Event,
            ["event", key @ ..] => Field::EventAttribute(key.join(".")),
            ["link"] => Field::Link,
            ["link", key @ ..] => Field::LinkAttribute(key.join(".")),
            ["any"] => Field::AnyText,
            ["trace", "duration"] => Field::TraceDuration,
            ["tag"] => return refused("a tag without its key".to_owned(), "write `tag.KEY`"),
            ["tag", key @ ..] => Field::Tag(key.join(".")),
            key => Field::Tag(key.join(".")),
        })
    }
}

/// Returns the kind with this name, ignoring case.
pub(super) fn kind_of(word: &str) -> Option<Kind> {
    KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
}
