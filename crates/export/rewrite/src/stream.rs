//! One stream's events, cut into packets.
//!
//! A reader finds losses between packets: events by a counter that every packet repeats, packets
//! by their numbers; and it tells that they happened between the end of the packet before and the
//! end (of packets: the begin) of the one after. So that the written trace tells the same, a
//! packet ends where a loss begins, and the next one goes on at least until where it ends.

use crate::directory::Output;
use crate::error::Error;
use blkkin_ctf::encode::{EncodeError, Encoder, Head, PacketEnd, PacketWriter};
use blkkin_reader::{Event, Loss, LossKind};
use std::path::PathBuf;
use std::sync::Arc;

/// A packet waits no longer for a loss to end.
const HELD_SIZE_MAX: usize = 64 << 20;

/// A stream that is written.
#[derive(Debug)]
pub(crate) struct StreamWriter {
    path: PathBuf,
    is_created: bool,
    encoder: Arc<Encoder>,
    class: usize,
    instance: u64,
    writer: PacketWriter,
    /// The header and context of the source's packet.
    head: Option<Head>,
    source_packet: Option<u64>,
    /// The packet that grows.
    open: Option<Open>,
    /// A packet that has to follow, with or without events.
    pending: Option<Pending>,
    /// Where the last packet ended.
    end: Option<u64>,
    seq: u64,
    discarded: u64,
    packet_size: usize,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    begin: u64,
    /// Time of the latest event.
    last: u64,
    /// It must end here.
    hold: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Where the loss before it began.
    from: Option<u64>,
    begin: u64,
    hold: Option<u64>,
}

impl StreamWriter {
    pub(crate) fn new(
        path: PathBuf,
        encoder: Arc<Encoder>,
        (class, instance): (usize, u64),
        packet_size: usize,
    ) -> StreamWriter {
        StreamWriter {
            path,
            is_created: false,
            writer: PacketWriter::new(encoder.clone()),
            encoder,
            class,
            instance,
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

    /// Adds an event.
    #[inline]
    pub(crate) fn event(
        &mut self,
        output: &mut Output,
        event: &mut Event<'_>,
    ) -> Result<(), Error> {
        if self.source_packet != Some(event.packet_number()) {
            self.context(output, event)?;
        }
        let time = event.cycles();
        match &mut self.open {
            Some(open) if open.hold.is_none_or(|hold| time <= hold) => {
                open.last = open.last.max(time);
            }
            _ => self.make_room(output, time)?,
        }
        let class = event.class_index();
        let done = self.writer.event(class, time, |writer| event.visit(writer));
        done.map_err(|error| self.error(&error))?;
        let held = self.open.is_some_and(|open| open.hold.is_some());
        if self.writer.size() >= if held { HELD_SIZE_MAX } else { self.packet_size } {
            // A loss that takes so long ends early.
            if let Some(open) = &mut self.open {
                open.hold = None;
            }
            self.close(output, 0)?;
        }
        Ok(())
    }

    /// The source's packet is another one: its context may be, too.
    #[cold]
    fn context(&mut self, output: &mut Output, event: &mut Event<'_>) -> Result<(), Error> {
        self.source_packet = Some(event.packet_number());
        let head = self.encoder.head(self.class, self.instance, |writer| {
            event.visit_packet_context(writer);
        });
        if self.head.as_ref() != Some(&head) {
            self.close(output, 0)?;
            self.head = Some(head);
        }
        Ok(())
    }

    /// Sees to it that a packet is open that may hold an event of that time.
    #[cold]
    fn make_room(&mut self, output: &mut Output, time: u64) -> Result<(), Error> {
        self.close(output, 0)?;
        if let Some(Pending { hold: Some(hold), .. }) = self.pending
            && hold < time
        {
            self.write_pending(output)?;
        }
        let (begin, hold) = match self.pending.take() {
            Some(pending) => (pending.begin.min(time), pending.hold),
            None => (time, None),
        };
        self.open(begin, time, hold);
        Ok(())
    }

    fn open(&mut self, begin: u64, last: u64, hold: Option<u64>) {
        let head =
            self.head.get_or_insert_with(|| self.encoder.head_blank(self.class, self.instance));
        self.writer.begin(head, begin);
        self.open = Some(Open { begin, last, hold });
    }

    /// Ends the open packet, if there is one, at its last event or where it has to end, and not
    /// before `end`.
    fn close(&mut self, output: &mut Output, end: u64) -> Result<(), Error> {
        let Some(open) = self.open.take() else { return Ok(()) };
        let end = open.hold.unwrap_or(end).max(open.last).max(open.begin);
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

    fn write_pending(&mut self, output: &mut Output) -> Result<(), Error> {
        if let Some(pending) = self.pending.take() {
            let end = pending.hold.unwrap_or(pending.begin);
            self.open(pending.begin, pending.begin, Some(end));
            self.close(output, end)?;
        }
        Ok(())
    }

    /// Something was lost between what came before and what comes next.
    pub(crate) fn loss(&mut self, output: &mut Output, loss: &Loss) -> Result<(), Error> {
        let cycles = |time: Option<(i64, u64)>| time.map(|(_, cycles)| cycles);
        let (from, to) = (cycles(loss.from), cycles(loss.to));
        // Of one packet come both kinds, one after the other.
        if self.pending.is_none_or(|pending| pending.from != from) {
            self.close(output, from.unwrap_or(0))?;
            self.write_pending(output)?;
            let begin = from.or(self.end).unwrap_or(0);
            if loss.count.is_some() && self.end != Some(begin) {
                // The loss is told as from the end of a packet, so there must be one.
                self.open(begin, begin, None);
                self.close(output, begin)?;
            }
            self.pending = Some(Pending { from, begin, hold: None });
        }
        let pending = self.pending.get_or_insert(Pending { from, begin: 0, hold: None });
        match loss.kind {
            LossKind::Events => {
                self.discarded = match loss.count {
                    Some(count) => self.discarded.wrapping_add(count),
                    None => self.discarded.max(1),
                };
                pending.hold = to.map(|to| to.max(pending.begin));
            }
            LossKind::Packets => {
                self.seq = self.seq.wrapping_add(loss.count.unwrap_or(1));
                pending.begin = to.unwrap_or(pending.begin);
                pending.hold = pending.hold.map(|hold| hold.max(pending.begin));
            }
        }
        Ok(())
    }

    /// Writes what is left.
    pub(crate) fn finish(&mut self, output: &mut Output) -> Result<(), Error> {
        self.close(output, 0)?;
        self.write_pending(output)
    }

    fn error(&self, error: &EncodeError) -> Error {
        Error::new(&self.path, error.to_string())
    }
}
