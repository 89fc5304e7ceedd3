//! What a span must be. Start at [`Condition`].

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

/// What a span must be, as a tree whose leaves are about one thing each, so that a store can look at that alone.
#[derive(Clone, Debug, PartialEq)]
pub enum Condition {
    /// All hold. With none of them: any span.
    All(Vec<Condition>),
    /// One holds. With none of them: no span.
    Any(Vec<Condition>),
    /// It does not hold.
    Not(Box<Condition>),
    /// A text that each span has one of. Case does not matter.
    Text(TextField, TextTest),
    /// What it is to its parent.
    Kind(Kind),
    /// It failed.
    Error,
    /// Its sender said that it ended well, which spans that did not fail need not have.
    StatusOk,
    /// It is of this request. Of an id of 64 bits, the lower half of a longer one counts.
    TraceId(TraceId),
    /// It has no parent.
    Root,
    /// It took from so many nanoseconds to so many, both included. Without a duration it does not hold.
    Duration(u64, u64),
    /// It started from then to then, both included. Without a start it does not hold.
    Start(u64, u64),
    /// It has a tag with this key for which this holds.
    Tag(String, TagTest),
    /// It has an annotation whose text is like this.
    Annotation(TextTest),
    /// It has an event whose name is like this.
    Event(TextTest),
    /// It has an event with this attribute, for which this holds.
    EventAttribute(String, TagTest),
    /// It has a link: to this request, if one is named.
    Link(Option<TraceId>),
    /// It has a link with this attribute, for which this holds.
    LinkAttribute(String, TagTest),
    /// One of its texts is like this: service, other end, name, an annotation or a tag's value. Case does not matter.
    AnyText(TextTest),
}

/// A text that each span has one of, which may be empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TextField {
    /// Who recorded it.
    Service,
    /// Who is at the other end.
    RemoteService,
    /// What was done.
    Name,
}

/// What a text must be.
#[derive(Clone, Debug, PartialEq)]
pub enum TextTest {
    /// This.
    Is(String),
    /// Like this.
    Like(Glob),
    /// Not empty.
    Present,
}

/// What a tag's value must be. The last tag of a span with a key counts: its own, if its resource has the key too.
#[derive(Clone, Debug, PartialEq)]
pub enum TagTest {
    /// Whatever it is.
    Present,
    /// Text, or what is printed for a value, which is this or like this.
    Text(TextTest),
    /// A number, or text that is one, from the first to the last, both included.
    Number(Number, Number),
    /// A number, or text that is one, less than this.
    Below(Number),
    /// A number, or text that is one, greater than this.
    Above(Number),
}

/// A number to compare with, whole if the text was.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Number {
    /// Whole.
    Int(i64),
    /// Any.
    Float(f64),
}

impl Condition {
    /// Whether a span is like this.
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
                // One span may have megabytes of them, and a condition thousands of patterns.
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

/// Whether two ids name one request. Of an id of 64 bits, the lower half of a longer one counts.
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
    /// A span's.
    pub fn of<'a>(self, span: &SpanRef<'a>) -> &'a str {
        match self {
            TextField::Service => span.local.service,
            TextField::RemoteService => span.remote.service,
            TextField::Name => span.name,
        }
    }
}

/// Whether the case of ASCII letters matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Case {
    /// It does.
    Counts,
    /// It does not. Patterns must be in lower case.
    Ignored,
}

impl TextTest {
    /// Whether a text is like this. One that is empty is not present, and thus nothing that is asked for.
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
    /// Whether a value is like this.
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

/// A value as text, as it is shown.
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
    /// The number that a value is, or that its text says. The words for numbers that are infinite or none are text.
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
