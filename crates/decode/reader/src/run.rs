//! Drives a [`Consumer`] over the events of any number of traces, in order or not, on one thread
//! or several.
//!
//! On several threads a planner cuts the reading into [slices](crate::slices), workers take these
//! one at a time, and the caller's thread passes on what they made in the order of the slices. A
//! slice whose turn it is is passed on while it is being made; a gate keeps the others few enough
//! for memory to stay bounded.

use crate::bind::BoundFilter;
use crate::cursor::Cursor;
use crate::error::Problem;
use crate::event::{Event, PacketView};
use crate::loss::{Loss, LossKind};
use crate::merge::{Item, Lane, Merge, Packets};
use crate::packets::{PacketRef, StreamPackets};
use crate::slices::{Slice, Slicer};
use crate::trace::{Stream, Trace};
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// Makes something of events that come in order of time. On several threads each has its own.
pub trait Consumer: Send {
    /// What it makes of a number of events that follow each other.
    type Output: Send;

    /// The next event.
    fn event(&mut self, event: &mut Event<'_>);

    /// Something was lost here.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss);

    /// Whether it has made so much that it should hand it over.
    fn is_full(&self) -> bool;

    /// Hands over what it has made. What comes next may not follow what came before.
    fn take(&mut self) -> Self::Output;
}

/// Makes something of events that come in any order, packet by packet.
pub trait Unordered: Send {
    /// A packet's events follow.
    fn packet(&mut self, trace: &Trace, stream: &Stream, packet: &PacketView<'_>);

    /// An event of that packet.
    fn event(&mut self, event: &mut Event<'_>);

    /// Something was lost before that packet.
    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss);
}

/// How far a reading is, for whoever wants to show it.
#[derive(Debug, Default)]
pub struct Progress {
    /// Bytes of packets read.
    pub bytes: AtomicU64,
    /// Events passed on.
    pub events: AtomicU64,
}

/// What came of a reading.
#[derive(Clone, Debug, Default)]
pub struct Stats {
    /// Events passed on.
    pub events: u64,
    /// Events that the tracer discarded.
    pub events_lost: u64,
    /// Places where it discarded events but does not say how many.
    pub events_lost_unknown: u64,
    /// Packets that are missing.
    pub packets_lost: u64,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

impl Stats {
    fn add(&mut self, other: Stats) {
        self.events += other.events;
        self.events_lost += other.events_lost;
        self.events_lost_unknown += other.events_lost_unknown;
        self.packets_lost += other.packets_lost;
        self.problems.extend(other.problems);
    }

    fn add_loss(&mut self, loss: &Loss) {
        match (loss.kind, loss.count) {
            (LossKind::Events, Some(count)) => self.events_lost += count,
            (LossKind::Events, None) => self.events_lost_unknown += 1,
            (LossKind::Packets, count) => self.packets_lost += count.unwrap_or(1),
        }
    }
}

/// A reading of traces: what to read of them, and how.
#[derive(Debug)]
pub struct Reading<'r> {
    traces: &'r [Arc<Trace>],
    /// All streams: index of the trace, index in the trace.
    streams: Vec<(usize, usize)>,
    /// By stream number: its place where times are equal.
    ranks: Vec<u32>,
    threads: usize,
    begin: Option<i64>,
    end: Option<i64>,
    filter: Option<BoundFilter>,
    limit: Option<u64>,
    progress: Arc<Progress>,
}

/// Bytes of input that slices in flight may have, when there are more of them than threads.
const IN_FLIGHT_SIZE: u64 = 4 << 20;
/// Bytes of windows over all streams of one thread.
const WINDOWS_SIZE: usize = 4 << 20;
/// Bytes of packets that are worth a worker's while.
const BATCH_SIZE: u64 = 512 << 10;

impl<'r> Reading<'r> {
    /// Reads all of `traces`, on one thread.
    pub fn new(traces: &'r [Arc<Trace>]) -> Reading<'r> {
        let streams: Vec<(usize, usize)> = (0..traces.len())
            .flat_map(|trace| (0..traces[trace].streams.len()).map(move |stream| (trace, stream)))
            .collect();
        let ranks = ranks(traces, &streams);
        Reading {
            traces,
            streams,
            ranks,
            threads: 1,
            begin: None,
            end: None,
            filter: None,
            limit: None,
            progress: Arc::default(),
        }
    }

    /// Uses up to `threads` threads for the work.
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Passes on only what happened from `begin` to `end` (both inclusive, in nanoseconds).
    pub fn range(mut self, begin: Option<i64>, end: Option<i64>) -> Self {
        (self.begin, self.end) = (begin, end);
        self
    }

    /// Passes on only events for which the filter is true.
    pub fn filter(mut self, filter: Option<BoundFilter>) -> Self {
        self.filter = filter;
        self
    }

    /// Stops after so many events.
    pub fn limit(mut self, limit: Option<u64>) -> Self {
        self.limit = limit;
        self
    }

    /// Where to look how far it is.
    pub fn progress(&self) -> Arc<Progress> {
        self.progress.clone()
    }

    /// Bytes in all stream files, for progress.
    pub fn total_bytes(&self) -> u64 {
        let size = |file: &crate::packets::WaitingFile| file.file.size().unwrap_or(0);
        let streams = self.traces.iter().flat_map(|trace| &trace.streams);
        streams.flat_map(|stream| &stream.files).map(size).sum()
    }

    /// When the first packet begins and the last one ends, in nanoseconds, as far as packets say.
    pub fn span(&self) -> Option<(i64, i64)> {
        let mut span: Option<(i64, i64)> = None;
        for number in 0..self.streams.len() {
            let mut packets = self.stream_packets(number);
            while let Some(packet) = packets.next() {
                let (begin, end) = match (packet.begin_ns, packet.end_ns) {
                    (Some(begin), end) => (begin, end.unwrap_or(begin)),
                    (None, Some(end)) => (end, end),
                    (None, None) => continue,
                };
                let (first, last) = span.unwrap_or((begin, end));
                span = Some((first.min(begin), last.max(end)));
            }
        }
        span
    }

    fn window(&self) -> usize {
        (WINDOWS_SIZE / self.streams.len().max(1)).clamp(64 << 10, 256 << 10)
    }

    fn stream(&self, number: usize) -> (&'r Trace, &'r Stream) {
        let (trace, stream) = self.streams[number];
        let trace = &self.traces[trace];
        (trace, &trace.streams[stream])
    }

    fn stream_packets(&self, number: usize) -> StreamPackets {
        let (trace, stream) = self.stream(number);
        let only = stream.shared.then_some((stream.class, stream.instance));
        StreamPackets::new(trace.data.clone(), &stream.files, only)
    }

    /// Passes all events, in order, to consumers that `make` makes, and what these make, in the
    /// same order, to `sink`, until it breaks.
    pub fn ordered<C: Consumer>(
        &self,
        make: impl Fn() -> C + Sync,
        mut sink: impl FnMut(C::Output) -> ControlFlow<()>,
    ) -> Stats {
        let numbers = 0..self.streams.len();
        let all = numbers.clone().map(|number| self.stream_packets(number)).collect::<Vec<_>>();
        let all = if self.threads > 1 && self.limit.is_none() {
            let supply = |(number, packets)| {
                let (trace, stream) = self.stream(number);
                (trace.data.clone(), stream.class, packets)
            };
            let supplies = all.into_iter().enumerate().map(supply).collect();
            match Slicer::new(supplies, (self.begin, self.end)) {
                Ok(slicer) => return self.parallel(slicer, &make, &mut sink),
                // The slicer has looked at the first packets; begin anew.
                Err(_) => numbers.clone().map(|number| self.stream_packets(number)).collect(),
            }
        } else {
            all
        };
        let lanes = numbers
            .zip(all)
            .map(|(number, packets)| self.lane(number, Packets::All(Box::new(packets)), i64::MIN));
        let mut merge = Merge::new(lanes.collect(), &self.ranks, None);
        let mut work = Work::new(self);
        let mut consumer = make();
        let mut stopped = false;
        while work.step(&mut merge, &mut consumer).is_continue() {
            if consumer.is_full() && sink(consumer.take()).is_break() {
                stopped = true;
                break;
            }
        }
        if !stopped {
            let _ = sink(consumer.take());
        }
        work.finish(&mut merge)
    }

    fn lane(&self, number: usize, packets: Packets, floor: i64) -> Lane {
        let (trace, stream) = self.stream(number);
        Lane::new(number, trace.data.clone(), stream.class, packets, floor, self.window())
    }

    fn parallel<C: Consumer>(
        &self,
        slicer: Slicer,
        make: &(impl Fn() -> C + Sync),
        sink: &mut impl FnMut(C::Output) -> ControlFlow<()>,
    ) -> Stats {
        let gate = Gate::new(self.threads);
        let (slice_sender, slice_receiver) = mpsc::sync_channel::<(usize, Slice)>(1);
        let slice_receiver = Mutex::new(slice_receiver);
        let (sender, receiver) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..self.threads {
                let sender = sender.clone();
                let (slice_receiver, gate) = (&slice_receiver, &gate);
                scope.spawn(move || self.work_on_slices(slice_receiver, &sender, gate, make));
            }
            drop(sender);
            let gate = &gate;
            scope.spawn(move || {
                for (number, slice) in slicer.enumerate() {
                    if !gate.enter(slice.size) || slice_sender.send((number, slice)).is_err() {
                        break;
                    }
                }
            });
            pass_on(&receiver, gate, sink)
        })
    }

    fn work_on_slices<C: Consumer>(
        &self,
        slices: &Mutex<Receiver<(usize, Slice)>>,
        sender: &Sender<Message<C::Output>>,
        gate: &Gate,
        make: &impl Fn() -> C,
    ) {
        let mut consumer = make();
        loop {
            let next = slices.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).recv();
            let Ok((number, slice)) = next else { return };
            let size = slice.size;
            let lanes = slice
                .parts
                .into_iter()
                .map(|part| self.lane(part.stream, Packets::Some(part.packets), part.floor));
            let mut merge = Merge::new(lanes.collect(), &self.ranks, slice.until);
            let mut work = Work::new(self);
            work.stats.problems = slice.problems;
            while !gate.is_closed() && work.step(&mut merge, &mut consumer).is_continue() {
                if consumer.is_full() {
                    let _ = sender.send(Message::Made(number, consumer.take()));
                }
            }
            let _ = sender.send(Message::Made(number, consumer.take()));
            let stats = work.finish(&mut merge);
            if sender.send(Message::Done(number, size, stats)).is_err() {
                return;
            }
        }
    }

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
                    work.packet(&mut cursors, number, packet, &mut consumer);
                }
            }
        };
        thread::scope(|scope| {
            let workers: Vec<_> = (0..self.threads).map(|_| scope.spawn(work_on_batches)).collect();
            let mut stats = Stats::default();
            for number in 0..self.streams.len() {
                let mut packets = self.stream_packets(number);
                let mut batch = Vec::new();
                let mut size = 0;
                while let Some(packet) = packets.next() {
                    size += packet.size;
                    batch.push((number, packet));
                    if size >= BATCH_SIZE {
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
}

/// One thread's part in a reading: range, filter, limit, accounts.
struct Work<'w, 'r> {
    reading: &'w Reading<'r>,
    filter: Option<BoundFilter>,
    stats: Stats,
    /// What `progress` has not been told yet.
    events_untold: u64,
}

impl<'w, 'r> Work<'w, 'r> {
    fn new(reading: &'w Reading<'r>) -> Work<'w, 'r> {
        let filter = reading.filter.clone();
        Work { reading, filter, stats: Stats::default(), events_untold: 0 }
    }

    #[inline]
    fn in_range(&self, time: Option<i64>) -> bool {
        let Reading { begin, end, .. } = self.reading;
        match time {
            Some(time) => {
                begin.is_none_or(|begin| time >= begin) && end.is_none_or(|end| time <= end)
            }
            None => true,
        }
    }

    /// Passes one item on; breaks at the end.
    #[inline]
    fn step<C: Consumer>(&mut self, merge: &mut Merge<'_>, consumer: &mut C) -> ControlFlow<()> {
        if self.events_untold == 4096 {
            self.tell(std::mem::take(&mut merge.account.bytes));
        }
        match merge.next() {
            None => return ControlFlow::Break(()),
            Some(Item::Loss { stream, loss }) => {
                let (trace, stream) = self.reading.stream(stream);
                if self.in_range(loss.to.or(loss.from).map(|(ns, _)| ns)) {
                    self.stats.add_loss(&loss);
                    consumer.loss(trace, stream, &loss);
                }
            }
            Some(Item::Event { lane, class }) => {
                let time = lane.time();
                if !self.in_range(time) {
                    let after = self.reading.end.is_some_and(|end| time.is_some_and(|t| t > end));
                    return if after { ControlFlow::Break(()) } else { ControlFlow::Continue(()) };
                }
                let number = lane.stream;
                self.event(number, &mut lane.cursor, class, time, |event| consumer.event(event));
                if self.reading.limit.is_some_and(|limit| self.stats.events >= limit) {
                    return ControlFlow::Break(());
                }
            }
        }
        ControlFlow::Continue(())
    }

    #[inline]
    fn event(
        &mut self,
        number: usize,
        cursor: &mut Cursor,
        class: u32,
        time: Option<i64>,
        mut pass_on: impl FnMut(&mut Event<'_>),
    ) {
        let (trace, stream) = self.reading.stream(number);
        let mut problem = None;
        let stream_number = number;
        let mut event =
            Event { cursor, trace, stream, stream_number, class, time, problem: &mut problem };
        let wanted = match &mut self.filter {
            Some(filter) => filter.accepts(&mut event),
            None => true,
        };
        if wanted {
            pass_on(&mut event);
        }
        match problem {
            Some(problem) => self.stats.problems.push(problem),
            None if wanted => {
                self.stats.events += 1;
                self.events_untold += 1;
            }
            None => {}
        }
    }

    fn tell(&mut self, bytes: u64) {
        self.reading.progress.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.reading.progress.events.fetch_add(self.events_untold, Ordering::Relaxed);
        self.events_untold = 0;
    }

    fn finish(mut self, merge: &mut Merge<'_>) -> Stats {
        self.tell(std::mem::take(&mut merge.account.bytes));
        self.stats.problems.append(&mut merge.account.problems);
        self.stats
    }

    fn packet<U: Unordered>(
        &mut self,
        cursors: &mut HashMap<usize, Cursor>,
        number: usize,
        mut packet: PacketRef,
        consumer: &mut U,
    ) {
        let (trace, stream) = self.reading.stream(number);
        let cursor = cursors.entry(trace.id).or_insert_with(|| Cursor::new(&trace.data, 256 << 10));
        for loss in std::mem::take(&mut packet.losses) {
            self.stats.add_loss(&loss);
            consumer.loss(trace, stream, &loss);
        }
        let place = packet.place();
        let view = PacketView { place, begin_ns: packet.begin_ns, end_ns: packet.end_ns };
        consumer.packet(trace, stream, &view);
        let size = packet.size;
        let scale = trace.scale(stream.class);
        let mut next = cursor.start(&trace.data, packet, None);
        while next.is_ok() {
            match cursor.next(&trace.data) {
                Ok(Some(class)) => {
                    let time = scale.map(|scale| scale.ns(cursor.cycles()));
                    if self.in_range(time) {
                        self.event(number, cursor, class, time, |event| consumer.event(event));
                    }
                }
                Ok(None) => break,
                Err(problem) => next = Err(problem),
            }
        }
        self.stats.problems.extend(next.err());
        self.tell(size);
    }
}

enum Message<O> {
    /// A piece of a slice's output.
    Made(usize, O),
    /// The slice, of so many bytes, is done.
    Done(usize, u64, Stats),
}

/// Passes on what the workers make, in order of slices.
fn pass_on<O>(
    receiver: &Receiver<Message<O>>,
    gate: &Gate,
    sink: &mut impl FnMut(O) -> ControlFlow<()>,
) -> Stats {
    let mut stats = Stats::default();
    let mut turn = 0;
    let mut early: BTreeMap<usize, Vec<Message<O>>> = BTreeMap::new();
    for message in receiver {
        let slice = match &message {
            Message::Made(slice, _) | Message::Done(slice, ..) => *slice,
        };
        early.entry(slice).or_default().push(message);
        while let Some(messages) = early.remove(&turn) {
            let mut done = false;
            for message in messages {
                match message {
                    Message::Made(_, output) => {
                        if !gate.is_closed() && sink(output).is_break() {
                            gate.close();
                        }
                    }
                    Message::Done(_, size, part) => {
                        stats.add(part);
                        gate.leave(size);
                        done = true;
                    }
                }
            }
            if !done {
                break;
            }
            turn += 1;
        }
    }
    stats
}

/// Lets as many slices in as memory allows.
struct Gate {
    threads: usize,
    inside: Mutex<(usize, u64)>,
    left: Condvar,
    closed: AtomicBool,
}

impl Gate {
    fn new(threads: usize) -> Gate {
        let (inside, left) = (Mutex::new((0, 0)), Condvar::new());
        Gate { threads, inside, left, closed: AtomicBool::new(false) }
    }

    /// Waits until a slice of `size` may be worked on; `false` if none is wanted any more.
    fn enter(&self, size: u64) -> bool {
        let mut inside = self.inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loop {
            if self.is_closed() {
                return false;
            }
            if inside.0 < self.threads || inside.1 + size <= IN_FLIGHT_SIZE {
                *inside = (inside.0 + 1, inside.1 + size);
                return true;
            }
            inside = self.left.wait(inside).unwrap_or_else(|poisoned| poisoned.into_inner());
        }
    }

    fn leave(&self, size: u64) {
        let mut inside = self.inside.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        *inside = (inside.0 - 1, inside.1 - size);
        self.left.notify_all();
    }

    fn close(&self) {
        // Relaxed suffices: the lock that follows orders it for the one who waits.
        self.closed.store(true, Ordering::Relaxed);
        let _inside = self.inside.lock();
        self.left.notify_all();
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

/// The order of streams where times are equal; streams that nothing tells apart share a rank.
fn ranks(traces: &[Arc<Trace>], streams: &[(usize, usize)]) -> Vec<u32> {
    let key = |&(trace, stream): &(usize, usize)| {
        let trace = &traces[trace];
        let stream = &trace.streams[stream];
        let uuid = trace.schema().trace.uuid;
        // Absent UUIDs come last.
        (uuid.is_none(), uuid, trace.name.clone(), stream.class_id, stream.instance)
    };
    let mut sorted: Vec<_> = streams.iter().map(key).collect();
    sorted.sort();
    sorted.dedup();
    streams
        .iter()
        .map(|stream| sorted.partition_point(|other| *other < key(stream)) as u32)
        .collect()
}
