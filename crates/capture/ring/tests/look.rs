//! Tests of readers for snapshots, and of a reader that consumes events in place. A reader for a
//! snapshot frees no events, and reads beside the ring's main reader, which does.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Reader, TakeOutcome};
use blkkin_sys::SharedMemory;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Harvest, Set, is_recorded, move_to, record, shape};

const CLOCK: Clock = Clock::Monotonic;

#[test]
fn who_only_looks_frees_nothing() {
    move_to(0);
    for mode in [Mode::Discard, Mode::Overwrite] {
        let set = Set::new(shape(2, 4096, 4, mode));
        let writer = set.writer(CLOCK);
        (0..60).for_each(|number| assert!(is_recorded(&writer, 1, number)));
        let memory = SharedMemory::map(set.file.as_fd()).unwrap();
        // `READ` of ring 0, as in the crate's documentation.
        let read = || memory.word(4096 + 128).load(Relaxed);
        let mut harvest = Harvest::default();
        let looker = Reader::from_oldest(&set.cells, &set.shape, 0, CLOCK);
        set.take_all(&mut [looker], true, &mut harvest);
        assert!(!harvest.events.is_empty(), "{mode:?}");
        assert_eq!(read(), 0, "{mode:?}");
        // The other reader finds all events.
        let (mut readers, mut all) = (set.readers(CLOCK), Harvest::default());
        set.take_all(&mut readers, true, &mut all);
        assert_eq!(all.events.len(), 60, "{mode:?}");
        assert!(read() > 0, "{mode:?}");
        let before = read();
        let mut looker = Reader::from_oldest(&set.cells, &set.shape, 0, CLOCK);
        let taken = looker.take(&set.cells, &set.shape, true, &mut Vec::new());
        // In discard mode, freed events may be overwritten at any time, so the snapshot starts
        // after them.
        let is_packet = matches!(taken, TakeOutcome::Packet(_));
        assert_eq!(is_packet, mode == Mode::Overwrite, "{mode:?}: {taken:?}");
        assert_eq!(read(), before, "{mode:?}");
    }
}

/// A reader with a cut-off returns exactly the events that the ring had at the cut-off, at any
/// offset in a sub-buffer and for any number of later events.
#[test]
fn a_reader_with_an_end_stops_at_its_moment() {
    move_to(0);
    for more in [0, 1, 30, 90] {
        let set = Set::new(shape(2, 4096, 64, Mode::Overwrite));
        let writer = set.writer(CLOCK);
        for before in 0..120usize {
            let moment = set.cells.state(&set.shape, 0);
            let moment_of_other_ring = set.cells.state(&set.shape, 1);
            let looker = Reader::from_oldest(&set.cells, &set.shape, 0, CLOCK).with_cutoff(moment);
            if before % 8 == 0 {
                (0..more).for_each(|_| assert!(is_recorded(&writer, 2, 0)));
                let mut harvest = Harvest::default();
                set.take_all(&mut [looker], true, &mut harvest);
                assert_eq!(harvest.events.len(), before + before.div_ceil(8) * more);
                let other = Reader::from_oldest(&set.cells, &set.shape, 1, CLOCK);
                let mut nothing = Harvest::default();
                set.take_all(&mut [other.with_cutoff(moment_of_other_ring)], true, &mut nothing);
                assert!(nothing.events.is_empty());
            }
            assert!(is_recorded(&writer, 1, before as u64));
        }
    }
}

/// Events consumed in place equal copies of the same events, until they are freed.
#[test]
fn what_is_taken_in_its_place_is_the_same() {
    move_to(0);
    let set = Set::new(shape(2, 4096, 4, Mode::Discard));
    let writer = set.writer(CLOCK);
    let memory = SharedMemory::map(set.file.as_fd()).unwrap();
    let mut number = 0;
    // Copies the events that `stays` consumes in place. The bursts give parts and whole
    // sub-buffers, also after events were freed.
    let mut copies = Reader::new(&set.shape, 0, CLOCK).with_explicit_free();
    let mut stays = copies.clone();
    assert!(stays.takes_in_place(&set.shape) && !set.readers(CLOCK)[0].takes_in_place(&set.shape));
    for burst in [1, 30, 200, 500, 3, 90] {
        for _ in 0..burst {
            number += u64::from(is_recorded(&writer, 1, number));
        }
        let mut packets = 0;
        loop {
            let mut copied = Vec::new();
            let taken = copies.take(&set.cells, &set.shape, true, &mut copied);
            let (in_place, events) = stays.take_in_place(&set.cells, &set.shape, true);
            let (TakeOutcome::Packet(one), TakeOutcome::Packet(other)) = (taken, in_place) else {
                assert_eq!(taken, in_place);
                break;
            };
            packets += 1;
            let mut found = vec![0; events.len()];
            memory.copy_out(events.start, &mut found);
            assert!(found == copied[blkkin_ring::packet::SIZE..], "{one:?} {other:?}");
            let what = |header: blkkin_ring::packet::Header| {
                (header.packet_size, header.first_time, header.number, header.discarded)
            };
            assert_eq!(what(one.header), what(other.header));
        }
        assert!(packets > 0);
        stays.free(&set.cells, &set.shape);
    }
    // The ring was full at times.
    assert!((300..824).contains(&number), "{number}");
}

/// Guard that stops the writer, even when a check fails.
struct StopGuard<'e>(&'e AtomicBool);

impl Drop for StopGuard<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// A reader for a snapshot gets each event whole or not at all, while the main reader frees events
/// and writers overwrite them.
#[test]
fn who_only_looks_gets_whole_events() {
    for mode in [Mode::Discard, Mode::Overwrite] {
        let processors = std::thread::available_parallelism().unwrap().get();
        let set = Set::new(shape(processors + 1, 4096, 4, mode));
        let is_over = AtomicBool::new(false);
        let (mut readers, mut harvest) = (set.readers(CLOCK), Harvest::default());
        let (mut events, mut overwritten) = (0, 0);
        std::thread::scope(|scope| {
            let (set, is_over) = (&set, &is_over);
            scope.spawn(move || {
                let writer = set.writer(CLOCK);
                for number in 0.. {
                    if record(&writer, 1, number) == Outcome::Full {
                        std::thread::yield_now();
                    }
                    if is_over.load(Relaxed) {
                        break;
                    }
                }
            });
            let _ending = StopGuard(is_over);
            let end = Instant::now() + Duration::from_secs(1);
            while Instant::now() < end {
                // A whole pass, with the other reader between packets.
                let mut found = Harvest::default();
                for ring in 0..=processors {
                    let mut looker = Reader::from_oldest(&set.cells, &set.shape, ring, CLOCK);
                    for _ in 0..4 {
                        // More than one packet, because the other reader frees all in discard mode.
                        for _ in 0..3 {
                            set.take_one(&mut looker, true, &mut found);
                        }
                        set.take_all(&mut readers, true, &mut harvest);
                    }
                }
                events += found.events.len();
                overwritten += found.overwritten;
            }
        });
        assert!(events > 1000, "{mode:?}: {events}");
        assert!(mode == Mode::Discard || overwritten > 0, "{mode:?}: nothing was overwritten");
    }
}

/// The oldest event is the first one until events are overwritten, then the oldest one that can be
/// read; after a clear, it is the first event after it.
#[test]
fn the_oldest_event_is_known() {
    move_to(0);
    for mode in [Mode::Discard, Mode::Overwrite] {
        let set = Set::new(shape(2, 4096, 4, mode));
        let reader = Reader::new(&set.shape, 0, Clock::Test(1000));
        let oldest = |reader: &Reader| {
            let found = reader.oldest_event(&set.cells, &set.shape);
            found.map(|oldest| (oldest.age, oldest.is_after_overwritten))
        };
        assert_eq!(oldest(&reader), None);
        let mut cleared = None;
        for number in 0..400 {
            let recorded = is_recorded(&set.writer(Clock::Test(100 + number)), 1, number);
            assert!(recorded || mode == Mode::Discard);
            let mut harvest = Harvest::default();
            let mut looker = reader.for_snapshot(&set.cells, &set.shape);
            set.take_one(&mut looker, true, &mut harvest);
            let first = harvest.events[0].3;
            let expected = Some((1000 - first, first > 100));
            assert_eq!(oldest(&reader), expected, "{mode:?} {number}");
            if number == 20 {
                let mut reader = reader.clone();
                reader.skip_all(&set.cells, &set.shape);
                assert_eq!(oldest(&reader), None);
                cleared = Some(reader);
            } else if number == 30 {
                assert_eq!(cleared.as_ref().map(oldest), Some(Some((1000 - 121, false))));
            }
        }
        assert_eq!(oldest(&reader).is_some_and(|(_, after)| after), mode == Mode::Overwrite);
    }
}

/// Packets that ended before a time are skipped, all later ones are read, and no gap is reported.
#[test]
fn old_packets_are_skipped() {
    move_to(0);
    let set = Set::new(shape(2, 4096, 8, Mode::Overwrite));
    for number in 0..500 {
        assert!(is_recorded(&set.writer(Clock::Test(100 + number)), 1, number));
    }
    let clock = Clock::Test(1000);
    let harvest_since = |time: Option<u64>| {
        let mut reader = Reader::from_oldest(&set.cells, &set.shape, 0, clock);
        time.iter().for_each(|time| reader.skip_older(&set.cells, &set.shape, *time));
        let mut packets = Vec::new();
        let mut bytes = Vec::new();
        while let TakeOutcome::Packet(packet) =
            reader.take(&set.cells, &set.shape, true, &mut bytes)
        {
            packets.push(packet.header);
        }
        packets
    };
    let all = harvest_since(None);
    assert!(all.len() >= 5, "{}", all.len());
    for time in 0..700 {
        let rest: Vec<_> = all.iter().filter(|packet| packet.last_time >= time).collect();
        let found = harvest_since(Some(time));
        let times = |packet: &blkkin_ring::packet::Header| (packet.first_time, packet.last_time);
        assert!(found.iter().map(times).eq(rest.into_iter().map(times)), "{time}");
        let numbers = found.iter().map(|packet| packet.number);
        assert!(numbers.eq(0..found.len() as u64), "{time}");
    }
    assert_eq!(harvest_since(Some(700)), []);
}
