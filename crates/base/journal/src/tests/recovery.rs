//! Tests of recovery and of reading. Each test covers one case, such as a kind of damage, an
//! incomplete operation, a limit or a lock.

use super::rig::options;
use crate::batch::{Batch, Payload};
use crate::error::ErrorKind;
use crate::layout::{HEADER_BYTES, Identity, NewRecord, encode_record, record_bytes, segment_name};
use crate::log::{Log, Recovery};
use crate::position;
use crate::reader::{Item, Reader};
use crate::testing::SimulatedDisk;
use crate::{AtLimit, Error, Options, Refusal};
use std::sync::Arc;

/// Size of most payloads, in bytes.
const PAYLOAD: usize = 100;
const RECORD: usize = record_bytes(PAYLOAD);

fn open(disk: &SimulatedDisk) -> Result<(Log, Recovery), Error> {
    Log::open(Arc::new(disk.clone()), options())
}

/// Writes a group of `count` records, starting at sequence number `first`. Each payload repeats the
/// low byte of the sequence number `PAYLOAD` times.
fn write(log: &mut Log, first: u64, count: u64) -> Result<(), Refusal> {
    let mut batch = Batch::reuse(Vec::new(), first);
    for sequence in first..first + count {
        let payload = Payload { kind: 0, bytes: &[sequence as u8; PAYLOAD] };
        batch.push(&payload, log.shared().identity);
    }
    log.write(&batch)
}

/// Makes a journal with `groups` groups of three records each.
fn journal(groups: u64) -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    (0..groups).for_each(|group| write(&mut log, group * 3, 3).unwrap());
    disk
}

/// Reads the journal. Describes its records, damage and gaps as text, such as `0-7`.
fn journal_text(disk: &SimulatedDisk) -> String {
    let mut reader = Reader::open_on(Arc::new(disk.clone()), 0).unwrap();
    reader_text(&mut reader)
}

fn reader_text(reader: &mut Reader) -> String {
    let mut told: Vec<String> = Vec::new();
    let mut range: Option<(u64, u64)> = None;
    let show = |(from, to): (u64, u64)| format!("{from}-{to}");
    while let Some(item) = reader.next().unwrap() {
        if let Item::Record(record) = item {
            assert_eq!(record.payload, [record.sequence as u8; PAYLOAD]);
            range = match range {
                Some((from, to)) if to + 1 == record.sequence => Some((from, record.sequence)),
                other => {
                    told.extend(other.map(show));
                    Some((record.sequence, record.sequence))
                }
            };
            continue;
        }
        told.extend(range.take().map(show));
        told.push(match item {
            Item::Damage(damage) => format!(
                "{}:{}+{}{}{}",
                damage.segment,
                damage.offset,
                damage.bytes,
                damage.records.map_or(String::new(), |records| format!(" lost {records}")),
                if damage.may_be_torn { " torn" } else { "" },
            ),
            Item::Missing(range) => format!("gone {}-{}", range.start, range.end - 1),
            Item::Record(_) => unreachable!(),
        });
    }
    told.extend(range.map(show));
    told.join(", ")
}

/// Applies `change` to the bytes of a segment's file.
fn change(disk: &SimulatedDisk, segment: u64, change: impl FnOnce(&mut Vec<u8>)) {
    let name = segment_name(segment);
    let mut bytes = disk.bytes(&name).unwrap();
    change(&mut bytes);
    disk.set_bytes(&name, bytes);
}

/// Returns the offset in bytes of the record with this sequence number in the first segment.
fn offset(sequence: usize) -> usize {
    HEADER_BYTES as usize + sequence * RECORD
}

#[test]
fn a_journal_belongs_to_one_writer_or_to_readers() {
    let disk = journal(1);
    let is_locked = |error: Option<Error>| matches!(error.unwrap().kind, ErrorKind::Locked);
    let reader = || Reader::open_on(Arc::new(disk.clone()), 0);
    let (log, _) = open(&disk).unwrap();
    assert!(is_locked(open(&disk).err()) && is_locked(reader().err()));
    drop(log);
    let readers = (reader().unwrap(), reader().unwrap());
    assert!(is_locked(open(&disk).err()));
    drop(readers);
    open(&disk).unwrap();
}

/// A reader of a journal that another process writes reads the present records. The reader returns
/// no record that is still being written, and reports trimmed records as missing.
#[test]
fn others_look_while_it_is_written() {
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = open(&disk).unwrap();
    let look = |from| reader_text(&mut Reader::open_live(Arc::new(disk.clone()), from).unwrap());
    let mut last = 0;
    for group in 0..40 {
        write(&mut log, group * 3, 3).unwrap();
        last = group * 3 + 2;
        assert_eq!(look(0), format!("0-{last}"));
    }
    assert_eq!(look(7), format!("7-{last}"));
    let end = disk.names().into_iter().filter(|name| name.ends_with(".segment")).max();
    let end = end.expect("a segment");
    let mut bytes = disk.bytes(&end).unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[written] ^= 1;
    disk.set_bytes(&end, bytes);
    let told = look(0);
    assert!(told.starts_with(&format!("0-{}", last - 1)), "{told}");
    log.shared().trim_before(60).unwrap();
    let told = look(0);
    assert!(told.starts_with("gone 0-"), "{told}");
}

#[test]
fn opening_again_and_again_leaves_nothing_behind() {
    let disk = journal(2);
    for _ in 0..20 {
        let (mut log, recovery) = open(&disk).unwrap();
        assert_eq!((recovery.next_sequence, recovery.was_closed), (6, false));
        // Leaves an empty segment, so the files are counted only after this loop.
        log.prepare().unwrap();
    }
    let segments = disk.names().len();
    (0..20).for_each(|_| drop(open(&disk).unwrap()));
    assert_eq!(disk.names().len(), segments);
    assert_eq!(journal_text(&disk), "0-5");
}

#[test]
fn a_later_releases_segments_are_refused_and_left_alone() {
    for place in [8, 16, 20] {
        let disk = journal(1);
        change(&disk, 1, |bytes| {
            for sector in bytes[..HEADER_BYTES as usize].chunks_exact_mut(512) {
                sector[place] ^= 4;
                let crc = crc32c::crc32c(&sector[..508]);
                sector[508..].copy_from_slice(&crc.to_le_bytes());
            }
        });
        disk.set_bytes("0000000000000002.new", vec![1]);
        let (names, bytes) = (disk.names(), disk.bytes(&segment_name(1)));
        let operations = disk.operations();
        let error = open(&disk).err().unwrap();
        assert!(matches!(error.kind, ErrorKind::Newer { .. }), "{error}");
        assert_eq!(error.file, segment_name(1));
        assert_eq!((disk.names(), disk.bytes(&segment_name(1))), (names, bytes));
        assert_eq!(disk.operations(), operations);
    }
}

#[test]
fn a_segment_of_another_journal_is_refused() {
    let disk = journal(1);
    let other = SimulatedDisk::new(2);
    write(&mut open(&other).unwrap().0, 0, 1).unwrap();
    let mut bytes = other.bytes(&segment_name(1)).unwrap();
    // The segment has another file name, so its header needs the new number.
    for sector in bytes[..HEADER_BYTES as usize].chunks_exact_mut(512) {
        sector[32] = 2;
        let crc = crc32c::crc32c(&sector[..508]);
        sector[508..].copy_from_slice(&crc.to_le_bytes());
    }
    disk.set_bytes(&segment_name(2), bytes);
    let error = open(&disk).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Foreign), "{error}");
}

#[test]
fn damage_is_told_from_what_was_being_written() {
    fn check(hit: usize, expected: &str) {
        let disk = journal(3);
        change(&disk, 1, |bytes| bytes[offset(hit)] ^= 1);
        assert_eq!(journal_text(&disk), expected);
        // The result is the same after more records have been written.
        let (mut log, recovery) = open(&disk).unwrap();
        write(&mut log, recovery.next_sequence, 1).unwrap();
        drop(log);
        let last = recovery.next_sequence;
        let expected = match last {
            9 => expected.replace("-8", "-9"),
            _ => expected.replace("-7", "-8"),
        };
        assert_eq!(journal_text(&disk), expected.replace("8-8", "8-9"));
    }
    check(1, "0-0, 1:1160+136 lost 1, 2-8");
    check(5, "0-4, 1:1704+136 lost 1, 6-8");
    check(6, "0-5, 1:1840+136 lost 1 torn, 7-8");
    check(7, "0-6, 1:1976+136 lost 1 torn, 8-8");
    // No later record proves that this one was ever complete.
    check(8, "0-7");
}

/// A segment file that is shorter than its two header copies counts as truncated. The header bytes
/// that the file lacks count as torn.
#[test]
fn a_segment_that_is_shorter_than_its_headers_was_cut() {
    for left in [600, 1023] {
        let disk = journal(1);
        change(&disk, 1, |bytes| bytes.truncate(left));
        let (_, recovery) = open(&disk).unwrap();
        assert_eq!(recovery.torn_bytes, 1024 - left as u64);
    }
}

#[test]
fn what_is_torn_goes_to_quarantine() {
    let disk = journal(1);
    change(&disk, 1, |bytes| bytes[offset(2) + 3..].fill(0));
    let (log, recovery) = open(&disk).unwrap();
    // Torn bytes are examined in steps of eight.
    assert_eq!((recovery.torn_bytes, recovery.next_sequence), (8, 2));
    let kept = disk.bytes("quarantine/0000000000000001-0000000000000510.bytes").unwrap();
    assert_eq!(kept, [&log.shared().identity.marker()[..3], &[0; 5]].concat());
}

#[test]
fn quarantine_has_a_limit_and_keeps_each_damage_once() {
    let disk = journal(10);
    for sequence in 0..4 {
        change(&disk, 1, |bytes| bytes[offset(sequence * 2) + 50] ^= 1);
    }
    // A file is counted as at least 4 KiB.
    let options = Options { quarantine_bytes_max: 3 * 4096, ..options() };
    for round in 0..2 {
        let (log, _) = Log::open(Arc::new(disk.clone()), options.clone()).unwrap();
        for _ in 0..2 {
            reader_text(&mut Reader::follow(Arc::clone(log.shared()), 0));
        }
        let counters = log.shared().counters();
        let expected = if round == 0 { (4, 4, 3, 1) } else { (1, 1, 0, 1) };
        let record = RECORD as u64;
        let (quarantined, refused) =
            (counters.quarantined_bytes / record, counters.quarantine_refused_bytes / record);
        assert_eq!((counters.damages, counters.damaged_records, quarantined, refused), expected);
    }
    let kept: Vec<String> = disk.names().into_iter().filter(|name| name.contains('/')).collect();
    assert_eq!(kept.len(), 3, "{kept:?}");
    assert_eq!(disk.bytes(&kept[0]).unwrap().len(), RECORD);
}

#[test]
fn what_the_disk_cannot_read_costs_only_itself() {
    let disk = SimulatedDisk::new(1);
    let options = Options { segment_bytes: 64 << 10, ..options() };
    let (mut log, _) = Log::open(Arc::new(disk.clone()), options.clone()).unwrap();
    (0..100).for_each(|group| write(&mut log, group * 3, 3).unwrap());
    disk.set_unreadable(&segment_name(1), 9000..9001);
    // The block from 8192 to 12288 has records 52 to 82.
    let expected = "0-51, 1:8096+4216 lost 31, 83-299";
    assert_eq!(reader_text(&mut Reader::follow(Arc::clone(log.shared()), 0)), expected);
    drop(log);
    let (log, recovery) = Log::open(Arc::new(disk.clone()), options).unwrap();
    assert_eq!(recovery.next_sequence, 300);
    assert_eq!(reader_text(&mut Reader::follow(Arc::clone(log.shared()), 0)), expected);
}

#[test]
fn without_any_header_records_are_found_by_their_numbers() {
    // A segment has room for 22 records.
    let disk = journal(20);
    change(&disk, 2, |bytes| bytes[..1024].fill(0xee));
    assert_eq!(journal_text(&disk), "0-21, 2:0+512 lost 0, 2:512+512 lost 0, 22-59");
    change(&disk, 3, |bytes| bytes[..1024].fill(0xee));
    assert!(journal_text(&disk).ends_with("44-59"), "{}", journal_text(&disk));
    change(&disk, 1, |bytes| bytes[..1024].fill(0xee));
    // Without any header the journal's identity is lost.
    assert!(!journal_text(&disk).contains('-'), "{}", journal_text(&disk));
    let (mut log, recovery) = open(&disk).unwrap();
    write(&mut log, recovery.next_sequence, 1).unwrap();
    drop(log);
    // No segment is removed in this case either.
    assert_eq!(disk.names().iter().filter(|name| name.ends_with(".segment")).count(), 4);
    assert!(journal_text(&disk).ends_with("0-0"), "{}", journal_text(&disk));
}

#[test]
fn numbers_go_on_behind_a_segment_of_unknown_end() {
    // The header that stated the end of segment 1 is lost.
    let disk = journal(10);
    change(&disk, 2, |bytes| bytes.truncate(1));
    let (mut log, recovery) = open(&disk).unwrap();
    assert_eq!(recovery.next_sequence, 22);
    write(&mut log, 22, 3).unwrap();
    log.shared().trim_before(22).unwrap();
    drop(log);
    assert_eq!(journal_text(&disk), "gone 0-21, 22-24");
}

#[test]
fn a_segment_that_was_never_used_is_passed_over() {
    let disk = journal(1);
    let (mut log, _) = open(&disk).unwrap();
    log.prepare().unwrap();
    drop(log);
    let unused = disk.bytes(&segment_name(2)).unwrap();
    disk.set_bytes(&segment_name(2), Vec::new());
    let disk = journal(1);
    let (mut log, _) = open(&disk).unwrap();
    write(&mut log, 3, 3).unwrap();
    drop(log);
    // The same state results if creating segment 2 fails, and its removal too.
    let third = disk.bytes(&segment_name(2)).unwrap();
    disk.set_bytes(&segment_name(2), unused);
    let mut renumbered = third;
    for sector in renumbered[..HEADER_BYTES as usize].chunks_exact_mut(512) {
        sector[32] = 3;
        let crc = crc32c::crc32c(&sector[..508]);
        sector[508..].copy_from_slice(&crc.to_le_bytes());
    }
    disk.set_bytes(&segment_name(3), renumbered);
    assert_eq!(journal_text(&disk), "0-5");
    drop(open(&disk).unwrap());
    assert!(disk.bytes(&segment_name(2)).is_none());
    assert_eq!(journal_text(&disk), "0-5");
}

#[test]
fn a_payload_that_looks_like_a_record_is_none() {
    /// Writes records 3 and 4. The payload of record 3 is an encoded record with the identity
    /// from `forger`. Damages the header of record 3. Returns the sequence numbers of the records
    /// that a reader finds from 3 on.
    fn check(forger: impl FnOnce(Identity) -> Identity) -> Vec<u64> {
        let disk = journal(1);
        let (mut log, _) = open(&disk).unwrap();
        let identity = log.shared().identity;
        let mut payload = Vec::new();
        let forged = NewRecord { sequence: 3, place: 0, kind: 0, payload: b"forged" };
        encode_record(&forged, forger(identity), &mut payload);
        let mut batch = Batch::reuse(Vec::new(), 3);
        batch.push(&Payload { kind: 0, bytes: &payload }, identity);
        batch.push(&Payload { kind: 0, bytes: b"next" }, identity);
        log.write(&batch).unwrap();
        drop(log);
        change(&disk, 2, |bytes| bytes[HEADER_BYTES as usize + 9] ^= 1);
        let mut reader = Reader::open_on(Arc::new(disk), 3).unwrap();
        let mut sequences = Vec::new();
        while let Some(item) = reader.next().unwrap() {
            if let Item::Record(record) = item {
                sequences.push(record.sequence);
            }
        }
        sequences
    }
    assert_eq!(check(|_| Identity::new(0x1234_5678_9abc_def0)), [4]);
    // A forger who knew the identity could forge a record: only its secrecy protects the journal.
    assert_eq!(check(|identity| identity), [3, 4]);
}

#[test]
fn records_that_are_gone_are_told() {
    let disk = journal(20);
    let (log, _) = open(&disk).unwrap();
    let trimmed = log.shared().trim_before(30).unwrap();
    assert_eq!((trimmed.segments, disk.bytes(&segment_name(1))), (1, None));
    drop(log);
    assert_eq!(journal_text(&disk), "gone 0-21, 22-59");
    let disk = journal(30);
    crate::Disk::remove(&disk, &segment_name(2)).unwrap();
    assert_eq!(journal_text(&disk), "0-21, gone 22-43, 44-89");
}

#[test]
fn the_last_segment_is_never_trimmed() {
    let disk = journal(20);
    let (log, _) = open(&disk).unwrap();
    log.shared().trim_before(u64::MAX).unwrap();
    drop(log);
    assert_eq!(open(&disk).unwrap().1.next_sequence, 60);
}

#[test]
fn at_its_limit_a_journal_refuses_or_drops() {
    let refusing = Options { total_bytes_max: 4 * 4096, ..options() };
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = Log::open(Arc::new(disk.clone()), refusing.clone()).unwrap();
    let refused = (0..100).find_map(|group| Some((group, write(&mut log, group * 3, 3).err()?)));
    let (group, refusal) = refused.unwrap();
    assert!(matches!(&refusal, Refusal::Full(error) if error.is_full()), "{refusal}");
    assert!((4 * 21..=4 * 22).contains(&(group * 3)), "{group}");
    assert!(log.prepare().is_err());
    log.shared().trim_before(30).unwrap();
    log.prepare().unwrap();
    write(&mut log, group * 3 + 3, 3).unwrap();
    drop(log);

    let dropping = Options { at_limit: AtLimit::DropOldest, ..refusing };
    let disk = SimulatedDisk::new(1);
    let (mut log, _) = Log::open(Arc::new(disk.clone()), dropping).unwrap();
    let mut reader = Reader::follow(Arc::clone(log.shared()), 0);
    for group in 0..100 {
        write(&mut log, group * 3, 3).unwrap();
        assert!(log.shared().table().file_bytes() <= 4 * 4096);
    }
    let dropped = log.shared().counters().dropped_records;
    assert_eq!(reader_text(&mut reader), format!("gone 0-{}, {dropped}-299", dropped - 1));
}

#[test]
fn a_segment_that_failed_is_given_up_and_nothing_is_lost() {
    let disk = journal(0);
    let (mut log, _) = open(&disk).unwrap();
    write(&mut log, 0, 3).unwrap();
    disk.fail(disk.operations()..disk.operations() + 1, rustix::io::Errno::IO);
    write(&mut log, 3, 3).unwrap();
    write(&mut log, 6, 3).unwrap();
    let counters = log.shared().counters();
    assert_eq!((counters.segments_given_up, counters.segments), (1, 2));
    assert_eq!(counters.durable_records, 9);
    log.close().unwrap();
    assert_eq!(journal_text(&disk), "0-8");
}

#[test]
fn a_segment_that_cannot_be_made_leaves_nothing() {
    // The steps: create, reserve, write, sync, rename, sync the directory.
    for step in 0..6 {
        let disk = SimulatedDisk::new(step);
        let (mut log, _) = open(&disk).unwrap();
        disk.fail(step..step + 1, rustix::io::Errno::NOSPC);
        let refusal = write(&mut log, 0, 1).unwrap_err();
        assert!(matches!(refusal, Refusal::Full(_)), "{refusal}");
        assert!(disk.names().is_empty(), "{step}: {:?}", disk.names());
        write(&mut log, 1, 1).unwrap();
        drop(log);
        assert_eq!(journal_text(&disk), "1-1");
    }
}

#[test]
fn numbers_that_were_refused_are_not_missing() {
    let disk = journal(1);
    let (mut log, _) = open(&disk).unwrap();
    log.prepare().unwrap();
    write(&mut log, 10, 2).unwrap();
    drop(log);
    assert_eq!(journal_text(&disk), "0-2, 10-11");
}

#[test]
fn a_record_out_of_place_is_damage() {
    let disk = journal(3);
    change(&disk, 1, |bytes| bytes.copy_within(offset(1)..offset(2), offset(5)));
    assert_eq!(journal_text(&disk), "0-4, 1:1704+136 lost 1, 6-8");
}

#[test]
fn who_reads_from_behind_damage_is_not_told_of_it() {
    let disk = journal(3);
    change(&disk, 1, |bytes| bytes[offset(1)] ^= 1);
    let from = |from| reader_text(&mut Reader::open_on(Arc::new(disk.clone()), from).unwrap());
    assert_eq!(from(1), "1:1160+136 lost 1, 2-8");
    assert_eq!(from(2), "2-8");
    assert_eq!(from(5), "5-8");
}

#[test]
fn a_number_that_a_segment_cannot_have_is_damage() {
    let disk = journal(10);
    let identity = {
        let (log, _) = open(&disk).unwrap();
        log.shared().identity
    };
    let mut forged = Vec::new();
    let record = NewRecord { sequence: 1 << 60, place: 0, kind: 0, payload: &[0; PAYLOAD] };
    encode_record(&record, identity, &mut forged);
    change(&disk, 1, |bytes| bytes[offset(4)..offset(5)].copy_from_slice(&forged));
    assert_eq!(journal_text(&disk), "0-3, 1:1568+136 lost 1, 5-29");
}

#[test]
fn positions_outlive_restarts_and_hold_sequence_numbers() {
    let disk = journal(1);
    let refuse = |name| position::write(&disk, name, 1).err().map(|error| error.kind);
    for name in ["", "a/b", "..", "a.b", &"x".repeat(65)] {
        assert!(matches!(refuse(name), Some(ErrorKind::Name)), "{name}");
    }
    assert_eq!(position::read(&disk, "forwarder").unwrap(), None);
    for sequence in (4900..=5000).step_by(10) {
        position::write(&disk, "forwarder", sequence).unwrap();
        disk.cut_power();
        assert_eq!(position::read(&disk, "forwarder").unwrap(), Some(sequence));
    }
    position::write(&disk, "store", 2).unwrap();
    // Sequence numbers below a consumer's position must not be assigned to new records.
    assert_eq!(open(&disk).unwrap().1.next_sequence, 5000);
    position::forget(&disk, "forwarder").unwrap();
    position::forget(&disk, "forwarder").unwrap();
    disk.set_bytes("store.position", vec![1, 2, 3]);
    disk.set_bytes("store.position.new", vec![1]);
    let (_, recovery) = open(&disk).unwrap();
    assert_eq!((recovery.next_sequence, recovery.positions_forgotten), (3, 1));
    assert_eq!(disk.names(), [segment_name(1)]);
}

#[test]
fn when_numbers_are_exhausted_it_says_so() {
    let disk = SimulatedDisk::new(1);
    disk.set_bytes(&segment_name(u64::MAX), vec![0; 2000]);
    let (mut log, _) = open(&disk).unwrap();
    let refusal = write(&mut log, 0, 1).unwrap_err();
    assert!(refusal.to_string().contains("no number is left"), "{refusal}");
}

#[test]
fn options_that_contradict_each_other_are_refused() {
    fn check(change: impl FnOnce(&mut Options)) {
        let mut options = options();
        change(&mut options);
        let opened = Log::open(Arc::new(SimulatedDisk::new(1)), options);
        assert!(matches!(opened.err().unwrap().kind, ErrorKind::Options(_)));
    }
    check(|options| options.segment_bytes = 2048);
    check(|options| options.total_bytes_max = 8191);
    check(|options| options.waiting_bytes_max = 2048);
    check(|options| options.waiting_bytes_max = 5 << 30);
    check(|options| options.payload_bytes_max = 32 << 20);
}
