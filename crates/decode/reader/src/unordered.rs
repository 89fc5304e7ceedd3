//! Reading without order, packet by packet, on several threads. Meant for statistics.

use crate::cursor::Cursor;
use crate::delivery::{Delivery, StreamEvent};
use crate::event::{Event, PacketView};
use crate::loss::Loss;
use crate::packet::PacketRef;
use crate::reading::Reading;
use crate::stats::Stats;
use crate::trace::{Stream, Trace};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::mpsc;
use std::thread;
use std::vec;

/// Consumer that receives events without order, packet by packet.
pub trait Unordered: Send {
    /// True if events are delivered; otherwise they are only counted.
    const EVENTS: bool = true;

    /// Receives a packet. The packet's events follow.
    fn packet(&mut self, trace: &Trace, stream: &Stream, packet: &PacketView<'_>);

    /// Receives an event of the packet that was received last.
    fn event(&mut self, event: &mut Event<'_>);

    /// Receives a loss before or within the packet that is received next.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss);
}

/// Minimum total size of the packets in a worker's batch, in bytes. The last batch of a stream may
/// be smaller.
const BATCH_SIZE: u64 = 512 << 10;
/// Size of a cursor's window in bytes; it fits into a core's own cache.
const WINDOW: usize = 256 << 10;

/// Packet for a worker, with its stream.
struct StreamPacket {
    /// Number of the stream in the reading.
    stream: usize,
    /// Packet to read, with the losses before and within it.
    packet: PacketRef,
}

impl Reading<'_> {
    /// Delivers the events in the reading's range that its filter accepts, without order. Each
    /// thread has a consumer of its own, made by `make`. Returns the consumers and the totals.
    pub fn unordered<U: Unordered>(&self, make: impl Fn() -> U + Sync) -> (Vec<U>, Stats) {
        let (sender, receiver) = mpsc::sync_channel::<Vec<StreamPacket>>(self.threads);
        let receiver = Mutex::new(receiver);
        let read_batches = || {
            let mut consumer = make();
            let mut delivery = Delivery::new(self);
            let mut cursors = Cursors::default();
            loop {
                let batch = receiver.lock().recv();
                let Ok(batch) = batch else { return (consumer, delivery.stats) };
                let mut packets = batch.into_iter();
                if !U::EVENTS && delivery.accepts_all() {
                    while let Some(()) =
                        self.count_packets(&mut delivery, &mut cursors, &mut packets, &mut consumer)
                    {
                    }
                    continue;
                }
                for packet in packets {
                    self.read_packet(&mut delivery, &mut cursors, packet, &mut consumer);
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(read_batches)).collect();
            let mut stats = Stats::default();
            for number in 0..self.stream_count() {
                let mut packets = self.packets(number);
                let mut batch = Vec::new();
                let mut size = 0;
                while let Some(packet) = packets.next() {
                    size += packet.size;
                    let is_independent = packet.is_independent();
                    batch.push(StreamPacket { stream: number, packet });
                    if size >= BATCH_SIZE && is_independent && batch.len() > 1 {
                        let _ = sender.send(std::mem::take(&mut batch));
                        size = 0;
                    }
                }
                let _ = sender.send(batch);
                stats.problems.append(&mut packets.problems);
            }
            drop(sender);
            let mut consumers = Vec::new();
            for worker in workers {
                let (consumer, part) = worker.join().unwrap_or_else(|panic| resume_unwind(panic));
                consumers.push(consumer);
                stats.add(part);
            }
            (consumers, stats)
        })
    }

    /// Passes a packet, its losses and its selected events to the consumer. Without
    /// [`Unordered::EVENTS`], the events are only counted.
    fn read_packet<U: Unordered>(
        &self,
        delivery: &mut Delivery<'_, '_>,
        cursors: &mut Cursors,
        packet: StreamPacket,
        consumer: &mut U,
    ) {
        let number = packet.stream;
        let (trace, stream) = self.stream(number);
        let (cursor, _) = cursors.for_trace(trace);
        let scale = trace.data.scale(stream.class);
        if !self.start_packet(delivery, cursor, packet, consumer) {
            return;
        }
        loop {
            match cursor.next(&trace.data) {
                Ok(Some(class)) => {
                    let time = scale.as_ref().map(|scale| scale.ns(cursor.cycles()));
                    if delivery.in_range(time) {
                        let event = StreamEvent { stream: number, cursor, class, time };
                        delivery.deliver(event, |event| match U::EVENTS {
                            true => consumer.event(event),
                            false => event.skip_body(),
                        });
                    }
                }
                Ok(None) => break,
                Err(problem) => {
                    delivery.stats.problems.push(problem);
                    break;
                }
            }
        }
        delivery.report_progress(0);
    }

    /// Passes the next packet to the consumer and counts its events. If the next two packets are
    /// independent and of one trace, handles both with interleaved walks. Returns `None` if
    /// `packets` is empty.
    fn count_packets<U: Unordered>(
        &self,
        delivery: &mut Delivery<'_, '_>,
        cursors: &mut Cursors,
        packets: &mut vec::IntoIter<StreamPacket>,
        consumer: &mut U,
    ) -> Option<()> {
        let first = packets.next()?;
        let (trace, _) = self.stream(first.stream);
        let (cursor, other_cursor) = cursors.for_trace(trace);
        let is_independent = first.packet.is_independent();
        if !self.start_packet(delivery, cursor, first, consumer) {
            return Some(());
        }
        let can_pair = |other: &StreamPacket| {
            is_independent
                && other.packet.is_independent()
                && self.stream(other.stream).0.id == trace.id
        };
        let data = &*trace.data;
        if packets.as_slice().first().is_some_and(can_pair)
            && let Some(second) = packets.next()
            && self.start_packet(delivery, other_cursor, second, consumer)
        {
            let problems = &mut delivery.stats.problems;
            let count = Cursor::skip_two((cursor, data), (other_cursor, data), problems);
            delivery.count_events(count);
            let (count, problem) = other_cursor.skip_rest(data);
            delivery.count_events(count);
            delivery.stats.problems.extend(problem);
        }
        let (count, problem) = cursor.skip_rest(data);
        delivery.count_events(count);
        delivery.stats.problems.extend(problem);
        delivery.report_progress(0);
        Some(())
    }

    /// Passes the next packet and its losses to the consumer, and starts the cursor in the packet.
    /// Returns false if the cursor cannot start.
    fn start_packet<U: Unordered>(
        &self,
        delivery: &mut Delivery<'_, '_>,
        cursor: &mut Cursor,
        mut next: StreamPacket,
        consumer: &mut U,
    ) -> bool {
        let (trace, stream) = self.stream(next.stream);
        let packet = &mut next.packet;
        for loss in std::mem::take(&mut packet.losses) {
            if let Some(loss) = delivery.count_loss(loss, trace.data.scale(stream.class)) {
                consumer.loss(trace, stream, &loss);
            }
        }
        let view = PacketView {
            place: packet.location(),
            begin_ns: packet.begin_ns,
            end_ns: packet.end_ns,
        };
        consumer.packet(trace, stream, &view);
        delivery.report_progress(packet.size);
        match cursor.start(&trace.data, next.packet) {
            Ok(()) => true,
            Err(problem) => {
                delivery.stats.problems.push(problem);
                false
            }
        }
    }
}

/// Pair of cursors for each trace, by trace id.
#[derive(Default)]
struct Cursors(HashMap<usize, (Cursor, Cursor)>);

impl Cursors {
    fn for_trace(&mut self, trace: &Trace) -> (&mut Cursor, &mut Cursor) {
        let make = || Cursor::new(&trace.data, WINDOW);
        let (one, other) = self.0.entry(trace.id).or_insert_with(|| (make(), make()));
        (one, other)
    }
}
