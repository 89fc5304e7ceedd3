//! Malformed events: reasons, counts, and the first example.

use std::fmt;

/// Reason why an event is malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The stream has no clock.
    NoTime,
    /// A time of the event or its span is before 1970 or out of range.
    TimeOutOfRange,
    /// The field with this name is missing.
    Missing(&'static str),
    /// The field with this name has the wrong type, or is a port that exceeds 32 bits.
    WrongType(&'static str),
    /// The id in the field with this name is 0.
    Zero(&'static str),
    /// The span ends more than a second after its event. The event is recorded at the span's end,
    /// so only clock skew is tolerated.
    EndsLater,
    /// The event has the provider `zipkin`, but an unknown name.
    Unknown,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NoTime => f.write_str("no time"),
            Reason::TimeOutOfRange => f.write_str("a time before 1970 or beyond all bounds"),
            Reason::Missing(field) => write!(f, "no field `{field}`"),
            Reason::WrongType(field) => write!(f, "field `{field}` is not what it has to be"),
            Reason::Zero(field) => write!(f, "`{field}` is 0"),
            Reason::EndsLater => f.write_str("a span that ends after the event of its end"),
            Reason::Unknown => f.write_str("an annotation of an unknown kind"),
        }
    }
}

/// A malformed event, described for the user as an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Reason why the event is malformed.
    pub reason: Reason,
    /// Name of the event.
    pub event: String,
    /// Event time, in nanoseconds since 1970; `None` without a clock.
    pub time_ns: Option<i64>,
    /// Name of the event's stream: the path of the stream's first file.
    pub file: String,
}

/// Statistics of malformed events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Total number of malformed events.
    pub events: u64,
    /// The first malformed event.
    pub first: Option<Example>,
    /// Number of events for each reason, sorted by reason.
    pub reasons: Vec<(Reason, u64)>,
}

impl Refusals {
    pub(crate) fn add(&mut self, reason: Reason, example: impl FnOnce() -> Example) {
        self.events += 1;
        self.first.get_or_insert_with(example);
        // The list stays short: there are at most three reasons for each field, and four others.
        match self.reasons.binary_search_by_key(&reason, |known| known.0) {
            Ok(at) => self.reasons[at].1 += 1,
            Err(at) => self.reasons.insert(at, (reason, 1)),
        }
    }
}

/// Formats the statistics, for example `could not be understood: 3 events (first: REASON, in EVENT,
/// FILE)`.
impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.events == 1 { "" } else { "s" };
        write!(f, "could not be understood: {} event{plural}", self.events)?;
        let Some(first) = &self.first else { return Ok(()) };
        let event = first.event.escape_debug();
        write!(f, " (first: {}, in {event}, {})", first.reason, first.file)
    }
}
