//! Events that fire a trigger, in the traces of its session.

use super::options::ConditionArgs;
use blkkin_reader::{
    BoundFilter, Consumer, Event, Follower, LinePrinter, Loss, Source, Stream, Text, Trace,
};
use blkkin_spans::{Extractor, ReportContent};
use blkkin_text::json::JsonPrinter;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

/// Reader of the events that fire a trigger.
pub(super) struct Matching {
    follower: Follower,
    slower: Option<Duration>,
    only_killed: bool,
    /// Time of the last event that an earlier process has read, in nanoseconds since 1970. Later
    /// rounds of reading have new events only.
    read_until: Option<i64>,
}

/// Maximum number of requests that are noted at a time.
pub(super) const REQUESTS_MAX: usize = 10_000;
/// Filter for the ends of processes by a signal. The kernel records all ends.
const KILLED: &str = "$event.name != \"process:exit\" || code & 127 != 0";

/// Events that were found in one round of reading.
#[derive(Debug, Default)]
pub(super) struct Matches {
    /// Number of events that fire the trigger.
    pub(super) events: u64,
    /// First of them, as JSON.
    pub(super) first: Option<String>,
    /// Lower halves of the trace ids of their requests, at most [`REQUESTS_MAX`].
    pub(super) requests: BTreeSet<u64>,
    /// Time of the latest event, also of one that does not fire, in nanoseconds since 1970.
    pub(super) last_ns: Option<i64>,
}

impl Matching {
    /// Prepares reading of the traces below `directory`, for a trigger with these conditions.
    pub(super) fn new(
        directory: &Path,
        conditions: &ConditionArgs,
        read_until: Option<i64>,
    ) -> Matching {
        Matching::of(Source::Path(directory.to_owned()), conditions, read_until)
    }

    /// Prepares reading of a source.
    pub(super) fn of(
        source: Source,
        conditions: &ConditionArgs,
        read_until: Option<i64>,
    ) -> Matching {
        let follower = Follower::new(&[source]);
        let (slower, only_killed) = (conditions.slower, conditions.killed);
        Matching { follower, slower, only_killed, read_until }
    }

    /// Reads the events that were recorded since the last round.
    pub(super) fn read(&mut self) -> Matches {
        let read_until = self.read_until.take();
        self.read_until(None, read_until)
    }

    /// Reads the events since the last round that were recorded before `end_ns`, or all, and after
    /// `begin_ns`, in nanoseconds since 1970.
    pub(super) fn read_until(&mut self, end_ns: Option<i64>, begin_ns: Option<i64>) -> Matches {
        let mut round = Round {
            slower: self.slower,
            begin_ns,
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
        round.found
    }
}

struct Round {
    slower: Option<Duration>,
    begin_ns: Option<i64>,
    extractor: Extractor,
    printer: JsonPrinter,
    found: Matches,
}

impl Round {
    /// Returns whether an event fires the trigger, and notes its request.
    fn fires(&mut self, event: &mut Event<'_>) -> bool {
        let Round { slower, extractor, found, .. } = self;
        let is_slow = extractor.read(event, |report| {
            let is_slow = slower.is_none_or(|slower| match report.content {
                ReportContent::Span(span) => u128::from(span.duration_ns) >= slower.as_nanos(),
                ReportContent::Activity(_) => false,
                _ => true,
            });
            if is_slow && found.requests.len() < REQUESTS_MAX {
                found.requests.insert(report.trace_id);
            }
            is_slow
        });
        // Other events are recorded for other conditions.
        is_slow.unwrap_or(true)
    }
}

impl Consumer for Round {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let time = event.time();
        if self.begin_ns.is_some_and(|begin| time.is_some_and(|time| time <= begin)) {
            return ControlFlow::Continue(());
        }
        self.found.last_ns = self.found.last_ns.max(time);
        if self.fires(event) {
            self.found.events += 1;
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

    fn loss(&mut self, _: &Trace, _: &Stream, _: &Loss) -> ControlFlow<()> {
        // An event that found no room in its ring was one that fires, and others are there.
        ControlFlow::Continue(())
    }
}
