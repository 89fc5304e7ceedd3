//! `blkkin send` for traces: events as JSON, or requests as spans; with `--follow`, from a growing
//! trace.

use super::messages::{GRACE, MessageSink};
use super::options::Args;
use crate::exit::{self, Error, Exit};
use crate::input::Selection;
use crate::interrupt::Interrupt;
use crate::output::{ColorChoice, describe_losses};
use crate::progress::ProgressLine;
use blkkin_reader::{Consumer, Follower, Printing, Reading, Source, Stats};
use blkkin_scribe::base64;
use blkkin_spans::{Collector, Limits, Request, Sink};
use blkkin_text::json::JsonPrinter;
use blkkin_wire::{Format, encode};
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::time::Instant;

pub(super) fn send(
    args: &Args,
    messages: &mut MessageSink,
    interrupt: &Interrupt,
) -> Result<Exit, Error> {
    let stats = match (args.spans, args.follow) {
        (false, false) => read(args, interrupt, |reading| {
            reading.lines(JsonPrinter::default, |_, text| push_lines(messages, text))
        })?,
        (false, true) => {
            let messages = RefCell::new(messages);
            let sink = |_, text: &[u8]| push_lines(&mut messages.borrow_mut(), text);
            let mut printing = Printing::new(JsonPrinter::default(), sink);
            follow(args, interrupt, &mut printing, |printing, _| {
                printing.flush()?;
                messages.borrow_mut().flush()
            })?
        }
        (true, false) => {
            let mut collector = Collector::new(Limits::default(), Spans::new(messages));
            let stats = read(args, interrupt, |reading| reading.ordered(&mut collector))?;
            let _ = collector.finish();
            stats
        }
        (true, true) => {
            let limits = Limits { idle_ns: 5_000_000_000, ..Limits::default() };
            let mut collector = Collector::new(limits, Spans::new(messages));
            let stats = follow(args, interrupt, &mut collector, |collector, now| {
                collector.advance(now)?;
                collector.sink.messages.flush()
            })?;
            let _ = collector.finish();
            stats
        }
    };
    if let Some(lost) = describe_losses(&stats) {
        exit::note(&format!("lost by the tracer in all: {lost}"));
    }
    Ok(exit::report_problems(&stats.problems))
}

/// Pushes each line, without its line feed, as a message; returns `Break` if sending should stop.
fn push_lines(messages: &mut MessageSink, text: &[u8]) -> ControlFlow<()> {
    let mut lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines.try_for_each(|line| messages.push(line))
}

/// Reads the traces once, to their end or until Ctrl-C.
fn read(
    args: &Args,
    interrupt: &Interrupt,
    work: impl FnOnce(Reading<'_>) -> Stats,
) -> Result<Stats, Error> {
    let opened = args.input.open()?;
    let color = ColorChoice::Auto.applies(&std::io::stderr());
    let reading = Reading::new(&opened.traces).threads(args.input.threads());
    let selection = args.select.resolve(&opened.traces, args.clock_gmt, color)?;
    let asked = interrupt.clone();
    let reading = selection.apply(reading).stop_when(move || asked.is_set());
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), false);
    let mut stats = work(reading);
    drop(line);
    stats.problems.splice(0..0, opened.problems);
    Ok(stats)
}

/// Reads a growing trace until Ctrl-C. Calls `flush` after each round of reading, with the
/// nanoseconds since the start; reading ends when it returns `Break`.
fn follow<C: Consumer>(
    args: &Args,
    interrupt: &Interrupt,
    consumer: &mut C,
    mut flush: impl FnMut(&mut C, i64) -> ControlFlow<()>,
) -> Result<Stats, Error> {
    let sources = args.input.sources()?;
    if sources.iter().any(|source| matches!(source, Source::Stdin { .. })) {
        return Err(Error::usage("--follow cannot read standard input")
            .hint("give the directory that the recording is written to"));
    }
    let mut follower = Follower::new(&sources);
    // Warnings are reported with all other problems at the end.
    for problem in follower.problems().iter().filter(|problem| !problem.is_warning()) {
        exit::warn(&format!("{problem}; waiting for what may come"));
    }
    let mut stats = Stats::default();
    let mut times = args.select.times(follower.traces(), args.clock_gmt)?;
    let filter = args.select.growing_filter(follower.traces(), ColorChoice::Auto)?;
    let start = Instant::now();
    loop {
        // Read the flag first, so that events recorded before it was set are still sent in the last
        // round.
        let ends = interrupt.is_set();
        if follower.refresh(ends) && !times.are_final {
            times = args.select.times(follower.traces(), args.clock_gmt)?;
        }
        let selection = Selection { range: times.range, filter: filter.clone() };
        let asked = interrupt.clone();
        stats.add(follower.deliver(
            |reading| selection.apply(reading).stop_when(move || asked.is_set_since(GRACE)),
            consumer,
        ));
        let now = i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX);
        if flush(consumer, now).is_break() || ends {
            stats.problems.extend(follower.problems());
            return Ok(stats);
        }
        if !interrupt.is_set() {
            follower.wait();
        }
    }
}

/// Sink that encodes each span of a request as a message.
struct Spans<'m> {
    messages: &'m mut MessageSink,
    thrift: Vec<u8>,
    text: String,
}

impl<'m> Spans<'m> {
    fn new(messages: &'m mut MessageSink) -> Spans<'m> {
        Spans { messages, thrift: Vec::new(), text: String::new() }
    }
}

impl Sink for Spans<'_> {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        for step in &request.steps {
            self.thrift.clear();
            self.text.clear();
            let thrift = &mut self.thrift;
            step.with_own_tags(|span| encode(Format::ZipkinThriftSpan, [*span], thrift));
            base64::encode(&self.thrift, &mut self.text);
            self.messages.push(self.text.as_bytes())?;
        }
        self.messages.flow()
    }
}
