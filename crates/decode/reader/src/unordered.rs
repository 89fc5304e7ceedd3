//! Events in any order, packet by packet, on several threads: for whoever only counts.

use crate::cursor::Cursor;
use crate::delivery::Work;
use crate::event::{Event, PacketView};
use crate::loss::Loss;
use crate::packet::PacketRef;
use crate::reading::Reading;
use crate::stats::Stats;
use crate::trace::{Stream, Trace};
use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;
use std::vec;

/// Makes something of events that come in any order, packet by packet.
pub trait Unordered: Send {
    /// Whether it wants to see events; without, they are only decoded and counted.
    const EVENTS: bool = true;

    /// A packet's events follow.
    fn packet(&mut self, trace: &Trace, stream: &Stream, packet: &PacketView<'_>);

    /// An event of that packet.
    fn event(&mut self, event: &mut Event<'_>);

    /// Something was lost before that packet.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss);
}

/// Bytes of packets that are worth a worker's while.
const BATCH_SIZE: u64 = 512 << 10;
/// Bytes that a cursor should hold: what stays in a core's own cache.
const WINDOW: usize = 256 << 10;

impl Reading<'_> {
    /// Passes all events, in any order, to consumers that `make` makes, one a thread.
    pub fn unordered<U: Unordered>(&self, make: impl Fn() -> U + Sync) -> (Vec<U>, Stats) {
        let (sender, receiver) = mpsc::sync_channel::<Vec<(usize, PacketRef)>>(self.threads);
        let receiver = Mutex::new(receiver);
        let work_on_batches = || {
            let mut consumer = make();
            let mut work = Work::new(self);
            let mut cursors = Cursors::default();
            loop {
                let batch = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
                let Ok(batch) = batch else { return (consumer, work.stats) };
                let mut packets = batch.into_iter();
                if !U::EVENTS && work.takes_all() {
                    while let Some(()) =
                        self.count(&mut work, &mut cursors, &mut packets, &mut consumer)
                    {
                    }
                    continue;
                }
                for (number, packet) in packets {
                    self.packet(&mut work, &mut cursors, number, packet, &mut consumer);
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work_on_batches)).collect();
            let mut stats = Stats::default();
            for number in 0..self.stream_count() {
                let mut packets = self.packets(number);
                let mut batch = Vec::new();
                let mut size = 0;
                while let Some(packet) = packets.next() {
                    size += packet.size;
                    let is_free = packet.is_free();
                    batch.push((number, packet));
                    if size >= BATCH_SIZE && is_free && batch.len() > 1 {
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

    /// Passes a packet's events on.
    fn packet<U: Unordered>(
        &self,
        work: &mut Work<'_, '_>,
        cursors: &mut Cursors,
        number: usize,
        packet: PacketRef,
        consumer: &mut U,
    ) {
        let (trace, stream) = self.stream(number);
        let (cursor, _) = cursors.of(trace);
        let scale = trace.scale(stream.class);
        if !self.begin(work, cursor, number, packet, consumer) {
            return;
        }
        loop {
            match cursor.next(&trace.data) {
                Ok(Some(class)) => {
                    let time = scale.map(|scale| scale.ns(cursor.cycles()));
                    if work.in_range(time) {
                        work.event(number, cursor, class, time, |event| match U::EVENTS {
                            true => consumer.event(event),
                            false => event.pass_over(),
                        });
                    }
                }
                Ok(None) => break,
                Err(problem) => {
                    work.stats.problems.push(problem);
                    break;
                }
            }
        }
        work.tell(0);
    }

    /// Counts the events of one packet, or of two at the same time.
    fn count<U: Unordered>(
        &self,
        work: &mut Work<'_, '_>,
        cursors: &mut Cursors,
        packets: &mut vec::IntoIter<(usize, PacketRef)>,
        consumer: &mut U,
    ) -> Option<()> {
        let (number, packet) = packets.next()?;
        let (trace, _) = self.stream(number);
        let (cursor, other_cursor) = cursors.of(trace);
        let is_free = packet.is_free();
        if !self.begin(work, cursor, number, packet, consumer) {
            return Some(());
        }
        let goes_with = |(other, packet): &(usize, PacketRef)| {
            is_free && packet.is_free() && self.stream(*other).0.id == trace.id
        };
        let data = &*trace.data;
        if packets.as_slice().first().is_some_and(goes_with)
            && let Some((number, packet)) = packets.next()
            && self.begin(work, other_cursor, number, packet, consumer)
        {
            let problems = &mut work.stats.problems;
            let count = Cursor::skip_together((cursor, data), (other_cursor, data), problems);
            work.events(count);
            let (count, problem) = other_cursor.skip_rest(data);
            work.events(count);
            work.stats.problems.extend(problem);
        }
        let (count, problem) = cursor.skip_rest(data);
        work.events(count);
        work.stats.problems.extend(problem);
        work.tell(0);
        Some(())
    }

    /// Tells the consumer of a packet, and has the cursor begin it; `false` if it cannot.
    fn begin<U: Unordered>(
        &self,
        work: &mut Work<'_, '_>,
        cursor: &mut Cursor,
        number: usize,
        mut packet: PacketRef,
        consumer: &mut U,
    ) -> bool {
        let (trace, stream) = self.stream(number);
        for loss in std::mem::take(&mut packet.losses) {
            if let Some(loss) = work.loss(loss, trace.scale(stream.class)) {
                consumer.loss(trace, stream, &loss);
            }
        }
        let view =
            PacketView { place: packet.place(), begin_ns: packet.begin_ns, end_ns: packet.end_ns };
        consumer.packet(trace, stream, &view);
        work.tell(packet.size);
        match cursor.start(&trace.data, packet) {
            Ok(()) => true,
            Err(problem) => {
                work.stats.problems.push(problem);
                false
            }
        }
    }
}

/// Two cursors for each trace.
#[derive(Default)]
struct Cursors(HashMap<usize, (Cursor, Cursor)>);

impl Cursors {
    fn of(&mut self, trace: &Trace) -> (&mut Cursor, &mut Cursor) {
        let make = || Cursor::new(&trace.data, WINDOW);
        let (one, other) = self.0.entry(trace.id).or_insert_with(|| (make(), make()));
        (one, other)
    }
}
