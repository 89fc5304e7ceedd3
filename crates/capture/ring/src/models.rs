//! Interleavings of a few writers and a reader, explored by loom up to a number of preemptions.
//! Bytes are loom cells. A loom cell reports every access that the words do not order, so a missing
//! ordering fails here on any processor.
//!
//! `cargo xtask test` runs the models, as
//! `RUSTFLAGS="--cfg loom" cargo test --release -p blkkin-ring models`.
//!
//! A restartable sequence is the only writer on its processor, and other processors see its stores
//! in order. To a reader this equals the lock's path without contention, so the models cover both.

use crate::lock::{StackMark, lock_one};
use crate::{
    Cells, Clock, Event, HEADER_SIZE, Outcome, Reader, Shape, TakeOutcome, Writer, packet,
};
use loom::sync::Arc;
use loom::thread;

/// Explores interleavings with a bounded number of preemptions; nearly all mistakes show with two
/// or three.
fn explore(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(model);
}

/// Returns a shape with two sub-buffers per ring; each sub-buffer has room for two events.
fn shape(rings: usize) -> Shape {
    Shape { rings, subbuffer_size: 128, subbuffer_count: 2, ..Shape::default() }
}

const EVENT_SIZE: usize = 16;

fn record(writer: &Writer, name: u8) -> Outcome {
    let mut bytes = [name; 2 * EVENT_SIZE];
    let mut event = Event::new(&mut bytes, EVENT_SIZE, 7).unwrap();
    writer.record(&mut event)
}

/// Consumes all events and appends their names to `names`. Checks that each packet's times enclose
/// those of its events, and that times never decrease.
fn take(readers: &mut [(Reader, u64)], writer: &Writer, names: &mut Vec<u8>) {
    for (reader, time) in readers {
        loop {
            let mut bytes = Vec::new();
            match reader.take(&writer.cells, &writer.shape, true, &mut bytes) {
                TakeOutcome::Empty => break,
                TakeOutcome::Packet(found) => {
                    assert_eq!(found.header.content_size, bytes.len() as u64);
                    let last_time = found.header.last_time;
                    assert!(*time <= found.header.first_time, "{found:?} after {time}");
                    *time = found.header.first_time;
                    for event in bytes[packet::SIZE..].chunks(EVENT_SIZE) {
                        let own = u64::from_le_bytes(event[2..HEADER_SIZE].try_into().unwrap());
                        assert!(*time <= own && own <= last_time, "{own} after {time}: {found:?}");
                        *time = own;
                        let fields = &event[HEADER_SIZE..];
                        assert!(fields.iter().all(|byte| *byte == fields[0]), "torn: {event:?}");
                        names.push(fields[0]);
                    }
                    *time = last_time;
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Returns a reader for each ring, paired with the end time of the last consumed packet: 0 at
/// first.
fn readers(shape: &Shape) -> Vec<(Reader, u64)> {
    (0..shape.rings).map(|ring| (Reader::new(shape, ring, Clock::Test(u64::MAX)), 0)).collect()
}

fn writer(shape: Shape) -> Arc<Writer> {
    Arc::new(Writer::new(Cells::new(&shape), shape))
}

fn lost(writer: &Writer) -> u64 {
    (0..writer.shape.rings).map(|ring| writer.cells.lost(&writer.shape, ring)).sum()
}

#[test]
fn a_reader_sees_whole_events_and_a_writer_overwrites_only_what_was_read() {
    explore(|| {
        let writer = writer(shape(1));
        let (mut readers, mut names) = (readers(&writer.shape), Vec::new());
        let other = {
            let writer = writer.clone();
            // More events than fit, so that sub-buffers are reused if the reader is quick.
            thread::spawn(move || {
                (1..=5).filter(|name| record(&writer, *name) == Outcome::Recorded).count()
            })
        };
        take(&mut readers, &writer, &mut names);
        let recorded = other.join().unwrap();
        take(&mut readers, &writer, &mut names);
        assert_eq!(names.len(), recorded);
        assert!(names.is_sorted());
        assert_eq!(recorded as u64 + lost(&writer), 5);
    });
}

#[test]
fn two_writers_share_rings() {
    explore(|| {
        let writer = writer(shape(2));
        let (mut readers, mut names) = (readers(&writer.shape), Vec::new());
        let others: Vec<_> = [1, 11]
            .into_iter()
            .map(|first| {
                let writer = writer.clone();
                thread::spawn(move || {
                    (first..first + 2)
                        .filter(|name| record(&writer, *name) == Outcome::Recorded)
                        .count()
                })
            })
            .collect();
        take(&mut readers, &writer, &mut names);
        let recorded: usize = others.into_iter().map(|other| other.join().unwrap()).sum();
        take(&mut readers, &writer, &mut names);
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), recorded);
        assert_eq!(recorded as u64 + lost(&writer), 4);
    });
}

#[test]
fn a_nested_writer_takes_another_ring() {
    explore(|| {
        let writer = writer(shape(2));
        let other = {
            let writer = writer.clone();
            thread::spawn(move || record(&writer, 1))
        };
        // Like a signal handler that interrupts this thread while it holds a ring's lock.
        let mark = StackMark::default();
        let held = lock_one(&writer.cells, &writer.shape, 0..2, &mark);
        let outcome = record(&writer, 2);
        drop(held);
        let outcomes = [other.join().unwrap(), outcome];
        let mut names = Vec::new();
        take(&mut readers(&writer.shape), &writer, &mut names);
        let recorded = outcomes.iter().filter(|outcome| **outcome == Outcome::Recorded).count();
        assert_eq!(names.len(), recorded);
        assert_eq!(recorded as u64 + lost(&writer), 2);
    });
}
