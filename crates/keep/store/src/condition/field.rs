//! The fields of spans in filters: [`Field`].

use super::TextField;
use blkkin_filter::{Filter, FilterError, Operand, OperandKind, Pseudo, Step, suggest};
use blkkin_model::Kind;

/// Field of a span in a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Field {
    /// `service`, `remote` or `remote_service`, `name`.
    Text(TextField),
    Kind,
    Duration,
    /// `start` or `time`.
    Start,
    Error,
    /// `status`: error, ok or unset.
    Status,
    TraceId,
    Root,
    Annotation,
    /// `event`: the name of an event of the span.
    Event,
    /// `event.KEY`: an attribute of an event.
    EventAttribute(String),
    /// `link`: the trace id of a link's target.
    Link,
    /// `link.KEY`: an attribute of a link.
    LinkAttribute(String),
    /// `any`: any text of the span.
    AnyText,
    /// `trace.duration`: the duration of the request, not of the span.
    TraceDuration,
    /// `tag.KEY`, or the bare key if it is not the name of another field.
    Tag(String),
}

/// Span kinds with their names in filters.
pub(super) const KINDS: [(&str, Kind); 5] = [
    ("internal", Kind::Internal),
    ("client", Kind::Client),
    ("server", Kind::Server),
    ("producer", Kind::Producer),
    ("consumer", Kind::Consumer),
];

/// Names of span statuses in filters.
pub(super) const STATUSES: [&str; 3] = ["error", "ok", "unset"];

/// Names of fields, for suggestions.
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

/// Returns the field whose name nearly matches an operand that was resolved as a tag, if any.
pub(super) fn probably_meant(operand: &Operand) -> Option<&'static str> {
    match (operand.kind, operand.path.as_slice()) {
        (OperandKind::Payload, [Step::Name(name)]) if !NAMES.contains(&name.as_str()) => {
            suggest(name, NAMES)
        }
        _ => None,
    }
}

/// Returns the owner of an attribute of an event or a link, and the key of the tag that has the
/// same name. `None` for any other operand.
pub(super) fn attribute_of_other(operand: &Operand) -> Option<(&'static str, String)> {
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
    /// Resolves an operand of a filter.
    pub(super) fn of(filter: &Filter, operand: &Operand) -> Result<Field, FilterError> {
        let refused = |message: String, hint: &str| {
            Err(FilterError::refused(filter, operand.span, message, Some(hint.to_owned())))
        };
        match operand.kind {
            OperandKind::Payload => {}
            OperandKind::Pseudo(Pseudo::Name) => return Ok(Field::Text(TextField::Name)),
            OperandKind::Pseudo(Pseudo::Time) => return Ok(Field::Start),
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
