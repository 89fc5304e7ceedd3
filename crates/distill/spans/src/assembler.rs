//! Assembly of requests: the open requests, their completion, and eviction when memory is short.
//!
//! All open requests form a list ordered by the time of their last event, or of the last extension
//! of their wait. The assembler emits requests from the old end of this list once they were idle
//! for the idle time. While memory or spans exceed the limits, it emits further requests from the
//! old end, which count as evicted. Events for a request that was already emitted open a second
//! request, marked [`Oddity::Late`](crate::Oddity::Late) as long as the trace id is among the
//! recent ones.
//!
//! The caller supplies the time: event time for a finished recording, so that the reading speed
//! does not matter, and the wall clock for a live one.

use crate::clocks::Corrections;
use crate::interner::Interner;
use crate::join::Scratch;
use crate::losses::Losses;
use crate::open_request::{Body, OpenRequest};
use crate::report::{ReportContent, SpanReport};
use crate::request::{Completion, Request};
use crate::resolver::Resolver;
use crate::tree::RequestBuilder;
use blkkin_reader::Alignment;
use std::collections::{HashMap, VecDeque};
use std::ops::ControlFlow;

/// Memory limits, idle times and skew correction of an [`Assembler`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Nanoseconds without an event after which a request is complete.
    pub idle_ns: u64,
    /// Nanoseconds without an event after which a request is complete although a span has no
    /// complete-span report, if longer than `idle_ns`; checked every `idle_ns`. The default of 0
    /// disables this wait, because a program that records only annotations and tags never reports
    /// a complete span.
    pub idle_unended_ns: u64,
    /// Set if the caller of a server or consumer counts as such a span, too, before anything of it
    /// is known. Its spans may be in other traces, which this assembler does not read.
    pub awaits_callers: bool,
    /// Maximum memory of all open requests, in bytes.
    pub bytes: usize,
    /// Maximum number of spans in all open requests. A span counts once for each distinct
    /// combination of parent, name, service, address and upper half of the trace id in its events.
    pub spans: usize,
    /// Memory of a single request, in bytes, above which its further events are dropped.
    pub bytes_of_request: usize,
    /// Maximum number of spans in a single request, counted as for `spans`.
    pub spans_of_request: usize,
    /// Set if clock skew between hosts is corrected.
    pub correct_skew: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle_ns: 30_000_000_000,
            idle_unended_ns: 0,
            awaits_callers: true,
            bytes: 256 << 20,
            spans: 2_000_000,
            bytes_of_request: 64 << 20,
            spans_of_request: 100_000,
            correct_skew: false,
        }
    }
}

/// Counters of an [`Assembler`]. `evicted`, `late` and `cut` count requests with the same lower
/// half of the trace id once, if they were assembled together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Emitted requests.
    pub requests: u64,
    /// Spans in the emitted requests.
    pub spans: u64,
    /// Events with a report, including events dropped because of a limit. Events with a trace id or
    /// span id of 0 do not count; reports of the upper half of a trace id need no span id.
    pub events: u64,
    /// Requests emitted before they were complete, to free memory.
    pub evicted: u64,
    /// Requests whose trace id (lower half) was among the recently emitted ones when the request
    /// was opened.
    pub late: u64,
    /// Requests from which events were dropped because of `bytes_of_request` or `spans_of_request`.
    pub cut: u64,
    /// Events dropped because their request exceeded a limit, or because an id was 0.
    pub left_out: u64,
    /// Activities of spans that no other event reports. They make neither a span nor a request.
    pub unmatched: u64,
}

/// Consumer to which an [`Assembler`] passes each emitted request.
pub trait Sink {
    /// Receives one request. On `Break`, the assembler's current method emits no further request
    /// and returns `Break`.
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&Request<'_>) -> ControlFlow<()>> Sink for F {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        self(request)
    }
}

/// Assembler of reports into requests. It owns the open requests until they are emitted.
#[derive(Debug)]
pub struct Assembler {
    limits: Limits,
    interner: Interner,
    /// Slots of open requests, mixed with free slots; `free` lists the indexes of the free ones.
    requests: Vec<OpenRequest>,
    free: Vec<u32>,
    /// Slot of each open request, by the lower half of its trace id.
    open: HashMap<u64, u32>,
    /// Slot of the request with the least `touched`: the head of the list of open requests. The
    /// tail is `newest`.
    oldest: u32,
    newest: u32,
    bytes: usize,
    spans: usize,
    recent: RecentIds,
    counts: Counts,
    losses: Losses,
    corrections: Corrections,
    scratch: Scratch,
}

/// Maximum number of free slots that keep their memory.
const FREE_MAX: usize = 1024;
/// Slot index that marks the end of the list of open requests.
const NO_SLOT: u32 = u32::MAX;

impl Assembler {
    /// Creates an assembler with these limits.
    pub fn new(limits: Limits) -> Assembler {
        Assembler {
            limits,
            interner: Interner::new(),
            requests: Vec::new(),
            free: Vec::new(),
            open: HashMap::new(),
            oldest: NO_SLOT,
            newest: NO_SLOT,
            bytes: 0,
            spans: 0,
            recent: RecentIds::default(),
            counts: Counts::default(),
            losses: Losses::default(),
            corrections: Corrections::default(),
            scratch: Scratch::default(),
        }
    }

    /// Returns the counters since the assembler was created.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Returns the memory of all open requests, in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the number of open requests.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Adds a report, and emits the requests that are evicted or complete at `now`. Drops the
    /// report if the request exceeds its limits, or if the trace id or span id is 0; a report of
    /// the upper half of a trace id needs no span id. `now` should not decrease: for `idle_ns`, a
    /// smaller value is raised to that of the newest open request.
    #[inline]
    pub fn add(
        &mut self,
        report: &SpanReport<'_>,
        now: i64,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        let is_wide = report.content == ReportContent::WideTraceId;
        if report.trace_id == 0 && report.trace_id_high == 0 || report.span_id == 0 && !is_wide {
            self.counts.left_out += 1;
            return ControlFlow::Continue(());
        }
        let slot = match self.open.get(&report.trace_id) {
            Some(slot) => *slot,
            None => self.open_slot(report.trace_id),
        };
        self.touch(slot, now);
        self.requests[slot as usize].last_event = now;
        self.counts.events += 1;
        let limits = &self.limits;
        let request = &mut self.requests[slot as usize];
        let before = (request.bytes(), request.reporters.len());
        if is_wide {
            request.add_wide(report.trace_id_high);
        } else if let ReportContent::Activity(activity) = &report.content {
            if before.0 > limits.bytes_of_request {
                request.activities_left_out += 1;
                self.counts.left_out += 1;
            } else {
                request.add_activity(report, activity, &mut self.interner);
            }
        } else if before.0 > limits.bytes_of_request
            || !request.add(report, &mut self.interner, limits.spans_of_request)
        {
            request.left_out += 1;
            self.counts.left_out += 1;
        }
        let (bytes, reporters) = before;
        self.bytes = self.bytes - bytes + request.bytes();
        self.spans = self.spans - reporters + request.reporters.len();
        if self.bytes > self.limits.bytes || self.spans > self.limits.spans {
            self.evict(sink)?;
        }
        self.advance(now, sink)
    }

    /// Records that the trace `source` lost events between two times, in nanoseconds since 1970.
    /// `None` means unbounded.
    pub fn add_loss(&mut self, source: u32, from: Option<i64>, to: Option<i64>) {
        self.losses.add(source, from, to);
    }

    /// Sets the correction by which the times of the trace `source` were made.
    pub fn set_alignment(&mut self, source: u32, alignment: Alignment) {
        self.corrections.add(source, alignment);
    }

    /// Emits the requests that are complete at `now`.
    #[inline]
    pub fn advance(&mut self, now: i64, sink: &mut impl Sink) -> ControlFlow<()> {
        let idle = i64::try_from(self.limits.idle_ns).unwrap_or(i64::MAX);
        let before = now.saturating_sub(idle);
        while let Some(oldest) = self.requests.get(self.oldest as usize)
            && oldest.touched < before
        {
            match self.may_wait(oldest, now) {
                true => self.touch(self.oldest, now),
                false => self.emit(self.oldest, Completion::Idle, sink)?,
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns true if a span of an idle request has no complete-span report, and the last event is
    /// less than `idle_unended_ns` ago.
    fn may_wait(&self, request: &OpenRequest, now: i64) -> bool {
        let waited = u64::try_from(now.saturating_sub(request.last_event)).unwrap_or(0);
        let Limits { idle_unended_ns, awaits_callers, .. } = self.limits;
        waited < idle_unended_ns && request.has_unended(awaits_callers)
    }

    /// Emits all requests in the order of their earliest time. To be called at the end of the
    /// input.
    pub fn finish(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        let first = |slot: &u32| {
            let request = &self.requests[*slot as usize];
            let times = request.reports.iter().map(|report| match report.body {
                Body::Span { start, .. } => start,
                _ => report.time,
            });
            (times.min().unwrap_or(u64::MAX), request.low)
        };
        let mut slots: Vec<_> = self.open.values().map(|slot| (first(slot), *slot)).collect();
        slots.sort_unstable();
        for (_, slot) in slots {
            self.emit(slot, Completion::Ended, sink)?;
        }
        ControlFlow::Continue(())
    }

    #[cold]
    fn evict(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        while self.oldest != NO_SLOT
            && (self.bytes > self.limits.bytes || self.spans > self.limits.spans)
        {
            self.emit(self.oldest, Completion::Evicted, sink)?;
        }
        ControlFlow::Continue(())
    }

    fn open_slot(&mut self, low: u64) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(OpenRequest::default());
            (self.requests.len() - 1) as u32
        });
        let request = &mut self.requests[slot as usize];
        request.low = low;
        let emitted = self.recent.high_of(low);
        request.is_late = emitted.is_some();
        request.touched = i64::MIN;
        // A part that follows may lack the event with the upper half.
        request.earlier_high = emitted.unwrap_or(0);
        self.bytes += request.bytes();
        self.open.insert(low, slot);
        self.append(slot);
        slot
    }

    fn touch(&mut self, slot: u32, now: i64) {
        let newest = &self.requests[self.newest as usize];
        let now = now.max(newest.touched);
        if slot != self.newest {
            self.unlink(slot);
            self.append(slot);
        }
        self.requests[slot as usize].touched = now;
    }

    fn append(&mut self, slot: u32) {
        let newest = std::mem::replace(&mut self.newest, slot);
        let touched = match self.requests.get_mut(newest as usize) {
            Some(neighbour) => {
                neighbour.newer = slot;
                neighbour.touched
            }
            None => {
                self.oldest = slot;
                i64::MIN
            }
        };
        let request = &mut self.requests[slot as usize];
        (request.older, request.newer, request.touched) = (newest, NO_SLOT, touched);
    }

    fn unlink(&mut self, slot: u32) {
        let OpenRequest { older, newer, .. } = self.requests[slot as usize];
        match self.requests.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
        match self.requests.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
    }

    fn emit(&mut self, slot: u32, completion: Completion, sink: &mut impl Sink) -> ControlFlow<()> {
        self.unlink(slot);
        let mut request = std::mem::take(&mut self.requests[slot as usize]);
        self.bytes -= request.bytes();
        self.spans -= request.reporters.len();
        self.open.remove(&request.low);
        let mut flow = ControlFlow::Continue(());
        self.scratch.matched = 0;
        if !request.reports.is_empty() || request.left_out > 0 {
            self.recent.add(request.low, request.high());
            let is = |flag: bool| u64::from(flag);
            self.counts.evicted += is(completion == Completion::Evicted);
            self.counts.late += is(request.is_late);
            self.counts.cut += is(request.left_out > 0 || request.activities_left_out > 0);
            let counts = &mut self.counts;
            let mut counted = |request: &Request<'_>| {
                counts.requests += 1;
                counts.spans += request.steps.len() as u64;
                sink.request(request)
            };
            let builder = RequestBuilder {
                resolver: Resolver { request: &request, interner: &self.interner },
                losses: &self.losses,
                corrections: &self.corrections,
                completion,
                correct_skew: self.limits.correct_skew,
            };
            flow = builder.build(&mut self.scratch, &mut counted);
        }
        self.counts.unmatched += request.activities.len() as u64 - self.scratch.matched;
        if self.free.len() < FREE_MAX {
            request.clear();
            self.requests[slot as usize] = request;
        }
        self.free.push(slot);
        flow
    }
}

/// Trace ids of recently emitted requests, for the detection of late events.
#[derive(Debug, Default)]
struct RecentIds {
    order: VecDeque<u64>,
    /// Upper halves, or 0 if they are unknown, by the lower halves.
    highs: HashMap<u64, u64>,
}

/// Maximum number of remembered trace ids.
const RECENT_MAX: usize = 1 << 16;

impl RecentIds {
    /// Returns the upper half of a recent trace id, or 0 if that is unknown; `None` for an id that
    /// is not recent.
    fn high_of(&self, low: u64) -> Option<u64> {
        self.highs.get(&low).copied()
    }

    fn add(&mut self, low: u64, high: u64) {
        if self.highs.insert(low, high).is_none() {
            self.order.push_back(low);
        }
        if self.order.len() > RECENT_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.highs.remove(&oldest);
        }
    }
}
