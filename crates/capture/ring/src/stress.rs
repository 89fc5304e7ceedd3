//! Stress tests in one mapping. In one test, threads write with the rings' locks while a reader
//! reads. In the other, a slot's writers are inserted, replaced and removed while threads record.
//! The models explore few events; these tests record many. No event is torn, missing or duplicated.
//!
//! `cargo xtask torture` also runs them under ThreadSanitizer. The sanitizer checks that words
//! order each copy of bytes, and that a writer is freed only after its last use. Hence one mapping:
//! the sanitizer treats two mappings of the same memory as different memory. The sanitizer does not
//! support fences, so no ring is in overwrite mode. Threads are joined one by one, because the
//! sanitizer recognises only that as an ordering.

use crate::event_layout::GRAIN;
use crate::{
    Cells, Clock, Event, HEADER_SIZE, Outcome, Reader, Shape, Slot, TakeOutcome, Writer, packet,
};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

const THREADS: u64 = 3;
const EVENTS: u64 = 20_000;
/// Size of an event, in bytes.
const SIZE: usize = HEADER_SIZE + 40;
/// Size of the memory for an event, in bytes; a multiple of the unit of copying.
const ROOM: usize = SIZE.next_multiple_of(GRAIN);

/// Returns a shape with fewer rings than threads, so that locks are contended. Each ring has few
/// sub-buffers, so that rings fill up.
fn shape(start: u64) -> Shape {
    Shape { start, ..Shape::default() }
}

/// Returns the start positions: 0, and a position shortly before positions wrap.
fn starts() -> [u64; 2] {
    [0, 0u64.wrapping_sub(3 * shape(0).ring_size() as u64)]
}

fn writer(start: u64) -> Writer {
    let shape = shape(start);
    let (_, cells) = Cells::create(c"test", &shape).unwrap();
    Writer::new(cells, Clock::Monotonic).unwrap().without_sequences()
}

fn event(bytes: &mut [u8; ROOM], who: u64, number: u64) -> Event<'_> {
    for word in bytes[HEADER_SIZE..SIZE].chunks_exact_mut(8) {
        word.copy_from_slice(&(who << 32 | number).to_le_bytes());
    }
    Event::new(bytes, SIZE, 7).unwrap()
}

/// Consumes all events and appends their names to `names`; panics if an event is torn.
fn take(writer: &Writer, readers: &mut [Reader], names: &mut Vec<u64>) {
    for reader in readers {
        loop {
            let mut bytes = Vec::new();
            match reader.take(&writer.cells, &writer.shape, true, &mut bytes) {
                TakeOutcome::Empty => break,
                TakeOutcome::Packet(_) => {
                    for event in bytes[packet::SIZE..].chunks(SIZE) {
                        let words = event[HEADER_SIZE..].chunks(8);
                        let mut words =
                            words.map(|word| u64::from_le_bytes(word.try_into().unwrap()));
                        let name = words.next().unwrap();
                        assert!(words.all(|word| word == name), "torn: {event:?}");
                        names.push(name);
                    }
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

fn readers(shape: &Shape) -> Vec<Reader> {
    (0..shape.rings).map(|ring| Reader::new(shape, ring, Clock::Monotonic)).collect()
}

fn lost(writer: &Writer) -> u64 {
    (0..writer.shape.rings).map(|ring| writer.cells.lost(&writer.shape, ring)).sum()
}

fn check(names: &[u64], recorded: u64, lost: u64, tried: u64) {
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len(), "an event is there twice");
    assert_eq!(names.len() as u64, recorded);
    assert_eq!(recorded + lost, tried);
}

#[test]
fn a_crowd_writes_while_a_reader_reads() {
    for start in starts() {
        let writer = Arc::new(writer(start));
        let (mut readers, mut names) = (readers(&writer.shape), Vec::new());
        let others: Vec<_> = (0..THREADS)
            .map(|who| {
                let writer = writer.clone();
                thread::spawn(move || {
                    let (mut recorded, mut tried) = (0, 0);
                    while recorded < EVENTS {
                        let mut bytes = [0; ROOM];
                        match writer.record(&mut event(&mut bytes, who, tried)) {
                            Outcome::Recorded => recorded += 1,
                            // Lets the reader run.
                            _ => thread::yield_now(),
                        }
                        tried += 1;
                    }
                    tried
                })
            })
            .collect();
        while others.iter().any(|other| !other.is_finished()) {
            take(&writer, &mut readers, &mut names);
        }
        let tried = others.into_iter().map(|other| other.join().unwrap()).sum();
        take(&writer, &mut readers, &mut names);
        check(&names, THREADS * EVENTS, lost(&writer), tried);
    }
}

/// Writers are inserted, replaced and removed while threads record. Each removed writer is freed
/// with its memory as soon as its events have been read.
#[test]
fn writers_come_and_go_while_a_crowd_writes() {
    let slot = Arc::new(Slot::new());
    let is_over = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..THREADS)
        .map(|who| {
            let (slot, is_over) = (slot.clone(), is_over.clone());
            thread::spawn(move || {
                let (mut recorded, mut lost) = (0, 0);
                let mut number = 0;
                while !is_over.load(Relaxed) {
                    let mut bytes = [0; ROOM];
                    match slot.record(&mut event(&mut bytes, who, number)) {
                        Outcome::Recorded => recorded += 1,
                        Outcome::NoWriter => {}
                        _ => lost += 1,
                    }
                    number += 1;
                }
                (recorded, lost)
            })
        })
        .collect();
    let (mut names, mut counted) = (Vec::new(), 0);
    let mut read = |old: Box<Writer>| {
        take(&old, &mut readers(&old.shape), &mut names);
        counted += lost(&old);
    };
    for round in 0..100 {
        slot.put(Box::new(writer(0))).unwrap();
        thread::sleep(Duration::from_micros(100 * (round % 10)));
        let replaced = slot.replace(Box::new(writer(0)), Duration::from_secs(30));
        read(replaced.unwrap().unwrap());
        thread::sleep(Duration::from_micros(100 * (round % 7)));
        read(slot.take(Duration::from_secs(30)).unwrap().expect("a writer"));
    }
    is_over.store(true, Relaxed);
    let told = others.into_iter().map(|other| other.join().unwrap());
    let (recorded, lost) = told.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    assert!(recorded > 1000, "only {recorded} events");
    assert_eq!(counted, lost);
    check(&names, recorded, lost, recorded + lost);
}
