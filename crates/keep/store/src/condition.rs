//! Predicates on spans. Start at [`Condition`]; [`TextTest`] and [`TagTest`] are its tests of texts
//! and tags.

mod field;
mod parse;
#[cfg(test)]
mod tests;

pub use parse::filter_hints;

use crate::is_cancelled;
use crate::otlp::{SpanEvent, SpanLink};
use blkkin_filter::Glob;
use blkkin_model::{Kind, Origin, SpanRef, Status, TraceId, ValueRef};
use std::borrow::Cow;

/// Predicate on a span, as a tree. Most leaves test a single field, so a store can evaluate them on
/// the columns of that field alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// Conjunction. An empty conjunction holds for every span.
    All(Vec<Condition>),
    /// Disjunction. An empty disjunction holds for no span.
    Any(Vec<Condition>),
    /// Negation of a condition.
    Not(Box<Condition>),
    /// True if a text field passes the test, ignoring case.
    Text(TextField, TextTest),
    /// True for spans of the given kind.
    Kind(Kind),
    /// True for failed spans ([`SpanRef::is_error`]). The status is error, or it is unset and the
    /// span has a tag `error` of its own that is not the boolean `false`.
    Error,
    /// True for spans whose sender set the status to success. Most successful spans have no status
    /// and do not match.
    StatusOk,
    /// True for spans of the given request. An id of 64 bits matches the lower half of an id of 128
    /// bits.
    TraceId(TraceId),
    /// True for spans without a parent.
    Root,
    /// True if the duration is in this inclusive range of nanoseconds. False if the span has no
    /// duration.
    Duration(u64, u64),
    /// True if the start is in this inclusive range, in nanoseconds since 1970. False if the span
    /// has no start.
    Start(u64, u64),
    /// True if the last tag with this key passes the test.
    Tag(String, TagTest),
    /// True if the text of any annotation passes the test.
    Annotation(TextTest),
    /// True if the name of any event passes the test.
    Event(TextTest),
    /// True if any event has an attribute with this key and the attribute passes the test.
    EventAttribute(String, TagTest),
    /// True if the span has a link to the given request. With `None`, true if the span has any
    /// link.
    Link(Option<TraceId>),
    /// True if any link has an attribute with this key and the attribute passes the test.
    LinkAttribute(String, TagTest),
    /// True if any of these texts passes the test, ignoring case: service, remote service, name,
    /// annotations, values of tags.
    AnyText(TextTest),
}

/// Text field that every span has. It may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextField {
    /// Service that recorded the span, from the span's local endpoint.
    Service,
    /// Service at the other end of the call, from the span's remote endpoint.
    RemoteService,
    /// Name of the span, which is usually the name of an operation.
    Name,
}

/// Test on a text, such as a span's name or a tag's value.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    /// True if the tested text equals this text.
    Is(String),
    /// True if the whole tested text matches this pattern.
    Like(Glob),
    /// True for every text that is not empty.
    Present,
}

/// Test on the value of a tag, or of an attribute of an event or a link. If several tags have the
/// same key, only the last is tested. A tag of the span therefore overrides a tag of its resource.
#[derive(Clone, Debug, PartialEq)]
pub enum TagTest {
    /// True for every value, including an empty one.
    Present,
    /// True if the value, converted to text, passes the test.
    Text(TextTest),
    /// True if the value is in this inclusive range. The value is a number, or text that parses as
    /// one.
    Number(Number, Number),
    /// True if the value is less than this bound. The value is a number, or text that parses as
    /// one.
    Below(Number),
    /// True if the value is greater than this bound. The value is a number, or text that parses as
    /// one.
    Above(Number),
}

/// Number in a comparison: a tag's value, or the bound with which it is compared. A text is an
/// `Int` if it parses as one, and otherwise a `Float`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    /// Signed integer of 64 bits.
    Int(i64),
    /// Floating-point number of 64 bits.
    Float(f64),
}

impl Condition {
    /// Returns whether the condition holds for a span.
    pub fn holds(&self, span: &SpanRef<'_>) -> bool {
        match self {
            Condition::All(parts) => parts.iter().all(|part| part.holds(span)),
            Condition::Any(parts) => parts.iter().any(|part| part.holds(span)),
            Condition::Not(part) => !part.holds(span),
            Condition::Text(field, test) => test.matches(field.of(span), Case::Insensitive),
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
            Condition::Tag(key, test) => span.tag(key).is_some_and(|value| test.matches(value)),
            Condition::Annotation(test) => span
                .annotations
                .iter()
                // A span may have megabytes of annotations, and a condition thousands of patterns,
                // so the loop polls for cancellation.
                .any(|annotation| {
                    !is_cancelled() && test.matches(annotation.value, Case::Sensitive)
                }),
            Condition::Event(test) => span.annotations.iter().any(|annotation| {
                !is_cancelled()
                    && test.matches(&SpanEvent::of(annotation.value).name, Case::Sensitive)
            }),
            Condition::EventAttribute(key, test) => span.annotations.iter().any(|annotation| {
                !is_cancelled()
                    && SpanEvent::of(annotation.value).has(key, |value| test.matches(value))
            }),
            Condition::Link(id) => {
                links_of(span).any(|link| id.is_none_or(|id| is_same(id, link.trace_id)))
            }
            Condition::LinkAttribute(key, test) => {
                links_of(span).any(|link| link.has(key, |value| test.matches(value)))
            }
            Condition::AnyText(test) => {
                let is_like = |text: &str| !is_cancelled() && test.matches(text, Case::Insensitive);
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
    /// Returns the span's text in this field; empty if the span lacks it.
    pub fn of<'a>(self, span: &SpanRef<'a>) -> &'a str {
        match self {
            TextField::Service => span.local.service,
            TextField::RemoteService => span.remote.service,
            TextField::Name => span.name,
        }
    }
}

/// Case sensitivity of a comparison. It concerns ASCII letters only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// Letters that differ in case are different.
    Sensitive,
    /// Letters that differ only in case are equal. Patterns must be in lower case.
    Insensitive,
}

impl TextTest {
    /// Returns whether a text passes the test. An empty text counts as absent and never passes.
    pub fn matches(&self, text: &str, case: Case) -> bool {
        if text.is_empty() {
            return false;
        }
        match (self, case) {
            (TextTest::Present, _) => true,
            (TextTest::Is(expected), Case::Sensitive) => expected == text,
            (TextTest::Is(expected), Case::Insensitive) => expected.eq_ignore_ascii_case(text),
            (TextTest::Like(glob), Case::Sensitive) => glob.matches(text.as_bytes()),
            (TextTest::Like(glob), Case::Insensitive) => {
                glob.matches(text.to_ascii_lowercase().as_bytes())
            }
        }
    }
}

impl TagTest {
    /// Returns whether a tag's value passes the test.
    pub fn matches(&self, value: ValueRef<'_>) -> bool {
        match self {
            TagTest::Present => true,
            TagTest::Text(test) => test.matches(&text_of(value), Case::Sensitive),
            TagTest::Number(least, greatest) => Number::of(value)
                .is_some_and(|number| least.is_at_most(number) && number.is_at_most(*greatest)),
            TagTest::Below(bound) => Number::of(value)
                .is_some_and(|number| number.is_at_most(*bound) && !bound.is_at_most(number)),
            TagTest::Above(bound) => Number::of(value)
                .is_some_and(|number| bound.is_at_most(number) && !number.is_at_most(*bound)),
        }
    }
}

/// Returns the value of a tag or an attribute as text, for comparison and display. Invalid UTF-8 in
/// bytes is replaced by U+FFFD.
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
    /// Returns the value as a number; text is parsed. `None` if the value is not a number. Text for
    /// infinities and NaN is not a number.
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
