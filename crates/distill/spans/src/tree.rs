//! What was said of a request becomes a [`Request`]: its spans, each behind the one that caused it,
//! with what was said of each. What is odd is shown as it is, and marked.

use crate::causes::{self, Children};
use crate::join::{Address, Draft, Scratch};
use crate::losses::Losses;
use crate::pending::{Kept, Pending};
use crate::request::{Completion, END, LOST, Oddities, Oddity, Request, START, Step, bit};
use crate::skew;
use crate::texts::Texts;
use crate::words::{Word, Words};
use blkkin_model::{
    AnnotationRef, EndpointRef, Origin, SpanId, SpanRef, Status, TagRef, TraceId, ValueRef,
};
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;
use std::ops::{ControlFlow, Range};

type Taker<'t> = &'t mut dyn FnMut(&Request<'_>) -> ControlFlow<()>;

/// Makes a request of what was said; or several, if they share the lower half of their numbers.
pub(crate) fn build(
    pending: &Pending,
    (words, losses): (&Words, &Losses),
    completion: Completion,
    correct_skew: bool,
    scratch: &mut Scratch,
    take: Taker<'_>,
) -> ControlFlow<()> {
    let parts = 0..pending.parts.len() as u32;
    let voices = pending.voices.iter().map(|voice| voice.high);
    let mut highs: Vec<u64> = Vec::new();
    for high in pending.wide.iter().copied().chain(voices).filter(|high| *high != 0) {
        if highs.last() != Some(&high) {
            highs.push(high);
        }
    }
    highs.sort_unstable();
    highs.dedup();
    let mut build = |high: u64, order: &mut dyn Iterator<Item = u32>, ambiguous| {
        scratch.order.clear();
        scratch.order.extend(order);
        let Some(id) = TraceId::from_number(u128::from(high) << 64 | u128::from(pending.low))
        else {
            return ControlFlow::Continue(());
        };
        if scratch.order.is_empty() && pending.left_out == 0 {
            return ControlFlow::Continue(());
        }
        let events = scratch.order.len() as u64;
        scratch.join(pending, words);
        scratch.drafts.iter_mut().for_each(|draft| draft.consider(losses));
        let building = Building { texts: Texts { pending, words }, scratch, ambiguous };
        building.request(id, completion, correct_skew, events, take)
    };
    if highs.len() < 2 {
        return build(highs.first().copied().unwrap_or(0), &mut parts.clone(), &HashSet::new());
    }
    // Spans whose upper half is told by one of their events.
    let mut known: HashMap<u64, u64> = HashMap::new();
    for voice in pending.voices.iter().filter(|voice| voice.high != 0) {
        let high = known.entry(voice.span).or_insert(voice.high);
        *high = voice.high.min(*high);
    }
    let unknown = pending.voices.iter().filter(|voice| voice.high == 0);
    let unknown = unknown.map(|voice| voice.span).filter(|span| !known.contains_key(span));
    let ambiguous: HashSet<u64> = unknown.collect();
    for high in &highs {
        let is_of = |part: &u32| {
            let voice = pending.voice_of(&pending.parts[*part as usize]);
            let told = (voice.high != 0).then_some(voice.high);
            told.or_else(|| known.get(&voice.span).copied()).unwrap_or(highs[0]) == *high
        };
        build(*high, &mut parts.clone().filter(is_of), &ambiguous)?;
    }
    ControlFlow::Continue(())
}

struct Building<'b> {
    texts: Texts<'b>,
    scratch: &'b Scratch,
    /// Spans of which nobody knows whether they are of this request.
    ambiguous: &'b HashSet<u64>,
}

impl<'b> Building<'b> {
    fn request(
        &self,
        id: TraceId,
        completion: Completion,
        correct_skew: bool,
        events: u64,
        take: Taker<'_>,
    ) -> ControlFlow<()> {
        let drafts = &self.scratch.drafts[..];
        let mut odd: Vec<u32> = drafts.iter().map(|draft| draft.odd).collect();
        let parents = causes::parents(drafts, self.texts, &mut odd);
        let mut shifts = Vec::new();
        let mut children = Children::new(&parents, |at| order_of(&drafts[at], 0));
        if correct_skew {
            let order = children.preorder().into_iter().map(|(at, _)| at);
            shifts = skew::corrections(drafts, &parents, order, self.texts);
            children = Children::new(&parents, |at| order_of(&drafts[at], shifts[at]));
        }
        let shift = |at: usize| shifts.get(at).copied().unwrap_or(0);

        // All that spans borrow is made first.
        let pieces = self.pieces();
        let (tags, replaced) = self.tags(&pieces);
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
                name: self.texts.get(draft.name),
                start_ns: draft.start.map(|start| start.saturating_add_signed(shift(*at))),
                duration_ns: draft.duration,
                local: endpoint(self.texts.get(draft.service), draft.address),
                remote: match &draft.remote {
                    Some(voice) => {
                        let address = Address::of(voice, self.texts);
                        endpoint(self.texts.get(voice.service), address)
                    }
                    None => EndpointRef::NONE,
                },
                annotations: annotations.of(*at),
                tags: tags.of(*at),
                // Parts without a span do not come this far.
                ..SpanRef::new(id, SpanId::from_number(draft.id).unwrap_or(NO_SPAN))
            };
            let mut step = Step::new(span, odd[*at]);
            (step.parent, step.depth) = (parents[*at].map(|parent| places[parent]), *depth);
            if shift(*at) != 0 {
                step.moved_ns = Some(shift(*at));
                step.mark(Oddity::Moved);
            }
            if let Some(parent) = step.parent
                && step.span.start_ns < steps[parent].span.start_ns
                && step.span.start_ns.is_some()
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
        let mut oddities = Oddities::default();
        for odd in steps.iter().flat_map(Step::oddities) {
            oddities.add(odd, 1);
        }
        oddities.add(Oddity::Duplicate, self.scratch.duplicates);
        oddities.add(Oddity::Late, self.texts.pending.is_late.into());
        let events_left_out = self.texts.pending.left_out + self.scratch.left_out;
        take(&Request { id, steps, completion, oddities, events, events_left_out })
    }

    /// Which parts are of which draft.
    fn pieces(&self) -> Vec<Range<usize>> {
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

    /// All tags, whose are which, and what was said and later said otherwise.
    fn tags(&self, pieces: &[Range<usize>]) -> (Lists<TagRef<'b>>, Vec<Replaced>) {
        let Texts { pending, words } = self.texts;
        let mut tags: Vec<TagRef<'b>> = Vec::new();
        let mut ranges = Vec::with_capacity(pieces.len());
        let mut replaced = Vec::new();
        let mut said: Vec<(TagRef<'b>, u64)> = Vec::new();
        for (at, (piece, draft)) in pieces.iter().zip(&self.scratch.drafts).enumerate() {
            said.clear();
            for (_, number) in &self.scratch.assigned[piece.clone()] {
                let part = &pending.parts[*number as usize];
                let Kept::Tag(key, value) = part.what else { continue };
                let value = pending.value_of(words, value);
                if key == Word::LOCAL_COMPONENT && value == ValueRef::Str("") {
                    continue;
                }
                said.push((
                    TagRef { key: self.texts.get(key), value, origin: Origin::Span },
                    part.time,
                ));
            }
            let mut known = |key, value, origin| said.push((TagRef { key, value, origin }, 0));
            if !draft.target.is_none() {
                known("target", ValueRef::Str(self.texts.get(draft.target)), Origin::Scope);
            }
            if let Some(ip) = draft.address.odd {
                known("ip", ValueRef::Str(self.texts.get(ip)), Origin::Resource);
            }
            if u16::try_from(draft.address.port).is_err() {
                known("port", ValueRef::Int(draft.address.port.into()), Origin::Resource);
            }
            for (oddity, key) in [(Oddity::EndLost, END), (Oddity::StartLost, START)] {
                if draft.odd & bit(oddity) != 0 {
                    known(key, ValueRef::Str(LOST), Origin::Span);
                }
            }
            // Stable, so that the latest of a name comes last.
            said.sort_by(|(a, _), (b, _)| (a.key, a.origin).cmp(&(b.key, b.origin)));
            let from = tags.len();
            for (index, (tag, time)) in said.iter().enumerate() {
                match said.get(index + 1) {
                    Some((next, _)) if (next.key, next.origin) == (tag.key, tag.origin) => {
                        let text = format!("{}={}", tag.key, Shown(tag.value));
                        replaced.push(Replaced { draft: at, time: *time, text });
                    }
                    _ => tags.push(*tag),
                }
            }
            ranges.push(from..tags.len());
        }
        (Lists { all: tags, ranges }, replaced)
    }

    /// All annotations, and whose are which.
    fn annotations<'r>(
        &self,
        pieces: &[Range<usize>],
        replaced: &'r [Replaced],
        shift: &impl Fn(usize) -> i64,
    ) -> Lists<AnnotationRef<'r>>
    where
        'b: 'r,
    {
        let parts = &self.texts.pending.parts;
        let mut annotations: Vec<AnnotationRef<'r>> =
            Vec::with_capacity(self.scratch.assigned.len());
        let mut ranges = Vec::with_capacity(pieces.len());
        let mut replaced = replaced.iter().peekable();
        for (at, piece) in pieces.iter().enumerate() {
            let from = annotations.len();
            let draft = &self.scratch.drafts[at];
            let mut is_sorted = true;
            for (_, number) in &self.scratch.assigned[piece.clone()] {
                let part = &parts[*number as usize];
                let Kept::Event(text) = part.what else { continue };
                // A draft that was forked off has no parts, but uses those of the first.
                let fork =
                    self.scratch.drafts[at + 1..].iter().take_while(|other| other.id == draft.id);
                if !draft.used.contains(number)
                    && !fork.clone().any(|other| other.used.contains(number))
                {
                    let time_ns = part.time.saturating_add_signed(shift(at));
                    annotations.push(AnnotationRef { time_ns, value: self.texts.get(text) });
                }
            }
            while let Some(said) = replaced.next_if(|said| said.draft == at) {
                let time_ns = said.time.saturating_add_signed(shift(at));
                annotations.push(AnnotationRef { time_ns, value: &said.text });
                is_sorted = false;
            }
            is_sorted &= annotations[from..].is_sorted();
            if !is_sorted {
                annotations[from..].sort_unstable();
            }
            ranges.push(from..annotations.len());
        }
        Lists { all: annotations, ranges }
    }
}

/// Lists of all drafts, one behind the other.
struct Lists<T> {
    all: Vec<T>,
    ranges: Vec<Range<usize>>,
}

impl<T> Lists<T> {
    fn of(&self, draft: usize) -> &[T] {
        &self.all[self.ranges[draft].clone()]
    }
}

/// Stands for a number that is never 0.
const NO_SPAN: SpanId = SpanId::from_number(u64::MAX).expect("not 0");

/// What was said of a span, and later said otherwise.
struct Replaced {
    draft: usize,
    time: u64,
    text: String,
}

/// A value as text.
struct Shown<'a>(ValueRef<'a>);

impl std::fmt::Display for Shown<'_> {
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

/// Where a draft is among those with one cause; those without a time come last.
fn order_of(draft: &Draft, shift: i64) -> (u64, u64, bool) {
    let start = draft.start.map_or(u64::MAX, |start| start.saturating_add_signed(shift));
    (start, draft.id, draft.shared)
}

/// Takes from each step's time that of what it caused. Steps with one cause are in order of time.
fn set_self_times(steps: &mut [Step<'_>]) {
    // Of each step: up to when what it caused is accounted for, and how much that is.
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
