//! What a filter can ask of a span, by name. Start at [`Field`].

use super::TextField;
use blkkin_filter::{Filter, FilterError, Operand, OperandKind, Pseudo, Step, suggest};
use blkkin_model::Kind;

/// What a filter can ask of a span.
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
    /// `event`: the name of one.
    Event,
    /// `event.KEY`
    EventAttribute(String),
    /// `link`: the request that one leads to.
    Link,
    /// `link.KEY`
    LinkAttribute(String),
    /// `any`: each of a span's texts.
    AnyText,
    /// `trace.duration`: the request's, and no field of a span.
    TraceDuration,
    /// `tag.KEY`, or the key alone if it is not the name of something else.
    Tag(String),
}

/// The words for what a span can be to its parent.
pub(super) const KINDS: [(&str, Kind); 5] = [
    ("internal", Kind::Internal),
    ("client", Kind::Client),
    ("server", Kind::Server),
    ("producer", Kind::Producer),
    ("consumer", Kind::Consumer),
];

/// The words for how a span ended.
pub(super) const STATUSES: [&str; 3] = ["error", "ok", "unset"];

/// Names of fields that a filter can ask for.
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

/// The field that was probably meant by an operand that is taken for a tag, as any name is.
pub(super) fn probably_meant(operand: &Operand) -> Option<&'static str> {
    match (operand.kind, operand.path.as_slice()) {
        (OperandKind::Payload, [Step::Name(name)]) if !NAMES.contains(&name.as_str()) => {
            suggest(name, NAMES)
        }
        _ => None,
    }
}

/// The owner, an event or a link, of an attribute, and the key that a tag of the same name has.
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
    /// What an operand of a filter means.
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

/// What a span is to its parent, by its word, in whatever case.
pub(super) fn kind_of(word: &str) -> Option<Kind> {
    KINDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word)).map(|(_, kind)| *kind)
}
