//! Test on a small file system that fills up and is then enlarged. The journal reports the lack of
//! space, and accepts records again without intervention.

use blkkin_journal::{Item, Journal, Options, Payload, Reader, Refusal};
use blkkin_sys::testing::{Mounted, figure, skip};
use std::time::{Duration, Instant};

/// Maximum time from enlarging the file system until the journal accepts records again: 5 s.
const RESUMES: Duration = Duration::from_secs(5);

const SEGMENT_BYTES: u64 = 256 << 10;

fn append(journal: &Journal, number: u64) -> Result<u64, Refusal> {
    let bytes = [number.to_le_bytes(); 100].concat();
    let ticket = journal.append(&[Payload { kind: 0, bytes: &bytes }])?;
    ticket.wait()?;
    Ok(ticket.sequences().start)
}

/// Fills and enlarges the file system twice. Checks the journal's records at the end.
fn fill_and_resume(mounted: &Mounted, kib: u64) {
    let directory = mounted.path().join("journal");
    let options = Options {
        segment_bytes: SEGMENT_BYTES,
        payload_bytes_max: 4096,
        retry_after: Duration::from_millis(100),
        ..Options::default()
    };
    let (journal, _) = Journal::open(&directory, options).unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..2 {
        let mut number = round * 1_000_000;
        let refusal = loop {
            match append(&journal, number) {
                Ok(sequence) => acknowledged.push((sequence, number)),
                Err(refusal) => break refusal,
            }
            number += 1;
        };
        assert!(matches!(refusal, Refusal::Full(_)), "{refusal}");
        assert!(matches!(append(&journal, 0), Err(Refusal::Full(_))));
        mounted.resize(kib * (round + 2));
        let start = Instant::now();
        while journal.refusal().is_some() {
            assert!(start.elapsed() < RESUMES);
            std::thread::sleep(Duration::from_millis(10));
        }
        acknowledged.push((append(&journal, 7).unwrap(), 7));
    }
    assert!(journal.counters().refused_full >= 4);
    journal.close().unwrap();
    let mut acknowledged = acknowledged.into_iter().peekable();
    let mut reader = Reader::open(&directory, 0).unwrap();
    while let Some(item) = reader.next().unwrap() {
        let Item::Record(record) = item else { panic!("{item:?}") };
        let expected = acknowledged.next_if(|(sequence, _)| *sequence == record.sequence);
        let (_, number) = expected.expect("nothing else was acknowledged, nor written");
        assert_eq!(record.payload[..8], number.to_le_bytes());
    }
    assert_eq!(acknowledged.next(), None);
}

#[test]
fn a_full_file_system_is_a_state_that_ends() {
    let mut sizes = 0;
    for kib in (320..960).step_by(64) {
        let Ok(mounted) = Mounted::in_memory(kib) else {
            return skip("a_full_file_system_is_a_state_that_ends", "only root can mount one");
        };
        fill_and_resume(&mounted, kib);
        sizes += 1;
    }
    figure("D4", &format!("a journal on {sizes} file systems that run full"));
}
