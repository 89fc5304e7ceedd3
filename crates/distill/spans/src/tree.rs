//! Construction of a [`Request`] from the stored reports: its spans in preorder, with their tags
//! and annotations. Anomalies are kept and marked.

use crate::clocks::{self, Corrections, SpanClock};
use crate::interner::Symbol;
use crate::join::{Address, Draft, Scratch};
use crate::losses::Losses;
use crate::open_request::{Body, StoredActivity};
use crate::own_time;
use crate::parents::{self, Children};
use crate::request::{Completion, END, LOST, Oddities, Oddity, Request, START, Step, bit};
use crate::resolver::Resolver;
use crate::skew;
use blkkin_model::{
    AnnotationRef, CLOCK_KEY, EndpointRef, Origin, SpanId, SpanRef, Status, TagRef, TraceId,
    ValueRef,
};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::{ControlFlow, Range};

type Emit<'t> = &'t mut dyn FnMut(&Request<'_>) -> ControlFlow<()>;

/// Builder of a request, or of several if different trace ids share their lower half.
pub(crate) struct RequestBuilder<'p> {
    /// Open request with its reports and their strings.
    pub(crate) resolver: Resolver<'p>,
    /// Losses of events in the traces, which may explain a missing start or end of a span.
    pub(crate) losses: &'p Losses,
    /// Corrections by which the times of traces were made.
    pub(crate) corrections: &'p Corrections,
    /// Reason for which the request is emitted.
    pub(crate) completion: Completion,
    /// Set if clock skew between hosts is corrected.
    pub(crate) correct_skew: bool,
}

impl RequestBuilder<'_> {
    /// Builds the requests and passes them to `emit`.
    pub(crate) fn build(&self, scratch: &mut Scratch, emit: Emit<'_>) -> ControlFlow<()> {
        let request = self.resolver.request;
        let reports = 0..request.reports.len() as u32;
        let reporters = request.reporters.iter().map(|reporter| reporter.high);
        let mut highs: Vec<u64> = Vec::new();
        for high in request.wide.iter().copied().chain(reporters).filter(|high| *high != 0) {
            if highs.last() != Some(&high) {
                highs.push(high);
            }
        }
        if highs.is_empty() && request.earlier_high != 0 {
            highs.push(request.earlier_high);
        }
        highs.sort_unstable();
        highs.dedup();
        let mut build = |high: u64,
                         order: &mut dyn Iterator<Item = u32>,
                         activities: &mut dyn Iterator<Item = StoredActivity>,
                         ambiguous| {
            scratch.order.clear();
            scratch.order.extend(order);
            let Some(id) = TraceId::from_number(u128::from(high) << 64 | u128::from(request.low))
            else {
                return ControlFlow::Continue(());
            };
            if scratch.order.is_empty() && request.left_out == 0 {
                return ControlFlow::Continue(());
            }
            let events = scratch.order.len() as u64;
            scratch.join(self.resolver);
            scratch.drafts.iter_mut().for_each(|draft| draft.mark_lost(self.losses));
            let events = events + scratch.match_activities(activities, self.resolver);
            let builder = TreeBuilder {
                resolver: self.resolver,
                completion: self.completion,
                correct_skew: self.correct_skew,
                losses: self.losses,
                corrections: self.corrections,
                scratch,
                ambiguous,
            };
            builder.request(id, events, emit)
        };
        if highs.len() < 2 {
            let high = highs.first().copied().unwrap_or(0);
            let is_of = |activity: &StoredActivity| {
                activity.high == 0 || high == 0 || activity.high == high
            };
            let mut activities = request.activities.iter().copied().filter(is_of);
            return build(high, &mut reports.clone(), &mut activities, &HashSet::new());
        }
        // Upper half of the trace id of each span with at least one event that contains it.
        let mut known: HashMap<u64, u64> = HashMap::new();
        for reporter in request.reporters.iter().filter(|reporter| reporter.high != 0) {
            let high = known.entry(reporter.span).or_insert(reporter.high);
            *high = reporter.high.min(*high);
        }
        let unknown = request.reporters.iter().filter(|reporter| reporter.high == 0);
        let unknown =
            unknown.map(|reporter| reporter.span).filter(|span| !known.contains_key(span));
        let ambiguous: HashSet<u64> = unknown.collect();
        for high in &highs {
            let is_of = |report: &u32| {
                let reporter = request.reporter_of(&request.reports[*report as usize]);
                let own = (reporter.high != 0).then_some(reporter.high);
                own.or_else(|| known.get(&reporter.span).copied()).unwrap_or(highs[0]) == *high
            };
            let of_activity = |activity: &StoredActivity| {
                let own = (activity.high != 0).then_some(activity.high);
                own.or_else(|| known.get(&activity.span).copied()).unwrap_or(highs[0]) == *high
            };
            let mut activities = request.activities.iter().copied().filter(of_activity);
            build(*high, &mut reports.clone().filter(is_of), &mut activities, &ambiguous)?;
        }
        ControlFlow::Continue(())
    }
}

struct TreeBuilder<'b> {
    resolver: Resolver<'b>,
    completion: Completion,
    correct_skew: bool,
    losses: &'b Losses,
    corrections: &'b Corrections,
    scratch: &'b Scratch,
    /// Span ids that may belong to another request with the same lower half of the trace id.
    ambiguous: &'b HashSet<u64>,
}

impl<'b> TreeBuilder<'b> {
    fn request(&self, id: TraceId, events: u64, emit: Emit<'_>) -> ControlFlow<()> {
        let drafts = &self.scratch.drafts[..];
        let mut odd: Vec<u32> = drafts.iter().map(|draft| draft.odd).collect();
        let parents = parents::resolve(drafts, self.resolver, &mut odd);
        let mut shifts = Vec::new();
        let mut children = Children::new(&parents, |at| order_of(&drafts[at], 0));
        if self.correct_skew {
            let order = children.preorder().into_iter().map(|(at, _)| at);
            shifts = skew::corrections(drafts, &parents, order, self.resolver);
            children = Children::new(&parents, |at| order_of(&drafts[at], shifts[at]));
        }
        let shift = |at: usize| shifts.get(at).copied().unwrap_or(0);

        // Build everything that spans borrow first.
        let pieces = self.report_ranges();
        let clock = |draft: &Draft| self.corrections.of(draft.source, draft.start?);
        let clocks: Vec<Option<SpanClock>> = drafts.iter().map(clock).collect();
        // Servers may have the spans of each machine from another sender, so those say it whose
        // parent is of another machine or missing.
        let clock_tag = |at: usize| {
            drafts[at].start?;
            let of_parent = parents[at].and_then(|parent| clocks[parent]);
            match (clocks[at], of_parent) {
                (None, None) => None,
                (Some(own), Some(other)) if own.node == other.node => None,
                (clock, _) => Some(clocks::tag_value(clock)),
            }
        };
        let clock_tags: Vec<Option<String>> = (0..drafts.len()).map(clock_tag).collect();
        let (tags, replaced) = self.tags(&pieces, &clock_tags);
        let annotations = self.annotations(&pieces, &replaced, &shift);

        let order = children.preorder();
        let mut places = vec![0; drafts.len()];
        for (place, (at, _)) in order.iter().enumerate() {
            places[*at] = place;
        }
        let mut steps: Vec<Step<'_>> = Vec::with_capacity(order.len());
        let mut root = None;
        for (at, depth) in &order {
            let draft = &drafts[*at];
            let span = SpanRef {
                parent_id: SpanId::from_number(draft.parent).filter(|_| draft.parent != draft.id),
                kind: draft.kind,
                status: Status::Unset,
                debug: draft.debug,
                shared: draft.shared,
                name: self.resolver.get(draft.name),
                start_ns: draft.start.map(|start| start.saturating_add_signed(shift(*at))),
                duration_ns: draft.duration,
                local: endpoint(self.resolver.get(draft.service), draft.address),
                remote: match &draft.remote {
                    Some(reporter) => {
                        let address = Address::of(reporter, self.resolver);
                        endpoint(self.resolver.get(reporter.service), address)
                    }
                    None => EndpointRef::NONE,
                },
                annotations: annotations.of(*at),
                tags: tags.of(*at),
                // Reports with span id 0 are dropped by the assembler.
                ..SpanRef::new(id, SpanId::from_number(draft.id).unwrap_or(NO_SPAN))
            };
            let mut step = Step::new(span, odd[*at]);
            (step.parent, step.depth) = (parents[*at].map(|parent| places[parent]), *depth);
            if shift(*at) != 0 {
                step.moved_ns = Some(shift(*at));
                step.mark(Oddity::Moved);
            }
            step.clock = clocks[*at];
            if let Some(parent) = step.parent
                && is_before(&step, &steps[parent])
            {
                step.mark(Oddity::BeforeParent);
            }
            if step.parent.is_none()
                && draft.parent == 0
                && *root.get_or_insert(draft.id) != draft.id
            {
                step.mark(Oddity::OtherRoot);
            }
            if self.ambiguous.contains(&draft.id) {
                step.mark(Oddity::Ambiguous);
            }
            steps.push(step);
        }
        set_self_times(&mut steps);
        if !self.scratch.activities.is_empty() {
            let drafts: Vec<&Draft> = order.iter().map(|(at, _)| &drafts[*at]).collect();
            let activities = &self.scratch.activities[..];
            own_time::set_activities(&mut steps, &drafts, activities, self.resolver, self.losses);
        }
        let mut oddities = Oddities::default();
        for odd in steps.iter().flat_map(Step::oddities) {
            oddities.add(odd, 1);
        }
        oddities.add(Oddity::Duplicate, self.scratch.duplicates);
        oddities.add(Oddity::Late, self.resolver.request.is_late.into());
        let request = self.resolver.request;
        let events_left_out =
            request.left_out + request.activities_left_out + self.scratch.left_out;
        let completion = self.completion;
        emit(&Request { id, steps, completion, oddities, events, events_left_out })
    }

    /// Returns the range of each draft in `Scratch::assigned`.
    fn report_ranges(&self) -> Vec<Range<usize>> {
        let assigned = &self.scratch.assigned;
        let mut from = 0;
        (0..self.scratch.drafts.len())
            .map(|at| {
                let size =
                    assigned[from..].iter().take_while(|(draft, _)| *draft as usize == at).count();
                from += size;
                from - size..from
            })
            .collect()
    }

    /// Returns the tags of all drafts, and the tag values that were replaced by a later value of
    /// the same key and origin.
    fn tags<'r>(
        &self,
        pieces: &[Range<usize>],
        clock_tags: &'r [Option<String>],
    ) -> (DraftLists<TagRef<'r>>, Vec<ReplacedValue>)
    where
        'b: 'r,
    {
        let Resolver { request, interner } = self.resolver;
        let mut tags: Vec<TagRef<'r>> = Vec::new();
        let mut ranges = Vec::with_capacity(pieces.len());
        let mut replaced = Vec::new();
        let mut values: Vec<(TagRef<'r>, u64)> = Vec::new();
        for (at, (piece, draft)) in pieces.iter().zip(&self.scratch.drafts).enumerate() {
            values.clear();
            for (_, number) in &self.scratch.assigned[piece.clone()] {
                let report = &request.reports[*number as usize];
                let Body::Tag(key, value) = report.body else { continue };
                let value = request.value_of(interner, value);
                if key == Symbol::LOCAL_COMPONENT && value == ValueRef::Str("") {
                    continue;
                }
                values.push((
                    TagRef { key: self.resolver.get(key), value, origin: Origin::Span },
                    report.time,
                ));
            }
            let mut add = |key, value, origin| values.push((TagRef { key, value, origin }, 0));
            if !draft.target.is_none() {
                add("target", ValueRef::Str(self.resolver.get(draft.target)), Origin::Scope);
            }
            if let Some(ip) = draft.address.invalid {
                add("ip", ValueRef::Str(self.resolver.get(ip)), Origin::Resource);
            }
            if u16::try_from(draft.address.port).is_err() {
                add("port", ValueRef::Int(draft.address.port.into()), Origin::Resource);
            }
            for (oddity, key) in [(Oddity::EndLost, END), (Oddity::StartLost, START)] {
                if draft.odd & bit(oddity) != 0 {
                    add(key, ValueRef::Str(LOST), Origin::Span);
                }
            }
            if let Some(Some(clock)) = clock_tags.get(at) {
                add(CLOCK_KEY, ValueRef::Str(clock), Origin::Span);
            }
            // The sort is stable, so the latest value of a key comes last.
            values.sort_by(|(a, _), (b, _)| (a.key, a.origin).cmp(&(b.key, b.origin)));
            let from = tags.len();
            for (index, (tag, time)) in values.iter().enumerate() {
                match values.get(index + 1) {
                    Some((next, _)) if (next.key, next.origin) == (tag.key, tag.origin) => {
                        let text = format!("{}={}", tag.key, ValueText(tag.value));
                        replaced.push(ReplacedValue { draft: at, time: *time, text });
                    }
                    _ => tags.push(*tag),
                }
            }
            ranges.push(from..tags.len());
        }
        (DraftLists { all: tags, ranges }, replaced)
    }

    /// Returns the annotations of all drafts. Each replaced tag value becomes an annotation, too.
    fn annotations<'r>(
        &self,
        pieces: &[Range<usize>],
        replaced: &'r [ReplacedValue],
        shift: &impl Fn(usize) -> i64,
    ) -> DraftLists<AnnotationRef<'r>>
    where
        'b: 'r,
    {
        let reports = &self.resolver.request.reports;
        let mut annotations: Vec<AnnotationRef<'r>> =
            Vec::with_capacity(self.scratch.assigned.len());
        let mut ranges = Vec::with_capacity(pieces.len());
        let mut replaced = replaced.iter().peekable();
        for (at, piece) in pieces.iter().enumerate() {
            let from = annotations.len();
            let draft = &self.scratch.drafts[at];
            let mut is_sorted = true;
            for (_, number) in &self.scratch.assigned[piece.clone()] {
                let report = &reports[*number as usize];
                let Body::Event(text) = report.body else { continue };
                // A split-off draft owns no reports, but uses those of the draft that it was split
                // from.
                let fork =
                    self.scratch.drafts[at + 1..].iter().take_while(|other| other.id == draft.id);
                if !draft.used.contains(number)
                    && !fork.clone().any(|other| other.used.contains(number))
                {
                    let time_ns = report.time.saturating_add_signed(shift(at));
                    annotations.push(AnnotationRef { time_ns, value: self.resolver.get(text) });
                }
            }
            while let Some(value) = replaced.next_if(|value| value.draft == at) {
                let time_ns = value.time.saturating_add_signed(shift(at));
                annotations.push(AnnotationRef { time_ns, value: &value.text });
                is_sorted = false;
            }
            is_sorted &= annotations[from..].is_sorted();
            if !is_sorted {
                annotations[from..].sort_unstable();
            }
            ranges.push(from..annotations.len());
        }
        DraftLists { all: annotations, ranges }
    }
}

/// One list per draft. The lists are stored one after the other in a single vector.
struct DraftLists<T> {
    all: Vec<T>,
    ranges: Vec<Range<usize>>,
}

impl<T> DraftLists<T> {
    fn of(&self, draft: usize) -> &[T] {
        &self.all[self.ranges[draft].clone()]
    }
}

/// Placeholder for a span id of 0.
const NO_SPAN: SpanId = SpanId::from_number(u64::MAX).expect("not 0");

/// A tag value that a later value of the same key and origin replaced.
struct ReplacedValue {
    draft: usize,
    time: u64,
    text: String,
}

/// Tag value that is displayed as text.
struct ValueText<'a>(ValueRef<'a>);

impl std::fmt::Display for ValueText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            ValueRef::Str(text) => f.write_str(text),
            ValueRef::Int(number) => number.fmt(f),
            ValueRef::Bool(flag) => flag.fmt(f),
            ValueRef::Double(number) => number.fmt(f),
            ValueRef::Bytes(_) => Ok(()),
        }
    }
}

/// Returns whether a span starts before its parent, by more than the error of their clocks.
fn is_before(step: &Step<'_>, parent: &Step<'_>) -> bool {
    let errors = match (step.clock, parent.clock) {
        (Some(own), Some(other)) if own.node != other.node => {
            own.error_ns.saturating_add(other.error_ns)
        }
        _ => 0,
    };
    let times = step.span.start_ns.zip(parent.span.start_ns);
    times.is_some_and(|(start, of_parent)| start.saturating_add(errors) < of_parent)
}

fn endpoint(service: &str, address: Address) -> EndpointRef<'_> {
    EndpointRef {
        service,
        ipv4: match address.ip {
            Some(IpAddr::V4(ip)) => Some(ip),
            _ => None,
        },
        ipv6: match address.ip {
            Some(IpAddr::V6(ip)) => Some(ip),
            _ => None,
        },
        port: u16::try_from(address.port).unwrap_or(0),
    }
}

/// Returns the sort key among siblings; drafts without a start are last.
fn order_of(draft: &Draft, shift: i64) -> (u64, u64, bool) {
    let start = draft.start.map_or(u64::MAX, |start| start.saturating_add_signed(shift));
    (start, draft.id, draft.shared)
}

/// Computes each step's self time: its duration minus the time that its children cover. Siblings
/// are sorted by start.
fn set_self_times(steps: &mut [Step<'_>]) {
    // For each step, the end of its latest child so far, and the sum of the time covered by its
    // children.
    let mut covered: Vec<(u64, u64)> = vec![(0, 0); steps.len()];
    for at in 0..steps.len() {
        let Some(parent) = steps[at].parent else { continue };
        let (Some(start), Some(end)) = (steps[at].span.start_ns, steps[at].end_ns()) else {
            continue;
        };
        let (Some(first), Some(last)) = (steps[parent].span.start_ns, steps[parent].end_ns())
        else {
            continue;
        };
        let (until, sum) = &mut covered[parent];
        let (start, end) = (start.max(first).max(*until), end.min(last));
        *sum += end.saturating_sub(start);
        *until = end.max(*until);
    }
    for (step, (_, covered)) in steps.iter_mut().zip(covered) {
        step.self_ns = step.span.duration_ns.map(|duration| duration.saturating_sub(covered));
    }
}
