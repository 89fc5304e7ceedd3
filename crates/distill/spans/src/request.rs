//! A request as it is given out: its spans as a tree, and what is odd about it.

use blkkin_model::{SpanId, SpanRef, TraceId};

/// A request. All that it says is borrowed from the assembler.
#[derive(Debug)]
pub struct Request<'a> {
    /// Its number.
    pub id: TraceId,
    /// Its spans, each behind the one that caused it. Those with one cause are in order of time.
    pub steps: Vec<Step<'a>>,
    /// Why it was given out.
    pub completion: Completion,
    /// How often what is odd.
    pub oddities: Oddities,
    /// Events that it was made of.
    pub events: u64,
    /// Events that were left out, because it was too large.
    pub events_left_out: u64,
}

/// A span of a request.
#[derive(Clone, Debug)]
pub struct Step<'a> {
    /// What it is.
    pub span: SpanRef<'a>,
    /// Index of the step that caused it.
    pub parent: Option<usize>,
    /// How many steps are between it and the top.
    pub depth: usize,
    /// The time of it in which no step that it caused was going on, in nanoseconds.
    pub self_ns: Option<u64>,
    /// By how much it was moved to put its clock right.
    pub moved_ns: Option<i64>,
    /// What is odd about it: a bit for each [`Oddity`].
    odd: u32,
}

/// Why a request is given out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Nothing has come for the idle time.
    Idle,
    /// There is nothing more to come.
    Ended,
    /// Others needed its room. It may not be complete.
    Evicted,
}

/// The key of a tag of spans whose end is not told: [`LOST`], if it may be lost.
pub const END: &str = "blkkin.end";

/// The same for spans whose start is not told.
pub const START: &str = "blkkin.start";

/// What those tags say.
pub const LOST: &str = "lost";

macro_rules! oddities {
    ($($(#[$doc:meta])* $name:ident $word:literal;)*) => {
        /// What can be odd.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Oddity {
            $($(#[$doc])* $name,)*
        }

        impl Oddity {
            /// All that there are.
            pub const ALL: [Oddity; [$($word),*].len()] = [$(Oddity::$name),*];

            /// The word for it, in JSON.
            pub const fn word(self) -> &'static str {
                match self {
                    $(Oddity::$name => $word,)*
                }
            }
        }
    };
}

oddities! {
    /// A span whose parent is not there.
    MissingParent "missing_parent";
    /// A span without a parent, beside another one.
    OtherRoot "other_root";
    /// A span that is its own ancestor: here the circle was cut.
    Cycle "cycle";
    /// A span of which several parents are told. The one that was told first counts.
    OtherParent "other_parent";
    /// A span with a number that another one of the same service has.
    SameId "same_id";
    /// A span of which one end is not told, while nothing was lost.
    Unfinished "unfinished";
    /// A span that began, and of whose trace something was lost since: its end may be lost.
    EndLost "end_lost";
    /// A span that ended, and of whose trace something was lost before: its start may be lost.
    StartLost "start_lost";
    /// A span that is told to have started or ended more than once: it goes from the first start to
    /// the last end.
    Repeated "repeated";
    /// A span that ends before it starts, and so has no duration.
    Backwards "backwards";
    /// A span that starts before the one that caused it.
    BeforeParent "before_parent";
    /// A span that was moved, to put its clock right.
    Moved "moved";
    /// An event that is there twice. Counted once for each that was left out.
    Duplicate "duplicate";
    /// A span of more services than are told apart.
    ManyServices "many_services";
    /// Several requests have this lower half of a trace id, and it is not told which one the
    /// span is of.
    Ambiguous "ambiguous";
    /// The request goes on with one that has been given out before.
    Late "late";
}

/// How often what is odd.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Oddities([u64; Oddity::ALL.len()]);

impl Oddities {
    /// How often something is so.
    pub fn count(&self, oddity: Oddity) -> u64 {
        self.0[oddity as usize]
    }

    /// What there is.
    pub fn iter(&self) -> impl Iterator<Item = (Oddity, u64)> {
        Oddity::ALL.into_iter().map(|oddity| (oddity, self.count(oddity))).filter(|odd| odd.1 > 0)
    }

    pub(crate) fn add(&mut self, oddity: Oddity, count: u64) {
        self.0[oddity as usize] += count;
    }
}

impl<'a> Step<'a> {
    pub(crate) fn new(span: SpanRef<'a>, odd: u32) -> Step<'a> {
        Step { span, parent: None, depth: 0, self_ns: None, moved_ns: None, odd }
    }

    /// Whether something is odd about it.
    pub fn is(&self, oddity: Oddity) -> bool {
        self.odd & bit(oddity) != 0
    }

    /// What is odd about it.
    pub fn oddities(&self) -> impl Iterator<Item = Oddity> {
        let odd = self.odd;
        Oddity::ALL.into_iter().filter(move |oddity| odd & bit(*oddity) != 0)
    }

    pub(crate) fn mark(&mut self, oddity: Oddity) {
        self.odd |= bit(oddity);
    }

    /// When it ended.
    pub fn end_ns(&self) -> Option<u64> {
        Some(self.span.start_ns?.saturating_add(self.span.duration_ns?))
    }

    /// The parent that is told of and not there.
    pub fn missing_parent(&self) -> Option<SpanId> {
        self.span.parent_id.filter(|_| self.is(Oddity::MissingParent))
    }
}

pub(crate) const fn bit(oddity: Oddity) -> u32 {
    1 << oddity as u32
}

impl Request<'_> {
    /// From when to when it goes, with all that happened in it.
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

    /// How long it took, from the first moment to the last.
    pub fn duration_ns(&self) -> u64 {
        self.extent_ns().map_or(0, |(start, end)| end - start)
    }

    /// Spans that failed.
    pub fn errors(&self) -> usize {
        self.steps.iter().filter(|step| step.span.is_error()).count()
    }

    /// Whether a service of that name took part.
    pub fn has_service(&self, name: &str) -> bool {
        self.steps.iter().any(|step| step.span.local.service == name)
    }
}
