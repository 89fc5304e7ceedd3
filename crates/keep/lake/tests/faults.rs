//! Tests of disk errors, full disks, power failures, damage and retention by size. Acknowledged
//! spans are lost only to damage, which is reported, and to retention.

use blkkin_journal::testing::{Random, SimulatedDisk};
use blkkin_lake::{Lake, OpenReport, Options, Retention};
use blkkin_model::{EndpointRef, Kind, SpanId, SpanRef, TraceId};
use blkkin_store::{AcceptedBatch, Batch, Policy, Query, Refusal, SpanStore};
use blkkin_wire::{Format, encode};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// Number of spans in each request.
const SPANS: u64 = 3;

fn options() -> Options {
    Options {
        retention: Retention { age: None, bytes: None },
        file_spans: 60,
        merge_files: 2,
        merged_spans_max: 300,
        // Only one file is cached, so each file is loaded many times.
        cache_bytes_max: 0,
        journal: blkkin_journal::Options {
            segment_bytes: 64 << 10,
            total_bytes_max: 1 << 20,
            // Small enough that a batch takes several records.
            payload_bytes_max: 256,
            retry_after: Duration::from_millis(5),
            ..blkkin_journal::Options::default()
        },
        ..Options::default()
    }
}

fn trace_id(number: u64) -> TraceId {
    let id = u128::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    TraceId::from_number(id).expect("not 0")
}

/// Encodes a batch of the requests whose numbers are in a range.
fn batch(numbers: std::ops::Range<u64>) -> Vec<u8> {
    let services = ["guest", "nbd", "disk"];
    let mut spans = Vec::new();
    for number in numbers {
        let trace_id = trace_id(number);
        for place in 0..SPANS {
            let id = SpanId::from_number(number * SPANS + place + 1).expect("not 0");
            spans.push(SpanRef {
                name: "read",
                kind: Kind::Server,
                start_ns: Some(1_700_000_000_000_000_000 + number * 1_000_000),
                duration_ns: Some(1000 * (place + 1)),
                local: EndpointRef { service: services[place as usize], ..EndpointRef::NONE },
                parent_id: (place > 0)
                    .then(|| SpanId::from_number(number * SPANS + place))
                    .flatten(),
                ..SpanRef::new(trace_id, id)
            });
        }
    }
    let mut bytes = Vec::new();
    encode(Format::ZipkinProto, spans, &mut bytes);
    bytes
}

fn accept(lake: &Lake, bytes: &[u8]) -> Result<AcceptedBatch, Refusal> {
    let (send, receive) = mpsc::channel();
    let batch = Batch { format: Format::ZipkinProto, bytes, policy: Policy::Whole };
    let done = Box::new(move |result| send.send(result).expect("somebody waits"));
    lake.accept(batch, done);
    receive.recv_timeout(Duration::from_secs(30)).expect("an answer")
}

fn open(disk: &SimulatedDisk) -> Result<(Lake, OpenReport), blkkin_lake::Error> {
    Lake::open_on(Arc::new(disk.clone()), options())
}

/// Returns the numbers of the requests in the store. Asserts that each span of a request is stored
/// once.
fn found(lake: &Lake) -> BTreeSet<u64> {
    let page = lake.search(&Query::new(100_000)).expect("found");
    assert!(page.next.is_none());
    let number = |start_ns: u64| (start_ns - 1_700_000_000_000_000_000) / 1_000_000;
    let mut numbers = BTreeSet::new();
    for request in &page.requests {
        assert_eq!(request.spans, SPANS, "{request:?}");
        let spans = lake.trace(request.trace_id).expect("read");
        assert_eq!(spans.len() as u64, SPANS);
        assert!(numbers.insert(number(request.start_ns)), "a request is found twice");
    }
    numbers
}

/// Sends `batches` batches of four requests each, numbered from `from`, with a flush after every
/// eighth batch. Stops at the first failure. Adds the acknowledged requests to `acknowledged`.
fn send(lake: &Lake, from: u64, batches: u64, acknowledged: &mut BTreeSet<u64>) {
    for place in 0..batches {
        let numbers = from + place * 4..from + place * 4 + 4;
        if accept(lake, &batch(numbers.clone())).is_err() {
            return;
        }
        acknowledged.extend(numbers);
        if place % 8 == 7 && lake.flush().is_err() {
            return;
        }
    }
}

fn check(lake: &Lake, acknowledged: &BTreeSet<u64>, why: &str) {
    let found = found(lake);
    let lost: Vec<_> = acknowledged.difference(&found).collect();
    assert!(lost.is_empty(), "{why}: lost {lost:?}");
    let counters = lake.counters();
    assert_eq!(counters.kept, found.len() as u64 * SPANS, "{why}: {counters:?}");
}

/// Acknowledged spans survive power failures at random disk operations, also during recovery.
#[test]
fn acknowledged_spans_outlive_the_power() {
    let seed = std::env::var("TEST_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    let points = std::env::var("TEST_POINTS").map_or(100, |count| count.parse().expect("a number"));
    let mut random = Random::new(seed);
    let operations = {
        let disk = SimulatedDisk::new(seed);
        let (lake, _) = open(&disk).expect("opened");
        send(&lake, 0, 40, &mut BTreeSet::new());
        drop(lake);
        disk.operations()
    };
    for point in 0..points {
        let disk = SimulatedDisk::new(seed + point);
        let mut acknowledged = BTreeSet::new();
        for life in 0..3 {
            let at = disk.operations() + random.below(operations);
            disk.end_power_at(at);
            if let Ok((lake, _)) = open(&disk) {
                let from = life * 1000;
                send(&lake, from, 40, &mut acknowledged);
            }
            disk.cut_power();
        }
        disk.repair();
        let (lake, opened) = open(&disk).expect("opened after power was cut");
        let why = format!("seed {seed}, point {point}: {opened:?}");
        check(&lake, &acknowledged, &why);
    }
}

/// Acknowledged spans survive failures of one or several disk operations, and the store continues
/// afterwards.
#[test]
fn operations_that_fail_lose_nothing() {
    let mut random = Random::new(7);
    for errno in [Errno::IO, Errno::NOSPC] {
        for point in 0..30 {
            let disk = SimulatedDisk::new(point);
            let (lake, _) = open(&disk).expect("opened");
            let mut acknowledged = BTreeSet::new();
            send(&lake, 0, 10, &mut acknowledged);
            let from = disk.operations() + random.below(100);
            disk.fail(from..from + 1 + random.below(40), errno);
            send(&lake, 1000, 20, &mut acknowledged);
            disk.repair();
            let resumed = (0..5000).any(|_| {
                std::thread::sleep(Duration::from_millis(1));
                accept(&lake, &batch(5000..5004)).is_ok()
            });
            assert!(resumed, "it goes on when the disk is well");
            acknowledged.extend(5000..5004);
            let why = format!("{errno} from {from}");
            let (lost, found) = (acknowledged.clone(), found(&lake));
            assert!(lost.is_subset(&found), "{why}: {:?}", lost.difference(&found));
            drop(lake);
            let (lake, _) = open(&disk).expect("opened again");
            let found = self::found(&lake);
            assert!(acknowledged.is_subset(&found), "{why}: {:?}", acknowledged.difference(&found));
        }
    }
}

/// Records survive a restart even if they reuse the sequence numbers of rejected batches. The store
/// must not regard them as flushed if the manifest's position is after these numbers.
#[test]
fn numbers_of_refused_batches_are_given_again() {
    for operation in 0..40 {
        let disk = SimulatedDisk::new(operation);
        let mut acknowledged = BTreeSet::new();
        {
            let (lake, _) = open_patient(&disk).expect("opened");
            send(&lake, 0, 3, &mut acknowledged);
            disk.fail(disk.operations()..u64::MAX, Errno::IO);
            assert!(accept(&lake, &batch(100..104)).is_err());
            disk.repair();
            disk.end_power_at(disk.operations() + operation);
            // The power failure may come too late to affect this flush.
            let _ = lake.flush();
        }
        disk.cut_power();
        for life in 2..5 {
            let (lake, _) = open(&disk).expect("opened");
            let found = found(&lake);
            assert!(acknowledged.is_subset(&found), "power ends at {operation}: {found:?}");
            send(&lake, life * 100, 1, &mut acknowledged);
        }
    }
}

/// Opens a store whose journal waits an hour before it retries.
fn open_patient(disk: &SimulatedDisk) -> Result<(Lake, OpenReport), blkkin_lake::Error> {
    let retry_after = Duration::from_secs(3600);
    let journal = blkkin_journal::Options { retry_after, ..options().journal };
    Lake::open_on(Arc::new(disk.clone()), Options { journal, ..options() })
}

/// A file that cannot be read when the store is opened is reported, but not renamed as damaged. If
/// the file can be read at the next start, the store contains its spans again.
#[test]
fn files_that_cannot_be_read_for_now_come_back() {
    let disk = SimulatedDisk::new(6);
    let mut acknowledged = BTreeSet::new();
    let once = Options { merge_files: usize::MAX, ..options() };
    let open_once = || Lake::open_on(Arc::new(disk.clone()), once.clone());
    {
        let (lake, _) = open_once().expect("opened");
        send(&lake, 0, 24, &mut acknowledged);
        lake.flush().expect("written");
    }
    let mut files = span_files(&disk);
    files.sort();
    assert!(files.len() > 2, "{files:?}");
    for (life, name) in files.iter().enumerate() {
        disk.set_unreadable(name, 0..u64::MAX);
        {
            let (lake, opened) = open_once().expect("opened");
            assert!(opened.damage[0].contains("tried again at the next start"), "{opened:?}");
            let counters = lake.counters();
            assert!(counters.lost > 0 && counters.kept + counters.lost == counters.accepted);
            // Spans are written while that file is missing.
            send(&lake, 1000 * (life as u64 + 1), 2, &mut acknowledged);
            lake.flush().expect("written");
        }
        disk.set_unreadable("", 0..0);
        let (lake, opened) = open_once().expect("opened");
        assert!(opened.damage.is_empty(), "{opened:?}");
        assert_eq!(lake.counters().lost, 0);
        check(&lake, &acknowledged, name);
    }
}

fn span_files(disk: &SimulatedDisk) -> Vec<String> {
    disk.names().into_iter().filter(|name| name.ends_with(".parquet")).collect()
}

/// Repeated flushes on a full disk leave no partial files behind.
#[test]
fn failed_flushes_leave_no_files() {
    let disk = SimulatedDisk::new(8);
    let one_by_one = Options { merge_files: usize::MAX, ..options() };
    let (lake, _) = Lake::open_on(Arc::new(disk.clone()), one_by_one).expect("opened");
    let mut acknowledged = BTreeSet::new();
    send(&lake, 0, 7, &mut acknowledged);
    lake.flush().expect("written");
    let used = || {
        disk.names().iter().filter_map(|name| disk.bytes(name)).map(|it| it.len()).sum::<usize>()
    };
    let before = span_files(&disk).len();
    send(&lake, 100, 4, &mut acknowledged);
    // The capacity suffices first for a part of a file, then for a file without a manifest, and
    // then for one copy of the manifest.
    for free in (0..12 << 10).step_by(512) {
        disk.set_capacity(Some(used() + free));
        let _ = lake.flush();
        std::thread::sleep(Duration::from_millis(10));
    }
    disk.set_capacity(None);
    let written = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        lake.flush().is_ok()
    });
    assert!(written, "it goes on when there is room");
    assert_eq!(span_files(&disk).len(), before + 1, "{:?}", disk.names());
    assert!(!disk.names().iter().any(|name| name.ends_with(".unfinished")), "{:?}", disk.names());
    assert_eq!(found(&lake), acknowledged);
}

/// A failed flush is retried until there is free space, without new spans and without a call of
/// [`Lake::flush`].
#[test]
fn failed_flushes_are_repeated() {
    let disk = SimulatedDisk::new(9);
    let one_by_one = Options { merge_files: usize::MAX, ..options() };
    let (lake, _) = Lake::open_on(Arc::new(disk.clone()), one_by_one).expect("opened");
    let mut acknowledged = BTreeSet::new();
    send(&lake, 0, 4, &mut acknowledged);
    let used =
        disk.names().iter().filter_map(|name| disk.bytes(name)).map(|it| it.len()).sum::<usize>();
    // The journal's segment has room for another batch, with which the spans suffice for a file.
    disk.set_capacity(Some(used));
    send(&lake, 16, 1, &mut acknowledged);
    assert_eq!(acknowledged.len() as u64 * SPANS, options().file_spans as u64);
    // The flush fails meanwhile.
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(span_files(&disk), [""; 0]);
    disk.set_capacity(None);
    let is_written = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        !span_files(&disk).is_empty()
    });
    assert!(is_written, "{:?}", disk.names());
    assert_eq!(found(&lake), acknowledged);
}

/// While the disk is full, the store rejects batches. It accepts batches again once there is free
/// space.
#[test]
fn full_disk_rejects_batches() {
    let disk = SimulatedDisk::new(3);
    let (lake, _) = open(&disk).expect("opened");
    let mut acknowledged = BTreeSet::new();
    send(&lake, 0, 20, &mut acknowledged);
    let used =
        disk.names().iter().filter_map(|name| disk.bytes(name)).map(|it| it.len()).sum::<usize>();
    disk.set_capacity(Some(used + (16 << 10)));
    let refused = (0..500u64).find(|number| {
        let numbers = 10_000 + number * 4..10_004 + number * 4;
        let is_refused = accept(&lake, &batch(numbers.clone())).is_err();
        if !is_refused {
            acknowledged.extend(numbers);
        }
        is_refused
    });
    assert!(refused.is_some(), "a full disk was not noticed");
    assert!(lake.counters().turned_away > 0);
    assert!(acknowledged.is_subset(&found(&lake)));
    disk.set_capacity(None);
    let resumed = (0..5000).any(|_| {
        std::thread::sleep(Duration::from_millis(1));
        accept(&lake, &batch(50_000..50_004)).is_ok()
    });
    assert!(resumed, "it goes on when there is room");
    drop(lake);
    let (lake, _) = open(&disk).expect("opened");
    assert!(acknowledged.is_subset(&found(&lake)));
}

/// With a flipped bit in any file, the store opens and answers a search. Damage is reported if the
/// search lacks spans.
#[test]
fn damage_stays_where_it_is() {
    let disk = SimulatedDisk::new(5);
    let mut acknowledged = BTreeSet::new();
    {
        let (lake, _) = open(&disk).expect("opened");
        send(&lake, 0, 37, &mut acknowledged);
    }
    let mut random = Random::new(11);
    for name in disk.names() {
        let Some(bytes) = disk.bytes(&name).filter(|bytes| !bytes.is_empty()) else { continue };
        for _ in 0..6 {
            let mut damaged = bytes.clone();
            let at = random.below(bytes.len() as u64) as usize;
            damaged[at] ^= 1 << random.below(8);
            let copy = SimulatedDisk::new(1);
            for other in disk.names() {
                copy.set_bytes(&other, disk.bytes(&other).expect("is there"));
            }
            copy.set_bytes(&name, damaged);
            let why = format!("{name} at {at}");
            let (lake, opened) = open(&copy).unwrap_or_else(|error| panic!("{why}: {error}"));
            let page = lake.search(&Query::new(100_000)).expect("the rest answers");
            // If any request lacks spans, damage was reported.
            let whole = page.requests.iter().filter(|request| request.spans == SPANS).count();
            assert!(
                whole == acknowledged.len()
                    || !opened.damage.is_empty()
                    || lake.counters().damaged > 0,
                "{why}: {whole} of {} and nothing was told",
                acknowledged.len()
            );
        }
    }
}

/// The spans of a damaged file are counted as damaged. The file is neither merged nor verified
/// repeatedly. Other files are merged and answer queries.
#[test]
fn damaged_files_are_left_alone() {
    let disk = SimulatedDisk::new(9);
    let one_by_one = Options { merge_files: usize::MAX, ..options() };
    {
        let (lake, _) = Lake::open_on(Arc::new(disk.clone()), one_by_one).expect("opened");
        for number in 0..5 {
            accept(&lake, &batch(number * 20..number * 20 + 20)).expect("accepted");
            lake.flush().expect("written");
        }
    }
    let is_file = |name: &String| name.ends_with(".parquet");
    let mut files: Vec<String> = disk.names().into_iter().filter(is_file).collect();
    files.sort();
    assert_eq!(files.len(), 5);
    // Changes a byte of the first page, so that the file can still be opened.
    let mut bytes = disk.bytes(&files[2]).expect("is there");
    bytes[40] ^= 1;
    disk.set_bytes(&files[2], bytes);
    let (lake, opened) = open(&disk).expect("opened");
    assert!(opened.damage.is_empty(), "{opened:?}");
    let files_now = || disk.names().into_iter().filter(is_file).collect::<Vec<_>>();
    let settled = (0..3000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let left = files_now();
        left.len() == 3 && left.contains(&files[2]) && lake.counters().damaged > 0
    });
    assert!(settled, "{:?} {:?}", files_now(), lake.counters());
    // The first two and the last two files have been merged, and nothing else is attempted.
    let operations = disk.operations();
    std::thread::sleep(Duration::from_millis(1500));
    assert_eq!(disk.operations(), operations, "it is tried again");
    let counters = lake.counters();
    assert_eq!((counters.kept, counters.lost, counters.damaged), (300, 0, 60));
    let page = lake.search(&Query::new(1000)).expect("the rest answers");
    let whole: BTreeSet<u64> = page
        .requests
        .iter()
        .filter(|request| request.spans == SPANS)
        .map(|request| (request.start_ns - 1_700_000_000_000_000_000) / 1_000_000)
        .collect();
    let others = (0..40).chain(60..100);
    assert!(others.clone().all(|number| whole.contains(&number)), "{whole:?}");
    assert!(lake.latency(blkkin_store::Window::ALL, &condition("name == \"read\"")).is_ok());
    assert!(lake.latency(blkkin_store::Window::ALL, &condition("root")).is_ok());
    assert!(!lake.links(blkkin_store::Window::ALL).expect("an answer").is_empty());
}

/// Writes `count` files of 20 requests each, and truncates those for which `is_cut` returns true.
/// These files cannot be opened. Returns the names of all files.
fn cut_files(disk: &SimulatedDisk, count: u64, is_cut: impl Fn(usize) -> bool) -> Vec<String> {
    let one_by_one = Options { merge_files: usize::MAX, ..options() };
    {
        let (lake, _) = Lake::open_on(Arc::new(disk.clone()), one_by_one).expect("opened");
        for number in 0..count {
            accept(&lake, &batch(number * 20..number * 20 + 20)).expect("accepted");
            lake.flush().expect("written");
        }
    }
    let mut files = span_files(disk);
    files.sort();
    assert_eq!(files.len() as u64, count);
    for name in files.iter().enumerate().filter(|(at, _)| is_cut(*at)).map(|(_, name)| name) {
        let bytes = disk.bytes(name).expect("is there");
        disk.set_bytes(name, bytes[..bytes.len() / 2].to_vec());
    }
    files
}

fn aside(disk: &SimulatedDisk) -> Vec<String> {
    let mut names = disk.names();
    names.retain(|name| name.ends_with(".damaged"));
    names.sort();
    names
}

/// The newest damaged files are kept for inspection within the size limit, and each damaged file is
/// reported once. Later starts report no damage and lose no more spans.
#[test]
fn damaged_files_are_put_aside_within_limits() {
    let disk = SimulatedDisk::new(12);
    let files = cut_files(&disk, 8, |at| at % 2 == 1);
    let size = |name: &String| disk.bytes(name).expect("is there").len() as u64;
    let bytes: Vec<u64> = files.iter().map(size).collect();
    let limited = Options {
        merge_files: usize::MAX,
        damaged_bytes_max: bytes[5] + bytes[7] + 10,
        ..options()
    };
    let expected: BTreeSet<u64> = (0..160).filter(|number| number / 20 % 2 == 0).collect();
    for life in 0..3 {
        let (lake, opened) =
            Lake::open_on(Arc::new(disk.clone()), limited.clone()).expect("opened");
        assert_eq!(opened.damage.len(), if life == 0 { 4 } else { 0 }, "{opened:?}");
        assert_eq!((opened.files, opened.spans, opened.recovered), (4, 240, 0), "life {life}");
        let counters = lake.counters();
        assert_eq!((counters.kept, counters.lost, counters.damaged), (240, 240, 0), "life {life}");
        assert_eq!(counters.quarantined_bytes, bytes[5] + bytes[7]);
        assert_eq!(counters.quarantined_removed, if life == 0 { 2 } else { 0 });
        assert!(counters.disk_bytes > counters.quarantined_bytes + bytes[0]);
        assert_eq!(aside(&disk), [5, 7].map(|at: usize| format!("{}.damaged", files[at])));
        assert_eq!(found(&lake), expected);
    }
}

/// At most 64 damaged files are kept for inspection, so that damage does not fill the directory.
#[test]
fn damaged_files_are_not_kept_without_number() {
    let disk = SimulatedDisk::new(13);
    cut_files(&disk, 70, |_| true);
    let (lake, opened) = open(&disk).expect("opened");
    assert_eq!((opened.damage.len(), aside(&disk).len()), (70, 64));
    assert_eq!(lake.counters().quarantined_removed, 6);
    drop(lake);
    let (lake, opened) = open(&disk).expect("opened");
    assert_eq!((opened.damage.len(), aside(&disk).len()), (0, 64));
    assert_eq!((lake.counters().lost, lake.counters().kept), (70 * 60, 0));
}

/// Damaged files kept for inspection count for the size limit of retention, and are removed before
/// intact files.
#[test]
fn damaged_files_count_for_retention() {
    let disk = SimulatedDisk::new(14);
    cut_files(&disk, 6, |at| at < 3);
    let once = Options { merge_files: usize::MAX, ..options() };
    let open_with = |bytes| {
        let retention = Retention { age: None, bytes };
        Lake::open_on(Arc::new(disk.clone()), Options { retention, ..once.clone() })
            .expect("opened")
            .0
    };
    let all = open_with(None).counters();
    assert_eq!(aside(&disk).len(), 3);
    let good = |name: &String| name.ends_with(".parquet") || name.ends_with(".index");
    let names = disk.names().into_iter().filter(good);
    let good_bytes =
        names.map(|name| disk.bytes(&name).expect("is there").len() as u64).sum::<u64>();
    // The limit suffices first for all intact files and one damaged file, and then not for all
    // intact files.
    for (bytes, aside_left, kept) in
        [(good_bytes + all.quarantined_bytes / 2, 1, 180), (good_bytes - 1, 0, 120)]
    {
        let lake = open_with(Some(bytes));
        let settled = (0..500).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            (aside(&disk).len(), lake.counters().kept) == (aside_left, kept)
        });
        assert!(settled, "{:?} {:?}", aside(&disk), lake.counters());
        assert_eq!(lake.counters().lost, 180);
    }
}

/// A damaged file is not removed if its renaming fails; the next start renames it.
#[test]
fn damaged_files_that_cannot_be_put_aside_stay() {
    let disk = SimulatedDisk::new(15);
    let files = cut_files(&disk, 3, |at| at == 1);
    let put = format!("{}.damaged", files[1]);
    let mut failed = 0;
    for operation in 0..200 {
        let copy = SimulatedDisk::new(1);
        for name in disk.names() {
            copy.set_bytes(&name, disk.bytes(&name).expect("is there"));
        }
        let is_there = |name: &str| copy.bytes(name).is_some();
        let now = copy.operations();
        copy.fail(now + operation..now + operation + 1, Errno::IO);
        let opened = open(&copy).map(drop);
        failed += u64::from(opened.is_err());
        copy.repair();
        assert!(is_there(&files[1]) || is_there(&put), "operation {operation}: {:?}", copy.names());
        let (lake, _) = open(&copy).expect("opened again");
        assert_eq!(
            (lake.counters().kept, lake.counters().lost),
            (120, 60),
            "operation {operation}"
        );
        assert_eq!(found(&lake).len(), 40);
        drop(lake);
        let (_, opened) = open(&copy).expect("opened again");
        assert!(opened.damage.is_empty() && is_there(&put), "operation {operation}: {opened:?}");
    }
    assert!(failed > 0);
}

fn condition(filter: &str) -> blkkin_store::Condition {
    blkkin_store::Condition::parse(filter).expect("a condition")
}

/// The oldest files are removed when the size limit is exceeded. The newest spans are kept, and the
/// calls of removed spans are not counted.
#[test]
fn oldest_files_are_removed_by_size() {
    let disk = SimulatedDisk::new(4);
    let retention = Retention { age: None, bytes: Some(200 << 10) };
    let options = Options { retention, ..options() };
    let (lake, _) = Lake::open_on(Arc::new(disk.clone()), options).expect("opened");
    let is_file = |name: &&String| name.ends_with(".parquet") || name.ends_with(".index");
    let used = || {
        let names = disk.names();
        names.iter().filter(is_file).filter_map(|name| disk.bytes(name)).map(|it| it.len()).sum()
    };
    let mut sent = 0;
    while lake.counters().expired == 0 {
        accept(&lake, &batch(sent..sent + 20)).expect("accepted");
        lake.flush().expect("written");
        sent += 20;
        assert!(sent < 4000, "nothing expires");
        std::thread::sleep(Duration::from_millis(2));
    }
    let settled = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        let used: usize = used();
        used <= 200 << 10
    });
    assert!(settled, "{} bytes are left", used());
    let counters = lake.counters();
    assert_eq!(counters.accepted, counters.kept + counters.expired);
    let found = found(&lake);
    let first = *found.first().expect("some are left");
    assert!(found.iter().copied().eq(first..sent), "{first} to {sent}: {found:?}");
    let links = lake.links(blkkin_store::Window::ALL).expect("an answer");
    let calls: u64 = links.iter().map(|link| link.calls).sum();
    assert_eq!(calls, 2 * found.len() as u64, "of what is there: {links:?}");
    drop(lake);
    let (lake, _) = open(&disk).expect("opened");
    assert_eq!(lake.links(blkkin_store::Window::ALL).expect("an answer"), links);
}

/// A file that temporarily cannot be read is not damaged. It is verified again, and merged with the
/// other files once it can be read.
#[test]
fn a_moment_without_reads_is_no_damage() {
    let disk = SimulatedDisk::new(16);
    let files = cut_files(&disk, 3, |_| false);
    let merging = Options { merge_files: 4, ..options() };
    let (lake, _) = Lake::open_on(Arc::new(disk.clone()), merging).expect("opened");
    disk.set_unreadable(&files[1], 0..u64::MAX);
    let failed = (0..20).filter(|_| {
        std::thread::sleep(Duration::from_millis(100));
        assert_eq!(lake.counters().damaged, 0);
        lake.trace(trace_id(25)).is_err()
    });
    assert!(failed.count() > 10, "the file was read");
    disk.set_unreadable("", 0..0);
    accept(&lake, &batch(60..80)).expect("accepted");
    lake.flush().expect("written");
    let merged = (0..1000).any(|_| {
        std::thread::sleep(Duration::from_millis(10));
        span_files(&disk).len() == 1
    });
    assert!(merged && lake.counters().damaged == 0, "{:?}", disk.names());
    assert_eq!(found(&lake).len(), 80);
}
