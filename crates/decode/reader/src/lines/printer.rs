//! Interface of printers ([`LinePrinter`]), and its use on one thread ([`Printing`]). A printer
//! turns events into lines of text.

use crate::event::Event;
use crate::event_merge::Consumer;
use crate::loss::Loss;
use crate::text::Text;
use crate::trace::{Stream, Trace};
use std::ops::{ControlFlow, Range};

/// Printer that turns events and losses into lines of text.
pub trait LinePrinter: Send {
    /// Returns the reference value of the event for the line's delta column, such as its time.
    /// `None` keeps the value of the previous line.
    fn now(&self, event: &Event<'_>) -> Option<u64>;

    /// Appends an event's line to `out`. Returns the byte range of the delta column, relative to
    /// the line's start; the range is empty if the line has no delta. Returns `None` if the event
    /// cannot be read; the appended bytes are then dropped. May be called again for the same event,
    /// with more capacity.
    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>>;

    /// Appends the line for a loss to `out`. Returns the target to which the line is to be written.
    fn loss(&mut self, out: &mut Text, trace: &Trace, stream: &Stream, loss: &Loss) -> Target;

    /// Writes the delta into `place`, the bytes of the line's delta column, or nothing if `place`
    /// is empty. Returns false if `place` is not empty and the delta has another length. `last` is
    /// the latest reference value of the earlier lines; `None` if no earlier line has one.
    fn put_delta(&self, place: &mut [u8], now: u64, last: Option<u64>) -> bool;

    /// Appends the delta of any length to `out`. `last` is the same as for
    /// [`LinePrinter::put_delta`].
    fn delta(&self, out: &mut Text, now: u64, last: Option<u64>);
}

/// Target to which a line is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The output that also receives the lines of events.
    Output,
    /// Messages to the user, which are separate from the output.
    Messages,
}

/// Size from which a block of text is full: 256 KiB.
pub(super) const BLOCK_SIZE: usize = 256 << 10;

/// Consumer that prints each event when it is delivered, on one thread.
#[derive(Debug)]
pub struct Printing<P, S> {
    printer: P,
    out: Text,
    last: Option<u64>,
    sink: S,
}

impl<P: LinePrinter, S: FnMut(Target, &[u8]) -> ControlFlow<()>> Printing<P, S> {
    /// Makes a consumer that prints lines with `printer` and passes them to `sink`.
    pub fn new(printer: P, sink: S) -> Printing<P, S> {
        Printing { printer, out: Text::default(), last: None, sink }
    }

    /// Passes the printed text to the sink, and clears the text. Returns the sink's result.
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

/// Appends an event's line. Returns the event's reference value, and the byte range of the line's
/// delta in the text. Returns `None` if the event cannot be read or its line is too large.
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
            event.reject_as_too_large();
            None
        }
    }
}

/// Writes a line's delta over the byte range `place` of the text. If the delta has another length
/// than the range, moves the text after the range.
#[inline(always)]
pub(super) fn set_delta(
    printer: &impl LinePrinter,
    out: &mut Text,
    place: Range<usize>,
    now: u64,
    last: Option<u64>,
) {
    if !printer.put_delta(out.slice_mut(place.clone()), now, last) {
        out.replace(place, &Text::from_print(|text| printer.delta(text, now, last)));
    }
}
