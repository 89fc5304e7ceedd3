//! Events that should say something of a span and make no sense: why, how many, which was first.

use std::fmt;

/// Why an event could not be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// Its stream has no clock.
    NoTime,
    /// It happened before 1970, or at a time that cannot be told.
    TimeOutOfRange,
    /// A field is not there.
    Missing(&'static str),
    /// A field is there, and not what it has to be.
    WrongType(&'static str),
    /// A number that must not be 0 is 0.
    Zero(&'static str),
    /// A span that ends long after the event that tells of its end.
    EndsLater,
    /// An annotation of a kind that is not known.
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

/// An event that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// Why.
    pub reason: Reason,
    /// What it is called.
    pub event: String,
    /// When it happened.
    pub time_ns: Option<i64>,
    /// The file of its stream.
    pub file: String,
}

/// What could not be understood.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// How many events.
    pub events: u64,
    /// The first of them.
    pub first: Option<Example>,
    /// Why, and how many, by reason.
    pub reasons: Vec<(Reason, u64)>,
}

impl Refusals {
    pub(crate) fn add(&mut self, reason: Reason, example: impl FnOnce() -> Example) {
        self.events += 1;
        self.first.get_or_insert_with(example);
        // There are as many reasons as there are fields, so it stays short.
        match self.reasons.binary_search_by_key(&reason, |known| known.0) {
            Ok(at) => self.reasons[at].1 += 1,
            Err(at) => self.reasons.insert(at, (reason, 1)),
        }
    }
}

/// `could not be understood: 3 events (first: REASON, in EVENT, FILE)`
impl fmt::Display for Refusals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = if self.events == 1 { "" } else { "s" };
        write!(f, "could not be understood: {} event{plural}", self.events)?;
        let Some(first) = &self.first else { return Ok(()) };
        let event = first.event.escape_debug();
        write!(f, " (first: {}, in {event}, {})", first.reason, first.file)
    }
}
