//! Rule D9: a missing control file does not mean an empty store. A store is refused if both copies
//! of the manifest are missing or outdated, if all span files are missing, or if a span file was
//! copied in. The error names the command that repairs the store, and no span file is removed. A
//! missing journal is reported as damage.

use blkkin_journal::Disk;
use blkkin_journal::testing::SimulatedDisk;
use blkkin_lake::{AdoptReport, Lake, OpenReport, Options, Retention, adopt_on};
use blkkin_model::{EndpointRef, SpanId, SpanRef, TraceId};
use blkkin_store::{Batch, Policy, Query, SpanStore};
use blkkin_wire::{Format, encode};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, mpsc};
use std::time::Duration;

fn options() -> Options {
    Options {
        retention: Retention { age: None, bytes: None },
        merge_files: usize::MAX,
        journal: blkkin_journal::Options {
            segment_bytes: 64 << 10,
            total_bytes_max: 1 << 20,
            payload_bytes_max: 16 << 10,
            ..blkkin_journal::Options::default()
        },
        ..Options::default()
    }
}

fn open(disk: &SimulatedDisk) -> Result<(Lake, OpenReport), blkkin_lake::Error> {
    Lake::open_on(Arc::new(disk.clone()), options())
}

/// Sends requests of one span each in one batch, and waits until the batch is durable.
fn send(lake: &Lake, numbers: std::ops::Range<u64>) {
    let spans = numbers.map(|number| {
        let id = SpanId::from_number(number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let id = id.expect("not 0");
        SpanRef {
            name: "read",
            start_ns: Some(1_700_000_000_000_000_000 + number),
            duration_ns: Some(1000),
            local: EndpointRef { service: "disk", ..EndpointRef::NONE },
            ..SpanRef::new(TraceId::from(id), id)
        }
    });
    let mut bytes = Vec::new();
    encode(Format::ZipkinProto, spans, &mut bytes);
    let (tell, told) = mpsc::channel();
    let batch = Batch { format: Format::ZipkinProto, bytes: &bytes, policy: Policy::Whole };
    lake.accept(batch, Box::new(move |result| tell.send(result).expect("the test waits")));
    told.recv_timeout(Duration::from_secs(30)).expect("an answer").expect("accepted");
}

/// Creates a store with three files of ten spans each, and ten more spans in the journal.
fn store() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (lake, _) = open(&disk).expect("opened");
    for file in 0..3 {
        send(&lake, file * 10..file * 10 + 10);
        lake.flush().expect("written");
    }
    send(&lake, 30..40);
    drop(lake);
    disk
}

fn spans_found(lake: &Lake) -> usize {
    let page = lake.search(&Query::new(100_000)).expect("found");
    assert!(page.requests.iter().all(|request| request.spans == 1), "{page:?}");
    page.requests.len()
}

/// Returns the contents of all span files by name.
fn files(disk: &SimulatedDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.names().into_iter().filter(|name| name.ends_with(".parquet"));
    names.map(|name| (name.clone(), disk.bytes(&name).expect("is there"))).collect()
}

const COPIES: [&str; 2] = ["manifest", "manifest.copy"];

/// Asserts that opening the store fails, that the error names the repair command, and that no span
/// file changes.
#[track_caller]
fn check_refused(disk: &SimulatedDisk, why: &str) {
    let before = files(disk);
    for _ in 0..2 {
        let Err(error) = open(disk) else {
            panic!("{why}: opened, {} of {} files left", files(disk).len(), before.len())
        };
        assert!(error.to_string().contains("blkkin store adopt"), "{why}: {error}");
        assert!(files(disk) == before, "{why}: {:?}", disk.names());
    }
}

#[test]
fn d9_without_a_manifest_nothing_is_removed() {
    let disk = store();
    COPIES.iter().for_each(|name| disk.remove(name).expect("removed"));
    check_refused(&disk, "no manifest");
}

#[test]
fn d9_with_an_older_manifest_nothing_is_removed() {
    let disk = SimulatedDisk::new(1);
    let (lake, _) = open(&disk).expect("opened");
    send(&lake, 0..10);
    lake.flush().expect("written");
    let older: Vec<_> = COPIES.iter().map(|name| disk.bytes(name).expect("is there")).collect();
    send(&lake, 10..20);
    lake.flush().expect("written");
    drop(lake);
    COPIES.iter().zip(older).for_each(|(name, bytes)| disk.set_bytes(name, bytes));
    check_refused(&disk, "an older manifest");
}

#[test]
fn d9_a_file_that_was_copied_in_is_not_removed() {
    let disk = store();
    let name = files(&disk).into_keys().next().expect("a file");
    let copy = name.replace("0000000001", "0000000077");
    disk.set_bytes(&copy, disk.bytes(&name).expect("is there"));
    check_refused(&disk, "a copied file");
    disk.set_bytes(&copy, b"no file of spans".to_vec());
    check_refused(&disk, "a foreign file");
}

/// A store is refused if none of the manifest's files exists. Their file system may not be mounted.
#[test]
fn d9_without_any_file_the_manifest_stays() {
    let disk = store();
    let all = files(&disk);
    all.keys().for_each(|name| disk.remove(name).expect("removed"));
    check_refused(&disk, "no file");
    all.into_iter().for_each(|(name, bytes)| disk.set_bytes(&name, bytes));
    let (lake, opened) = open(&disk).expect("opened");
    assert_eq!((spans_found(&lake), opened.damage.len()), (40, 0));
}

#[test]
fn d9_a_missing_journal_is_reported() {
    let disk = store();
    for name in disk.names().iter().filter(|name| name.starts_with("journal/")) {
        disk.remove(name).expect("removed");
    }
    let (lake, opened) = open(&disk).expect("opened");
    assert!(opened.damage.iter().any(|line| line.contains("journal")), "{opened:?}");
    assert_eq!(spans_found(&lake), 30);
}

/// Unfinished files that no manifest names and indexes without a span file are removed at the
/// start. Foreign files stay.
#[test]
fn unfinished_files_are_removed() {
    let disk = store();
    let before = disk.names();
    let index = disk.bytes("spans/0000000001.index").expect("is there");
    disk.set_bytes("spans/0000000050.unfinished", b"PAR1".to_vec());
    disk.set_bytes("spans/0000000050.index", index.clone());
    disk.set_bytes("spans/0000000051.index", index);
    let foreign = ["spans/0000000052.index", "spans/notes.parquet", "spans/7.parquet"];
    foreign.iter().for_each(|name| disk.set_bytes(name, b"foreign".to_vec()));
    let (lake, _) = open(&disk).expect("opened");
    assert_eq!(spans_found(&lake), 40);
    let mut expected: Vec<String> =
        before.into_iter().filter(|it| it.starts_with("spans/")).collect();
    expected.extend(foreign.iter().map(|name| (*name).to_owned()));
    expected.sort();
    let mut names = disk.names();
    names.retain(|name| name.starts_with("spans/"));
    names.sort();
    assert_eq!(names, expected);
}

/// A flush does not overwrite a foreign file that has the name of the next file.
#[test]
fn a_foreign_file_is_not_overwritten() {
    let disk = store();
    let (lake, _) = open(&disk).expect("opened");
    let foreign = disk.bytes("spans/0000000001.parquet").expect("is there");
    let name = (4..9).map(|number| format!("spans/{number:010}.parquet"));
    name.clone().for_each(|name| disk.set_bytes(&name, foreign.clone()));
    let written = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        lake.flush().is_ok()
    });
    assert!(written && files(&disk).len() == 3 + 5 + 1, "{:?}", disk.names());
    name.for_each(|name| assert_eq!(disk.bytes(&name).as_deref(), Some(&foreign[..])));
}

fn adopt(disk: &SimulatedDisk) -> AdoptReport {
    adopt_on(Arc::new(disk.clone()), &AtomicU64::new(0)).expect("adopted")
}

fn copy_of(disk: &SimulatedDisk) -> SimulatedDisk {
    let copy = SimulatedDisk::new(1);
    for name in disk.names() {
        copy.set_bytes(&name, disk.bytes(&name).expect("is there"));
    }
    copy
}

/// Opens and flushes the store, checks its counters, and returns the number of its spans.
fn spans_kept(disk: &SimulatedDisk) -> usize {
    let (lake, _) = open(disk).expect("opened");
    lake.flush().expect("written");
    let found = spans_found(&lake);
    assert_eq!(lake.counters().kept as usize, found, "{:?}", lake.counters());
    found
}

#[test]
fn adopting_finds_each_span_once() {
    let disk = store();
    let stored = disk.bytes("manifest").expect("is there");
    // Without a manifest, all files are adopted.
    COPIES.iter().for_each(|name| disk.remove(name).expect("removed"));
    let adopted = adopt(&disk);
    assert_eq!((adopted.files, adopted.adopted_spans, adopted.duplicate_spans), (3, 30, 0));
    assert!(adopted.keeps_all && adopted.damage.is_empty(), "{adopted:?}");
    assert_eq!(spans_kept(&copy_of(&disk)), 40);

    // The spans of two of these files are in the store already, and the third is no span file. All
    // three are renamed.
    let (one, copy) = ("spans/0000000001.parquet", "spans/0000000077.parquet");
    disk.set_bytes(copy, disk.bytes(one).expect("is there"));
    disk.set_bytes("spans/mine.parquet", disk.bytes(one).expect("is there"));
    disk.set_bytes("spans/0000000078.parquet", b"no file of spans".to_vec());
    let adopted = adopt(&disk);
    assert_eq!((adopted.files, adopted.adopted_spans, adopted.duplicate_spans), (3, 0, 20));
    let names = disk.names();
    let aside = ["77.parquet.duplicate", "78.parquet.unreadable", "79.parquet.duplicate"];
    for name in aside.map(|name| format!("spans/00000000{name}")) {
        assert!(names.contains(&name), "{names:?}");
    }
    assert_eq!(adopted.renamed_files.len(), 4);
    assert_eq!(spans_kept(&copy_of(&disk)), 40);

    // With an older manifest, the unnamed file is adopted, and spans of the journal are not
    // duplicated.
    let (lake, _) = open(&disk).expect("opened");
    lake.flush().expect("written");
    drop(lake);
    COPIES.iter().for_each(|name| disk.set_bytes(name, stored.clone()));
    check_refused(&disk, "an older manifest");
    let adopted = adopt(&disk);
    assert_eq!((adopted.files, adopted.adopted_spans, adopted.duplicate_spans), (4, 10, 0));
    assert_eq!(spans_kept(&disk), 40);
}

/// Only the new spans are adopted from a file that also has known spans.
#[test]
fn adopting_takes_what_is_new_of_a_file() {
    let disk = store();
    let other = SimulatedDisk::new(2);
    let (lake, _) = open(&other).expect("opened");
    send(&lake, 5..15);
    send(&lake, 100..110);
    lake.flush().expect("written");
    drop(lake);
    let file = other.bytes("spans/0000000001.parquet").expect("is there");
    disk.set_bytes("spans/0000000077.parquet", file);
    let adopted = adopt(&disk);
    assert_eq!((adopted.files, adopted.adopted_spans, adopted.duplicate_spans), (4, 10, 10));
    assert!(disk.names().contains(&"spans/0000000077.parquet.duplicate".to_owned()));
    assert_eq!(spans_kept(&disk), 50);
}

/// Adoption finds duplicates in a large file even if very many other requests lie between them.
#[test]
fn adopting_compares_with_large_files() {
    let large = Options { retention: Retention::ALL, ..Options::default() };
    let write = |seed, numbers: [std::ops::Range<u64>; 2]| {
        let disk = SimulatedDisk::new(seed);
        let (lake, _) = Lake::open_on(Arc::new(disk.clone()), large.clone()).expect("opened");
        numbers.into_iter().for_each(|numbers| send(&lake, numbers));
        lake.flush().expect("written");
        drop(lake);
        disk
    };
    let (disk, other) = (write(1, [0..25_000, 25_000..50_000]), write(2, [0..30, 60_000..60_020]));
    let file = other.bytes("spans/0000000001.parquet").expect("is there");
    disk.set_bytes("spans/0000000077.parquet", file);
    let adopted = adopt(&disk);
    assert_eq!((adopted.files, adopted.adopted_spans, adopted.duplicate_spans), (2, 20, 30));
}

/// No span file is removed if control files are removed, replaced by older versions, or overwritten
/// by another file of their kind. The test does this to each file alone and in pairs. A store that
/// does not open names the command that repairs it.
#[test]
fn d9_control_files_in_pairs() {
    let disk = SimulatedDisk::new(1);
    let (lake, _) = open(&disk).expect("opened");
    send(&lake, 0..10);
    lake.flush().expect("written");
    drop(lake);
    let older = copy_of(&disk);
    let (lake, _) = open(&disk).expect("opened");
    send(&lake, 10..20);
    lake.flush().expect("written");
    send(&lake, 20..30);
    drop(lake);
    let is_control = |name: &String| !name.ends_with(".parquet");
    let controls: Vec<String> = disk.names().into_iter().filter(is_control).collect();
    let kind = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let mut changes: Vec<(String, Option<Vec<u8>>)> = Vec::new();
    for name in &controls {
        changes.push((name.clone(), None));
        changes.extend(older.bytes(name).map(|bytes| (name.clone(), Some(bytes))));
        let others = controls.iter().filter(|other| *other != name && kind(other) == kind(name));
        changes.extend(others.map(|other| (name.clone(), disk.bytes(other))));
    }
    let before = files(&disk);
    let (mut cases, mut refused) = (0, 0);
    for (at, one) in changes.iter().enumerate() {
        for other in &changes[at..] {
            let copy = copy_of(&disk);
            for (name, bytes) in [one, other] {
                match bytes {
                    Some(bytes) => copy.set_bytes(name, bytes.clone()),
                    None => drop(copy.remove(name)),
                }
            }
            let why = format!("{} and {} are changed", one.0, other.0);
            let result = open(&copy).map(drop);
            cases += 1;
            if let Err(error) = result {
                refused += 1;
                // An error of the journal names the journal's repair command.
                let is_told = error.to_string().contains("blkkin store adopt")
                    || matches!(error, blkkin_lake::Error::Journal(_));
                assert!(is_told, "{why}: {error}");
                assert!(files(&copy) == before, "{why}: {:?}", copy.names());
                if matches!(error, blkkin_lake::Error::Journal(_)) {
                    continue;
                }
                adopt(&copy);
                open(&copy).unwrap_or_else(|error| panic!("{why}, adopted: {error}"));
            }
            let left = files(&copy);
            let is_left = |(name, bytes): (&String, &Vec<u8>)| left.get(name) == Some(bytes);
            assert!(before.iter().all(is_left), "{why}: {:?}", copy.names());
            let (lake, _) = open(&copy).expect("opened again");
            assert!(spans_found(&lake) >= 20, "{why}");
        }
    }
    // A store is refused if each copy of the manifest is either removed or replaced by an older
    // version.
    assert!(cases > 50 && refused == 4, "{refused} of {cases} refused");
}
