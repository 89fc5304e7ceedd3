//! Events and packets as a consumer gets them; the fields of an event are decoded on demand.

use crate::cursor::Cursor;
use crate::error::Problem;
use crate::packet::PacketPlace;
use crate::trace::{Stream, Trace};
use blkkin_ctf::decode::{Nothing, Visitor};
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
    /// Trace of the event.
    pub fn trace(&self) -> &'e Trace {
        self.trace
    }

    /// Stream of the event.
    pub fn stream(&self) -> &'e Stream {
        self.stream
    }

    /// Number of the stream in the reading.
    pub fn stream_number(&self) -> usize {
        self.stream_number
    }

    /// Index of the event class in the stream class.
    pub fn class_index(&self) -> usize {
        self.class as usize
    }

    /// Stream class in the trace's schema.
    pub fn stream_class(&self) -> &'e StreamClass {
        &self.trace.schema().streams[self.stream.class]
    }

    /// Event class in the trace's schema.
    pub fn class(&self) -> &'e EventClass {
        &self.stream_class().events[self.class as usize]
    }

    /// Time in nanoseconds from the clock's origin; `None` without a clock.
    #[inline]
    pub fn time(&self) -> Option<i64> {
        self.time
    }

    /// Time in cycles of the stream's clock.
    #[inline]
    pub fn cycles(&self) -> u64 {
        self.cursor.cycles()
    }

    /// Number of the packet, unique within the stream, so that a consumer can cache the text of a
    /// packet's context.
    #[inline]
    pub fn packet_number(&self) -> u64 {
        self.cursor.packet_number()
    }

    /// Visits the contexts and the payload; may be called more than once. Returns false if the
    /// event is invalid or truncated. The reader reports that, and the consumer must drop the
    /// event.
    #[inline]
    pub fn visit<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        let result = self.cursor.body(&self.trace.data, visitor);
        self.record_problem(result)
    }

    /// Passes the event's contexts and payload to `read` as bytes. `read` returns their size, or
    /// `None` if the bytes are too few; it is then called again with more. Only for events with
    /// [`blkkin_ctf::decode::Decoder::plain_fields`]. Returns false as [`Event::visit`] does.
    #[inline]
    pub fn read_plain(&mut self, read: impl FnMut(&[u8]) -> Option<usize>) -> bool {
        let result = self.cursor.plain_body(read);
        self.record_problem(result)
    }

    /// Decodes the event unless that is done; only a whole event counts.
    #[inline]
    pub(crate) fn skip_body(&mut self) {
        if !self.cursor.is_body_decoded() {
            self.visit(&mut Nothing);
        }
    }

    /// Reports the event as too large: its output exceeds the limit.
    #[cold]
    pub(crate) fn reject_as_too_large(&mut self) {
        *self.problem = Some(self.cursor.too_large());
    }

    #[inline]
    fn record_problem(&mut self, result: Result<bool, Problem>) -> bool {
        match result {
            Ok(whole) => whole,
            Err(problem) => {
                // A line that is printed a second time meets a packet that has ended.
                self.problem.get_or_insert(problem);
                false
            }
        }
    }

    /// Visits the context of the event's packet. Returns false if it is invalid.
    pub fn visit_packet_context<V: Visitor>(&mut self, visitor: &mut V) -> bool {
        self.cursor.packet_context(&self.trace.data, visitor)
    }
}

/// Packet as an [`crate::Unordered`] consumer gets it.
#[derive(Debug)]
pub struct PacketView<'p> {
    /// Location of the packet, and its header.
    pub place: PacketPlace<'p>,
    /// Begin of the packet in nanoseconds.
    pub begin_ns: Option<i64>,
    /// End of the packet in nanoseconds.
    pub end_ns: Option<i64>,
}
