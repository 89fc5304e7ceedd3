//! Tests of the journal with its threads, on a disk that is paused, filled or broken.

use super::rig::options;
use crate::testing::SimulatedDisk;
use crate::{Item, Journal, Options, Outcome, Payload, Reader, Refusal, Ticket};
use rustix::io::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

/// Timeout of 20 s after which a test counts as hanging.
const LONG: Duration = Duration::from_secs(20);

/// Maximum time from a repair of the disk, or a trim, until the journal accepts records again: 5 s.
const RESUMES: Duration = Duration::from_secs(5);

fn open(disk: &SimulatedDisk, options: Options) -> Journal {
    Journal::open_on(Arc::new(disk.clone()), options).unwrap().0
}

fn append(journal: &Journal, text: &str) -> Result<Ticket, Refusal> {
    journal.append(&[Payload { kind: 0, bytes: text.as_bytes() }])
}

fn wait(ticket: &Ticket) -> Outcome {
    ticket.wait_timeout(LONG).expect("an outcome")
}

fn texts(disk: &SimulatedDisk) -> Vec<String> {
    let mut reader = Reader::open_on(Arc::new(disk.clone()), 0).unwrap();
    let mut texts = Vec::new();
    while let Some(item) = reader.next().unwrap() {
        let Item::Record(record) = item else { panic!("{item:?}") };
        texts.push(String::from_utf8(record.payload.to_vec()).unwrap());
    }
    texts
}

#[test]
fn what_comes_while_the_disk_works_is_written_together() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, options());
    append(&journal, "first").unwrap().wait().unwrap();
    let held = disk.pause_sync();
    let tickets: Vec<Ticket> =
        (0..100).map(|number| append(&journal, &number.to_string()).unwrap()).collect();
    assert!(tickets.iter().all(|ticket| ticket.outcome().is_none()));
    assert!(tickets[0].wait_timeout(Duration::from_millis(20)).is_none());
    drop(held);
    tickets.iter().for_each(|ticket| wait(ticket).unwrap());
    let counters = journal.counters();
    assert_eq!(counters.durable_records, 101);
    // One group for the first record, one during the pause, one for all others; and segments may
    // end within a group.
    assert!(counters.groups <= 3 + counters.segments, "{counters:?}");
    assert_eq!(tickets[99].sequences(), 100..101);
}

#[test]
fn many_threads_get_what_they_were_promised() {
    const THREADS: u64 = 8;
    const EACH: u64 = 200;
    let disk = SimulatedDisk::new(1);
    let journal = Arc::new(open(&disk, options()));
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let journal = Arc::clone(&journal);
            scope.spawn(move || {
                for number in 0..EACH {
                    wait(&append(&journal, &format!("{thread} {number}")).unwrap()).unwrap();
                }
            });
        }
    });
    // Cuts the power instead of closing the journal.
    let journal = Arc::into_inner(journal).unwrap();
    disk.end_power_at(disk.operations());
    drop(journal);
    disk.cut_power();
    let texts = texts(&disk);
    assert_eq!(texts.len() as u64, THREADS * EACH);
    for thread in 0..THREADS {
        let own = texts.iter().filter(|text| text.starts_with(&format!("{thread} ")));
        assert!(own.eq(&(0..EACH).map(|n| format!("{thread} {n}")).collect::<Vec<_>>()));
    }
}

#[test]
fn memory_of_what_waits_is_bounded() {
    let disk = SimulatedDisk::new(1);
    let options = Options { waiting_bytes_max: 4096, ..options() };
    let journal = open(&disk, options);
    append(&journal, "first").unwrap().wait().unwrap();
    let held = disk.pause_sync();
    let text = "x".repeat(96);
    let mut tickets = vec![append(&journal, &text).unwrap()];
    // Lets the writer start with the first record, which also counts towards the limit.
    std::thread::sleep(Duration::from_millis(50));
    let refusal = loop {
        match append(&journal, &text) {
            Ok(ticket) => tickets.push(ticket),
            Err(refusal) => break refusal,
        }
    };
    assert!(matches!(refusal, Refusal::TryAgain), "{refusal}");
    assert_eq!(tickets.len(), 4096 / 128);
    assert_eq!(journal.counters().refused_try_again, 1);
    drop(held);
    tickets.iter().for_each(|ticket| wait(ticket).unwrap());
    append(&journal, &text).unwrap().wait().unwrap();

    let large = vec![0; 2049];
    let one = Payload { kind: 0, bytes: &large };
    let refusal = journal.append(&[one]).unwrap_err();
    assert!(matches!(refusal, Refusal::TooLarge { bytes: 2049, bytes_max: 2048 }), "{refusal}");
    let many = [Payload { kind: 0, bytes: &large[..2000] }; 3];
    assert!(matches!(journal.append(&many).unwrap_err(), Refusal::TooLarge { .. }));
    let nothing = journal.append(&[]).unwrap();
    assert!(matches!(nothing.outcome(), Some(Ok(()))) && nothing.sequences().is_empty());
}

#[test]
fn callbacks_are_called_once_with_what_became_of_it() {
    let disk = SimulatedDisk::new(1);
    let (seen, durable) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&durable);
    let on_durable: crate::OnDurable = Arc::new(move |next| told.store(next, Ordering::Relaxed));
    let journal = open(&disk, Options { on_durable: Some(on_durable), ..options() });
    let (sender, receiver) = mpsc::channel();
    for number in 0..10u64 {
        let (sender, seen) = (sender.clone(), Arc::clone(&seen));
        let payload = Payload { kind: 0, bytes: &number.to_le_bytes() };
        let tell = move |outcome: Outcome| {
            seen.fetch_add(1, Ordering::Relaxed);
            sender.send((number, outcome.is_ok())).unwrap();
        };
        drop(journal.append_then(&[payload], tell).unwrap());
    }
    let all: Vec<(u64, bool)> = (0..10).map(|_| receiver.recv_timeout(LONG).unwrap()).collect();
    assert_eq!(all, (0..10).map(|number| (number, true)).collect::<Vec<_>>());
    drop(journal);
    assert_eq!((seen.load(Ordering::Relaxed), durable.load(Ordering::Relaxed)), (10, 10));
}

/// Breaks the disk by calling `at`, and repairs it later. Checks that the journal refuses records
/// until the repair, and accepts records afterwards without intervention.
fn breaks_and_resumes(
    at: impl Fn(&SimulatedDisk),
    is_expected: impl Fn(&Refusal) -> bool,
    repair: impl Fn(&SimulatedDisk),
) {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, options());
    append(&journal, "before").unwrap().wait().unwrap();
    at(&disk);
    // The active segment's reserved space can still be written.
    let refusal = loop {
        let appended = append(&journal, &"x".repeat(1000));
        if let Err(refusal) = appended.and_then(|ticket| wait(&ticket)) {
            break refusal;
        }
    };
    assert!(is_expected(&refusal), "{refusal}");
    let refused = append(&journal, "meanwhile").unwrap_err();
    assert!(is_expected(&refused) && is_expected(&journal.refusal().unwrap()), "{refused}");
    let counters = journal.counters();
    assert_eq!(counters.refused_full + counters.refused_failing, 2);
    repair(&disk);
    let repaired = Instant::now();
    while journal.refusal().is_some() {
        assert!(repaired.elapsed() < RESUMES);
        std::thread::sleep(Duration::from_millis(10));
    }
    append(&journal, "after").unwrap().wait().unwrap();
    journal.close().unwrap();
    let texts = texts(&disk);
    assert_eq!((&*texts[0], &**texts.last().unwrap()), ("before", "after"));
    assert!(!texts.iter().any(|text| text == "meanwhile"));
}

#[test]
fn a_full_disk_is_a_state_that_ends() {
    let full = |refusal: &Refusal| matches!(refusal, Refusal::Full(_));
    breaks_and_resumes(|disk| disk.set_capacity(Some(4096)), full, |disk| disk.set_capacity(None));
}

#[test]
fn a_failing_disk_is_a_state_that_ends() {
    let failing = |refusal: &Refusal| matches!(refusal, Refusal::Failing(_));
    breaks_and_resumes(|disk| disk.fail(0..u64::MAX, Errno::IO), failing, SimulatedDisk::repair);
}

#[test]
fn room_that_trimming_makes_is_used_at_once() {
    let disk = SimulatedDisk::new(1);
    let never = Duration::from_secs(3600);
    let options = Options { total_bytes_max: 8192, retry_after: never, ..options() };
    let journal = open(&disk, options);
    while append(&journal, &"x".repeat(500)).is_ok_and(|ticket| wait(&ticket).is_ok()) {}
    assert!(matches!(journal.refusal(), Some(Refusal::Full(_))));
    journal.trim_before(u64::MAX).unwrap();
    let start = Instant::now();
    while journal.refusal().is_some() {
        assert!(start.elapsed() < RESUMES);
        std::thread::sleep(Duration::from_millis(1));
    }
    append(&journal, "after").unwrap().wait().unwrap();
}

#[test]
fn a_follower_reads_what_is_durable_and_no_more() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, options());
    let mut reader = journal.reader(0);
    assert!(reader.next().unwrap().is_none() && !reader.wait(Duration::ZERO));
    append(&journal, "first").unwrap().wait().unwrap();
    assert!(reader.wait(LONG));
    let held = disk.pause_sync();
    let second = append(&journal, "second").unwrap();
    assert!(
        matches!(reader.next().unwrap(), Some(Item::Record(record)) if record.payload == b"first")
    );
    assert!(!reader.wait(Duration::from_millis(20)) && reader.next().unwrap().is_none());
    drop(held);
    wait(&second).unwrap();
    let follower = std::thread::spawn(move || {
        let mut count = 0;
        while count < 500 {
            match reader.next().unwrap() {
                Some(Item::Record(record)) => {
                    count += 1;
                    assert_eq!(record.sequence, count);
                }
                Some(other) => panic!("{other:?}"),
                None => assert!(reader.wait(LONG)),
            }
        }
    });
    for number in 0..499 {
        let ticket = append(&journal, &number.to_string()).unwrap();
        if number % 7 == 0 {
            wait(&ticket).unwrap();
        }
    }
    follower.join().unwrap();
}

#[test]
fn what_waits_is_written_before_the_end() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, options());
    let tickets: Vec<Ticket> =
        (0..50).map(|number| append(&journal, &number.to_string()).unwrap()).collect();
    drop(journal);
    assert!(tickets.iter().all(|ticket| matches!(ticket.outcome(), Some(Ok(())))));
    assert_eq!(texts(&disk).len(), 50);
    let (_, recovery) = Journal::open_on(Arc::new(disk), options()).unwrap();
    assert!(recovery.was_closed);
}

#[test]
fn nobody_waits_for_a_writer_that_died() {
    let disk = SimulatedDisk::new(1);
    let journal = open(&disk, options());
    append(&journal, "first").unwrap().wait().unwrap();
    let held = disk.pause_sync();
    let bad = Payload { kind: 0, bytes: b"bad" };
    let panics = journal.append_then(&[bad], |_| panic!("on purpose, for this test")).unwrap();
    std::thread::sleep(Duration::from_millis(20));
    let later = append(&journal, "later").unwrap();
    drop(held);
    wait(&panics).unwrap();
    let outcome = wait(&later);
    assert!(matches!(outcome, Err(Refusal::Closed) | Ok(())), "{outcome:?}");
    let start = Instant::now();
    while !matches!(append(&journal, "too late"), Err(Refusal::Closed)) {
        assert!(start.elapsed() < LONG);
    }
    assert!(journal.close().is_err());
}
