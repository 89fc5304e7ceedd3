//! Events that fire a trigger, in the traces of its session.

use super::options::ConditionArgs;
use blkkin_reader::{
    BoundFilter, Consumer, Event, Follower, LinePrinter, Loss, Source, Stream, Text, Trace,
};
use blkkin_spans::{Extractor, ReportContent};
use blkkin_text::json::JsonPrinter;
use std::collections::{BTreeSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// Reader of the events that fire a trigger.
pub(super) struct Matching {
    follower: Follower,
    slower: Option<Duration>,
    failed: bool,
    only_killed: bool,
    /// Events that an earlier process has read; `None` after the first round, since later rounds
    /// have new events only.
    earlier: Option<FiringEvents>,
}

/// Last events that have fired a trigger, by which the next process knows them.
#[derive(Clone, Debug, Default)]
pub(super) struct FiringEvents {
    /// Times in nanoseconds since 1970, and hashes.
    pub(super) events: VecDeque<(i64, u64)>,
}

/// Events that were found in one round of reading.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// Events that fire the trigger, by time and hash.
    pub(super) fired: Vec<(i64, u64)>,
    /// First of them, as JSON.
    pub(super) first: Option<String>,
    /// Lower halves of the trace ids of their requests, at most [`REQUESTS_MAX`].
    pub(super) requests: BTreeSet<u64>,
    /// Number of events whose requests are not among them, because there are too many.
    pub(super) requests_left_out: u64,
    /// Number of events, or of packets of unknown content, that were lost.
    pub(super) lost: u64,
    /// Problem that keeps a trace from being read.
    pub(super) trouble: Option<String>,
}

/// Maximum number of requests that are noted at a time.
pub(super) const REQUESTS_MAX: usize = 10_000;
/// Time before the last event of an earlier process in which it may not have read all events:
/// programs' events are written one program after the other.
const OVERLAP_NS: i64 = 10_000_000_000;
/// Maximum number of events that are remembered.
const FIRED_MAX: usize = 1000;
/// Filter for the ends of processes by a signal. The kernel records all ends.
const KILLED: &str = "$event.name != \"process:exit\" || code & 127 != 0";

impl FiringEvents {
    /// Adds events, and forgets those that are not needed.
    pub(super) fn add(&mut self, events: &[(i64, u64)]) {
        self.events.extend(events);
        self.events.make_contiguous().sort_unstable();
        let last = self.events.iter().map(|(time, _)| *time).max().unwrap_or(0);
        self.events.retain(|(time, _)| *time >= last.saturating_sub(OVERLAP_NS));
        let excess = self.events.len().saturating_sub(FIRED_MAX);
        self.events.drain(..excess);
    }

    /// Returns whether an event has fired the trigger before.
    fn has(&self, event: (i64, u64)) -> bool {
        let times = || self.events.iter().map(|(time, _)| *time);
        let since = match self.events.len() >= FIRED_MAX {
            true => times().min(),
            false => times().max().map(|last| last.saturating_sub(OVERLAP_NS)),
        };
        since.is_some_and(|since| event.0 < since) || self.events.contains(&event)
    }
}

impl Matching {
    /// Prepares reading of the traces below `directory`, for a trigger with these conditions, after
    /// the events that an earlier process has read.
    pub(super) fn new(
        directory: &Path,
        conditions: &ConditionArgs,
        earlier: FiringEvents,
    ) -> Matching {
        let source = Source::Path(directory.to_owned());
        Matching { earlier: Some(earlier), ..Matching::of(source, conditions) }
    }

    /// Prepares reading of a source.
    pub(super) fn of(source: Source, conditions: &ConditionArgs) -> Matching {
        let follower = Follower::new(&[source]);
        let ConditionArgs { slower, failed, killed: only_killed, .. } = *conditions;
        Matching { follower, slower, failed, only_killed, earlier: None }
    }

    /// Reads the events that were recorded since the last round.
    pub(super) fn read(&mut self) -> Matches {
        self.read_between(None, None)
    }

    /// Reads the events since the last round that were recorded before `end_ns`, or all, and after
    /// `begin_ns`, in nanoseconds since 1970.
    pub(super) fn read_between(&mut self, begin_ns: Option<i64>, end_ns: Option<i64>) -> Matches {
        let mut round = Round {
            slower: self.slower,
            failed: self.failed,
            begin_ns,
            earlier: self.earlier.take().unwrap_or_default(),
            extractor: Extractor::default(),
            printer: JsonPrinter::default(),
            found: Matches::default(),
        };
        // All files are listed, as the next round may be a day later.
        self.follower.refresh(true);
        let killed = || BoundFilter::of_growing(KILLED, self.follower.traces()).ok();
        let filter = if self.only_killed { killed() } else { None };
        match end_ns {
            None => self.follower.deliver(|reading| reading.filter(filter), &mut round),
            Some(end_ns) => {
                self.follower.deliver_until(end_ns, |reading| reading.filter(filter), &mut round)
            }
        };
        let problems = self.follower.problems();
        let problem = problems.iter().find(|problem| !problem.is_warning());
        round.found.trouble = problem.map(ToString::to_string);
        round.found
    }
}

struct Round {
    slower: Option<Duration>,
    failed: bool,
    begin_ns: Option<i64>,
    earlier: FiringEvents,
    extractor: Extractor,
    printer: JsonPrinter,
    found: Matches,
}

/// Returns the time of an event, and a hash that hardly any other event of this time has.
fn identity(event: &Event<'_>) -> (i64, u64) {
    let mut hash = DefaultHasher::new();
    (&event.class().name, event.cycles()).hash(&mut hash);
    (event.time().unwrap_or_default(), hash.finish())
}

impl Round {
    /// Returns whether an event fires the trigger, and notes its request.
    fn fires(&mut self, event: &mut Event<'_>) -> bool {
        let Round { slower, failed, extractor, found, .. } = self;
        let failed = *failed;
        let is_slow = extractor.read(event, |report| {
            // Without `slower`, only events that fire the trigger are recorded.
            let is_slow = slower.is_none_or(|slower| match report.content {
                ReportContent::Span(span) => {
                    u128::from(span.duration_ns) >= slower.as_nanos()
                        || failed && span.fields.iter().any(|(key, _)| *key == "error")
                }
                ReportContent::KeyValue(key, _) => failed && key == "error",
                ReportContent::Event(_) => failed,
                _ => false,
            });
            let has_room = || found.requests.len() < REQUESTS_MAX;
            if is_slow && (has_room() || found.requests.contains(&report.trace_id)) {
                found.requests.insert(report.trace_id);
            } else if is_slow {
                found.requests_left_out += 1;
            }
            is_slow
        });
        // Other events are recorded for other conditions.
        is_slow.unwrap_or(true)
    }
}

impl Consumer for Round {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let identity = identity(event);
        if self.begin_ns.is_some_and(|begin| identity.0 <= begin) || self.earlier.has(identity) {
            return ControlFlow::Continue(());
        }
        if self.fires(event) {
            self.found.fired.push(identity);
            if self.found.first.is_none() {
                let mut text = Text::default();
                let printer = &mut self.printer;
                if let Some(Some(_)) = text.append(|out| printer.event(out, event)) {
                    let line = String::from_utf8_lossy(&text);
                    self.found.first = Some(line.trim_end().to_owned());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        // An earlier process has counted those that its traces had.
        if self.earlier.events.is_empty() {
            self.found.lost += loss.count.unwrap_or(1);
        }
        ControlFlow::Continue(())
    }
}
