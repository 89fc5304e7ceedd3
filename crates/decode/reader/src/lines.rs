//! Lines of text, in order of time, made on several threads.
//!
//! Each packet is a task of its own: a worker prints its events into [`Lines`], a block at a
//! time, and notes when each line happened. The caller's thread merges the blocks of all streams
//! (and prints too, when there is nothing to merge):
//! as long as one stream's lines are earlier than all others', they are passed on as one piece.
//! So the work is parallel within a stream and between streams, no byte is decoded twice, and
//! what is left for one thread to do is a comparison a line.
//!
//! Workers take the task whose next event may be the earliest, because the merge will ask for it
//! first. They stop when enough is printed and not passed on yet, except for the very task that
//! the merge waits for; so memory is bounded and nobody waits for ever.

use crate::event::Event;
use crate::loss::Loss;
use crate::reading::{Consumer, Reading};
use crate::trace::{Stream, Trace};
use crate::work::{Stats, Work};
use std::ops::{ControlFlow, Range};
use std::thread;

mod merging;
mod tasks;
mod text;

pub use text::{Piece, Text};

use merging::Merging;
use tasks::{Job, Shared};

/// Prints events as lines.
pub trait LinePrinter: Send {
    /// What the next line's delta refers to; `None`: what it would have been without this event.
    fn now(&self, event: &Event<'_>) -> Option<u64>;

    /// Appends an event's line to `out`, and says where its delta is to be, in bytes from the
    /// line's start; empty if there is none. `None`: the event could not be read; what was
    /// appended is dropped. May be asked again for the same event, with more room.
    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>>;

    /// Appends a loss' line to `out`, and says where it goes.
    fn loss(&mut self, out: &mut Text, trace: &Trace, stream: &Stream, loss: &Loss) -> Target;

    /// Writes the delta, the part of a line that depends on the line before, in its place; `false`
    /// if it does not fit exactly. `last` is the `now` of the line before, if there was one.
    fn put_delta(&self, place: &mut [u8], now: u64, last: Option<u64>) -> bool;

    /// Appends the delta.
    fn delta(&self, out: &mut Text, now: u64, last: Option<u64>);
}

/// Where a line goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// With the events.
    Output,
    /// With what is said about them.
    Messages,
}

/// A block of lines of one stream.
#[derive(Debug, Default)]
struct Lines {
    /// Number of the thread that prints it.
    thread: usize,
    text: Text,
    lines: Vec<Line>,
}

#[derive(Debug)]
struct Line {
    time: i64,
    now: Option<u64>,
    class: u32,
    /// End in the block's text.
    end: u32,
    delta: Range<u16>,
    target: Target,
}

/// Bytes of a block.
const BLOCK_SIZE: usize = 256 << 10;
impl Reading<'_> {
    /// Prints all events and losses, in order, with printers that `make` makes, and passes the
    /// text on to `sink` until it breaks.
    pub fn lines<P: LinePrinter>(
        &self,
        make: impl Fn() -> P + Sync,
        mut sink: impl FnMut(Target, &[u8]) -> ControlFlow<()>,
    ) -> Stats {
        if self.threads == 1 || self.limit.is_some() || !self.has_timed_packets() {
            let mut printing = Printing::new(make(), sink);
            let stats = self.ordered(&mut printing);
            let _ = printing.flush();
            return stats;
        }
        let shared = Shared::new(self);
        thread::scope(|scope| {
            let print_jobs = |thread| self.print_jobs(thread, &shared, make());
            let workers: Vec<_> =
                (1..self.threads).map(|thread| scope.spawn(move || print_jobs(thread))).collect();
            let mut stats = Merging::new(self, &shared, make()).pass_on(&mut sink);
            shared.close();
            for worker in workers {
                match worker.join() {
                    Ok(part) => stats.add(part),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            stats.problems.append(&mut shared.take_problems());
            stats
        })
    }

    /// Whether each packet says when it begins, so that it can be decoded without the one before.
    fn has_timed_packets(&self) -> bool {
        (0..self.stream_count()).all(|number| {
            let first = self.packets(number).next();
            first.is_none_or(|packet| packet.begin_ns.is_some())
        })
    }

    /// A worker: prints what there is to print.
    fn print_jobs<P: LinePrinter>(&self, thread: usize, shared: &Shared, mut printer: P) -> Stats {
        let mut work = Work::new(self);
        while let Some(job) = shared.take_job(thread, self) {
            shared.give_back(self.print_job(job, &mut work, &mut printer));
        }
        work.stats
    }

    /// Prints a block of the job's lines.
    fn print_job<P: LinePrinter>(
        &self,
        mut job: Job,
        work: &mut Work<'_, '_>,
        printer: &mut P,
    ) -> Job {
        while !job.done && job.lines.text.len() < BLOCK_SIZE {
            if !self.print_next(&mut job, work, printer) {
                self.begin_packet(&mut job, work, printer);
            }
        }
        work.tell(0);
        job
    }

    /// Prints the packet's next event; `false` at its end.
    #[inline]
    fn print_next<P: LinePrinter>(
        &self,
        job: &mut Job,
        work: &mut Work<'_, '_>,
        printer: &mut P,
    ) -> bool {
        let (trace, stream) = self.stream(job.stream);
        let class = match job.cursor.next(&trace.data) {
            Ok(Some(class)) => class,
            Ok(None) => return false,
            Err(problem) => {
                work.stats.problems.push(problem);
                return false;
            }
        };
        let time = trace.scale(stream.class).map(|scale| scale.ns(job.cursor.cycles()));
        job.floor = job.floor.max(time.unwrap_or(i64::MIN));
        if !work.in_range(time) {
            return true;
        }
        let lines = &mut job.lines;
        let start = lines.text.len();
        work.event(job.stream, &mut job.cursor, class, time, |event| {
            let now = printer.now(event);
            let Some(delta) = lines.text.append(|text| printer.event(text, event)) else {
                return lines.text.truncate(start);
            };
            let (time, target) = (job.floor, Target::Output);
            lines.push(Line { time, now, class, end: 0, delta, target });
        });
        true
    }

    /// Begins the job's next packet, if there is one.
    fn begin_packet<P: LinePrinter>(
        &self,
        job: &mut Job,
        work: &mut Work<'_, '_>,
        printer: &mut P,
    ) {
        let Some(mut packet) = job.packets.pop_front() else {
            job.done = true;
            return;
        };
        let (trace, stream) = self.stream(job.stream);
        for loss in std::mem::take(&mut packet.losses) {
            job.floor = job.floor.max(loss.from.map_or(i64::MIN, |(ns, _)| ns));
            if work.loss(&loss) {
                let text = &mut job.lines.text;
                let target = text.append(|text| printer.loss(text, trace, stream, &loss));
                job.lines.push(Line {
                    time: job.floor,
                    now: None,
                    class: 0,
                    end: 0,
                    delta: 0..0,
                    target,
                });
            }
        }
        work.tell(packet.size);
        if let Err(problem) = job.cursor.start(&trace.data, packet) {
            work.stats.problems.push(problem);
        }
    }
}

impl Lines {
    /// Room for a block and its last line, so that it need not grow.
    fn of_thread(thread: usize) -> Lines {
        Lines { thread, text: Text::with_room(BLOCK_SIZE + BLOCK_SIZE / 4), lines: Vec::new() }
    }

    fn push(&mut self, line: Line) {
        self.lines.push(Line { end: self.text.len() as u32, ..line });
    }
}

/// The plain way: one thread, each line in its turn.
#[derive(Debug)]
pub struct Printing<P, S> {
    printer: P,
    out: Text,
    last: Option<u64>,
    sink: S,
}

impl<P: LinePrinter, S: FnMut(Target, &[u8]) -> ControlFlow<()>> Printing<P, S> {
    /// Prints with `printer` to `sink`.
    pub fn new(printer: P, sink: S) -> Printing<P, S> {
        Printing { printer, out: Text::default(), last: None, sink }
    }

    /// Hands over what has been printed.
    pub fn flush(&mut self) -> ControlFlow<()> {
        let flow = match self.out.is_empty() {
            true => ControlFlow::Continue(()),
            false => (self.sink)(Target::Output, &self.out),
        };
        self.out.clear();
        flow
    }
}

impl<P: LinePrinter, S: FnMut(Target, &[u8]) -> ControlFlow<()>> Consumer for Printing<P, S> {
    #[inline]
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        let start = self.out.len();
        let printer = &mut self.printer;
        let now = printer.now(event);
        let Some(delta) = self.out.append(|out| printer.event(out, event)) else {
            self.out.truncate(start);
            return ControlFlow::Continue(());
        };
        if let Some(now) = now {
            let delta = start + usize::from(delta.start)..start + usize::from(delta.end);
            let last = self.last.replace(now);
            if !printer.put_delta(self.out.place(delta.clone()), now, last) {
                let text = Text::of(|text| printer.delta(text, now, last));
                self.out.replace(delta, &text);
            }
        }
        if self.out.len() >= BLOCK_SIZE { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        let start = self.out.len();
        let printer = &mut self.printer;
        let target = self.out.append(|out| printer.loss(out, trace, stream, loss));
        if target == Target::Messages {
            let message = self.out[start..].to_vec();
            self.out.truncate(start);
            self.flush()?;
            return (self.sink)(Target::Messages, &message);
        }
        ControlFlow::Continue(())
    }
}
