//! An assembled request: its spans as a tree, and its anomalies.

use crate::calls::Call;
use crate::clocks::{self, Agreement, SpanClock};
use crate::own_time::OwnTime;
use blkkin_model::{SpanId, SpanRef, TraceId};

/// A request, borrowed from the assembler.
#[derive(Debug)]
pub struct Request<'a> {
    /// Trace id that all spans of the request share.
    pub id: TraceId,
    /// Spans in preorder; siblings are sorted by start.
    pub steps: Vec<Step<'a>>,
    /// Reason why the request was emitted.
    pub completion: Completion,
    /// Number of occurrences of each anomaly.
    pub oddities: Oddities,
    /// Number of events in the request.
    pub events: u64,
    /// Number of events dropped because of a limit, including those of other requests with the same
    /// lower half of the trace id.
    pub events_left_out: u64,
}

/// A span of a request, with its position in the tree.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// Fields of the span, with annotations and tags.
    pub span: SpanRef<'a>,
    /// Index of the parent in [`Request::steps`]; `None` for a root.
    pub parent: Option<usize>,
    /// Number of ancestors in the tree; 0 for a root.
    pub depth: usize,
    /// Time of the span in which no child of known duration was running, in nanoseconds; `None` if
    /// the span's duration is unknown.
    pub self_ns: Option<u64>,
    /// Division of the self time by kind; `None` if no event reports it, or if the span has no
    /// start or no duration.
    pub own: Option<Box<OwnTime<'a>>>,
    /// System calls that threads made for the span, in the order of their starts.
    pub calls: Vec<Call<'a>>,
    /// Time by which the skew correction shifted the span, in nanoseconds; `None` if not shifted.
    pub moved_ns: Option<i64>,
    /// Correction by which the span's times were made; `None` for recorded times.
    pub clock: Option<SpanClock>,
    /// Bitmap of the span's anomalies: a bit for each [`Oddity`].
    odd: u32,
}

/// Reason for the emission of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// No event arrived for the idle time.
    Idle,
    /// The input ended.
    Ended,
    /// The open requests exceeded the limit on memory or spans. The request may be incomplete.
    Evicted,
}

/// Key of the tag that marks a span whose end may be lost; the value is [`LOST`].
pub const END: &str = "blkkin.end";

/// Key of the tag that marks a span whose start may be lost; the value is [`LOST`].
pub const START: &str = "blkkin.start";

/// Value of the tags [`END`] and [`START`].
pub const LOST: &str = "lost";

macro_rules! oddities {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {
        /// An anomaly of a span or request.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Oddity {
            $($(#[$doc])* $name,)*
        }

        impl Oddity {
            /// All anomalies, in the order of their bits.
            pub const ALL: [Oddity; [$($word),*].len()] = [$(Oddity::$name),*];

            /// Returns the name of the anomaly in JSON.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Oddity::$name => $word,)*
                }
            }
        }
    };
}

oddities! {
    /// The parent span is missing.
    MissingParent "missing_parent";
    /// The span is a further root of the request, with another id than the first root.
    OtherRoot "other_root";
    /// The span was its own ancestor; its parent link was cut.
    Cycle "cycle";
    /// Events with this span id report different parents. The span keeps the first parent that its
    /// own service reported.
    OtherParent "other_parent";
    /// Another complete span with the same id, service and kind was reported earlier.
    SameId "same_id";
    /// The start or end of a client or server span is missing, and the trace lost no event that
    /// could have reported it.
    Unfinished "unfinished";
    /// The end is missing, and the trace lost events after the start.
    EndLost "end_lost";
    /// The start is missing, and the trace lost events before the last event of the span.
    StartLost "start_lost";
    /// A core annotation (`cs`, `sr`, …) was reported more than once. The first start and the last
    /// end count, unless a complete span was reported.
    Repeated "repeated";
    /// The end is before the start; the duration is unknown.
    Backwards "backwards";
    /// The span starts before its parent.
    BeforeParent "before_parent";
    /// The span was shifted by the skew correction.
    Moved "moved";
    /// An event occurred more than once. Each dropped copy counts.
    Duplicate "duplicate";
    /// More than 64 spans share this id. Reports on further spans are merged into the first span; a
    /// complete span is dropped if the first span is already complete.
    ManyServices "many_services";
    /// Several requests share this lower half of the trace id, and no event determines which one
    /// the span belongs to.
    Ambiguous "ambiguous";
    /// A request with the same lower half of the trace id was emitted recently: this half is among
    /// the last 65,536.
    Late "late";
}

/// Number of occurrences of each [`Oddity`] in one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities([u64; Oddity::ALL.len()]);

impl Oddities {
    /// Returns the number of occurrences of an anomaly.
    pub fn count(&self, oddity: Oddity) -> u64 {
        self.0[oddity as usize]
    }

    /// Returns the anomalies that occurred, with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, u64)> {
        Oddity::ALL.into_iter().map(|oddity| (oddity, self.count(oddity))).filter(|odd| odd.1 > 0)
    }

    pub(crate) fn add(&mut self, oddity: Oddity, count: u64) {
        self.0[oddity as usize] += count;
    }
}

impl<'a> Step<'a> {
    pub(crate) fn new(span: SpanRef<'a>, odd: u32) -> Step<'a> {
        Step {
            span,
            parent: None,
            depth: 0,
            self_ns: None,
            own: None,
            calls: Vec::new(),
            moved_ns: None,
            clock: None,
            odd,
        }
    }

    /// Returns true if the span has this anomaly.
    pub fn has_oddity(&self, oddity: Oddity) -> bool {
        self.odd & bit(oddity) != 0
    }

    /// Returns the anomalies of the span.
    pub fn oddities(&self) -> impl Iterator<Item = Oddity> {
        let odd = self.odd;
        Oddity::ALL.into_iter().filter(move |oddity| odd & bit(*oddity) != 0)
    }

    pub(crate) fn mark(&mut self, oddity: Oddity) {
        self.odd |= bit(oddity);
    }

    /// Returns the end of the span, in nanoseconds since 1970; `None` if start or duration is
    /// unknown.
    pub fn end_ns(&self) -> Option<u64> {
        Some(self.span.start_ns?.saturating_add(self.span.duration_ns?))
    }

    /// Returns the id of the parent if the parent span is missing, else `None`.
    pub fn missing_parent(&self) -> Option<SpanId> {
        self.span.parent_id.filter(|_| self.has_oddity(Oddity::MissingParent))
    }
}

pub(crate) const fn bit(oddity: Oddity) -> u32 {
    1 << oddity as u32
}

impl Request<'_> {
    /// Returns the first and last moment of the request, including annotations, in nanoseconds
    /// since 1970; `None` if no span has a start or an annotation.
    pub fn extent_ns(&self) -> Option<(u64, u64)> {
        let mut extent: Option<(u64, u64)> = None;
        for step in &self.steps {
            let annotations = step.span.annotations;
            let inner = annotations.first().zip(annotations.last());
            let (first, last) = match (step.span.start_ns, inner) {
                (Some(start), None) => (start, start),
                (Some(start), Some((first, last))) => {
                    (start.min(first.time_ns), start.max(last.time_ns))
                }
                (None, Some((first, last))) => (first.time_ns, last.time_ns),
                (None, None) => continue,
            };
            let last = last.max(step.end_ns().unwrap_or(last));
            let (start, end) = extent.unwrap_or((first, last));
            extent = Some((start.min(first), end.max(last)));
        }
        extent
    }

    /// Returns the time from the first moment to the last, in nanoseconds; 0 if no moment is known.
    pub fn duration_ns(&self) -> u64 {
        self.extent_ns().map_or(0, |(start, end)| end - start)
    }

    /// Returns the number of spans that are marked as failed.
    pub fn errors(&self) -> usize {
        self.steps.iter().filter(|step| step.span.is_error()).count()
    }

    /// Returns how well the times of the spans can be compared.
    pub fn agreement(&self) -> Agreement {
        let dated = self.steps.iter().filter(|step| step.span.start_ns.is_some());
        clocks::agreement(dated.map(|step| step.clock))
    }

    /// Returns true if a span was recorded by the service `name`.
    pub fn has_service(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.span.local.service == name)
    }
}
