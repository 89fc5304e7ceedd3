//! Events and packets in the form that consumers receive. Fields are decoded on demand.

use crate::cursor::Cursor;
use crate::error::Problem;
use crate::packet::PacketLocation;
use crate::trace::{Stream, Trace};
use blkkin_ctf::decode::{NullVisitor, Visitor};
use blkkin_ctf::schema::{EventClass, StreamClass};

/// Event of a stream. [`Event::visit`] decodes its fields.
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
    /// Returns the trace that the event belongs to.
    pub fn trace(&self) -> &'e Trace {
        self.trace
    }

    /// Returns the stream that the event belongs to.
    pub fn stream(&self) -> &'e Stream {
        self.stream
    }

    /// Returns the number of the event's stream, unique in the reading.
    pub fn stream_number(&self) -> usize {
        self.stream_number
    }

    /// Returns the index of the event class in [`stream_class`](Self::stream_class).
    pub fn class_index(&self) -> usize {
        self.class as usize
    }

    /// Returns the stream class of the event, from the trace's schema.
    pub fn stream_class(&self) -> &'e StreamClass {
        &self.trace.schema().streams[self.stream.class]
    }

    /// Returns the class of the event, from the trace's schema.
    pub fn class(&self) -> &'e EventClass {
        &self.stream_class().events[self.class as usize]
    }

    /// Returns the event's time in nanoseconds from the clock's origin; `None` if the stream has no
    /// clock.
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// Returns the event's time in cycles of the stream's clock.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cursor.cycles()
    }

    /// Returns the number of the event's packet, unique within the stream. A consumer can use it to
    /// cache the text of a packet's context.
    #[inline]
    pub fn packet_number(&self) -> u64 {
        self.cursor.packet_number()
    }

    /// Visits the fields of the event's contexts and payload; may be called more than once. Returns
    /// false if the event is invalid or truncated. The reader then reports the problem, and the
    /// consumer must drop the event.
    #[inline]
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        let result = self.cursor.body(&self.trace.data, visitor);
        self.record_problem(result)
    }

    /// Calls `read` with the bytes from the start of the event's contexts and payload on; `read`
    /// returns the size of both. If `read` returns `None` because it needs more bytes, it is called
    /// again with more. Only for events with [`blkkin_ctf::decode::Decoder::plain_fields`]. Returns
    /// false in the same cases as [`Event::visit`].
    #[inline]
    pub fn read_plain(&mut self, read: impl FnMut(&[u8]) -> Option<usize>) -> bool {
        let result = self.cursor.plain_body(read);
        self.record_problem(result)
    }

    /// Decodes the event without passing on its fields, unless the event has already been decoded.
    /// This shows whether the event is whole; only whole events are counted.
    #[inline]
    pub(crate) fn skip_body(&mut self) {
        if !self.cursor.is_body_decoded() {
            self.visit(&mut NullVisitor);
        }
    }

    /// Records that the event is too large: the line printed for it exceeds the limit of
    /// [`crate::Text::append`].
    #[cold]
    pub(crate) fn reject_as_too_large(&mut self) {
        *self.problem = Some(self.cursor.too_large());
    }

    #[inline]
    fn record_problem(&mut self, result: Result<bool, Problem>) -> bool {
        match result {
            Ok(whole) => whole,
            Err(problem) => {
                // A line may be printed twice; the second time the packet has ended, so the first
                // problem is the true one.
                self.problem.get_or_insert(problem);
                false
            }
        }
    }

    /// Visits the fields of the context of the event's packet. Returns false if the context is
    /// invalid.
    pub fn visit_packet_context<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        self.cursor.packet_context(&self.trace.data, visitor)
    }
}

/// Packet in the form in which [`crate::Unordered`] consumers receive it.
#[derive(Debug)]
pub struct PacketView<'p> {
    /// Location of the packet in its file, and the fields of its header and context.
    pub place: PacketLocation<'p>,
    /// Begin of the packet in nanoseconds from the clock's origin; `None` if unknown.
    pub begin_ns: Option<i64>,
    /// End of the packet in nanoseconds from the clock's origin; `None` if unknown.
    pub end_ns: Option<i64>,
}
