//! Lines of one event or loss each, and [`Printing`], which makes them on one thread.

use crate::event::Event;
use crate::loss::Loss;
use crate::ordered::Consumer;
use crate::text::Text;
use crate::trace::{Stream, Trace};
use std::ops::{ControlFlow, Range};

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

/// Bytes of text that are passed on together.
pub(super) const BLOCK_SIZE: usize = 256 << 10;

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
        let Some((now, delta)) = print_event(&mut self.printer, &mut self.out, event) else {
            return ControlFlow::Continue(());
        };
        if let Some(now) = now {
            let last = self.last.replace(now);
            set_delta(&self.printer, &mut self.out, delta, now, last);
        }
        if self.out.len() >= BLOCK_SIZE { self.flush() } else { ControlFlow::Continue(()) }
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) -> ControlFlow<()> {
        let start = self.out.len();
        let printer = &mut self.printer;
        let target = self.out.append(|out| printer.loss(out, trace, stream, loss));
        if target == Some(Target::Messages) {
            let message = self.out[start..].to_vec();
            self.out.truncate(start);
            self.flush()?;
            return (self.sink)(Target::Messages, &message);
        }
        if self.out.len() >= BLOCK_SIZE { self.flush() } else { ControlFlow::Continue(()) }
    }
}

/// Appends an event's line; gives its `now`, and the place of its delta in the text.
#[inline(always)]
pub(super) fn print_event(
    printer: &mut impl LinePrinter,
    out: &mut Text,
    event: &mut Event<'_>,
) -> Option<(Option<u64>, Range<usize>)> {
    let start = out.len();
    let now = printer.now(event);
    match out.append(|out| printer.event(out, event)) {
        Some(Some(delta)) => {
            Some((now, start + usize::from(delta.start)..start + usize::from(delta.end)))
        }
        Some(None) => {
            out.truncate(start);
            None
        }
        None => {
            event.is_too_large();
            None
        }
    }
}

/// Fills in the last line's delta.
#[inline(always)]
pub(super) fn set_delta(
    printer: &impl LinePrinter,
    out: &mut Text,
    place: Range<usize>,
    now: u64,
    last: Option<u64>,
) {
    if !printer.put_delta(out.place(place.clone()), now, last) {
        out.replace(place, &Text::of(|text| printer.delta(text, now, last)));
    }
}
