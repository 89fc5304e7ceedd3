//! Tests with clocks that jump and with extreme times. Acknowledged spans expire no faster than the
//! rate limit of retention allows, and query results equal those of the reference store.

use blkkin_journal::testing::SimulatedDisk;
use blkkin_lake::{Clock, Lake, Options, Retention};
use blkkin_model::{EndpointRef, Kind, SpanId, SpanRef, TraceId};
use blkkin_store::{
    AcceptedBatch, Area, Batch, Capacity, Condition, Heat, MemoryStore, Order, Policy, Query,
    Refusal, SpanStore, Window,
};
use blkkin_wire::{Format, Limits, encode};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread::sleep;
use std::time::{Duration, Instant};

const SECOND: u64 = 1_000_000_000;
const NOW: u64 = 1_795_000_000 * SECOND;
const YEAR: u64 = 365 * 86400 * SECOND;
/// First moment, in nanoseconds since 1970, whose seconds exceed 31 bits. `IN_2106` is the same for
/// 32 bits.
const IN_2038: u64 = (1 << 31) * SECOND;
const IN_2106: u64 = (1 << 32) * SECOND;

/// Times of day to which the clock is set, one for each run, in nanoseconds since 1970.
const JUMPS: [u64; 8] = [NOW, NOW + YEAR, NOW - YEAR, 0, IN_2038, IN_2106, u64::MAX, NOW];

/// Pause in which the store checks for expired files at least once. It checks every 500 ms.
const CHECK_PAUSE: Duration = Duration::from_millis(700);

const REQUESTS: u64 = 20;

/// Clock whose time the test sets.
#[derive(Default)]
struct ManualClock {
    now_ns: AtomicU64,
    uptime_s: AtomicU64,
}

impl Clock for ManualClock {
    fn now_ns(&self) -> u64 {
        self.now_ns.load(SeqCst)
    }

    fn uptime(&self) -> Duration {
        Duration::from_secs(self.uptime_s.load(SeqCst))
    }
}

fn open(disk: &SimulatedDisk, clock: &Arc<ManualClock>, age: Duration) -> Lake {
    let options = Options {
        retention: Retention { age: Some(age), bytes: None },
        // Merging is disabled so that files can be counted.
        merge_files: usize::MAX,
        clock: clock.clone(),
        journal: blkkin_journal::Options {
            segment_bytes: 1 << 20,
            total_bytes_max: 8 << 20,
            payload_bytes_max: 64 << 10,
            ..blkkin_journal::Options::default()
        },
        ..Options::default()
    };
    Lake::open_on(Arc::new(disk.clone()), options).expect("opened").0
}

fn accept(store: &dyn SpanStore, format: Format, bytes: &[u8]) -> Result<AcceptedBatch, Refusal> {
    let (send, receive) = mpsc::channel();
    let batch = Batch { format, bytes, policy: Policy::Whole };
    store.accept(batch, Box::new(move |result| send.send(result).expect("somebody waits")));
    receive.recv_timeout(Duration::from_secs(30)).expect("an answer")
}

/// Returns the only span of the request `number`.
fn span(number: u64, start_ns: Option<u64>, duration_ns: Option<u64>) -> SpanRef<'static> {
    let id = SpanId::from_number(number + 1).expect("not 0");
    SpanRef {
        name: "read",
        kind: Kind::Server,
        start_ns,
        duration_ns,
        local: EndpointRef { service: "disk", ..EndpointRef::NONE },
        ..SpanRef::new(TraceId::from(id), id)
    }
}

/// Returns the numbers of the requests in the store.
fn found(lake: &Lake) -> BTreeSet<u64> {
    let page = lake.search(&Query::new(100_000)).expect("found");
    assert!(page.next.is_none());
    let numbers = page.requests.iter().map(|request| request.trace_id.low() - 1);
    numbers.collect()
}

/// Sends the spans of one file and flushes them. The spans start near `NOW`, whatever the clock
/// shows.
fn send_file(lake: &Lake, from: u64) {
    let spans = (from..from + REQUESTS).map(|number| span(number, Some(NOW + number), Some(1)));
    let mut bytes = Vec::new();
    encode(Format::OtlpProto, spans.collect::<Vec<_>>(), &mut bytes);
    accept(lake, Format::OtlpProto, &bytes).expect("acknowledged");
    lake.flush().expect("written");
}

/// Asserts that the store has all acknowledged spans except those of expired files. At most
/// `files_max` files may have expired, the oldest ones. Returns the number of expired files.
#[track_caller]
fn check(lake: &Lake, acknowledged: u64, files_max: u64) -> u64 {
    let (counters, found) = loop {
        let (counters, found) = (lake.counters(), found(lake));
        // A file may expire between the two calls.
        if lake.counters().expired == counters.expired {
            break (counters, found);
        }
    };
    assert_eq!(counters.accepted, acknowledged, "{counters:?}");
    assert_eq!(counters.kept + counters.expired, acknowledged, "{counters:?}");
    assert!(counters.expired <= files_max * REQUESTS, "{counters:?} of {files_max} files");
    assert_eq!(counters.expired % REQUESTS, 0);
    let gone = counters.expired;
    assert_eq!(found, (gone..acknowledged).collect(), "the oldest go, and no others");
    gone / REQUESTS
}

fn a_week() -> Duration {
    Duration::from_secs(7 * 86400)
}

#[test]
fn a_clock_that_jumps_takes_no_more_than_a_minute_may() {
    for is_between_runs in [true, false] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::new(ManualClock::default()));
        let mut acknowledged = 0;
        clock.now_ns.store(NOW, SeqCst);
        for (run, jump) in (1..).zip(JUMPS) {
            if is_between_runs {
                clock.now_ns.store(jump, SeqCst);
            }
            let lake = open(&disk, &clock, a_week());
            for file in 0..2 {
                send_file(&lake, acknowledged);
                acknowledged += REQUESTS;
                if file == 0 {
                    clock.now_ns.store(jump, SeqCst);
                }
            }
            sleep(CHECK_PAUSE);
            // Each run is at most one minute of the rate limit, in which one file may expire.
            check(&lake, acknowledged, run);
        }
        // In later minutes, with the clock far ahead, files still expire.
        let lake = open(&disk, &clock, a_week());
        sleep(CHECK_PAUSE);
        let mut gone = check(&lake, acknowledged, JUMPS.len() as u64 + 1);
        clock.now_ns.store(NOW + 10 * YEAR, SeqCst);
        for minute in 1..3 {
            clock.uptime_s.store(minute * 60, SeqCst);
            let start = Instant::now();
            while check(&lake, acknowledged, gone + 1) == gone {
                assert!(start.elapsed() < Duration::from_secs(20), "nothing goes");
                sleep(Duration::from_millis(50));
            }
            sleep(CHECK_PAUSE);
            gone = check(&lake, acknowledged, gone + 1);
        }
    }
}

#[test]
fn what_is_kept_for_ever_is_so_at_any_time() {
    let (disk, clock) = (SimulatedDisk::new(1), Arc::new(ManualClock::default()));
    let mut acknowledged = 0;
    for jump in JUMPS {
        clock.now_ns.store(jump, SeqCst);
        let lake = open(&disk, &clock, Duration::MAX);
        send_file(&lake, acknowledged);
        acknowledged += REQUESTS;
        clock.now_ns.store(u64::MAX, SeqCst);
        sleep(CHECK_PAUSE);
        assert_eq!(check(&lake, acknowledged, 0), 0);
    }
}

/// Start times of the spans, in nanoseconds since 1970.
const STARTS: [Option<u64>; 12] = [
    None,
    Some(1),
    Some(SECOND),
    Some(NOW),
    Some(IN_2038 - 1),
    Some(IN_2038),
    Some(IN_2106 - 1),
    Some(IN_2106),
    Some(i64::MAX as u64),
    Some(i64::MAX as u64 + 1),
    Some(u64::MAX - 1),
    Some(u64::MAX),
];

const DURATIONS: [Option<u64>; 7] =
    [None, Some(0), Some(1), Some(SECOND), Some(IN_2106), Some(i64::MAX as u64), Some(u64::MAX)];

/// Asserts that both stores return the same results for searches, statistics and traces, in windows
/// that begin or end at [`STARTS`]. Of the calls, only the number of links is compared. Results of
/// searches are in order, and no result ends after `u64::MAX`.
#[track_caller]
fn check_answers(lake: &Lake, plain: &MemoryStore, why: &str) {
    lake.refresh_calls();
    let all = Condition::All(Vec::new());
    for start in STARTS.into_iter().flatten().chain([0]) {
        for window in [(start, start), (0, start), (start, u64::MAX)] {
            let window = Window { start_ns: window.0, end_ns: window.1 };
            for order in [Order::Newest, Order::Slowest] {
                let mut query = Query { window, order, ..Query::new(7) };
                let mut ranks = Vec::new();
                loop {
                    let page = lake.search(&query).expect("found");
                    assert_eq!(page, plain.search(&query).expect("found"), "{why}: {query:?}");
                    for request in &page.requests {
                        assert!(request.start_ns.checked_add(request.duration_ns).is_some());
                        ranks.push(match order {
                            Order::Newest => request.start_ns,
                            Order::Slowest => request.duration_ns,
                        });
                    }
                    query.after = page.next;
                    if page.next.is_none() {
                        break;
                    }
                }
                assert!(ranks.is_sorted_by(|one, next| one >= next), "{why}: {ranks:?}");
            }
            let latency = |store: &dyn SpanStore| store.latency(window, &all).expect("an answer");
            assert_eq!(latency(lake).durations, latency(plain).durations, "{why}: {window:?}");
            let heat = |store: &dyn SpanStore| {
                let mut heat = Heat::new(window, 120);
                store.heat(&all, &mut heat).expect("an answer");
                heat
            };
            assert_eq!(heat(lake), heat(plain), "{why}: {window:?}");
            let area = Area { window, least_ns: 1, greatest_ns: u64::MAX };
            let difference = |store: &dyn SpanStore| {
                let difference = store.difference(Window::ALL, &all, &area).expect("an answer");
                (difference.inside, difference.outside)
            };
            assert_eq!(difference(lake), difference(plain), "{why}: {window:?}");
            let calls = |store: &dyn SpanStore| store.links(window).expect("an answer").len();
            assert_eq!(calls(lake), calls(plain), "{why}: {window:?}");
        }
    }
    assert_eq!(lake.starts().expect("known"), plain.starts().expect("known"), "{why}");
    for number in 0..(2 * STARTS.len() * DURATIONS.len()) as u64 {
        let id = SpanId::from_number(number + 1).map(TraceId::from).expect("not 0");
        assert_eq!(lake.trace(id).expect("read"), plain.trace(id).expect("read"), "{why}");
    }
}

#[test]
fn spans_of_any_time_are_found_as_they_are() {
    let pairs = || STARTS.into_iter().flat_map(|start| DURATIONS.map(|length| (start, length)));
    let count = (STARTS.len() * DURATIONS.len()) as u64;
    for now in [0, NOW, u64::MAX] {
        let (disk, clock) = (SimulatedDisk::new(1), Arc::new(ManualClock::default()));
        clock.now_ns.store(now, SeqCst);
        let lake = open(&disk, &clock, Duration::MAX);
        let plain = MemoryStore::new(Capacity::default(), Limits::default());
        // OTLP has ends in nanoseconds, Zipkin's format has durations in microseconds.
        for (base, format) in [(0, Format::OtlpProto), (count, Format::ZipkinProto)] {
            for ((start, length), number) in pairs().zip(base..) {
                let mut bytes = Vec::new();
                encode(format, [span(number, start, length)], &mut bytes);
                let taken = accept(&plain, format, &bytes);
                assert_eq!(accept(&lake, format, &bytes).is_ok(), taken.is_ok());
                assert!(taken.is_ok(), "{format:?} {start:?} {length:?}: {taken:?}");
            }
        }
        check_answers(&lake, &plain, "in memory");
        lake.flush().expect("written");
        sleep(CHECK_PAUSE);
        check_answers(&lake, &plain, "in a file");
        drop(lake);
        clock.now_ns.store(u64::MAX - now, SeqCst);
        let lake = open(&disk, &clock, Duration::MAX);
        sleep(CHECK_PAUSE);
        check_answers(&lake, &plain, "opened again");
        assert_eq!(lake.counters().kept, 2 * count);
    }
}
