//! Splits the events of one stream into packets.
//!
//! A reader detects losses between packets: lost events by a counter in each packet, lost packets
//! by their sequence numbers. A reader places lost events between the ends of the packets before
//! and after the loss, and lost packets between the end of the packet before and the begin of the
//! packet after the loss. So that the written trace has the same losses, a packet ends where a loss
//! begins. The next packet begins where a loss of packets ends, and ends where a loss of events
//! ends. Only a packet of [`FORCED_END_SIZE_MAX`] ends earlier.

use crate::directory::OutputDirectory;
use crate::error::Error;
use blkkin_ctf::encode::{EncodeError, Encoder, PacketEnd, PacketHead, PacketWriter};
use blkkin_reader::{Event, Loss, LossKind};
use std::path::PathBuf;
use std::sync::Arc;

/// Size in bytes at which a packet with a forced end is completed even before that end.
const FORCED_END_SIZE_MAX: usize = 64 << 20;

/// Identity of a stream within its trace: class and stream id.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StreamId {
    /// Index of the stream class.
    pub(crate) class: usize,
    /// Stream id, unique within the class.
    pub(crate) instance: u64,
}

/// Writer of one stream's packets to a file.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    path: PathBuf,
    is_created: bool,
    encoder: Arc<Encoder>,
    id: StreamId,
    writer: PacketWriter,
    /// Packet header, and packet context with the fields of the last source packet's context; the
    /// fields are blank before the first event.
    head: Option<PacketHead>,
    source_packet: Option<u64>,
    /// Packet to which events are added.
    open: Option<OpenPacket>,
    /// Next packet after a loss, which is written even without events; set only while no packet is
    /// open.
    pending: Option<PendingPacket>,
    /// End of the last written packet, in cycles; `None` before the first packet.
    end: Option<u64>,
    seq: u64,
    discarded: u64,
    packet_size: usize,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct OpenPacket {
    begin: u64,
    /// Time of the latest event, in cycles; `begin` if the packet has no events.
    last: u64,
    /// Time in cycles at which the packet must end: the end of a loss of events, or the begin of an
    /// empty packet after a loss; `None` otherwise.
    forced_end: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct PendingPacket {
    /// Begin of the loss that precedes the packet, in cycles; `None` if unknown.
    from: Option<u64>,
    begin: u64,
    forced_end: Option<u64>,
}

impl StreamWriter {
    pub(crate) fn new(
        path: PathBuf,
        encoder: Arc<Encoder>,
        id: StreamId,
        packet_size: usize,
    ) -> StreamWriter {
        StreamWriter {
            path,
            is_created: false,
            writer: PacketWriter::new(encoder.clone()),
            encoder,
            id,
            head: None,
            source_packet: None,
            open: None,
            pending: None,
            end: None,
            seq: 0,
            discarded: 0,
            packet_size,
            packets: 0,
            bytes: 0,
        }
    }

    /// Appends an event to the open packet. Completes the packet first if the source packet's
    /// context has changed or the event is after the forced end, and afterwards if the packet is
    /// full.
    #[inline]
    pub(crate) fn event(
        &mut self,
        output: &mut OutputDirectory,
        event: &mut Event<'_>,
    ) -> Result<(), Error> {
        if self.source_packet != Some(event.packet_number()) {
            self.start_source_packet(output, event)?;
        }
        let time = event.cycles();
        match &mut self.open {
            Some(open) if open.forced_end.is_none_or(|forced_end| time <= forced_end) => {
                open.last = open.last.max(time);
            }
            _ => self.open_packet_at(output, time)?,
        }
        let class = event.class_index();
        let done = self.writer.event(class, time, |writer| event.visit(writer));
        done.map_err(|error| self.error(&error))?;
        let has_forced_end = self.open.is_some_and(|open| open.forced_end.is_some());
        if self.writer.size() >= if has_forced_end { FORCED_END_SIZE_MAX } else { self.packet_size }
        {
            // A packet of this size is completed even before the loss ends.
            if let Some(open) = &mut self.open {
                open.forced_end = None;
            }
            self.close(output, 0)?;
        }
        Ok(())
    }

    /// Starts a new source packet. Completes the open packet if the packet context has changed.
    #[cold]
    fn start_source_packet(
        &mut self,
        output: &mut OutputDirectory,
        event: &mut Event<'_>,
    ) -> Result<(), Error> {
        self.source_packet = Some(event.packet_number());
        let head = self.encoder.head(self.id.class, self.id.instance, |writer| {
            event.visit_packet_context(writer);
        });
        if self.head.as_ref() != Some(&head) {
            self.close(output, 0)?;
            self.head = Some(head);
        }
        Ok(())
    }

    /// Completes the open packet, and opens a packet for an event at `time`. A pending packet that
    /// must end before `time` is written first.
    #[cold]
    fn open_packet_at(&mut self, output: &mut OutputDirectory, time: u64) -> Result<(), Error> {
        self.close(output, 0)?;
        if let Some(PendingPacket { forced_end: Some(forced_end), .. }) = self.pending
            && forced_end < time
        {
            self.write_pending(output)?;
        }
        let (begin, forced_end) = match self.pending.take() {
            Some(pending) => (pending.begin.min(time), pending.forced_end),
            None => (time, None),
        };
        self.open(begin, time, forced_end);
        Ok(())
    }

    fn open(&mut self, begin: u64, last: u64, forced_end: Option<u64>) {
        let head = self
            .head
            .get_or_insert_with(|| self.encoder.head_blank(self.id.class, self.id.instance));
        self.writer.begin(head, begin);
        self.open = Some(OpenPacket { begin, last, forced_end });
    }

    /// Completes the open packet, if any. The packet ends at its forced end, or at `end` if it has
    /// none, but not before its last event.
    fn close(&mut self, output: &mut OutputDirectory, end: u64) -> Result<(), Error> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let end = open.forced_end.unwrap_or(end).max(open.last).max(open.begin);
        let (seq, discarded) = (self.seq, self.discarded);
        let packet = PacketEnd { begin: open.begin, end, seq, discarded };
        let bytes = match self.writer.finish(packet) {
            Ok(bytes) => bytes,
            Err(error) => return Err(Error::new(&self.path, error.to_string())),
        };
        if !self.is_created {
            output.create_file(&self.path)?;
            self.is_created = true;
        }
        output.append(&self.path, bytes)?;
        self.packets += 1;
        self.bytes += bytes.len() as u64;
        self.seq = self.seq.wrapping_add(1);
        self.end = Some(end);
        Ok(())
    }

    fn write_pending(&mut self, output: &mut OutputDirectory) -> Result<(), Error> {
        if let Some(pending) = self.pending.take() {
            let end = pending.forced_end.unwrap_or(pending.begin);
            self.open(pending.begin, pending.begin, Some(end));
            self.close(output, end)?;
        }
        Ok(())
    }

    /// Records a loss after the events so far, and splits packets so that readers detect the loss.
    pub(crate) fn loss(&mut self, output: &mut OutputDirectory, loss: &Loss) -> Result<(), Error> {
        let cycles = |time: Option<(i64, u64)>| time.map(|(_, cycles)| cycles);
        let (from, to) = (cycles(loss.from), cycles(loss.to));
        // The reader reports losses of events and of packets between the same two packets
        // separately.
        if self.pending.is_none_or(|pending| pending.from != from) {
            self.close(output, from.unwrap_or(0))?;
            self.write_pending(output)?;
            let begin = from.or(self.end).unwrap_or(0);
            if loss.count.is_some() && self.end != Some(begin) {
                // A reader counts the loss from the end of a packet, so a packet with this end must
                // exist.
                self.open(begin, begin, None);
                self.close(output, begin)?;
            }
            self.pending = Some(PendingPacket { from, begin, forced_end: None });
        }
        let pending =
            self.pending.get_or_insert(PendingPacket { from, begin: 0, forced_end: None });
        match loss.kind {
            LossKind::Events => {
                self.discarded = match loss.count {
                    Some(count) => self.discarded.wrapping_add(count),
                    None => self.discarded.max(1),
                };
                pending.forced_end = to.map(|to| to.max(pending.begin));
            }
            LossKind::Packets => {
                self.seq = self.seq.wrapping_add(loss.count.unwrap_or(1));
                pending.begin = to.unwrap_or(pending.begin);
                pending.forced_end =
                    pending.forced_end.map(|forced_end| forced_end.max(pending.begin));
            }
        }
        Ok(())
    }

    /// Completes and writes the last packets.
    pub(crate) fn finish(&mut self, output: &mut OutputDirectory) -> Result<(), Error> {
        self.close(output, 0)?;
        self.write_pending(output)
    }

    fn error(&self, error: &EncodeError) -> Error {
        Error::new(&self.path, error.to_string())
    }
}
