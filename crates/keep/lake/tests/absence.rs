//! D9: absence is not emptiness. A store whose control files are missing, older than its files or joined by
//! others is refused with the name of the command that repairs it, and no file of spans is removed.

use blkkin_journal::Disk;
use blkkin_journal::testing::SimulatedDisk;
use blkkin_lake::{Lake, Opened, Options, Retention};
use blkkin_model::{EndpointRef, SpanId, SpanRef, TraceId};
use blkkin_store::{Batch, Policy, Query, SpanStore};
use blkkin_wire::{Format, encode};
use std::collections::BTreeMap;
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

fn open(disk: &SimulatedDisk) -> Result<(Lake, Opened), blkkin_lake::Error> {
    Lake::open_on(Arc::new(disk.clone()), options())
}

/// Sends requests of one span each, and waits until they are durable.
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

/// A store of three files of ten spans, and ten more spans that only the journal has.
fn store() -> SimulatedDisk {
    let disk = SimulatedDisk::new(1);
    let (lake, _) = open(&disk).expect("opened");
    for file in 0..3 {
        send(&lake, file * 10..file * 10 + 10);
        lake.write_files().expect("written");
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

/// The bytes of all files of spans, by name.
fn files(disk: &SimulatedDisk) -> BTreeMap<String, Vec<u8>> {
    let names = disk.names().into_iter().filter(|name| name.ends_with(".parquet"));
    names.map(|name| (name.clone(), disk.bytes(&name).expect("is there"))).collect()
}

const COPIES: [&str; 2] = ["manifest", "manifest.copy"];

/// Opening is refused, names the command and leaves all files of spans as they are.
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
    lake.write_files().expect("written");
    let older: Vec<_> = COPIES.iter().map(|name| disk.bytes(name).expect("is there")).collect();
    send(&lake, 10..20);
    lake.write_files().expect("written");
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

/// A file system that is not mounted looks like a store without files.
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

/// Unfinished files hold nothing that is not elsewhere, so a crash does not fill the disk.
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

/// A file that is copied in while the store runs, under the name that the next file would get.
#[test]
fn a_foreign_file_is_not_overwritten() {
    let disk = store();
    let (lake, _) = open(&disk).expect("opened");
    let name = (4..9).map(|number| format!("spans/{number:010}.parquet"));
    name.clone().for_each(|name| disk.set_bytes(&name, b"foreign".to_vec()));
    let written = (0..200).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        lake.write_files().is_ok()
    });
    assert!(written && files(&disk).len() == 3 + 5 + 1, "{:?}", disk.names());
    name.for_each(|name| assert_eq!(disk.bytes(&name).as_deref(), Some(&b"foreign"[..])));
}
