//! Requests while they are put together: which are open, when one is complete, and what has to go
//! where there is no room.
//!
//! All open requests are in a list by the time at which something came last. From its old end are
//! taken: those for which nothing has come for the idle time, and, while too much is kept, others,
//! which are given out as incomplete and counted. What comes for a request that has been given out
//! makes a second one, which says so, as long as its number is remembered.
//!
//! Time here is that of whoever adds: the events' own for a recording that is there, so that the
//! speed of reading does not matter, and the machine's for one that goes on.

use crate::Request;
use crate::join::Scratch;
use crate::losses::Losses;
use crate::pending::Pending;
use crate::request::Completion;
use crate::said::{Said, What};
use crate::tree;
use crate::words::Words;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;

/// How much is kept, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A request for which nothing has come for so many nanoseconds is complete.
    pub idle_ns: u64,
    /// The idle time of a request with a span that has not ended, if longer than `idle_ns`. Programs that record only
    /// events never report the end of a span, so it is off by default.
    pub idle_unended_ns: u64,
    /// Bytes of all open requests.
    pub bytes: usize,
    /// Spans of all open requests, counted once for each parent, name, service and address that
    /// is told of them.
    pub spans: usize,
    /// Bytes of one request.
    pub bytes_of_request: usize,
    /// Spans of one request, counted in the same way.
    pub spans_of_request: usize,
    /// Whether to put clocks right that go wrong.
    pub correct_skew: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            idle_ns: 30_000_000_000,
            idle_unended_ns: 0,
            bytes: 256 << 20,
            spans: 2_000_000,
            bytes_of_request: 64 << 20,
            spans_of_request: 100_000,
            correct_skew: false,
        }
    }
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests given out.
    pub requests: u64,
    /// Spans of them.
    pub spans: u64,
    /// Events that said something of spans.
    pub events: u64,
    /// Requests given out before they were complete, because others needed the room.
    pub evicted: u64,
    /// Requests given out that go on with one that was given out before.
    pub late: u64,
    /// Requests that were too large, and events of them that were left out.
    pub cut: u64,
    /// See `cut`.
    pub left_out: u64,
}

/// Takes requests.
pub trait Sink {
    /// Takes a request. Who breaks wants no more.
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()>;
}

impl<F: FnMut(&Request<'_>) -> ControlFlow<()>> Sink for F {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        self(request)
    }
}

/// Puts requests together.
#[derive(Debug)]
pub struct Assembler {
    limits: Limits,
    words: Words,
    /// Open ones, and some that are free.
    pending: Vec<Pending>,
    free: Vec<u32>,
    /// By lower half of the trace id.
    open: HashMap<u64, u32>,
    /// Ends of the list by time.
    oldest: u32,
    newest: u32,
    bytes: usize,
    spans: usize,
    done: Done,
    counts: Counts,
    losses: Losses,
    scratch: Scratch,
}

/// Of more that are free no memory is kept.
const FREE_MAX: usize = 1024;
/// No place in the list.
const NOWHERE: u32 = u32::MAX;

impl Assembler {
    /// One that keeps no more than that.
    pub fn new(limits: Limits) -> Assembler {
        Assembler {
            limits,
            words: Words::new(),
            pending: Vec::new(),
            free: Vec::new(),
            open: HashMap::new(),
            oldest: NOWHERE,
            newest: NOWHERE,
            bytes: 0,
            spans: 0,
            done: Done::default(),
            counts: Counts::default(),
            losses: Losses::default(),
            scratch: Scratch::default(),
        }
    }

    /// What became of requests so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Bytes that open requests take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Requests that are open.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Takes what an event says, unless its numbers are 0. Now is a time that should not decrease; if it does, it counts as
    /// not having changed.
    #[inline]
    pub fn add(&mut self, said: &Said<'_>, now: i64, sink: &mut impl Sink) -> ControlFlow<()> {
        let is_wide = said.what == What::WideTraceId;
        if said.trace_id == 0 && said.trace_id_high == 0 || said.span_id == 0 && !is_wide {
            self.counts.left_out += 1;
            return ControlFlow::Continue(());
        }
        let place = match self.open.get(&said.trace_id) {
            Some(place) => *place,
            None => self.begin(said.trace_id),
        };
        self.touch(place, now);
        self.pending[place as usize].heard = now;
        self.counts.events += 1;
        let limits = &self.limits;
        let pending = &mut self.pending[place as usize];
        let before = (pending.bytes(), pending.voices.len());
        if is_wide {
            pending.add_wide(said.trace_id_high);
        } else if before.0 > limits.bytes_of_request
            || !pending.add(said, &mut self.words, limits.spans_of_request)
        {
            pending.left_out += 1;
            self.counts.left_out += 1;
        }
        let (bytes, voices) = before;
        self.bytes = self.bytes - bytes + pending.bytes();
        self.spans = self.spans - voices + pending.voices.len();
        if self.bytes > self.limits.bytes || self.spans > self.limits.spans {
            self.make_room(sink)?;
        }
        self.advance(now, sink)
    }

    /// A source has lost something between these times, in nanoseconds since 1970; where one is not known it may have
    /// been any.
    pub fn lose(&mut self, source: u32, from: Option<i64>, to: Option<i64>) {
        self.losses.add(source, from, to);
    }

    /// Gives out what is complete by now.
    #[inline]
    pub fn advance(&mut self, now: i64, sink: &mut impl Sink) -> ControlFlow<()> {
        let idle = i64::try_from(self.limits.idle_ns).unwrap_or(i64::MAX);
        let before = now.saturating_sub(idle);
        while let Some(oldest) = self.pending.get(self.oldest as usize)
            && oldest.touched < before
        {
            match self.has_time(oldest, now) {
                true => self.touch(self.oldest, now),
                false => self.give_out(self.oldest, Completion::Idle, sink)?,
            }
        }
        ControlFlow::Continue(())
    }

    /// True if an idle request has spans that have not ended, and the longer limit has not passed.
    fn has_time(&self, pending: &Pending, now: i64) -> bool {
        let waited = u64::try_from(now.saturating_sub(pending.heard)).unwrap_or(0);
        waited < self.limits.idle_unended_ns && pending.has_unended()
    }

    /// Gives out everything, in order of the first thing that was said, because nothing more will
    /// come.
    pub fn finish(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        let first = |place: &u32| {
            let pending = &self.pending[*place as usize];
            let times = pending.parts.iter().map(|part| match part.what {
                crate::pending::Kept::Span { start, .. } => start,
                _ => part.time,
            });
            (times.min().unwrap_or(u64::MAX), pending.low)
        };
        let mut places: Vec<_> = self.open.values().map(|place| (first(place), *place)).collect();
        places.sort_unstable();
        for (_, place) in places {
            self.give_out(place, Completion::Ended, sink)?;
        }
        ControlFlow::Continue(())
    }

    #[cold]
    fn make_room(&mut self, sink: &mut impl Sink) -> ControlFlow<()> {
        while self.oldest != NOWHERE
            && (self.bytes > self.limits.bytes || self.spans > self.limits.spans)
        {
            self.give_out(self.oldest, Completion::Evicted, sink)?;
        }
        ControlFlow::Continue(())
    }

    fn begin(&mut self, low: u64) -> u32 {
        let place = self.free.pop().unwrap_or_else(|| {
            self.pending.push(Pending::default());
            (self.pending.len() - 1) as u32
        });
        let pending = &mut self.pending[place as usize];
        pending.low = low;
        pending.is_late = self.done.has(low);
        pending.touched = i64::MIN;
        self.bytes += pending.bytes();
        self.open.insert(low, place);
        self.append(place);
        place
    }

    fn touch(&mut self, place: u32, now: i64) {
        let newest = &self.pending[self.newest as usize];
        let now = now.max(newest.touched);
        if place != self.newest {
            self.unlink(place);
            self.append(place);
        }
        self.pending[place as usize].touched = now;
    }

    fn append(&mut self, place: u32) {
        let newest = std::mem::replace(&mut self.newest, place);
        let touched = match self.pending.get_mut(newest as usize) {
            Some(neighbour) => {
                neighbour.newer = place;
                neighbour.touched
            }
            None => {
                self.oldest = place;
                i64::MIN
            }
        };
        let pending = &mut self.pending[place as usize];
        (pending.older, pending.newer, pending.touched) = (newest, NOWHERE, touched);
    }

    fn unlink(&mut self, place: u32) {
        let Pending { older, newer, .. } = self.pending[place as usize];
        match self.pending.get_mut(older as usize) {
            Some(neighbour) => neighbour.newer = newer,
            None => self.oldest = newer,
        }
        match self.pending.get_mut(newer as usize) {
            Some(neighbour) => neighbour.older = older,
            None => self.newest = older,
        }
    }

    fn give_out(
        &mut self,
        place: u32,
        completion: Completion,
        sink: &mut impl Sink,
    ) -> ControlFlow<()> {
        self.unlink(place);
        let mut pending = std::mem::take(&mut self.pending[place as usize]);
        self.bytes -= pending.bytes();
        self.spans -= pending.voices.len();
        self.open.remove(&pending.low);
        let mut flow = ControlFlow::Continue(());
        if !pending.parts.is_empty() || pending.left_out > 0 {
            self.done.add(pending.low);
            let is = |flag: bool| u64::from(flag);
            self.counts.evicted += is(completion == Completion::Evicted);
            self.counts.late += is(pending.is_late);
            self.counts.cut += is(pending.left_out > 0);
            let counts = &mut self.counts;
            let mut counted = |request: &Request<'_>| {
                counts.requests += 1;
                counts.spans += request.steps.len() as u64;
                sink.request(request)
            };
            let skew = self.limits.correct_skew;
            flow = tree::build(
                &pending,
                (&self.words, &self.losses),
                completion,
                skew,
                &mut self.scratch,
                &mut counted,
            );
        }
        if self.free.len() < FREE_MAX {
            pending.clear();
            self.pending[place as usize] = pending;
        }
        self.free.push(place);
        flow
    }
}

/// Numbers of requests that were given out lately.
#[derive(Debug, Default)]
struct Done {
    order: VecDeque<u64>,
    numbers: HashSet<u64>,
}

/// More are not remembered.
const DONE_MAX: usize = 1 << 16;

impl Done {
    fn has(&self, low: u64) -> bool {
        self.numbers.contains(&low)
    }

    fn add(&mut self, low: u64) {
        if self.numbers.insert(low) {
            self.order.push_back(low);
        }
        if self.order.len() > DONE_MAX
            && let Some(oldest) = self.order.pop_front()
        {
            self.numbers.remove(&oldest);
        }
    }
}
