//! Predicates on spans: [`Condition`] and its tests of texts and tags.

mod field;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::doubts;

use crate::is_cancelled;
use crate::otlp::{SpanEvent, SpanLink};
use blkkin_filter::Glob;
use blkkin_model::{Kind, Origin, SpanRef, Status, TraceId, ValueRef};
use std::borrow::Cow;

/// Predicate on a span, as a tree. Each leaf tests a single field, so that a store can evaluate it
/// on the column of that field alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Conjunction. An empty conjunction holds for every span.
    All(Vec<Condition>),
    /// Disjunction. An empty disjunction holds for no span.
    Any(Vec<Condition>),
    /// Negation.
    Not(Box<Condition>),
    /// Test on a text field, ignoring case.
    Text(TextField, TextTest),
    /// The span has this kind.
    Kind(Kind),
    /// The span failed.
    Error,
    /// The sender marked the span as successful. Spans that did not fail need not be marked.
    StatusOk,
    /// The span belongs to this request. An id of 64 bits matches the lower half of an id of 128
    /// bits.
    TraceId(TraceId),
    /// The span has no parent.
    Root,
    /// The duration is in this inclusive range of nanoseconds. Does not hold without a duration.
    Duration(u64, u64),
    /// The start is in this inclusive range. Does not hold without a start.
    Start(u64, u64),
    /// A tag with this key passes the test.
    Tag(String, TagTest),
    /// The text of an annotation passes the test.
    Annotation(TextTest),
    /// The name of an event passes the test.
    Event(TextTest),
    /// An attribute of an event with this key passes the test.
    EventAttribute(String, TagTest),
    /// The span has a link; if a trace id is given, a link to that request.
    Link(Option<TraceId>),
    /// An attribute of a link with this key passes the test.
    LinkAttribute(String, TagTest),
    /// A text of the span passes the test, ignoring case: service, remote service, name, an
    /// annotation, or a tag's value.
    AnyText(TextTest),
}

/// Text field that every span has. It may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextField {
    /// Service that recorded the span.
    Service,
    /// Service at the other end of the call.
    RemoteService,
    /// Name of the operation.
    Name,
}

/// Test on a text.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    /// Equal to this text.
    Is(String),
    /// Matches this pattern.
    Like(Glob),
    /// Not empty.
    Present,
}

/// Test on a tag's value. Of several tags with one key, the last counts: the span's tag rather than
/// its resource's.
#[derive(Clone, Debug, PartialEq)]
pub enum TagTest {
    /// Any value.
    Present,
    /// The value as text, as it would be printed, passes the test.
    Text(TextTest),
    /// A number, or text that parses as a number, in an inclusive range.
    Number(Number, Number),
    /// A number, or text that parses as a number, less than the bound.
    Below(Number),
    /// A number, or text that parses as a number, greater than the bound.
    Above(Number),
}

/// Number to compare with. A number without a fraction or exponent is an integer.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    /// Integer.
    Int(i64),
    /// Floating-point number.
    Float(f64),
}

impl Condition {
    /// Returns whether the condition holds for a span.
    pub fn holds(&self, span: &SpanRef<'_>) -> bool {
        match self {
            Condition::All(parts) => parts.iter().all(|part| part.holds(span)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(span)),
            Condition::Not(part) => !part.holds(span),
            Condition::Text(field, test) => test.holds_of(field.of(span), Case::Ignored),
            Condition::Kind(kind) => span.kind == *kind,
            Condition::Error => span.is_error(),
            Condition::StatusOk => span.status == Status::Ok,
            Condition::TraceId(id) => is_same(*id, span.trace_id),
            Condition::Root => span.parent_id.is_none(),
            Condition::Duration(least, greatest) => {
                span.duration_ns.is_some_and(|duration| (*least..=*greatest).contains(&duration))
            }
            Condition::Start(first, last) => {
                span.start_ns.is_some_and(|start| (*first..=*last).contains(&start))
            }
            Condition::Tag(key, test) => span.tag(key).is_some_and(|value| test.holds_of(value)),
            Condition::Annotation(test) => span
                .annotations
                .iter()
                // A span may have megabytes of annotations, and a condition thousands of patterns,
                // so the loop polls for cancellation.
                .any(|annotation| !is_cancelled() && test.holds_of(annotation.value, Case::Counts)),
            Condition::Event(test) => span.annotations.iter().any(|annotation| {
                !is_cancelled()
                    && test.holds_of(&SpanEvent::of(annotation.value).name, Case::Counts)
            }),
            Condition::EventAttribute(key, test) => span.annotations.iter().any(|annotation| {
                !is_cancelled()
                    && SpanEvent::of(annotation.value).has(key, |value| test.holds_of(value))
            }),
            Condition::Link(id) => {
                links_of(span).any(|link| id.is_none_or(|id| is_same(id, link.trace_id)))
            }
            Condition::LinkAttribute(key, test) => {
                links_of(span).any(|link| link.has(key, |value| test.holds_of(value)))
            }
            Condition::AnyText(test) => {
                let is_like = |text: &str| !is_cancelled() && test.holds_of(text, Case::Ignored);
                [span.local.service, span.remote.service, span.name].into_iter().any(is_like)
                    || span.annotations.iter().any(|it| is_like(it.value))
                    || span.tags.iter().any(|it| is_like(&text_of(it.value)))
            }
        }
    }
}

/// Returns whether two ids name the same request. An id of 64 bits matches the lower half of an id
/// of 128 bits.
fn is_same(one: TraceId, other: TraceId) -> bool {
    let is_short = !one.is_wide() || !other.is_wide();
    one == other || is_short && one.low() == other.low()
}

fn links_of<'s>(span: &'s SpanRef<'_>) -> impl Iterator<Item = SpanLink<'s>> {
    let own = span.tags.iter().filter(|tag| tag.origin == Origin::Span);
    own.take_while(|_| !is_cancelled()).filter_map(|tag| match tag.value {
        ValueRef::Str(text) => SpanLink::of(tag.key, text),
        _ => None,
    })
}

impl TextField {
    /// Returns the field's text in a span.
    pub fn of<'a>(self, span: &SpanRef<'a>) -> &'a str {
        match self {
            TextField::Service => span.local.service,
            TextField::RemoteService => span.remote.service,
            TextField::Name => span.name,
        }
    }
}

/// Case sensitivity of a comparison, for ASCII letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Case is significant.
    Counts,
    /// Case is ignored. Patterns must be in lower case.
    Ignored,
}

impl TextTest {
    /// Returns whether a text passes the test. An empty text counts as absent and never passes.
    pub fn holds_of(&self, text: &str, case: Case) -> bool {
        if text.is_empty() {
            return false;
        }
        match (self, case) {
            (TextTest::Present, _) => true,
            (TextTest::Is(expected), Case::Counts) => expected == text,
            (TextTest::Is(expected), Case::Ignored) => expected.eq_ignore_ascii_case(text),
            (TextTest::Like(glob), Case::Counts) => glob.matches(text.as_bytes()),
            (TextTest::Like(glob), Case::Ignored) => {
                glob.matches(text.to_ascii_lowercase().as_bytes())
            }
        }
    }
}

impl TagTest {
    /// Returns whether a tag's value passes the test.
    pub fn holds_of(&self, value: ValueRef<'_>) -> bool {
        match self {
            TagTest::Present => true,
            TagTest::Text(test) => test.holds_of(&text_of(value), Case::Counts),
            TagTest::Number(least, greatest) => Number::of(value)
                .is_some_and(|number| least.is_at_most(number) && number.is_at_most(*greatest)),
            TagTest::Below(bound) => Number::of(value)
                .is_some_and(|number| number.is_at_most(*bound) && !bound.is_at_most(number)),
            TagTest::Above(bound) => Number::of(value)
                .is_some_and(|number| bound.is_at_most(number) && !number.is_at_most(*bound)),
        }
    }
}

/// Returns a tag's value as text for display.
pub fn text_of(value: ValueRef<'_>) -> Cow<'_, str> {
    match value {
        ValueRef::Str(text) => Cow::Borrowed(text),
        ValueRef::Int(number) => Cow::Owned(number.to_string()),
        ValueRef::Bool(flag) => Cow::Borrowed(if flag { "true" } else { "false" }),
        ValueRef::Double(number) => Cow::Owned(number.to_string()),
        ValueRef::Bytes(bytes) => String::from_utf8_lossy(bytes),
    }
}

impl Number {
    /// Returns the number that a value is, or that its text parses as. Text for infinities and NaN
    /// is not a number.
    pub fn of(value: ValueRef<'_>) -> Option<Number> {
        match value {
            ValueRef::Int(number) => Some(Number::Int(number)),
            ValueRef::Double(number) => (!number.is_nan()).then_some(Number::Float(number)),
            ValueRef::Str(text) => match text.parse() {
                Ok(whole) => Some(Number::Int(whole)),
                Err(_) => {
                    let number = text.parse().ok();
                    number.filter(|number: &f64| number.is_finite()).map(Number::Float)
                }
            },
            ValueRef::Bool(_) | ValueRef::Bytes(_) => None,
        }
    }

    fn is_at_most(self, other: Number) -> bool {
        match (self, other) {
            (Number::Int(one), Number::Int(other)) => one <= other,
            (one, other) => one.as_float() <= other.as_float(),
        }
    }

    fn as_float(self) -> f64 {
        match self {
            Number::Int(number) => number as f64,
            Number::Float(number) => number,
        }
    }
}
