//! Events in any order, packet by packet, on several threads: for whoever only counts.

use crate::cursor::Cursor;
use crate::event::{Event, PacketView};
use crate::loss::Loss;
use crate::packets::PacketRef;
use crate::reading::Reading;
use crate::trace::{Stream, Trace};
use crate::work::{Stats, Work};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::mpsc;
use std::thread;

/// Makes something of events that come in any order, packet by packet.
pub trait Unordered: Send {
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
            let mut cursors = HashMap::new();
            loop {
                let batch = receiver.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
                let Ok(batch) = batch else { return (consumer, work.stats) };
                for (number, packet) in batch {
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
                    // Without a time of its own a packet goes on from the one before.
                    let is_free = packet.packet.begin.is_some();
                    batch.push((number, packet));
                    if size >= BATCH_SIZE && is_free {
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
                match worker.join() {
                    Ok((consumer, part)) => {
                        consumers.push(consumer);
                        stats.add(part);
                    }
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
            (consumers, stats)
        })
    }

    fn packet<U: Unordered>(
        &self,
        work: &mut Work<'_, '_>,
        cursors: &mut HashMap<usize, Cursor>,
        number: usize,
        mut packet: PacketRef,
        consumer: &mut U,
    ) {
        let (trace, stream) = self.stream(number);
        let cursor = cursors.entry(trace.id).or_insert_with(|| Cursor::new(&trace.data, WINDOW));
        for loss in std::mem::take(&mut packet.losses) {
            if work.loss(&loss) {
                consumer.loss(trace, stream, &loss);
            }
        }
        let view =
            PacketView { place: packet.place(), begin_ns: packet.begin_ns, end_ns: packet.end_ns };
        consumer.packet(trace, stream, &view);
        let size = packet.size;
        let scale = trace.scale(stream.class);
        let mut next = cursor.start(&trace.data, packet);
        while next.is_ok() {
            match cursor.next(&trace.data) {
                Ok(Some(class)) => {
                    let time = scale.map(|scale| scale.ns(cursor.cycles()));
                    if work.in_range(time) {
                        work.event(number, cursor, class, time, |event| consumer.event(event));
                    }
                }
                Ok(None) => break,
                Err(problem) => next = Err(problem),
            }
        }
        work.stats.problems.extend(next.err());
        work.tell(size);
    }
}
