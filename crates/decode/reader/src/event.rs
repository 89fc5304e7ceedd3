//! An event as a consumer sees it: where it is from, when it happened, and its fields on demand.

use crate::cursor::Cursor;
use crate::error::Problem;
use crate::packet::PacketPlace;
use crate::trace::{Stream, Trace};
use blkkin_ctf::decode::{Nothing, Visitor};
use blkkin_ctf::schema::{EventClass, StreamClass};

/// An event. Its fields are decoded when [`Event::visit`] asks for them.
pub struct Event<'e> {
    pub(crate) cursor: &'e mut Cursor,
    pub(crate) trace: &'e Trace,
    pub(crate) stream: &'e Stream,
    pub(crate) stream_number: usize,
    pub(crate) class: u32,
    pub(crate) time: Option<i64>,
    pub(crate) problem: &'e mut Option<Problem>,
}

impl<'e> Event<'e> {
    /// The trace that it is from.
    pub fn trace(&self) -> &'e Trace {
        self.trace
    }

    /// The stream that it is from.
    pub fn stream(&self) -> &'e Stream {
        self.stream
    }

    /// Number of the stream among all that are read together.
    pub fn stream_number(&self) -> usize {
        self.stream_number
    }

    /// Index of the event class in its stream class.
    pub fn class_index(&self) -> usize {
        self.class as usize
    }

    /// The class of its stream.
    pub fn stream_class(&self) -> &'e StreamClass {
        &self.trace.schema().streams[self.stream.class]
    }

    /// What is known of it from the metadata.
    pub fn class(&self) -> &'e EventClass {
        &self.stream_class().events[self.class as usize]
    }

    /// When it happened, in nanoseconds from the clock's origin; `None` without a clock.
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// When it happened, in cycles of the stream's clock.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cursor.cycles()
    }

    /// A number that changes with each packet of the stream, so that a consumer can keep what it
    /// made of the packet's context.
    #[inline]
    pub fn packet_number(&self) -> u64 {
        self.cursor.packet_number()
    }

    /// Visits the contexts and the payload. May be called more than once; `false` means that the
    /// bytes make no sense, and that the event must be forgotten (the reader reports it).
    #[inline]
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        let result = self.cursor.body(&self.trace.data, visitor);
        self.noted(result)
    }

    /// Lets `read` take the event's contexts and payload from the bytes that start with them, and
    /// say how many these are; `None` if there are too few bytes, then it is asked again with
    /// more. For events that [`blkkin_ctf::decode::Decoder::plain_fields`] describes. `false` as
    /// for [`Event::visit`].
    #[inline]
    pub fn read_plain(&mut self, read: impl FnMut(&[u8]) -> Option<usize>) -> bool {
        let result = self.cursor.plain_body(read);
        self.noted(result)
    }

    /// Finds out whether it is there in full: only then it counts.
    #[inline]
    pub(crate) fn pass_over(&mut self) {
        if !self.cursor.has_passed_body() {
            self.visit(&mut Nothing);
        }
    }

    /// Makes an error of it: what it is turned into would be too large.
    #[cold]
    pub(crate) fn is_too_large(&mut self) {
        *self.problem = Some(self.cursor.too_large());
    }

    #[inline]
    fn noted(&mut self, result: Result<bool, Problem>) -> bool {
        match result {
            Ok(whole) => whole,
            Err(problem) => {
                // A line that is printed again meets a packet that has ended.
                self.problem.get_or_insert(problem);
                false
            }
        }
    }

    /// Visits the context of the packet that holds the event.
    pub fn visit_packet_context<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        self.cursor.packet_context(&self.trace.data, visitor)
    }
}

/// A packet as an unordered consumer sees it.
#[derive(Debug)]
pub struct PacketView<'p> {
    /// Where it lies and what its header says.
    pub place: PacketPlace<'p>,
    /// Its start and end in nanoseconds.
    pub begin_ns: Option<i64>,
    /// See `begin_ns`.
    pub end_ns: Option<i64>,
}
