//! Events of what the kernel does for requests: this test's own threads show current spans, wait in
//! known ways, and read from a disk.

#[allow(dead_code, reason = "each test program uses a part of it")]
mod events;
#[path = "events/permission.rs"]
mod permission;

use blkkin_control::current_span::{SPAN, SlotOffset};
use blkkin_kernel::{
    Btf, ChosenProcesses, Error, Recorder, RequestEvents, Selection, SpanSlots, TraceFs,
};
use blkkin_sys::testing::{Scratch, is_installed, skip};
use blkkin_sys::thread_slot;
use events::{Event, drain};
use permission::attached;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Barrier, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

const TRACE: u64 = 0x1122_3344_5566_7788;
const WAIT: Duration = Duration::from_millis(20);

/// Reasons of waits, in the order of their numbers.
const REASONS: [&str; 8] =
    ["other", "runnable", "disk", "lock", "network", "sleep", "fault", "poll"];

/// Recordings of this process run one after the other.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// System calls that are recorded.
const RECORDED_CALLS: [&str; 3] = ["openat", "pread64", "sendto"];

fn recorder(test: &str, slots: &Arc<SpanSlots>) -> Option<(Recorder, ChosenProcesses)> {
    let attach = || -> Result<_, Error> {
        let calls: Arc<[_]> = TraceFs::open()?.system_calls()?.into();
        let recorded_calls = calls.iter().filter(|call| RECORDED_CALLS.contains(&&*call.name));
        let requests = RequestEvents {
            slots: Arc::clone(slots),
            waits: true,
            disk: true,
            recorded_calls: recorded_calls.cloned().collect(),
            calls,
        };
        let selection = Selection { requests: Some(requests), ..Selection::default() };
        let chosen = ChosenProcesses::all_except(&[])?;
        Ok((Recorder::attach(&selection, &chosen, &Btf::of_kernel()?)?, chosen))
    };
    attached(test, attach())
}

fn slots(test: &str) -> Option<Arc<SpanSlots>> {
    attached(test, SpanSlots::new()).map(Arc::new)
}

fn own_offset() -> SlotOffset {
    SlotOffset::new(thread_slot::offset().expect("x86-64 has one")).expect("a valid offset")
}

/// Calls `act` while this thread shows the span.
fn in_span<R>(span: u64, act: impl FnOnce() -> R) -> R {
    let before = thread_slot::swap(&[SPAN, TRACE, 7, span]);
    let result = act();
    thread_slot::set(&before);
    result
}

/// Records what the kernel does while `act` runs.
fn record(test: &str, act: impl FnOnce()) -> Option<Vec<Event>> {
    let _alone = alone();
    let slots = slots(test)?;
    let (mut recorder, _chosen) = recorder(test, &slots)?;
    assert!(slots.insert(std::process::id(), own_offset()));
    act();
    recorder.stop();
    let events = drain(&mut recorder);
    assert_eq!(recorder.lost(), 0);
    Some(events)
}

/// Returns the waits of a span, as pairs of reason and event.
fn waits(events: &[Event], span: u64) -> Vec<(&'static str, &Event)> {
    let waits = events.iter().filter(|event| event.name == "request:wait");
    let waits = waits.filter(|event| event.number("span_id") == span as i64);
    waits.map(|event| (REASONS[event.number("reason") as usize], event)).collect()
}

/// Asserts that a span has one wait that is not for a processor, with this reason and about the
/// time [`WAIT`]; returns it.
fn one_wait<'e>(events: &'e [Event], span: u64, reason: &str) -> &'e Event {
    let waits = waits(events, span);
    let blocked: Vec<_> = waits.iter().filter(|(reason, _)| *reason != "runnable").collect();
    let [(found, event)] = blocked[..] else { panic!("{reason}: {waits:#?}") };
    assert_eq!(*found, reason, "{event:?}");
    let time = Duration::from_nanos(event.number("blocked") as u64);
    assert!(time > WAIT / 2 && time < 50 * WAIT, "{reason}: {time:?}");
    assert_eq!(event.pid, std::process::id());
    assert_eq!(
        [event.number("trace_id"), event.number("trace_id_high")],
        [TRACE as i64, 7],
        "{event:?}"
    );
    event
}

/// Each way to wait has its reason, its time, and the ids of the span that waited.
#[test]
fn waits_have_the_reason_for_which_a_thread_waits() {
    let (mut one, mut other) = UnixStream::pair().unwrap();
    let (mut pipe, mut pipe_writer) = std::io::pipe().unwrap();
    let mutex = Mutex::new(());
    let barrier = Barrier::new(2);
    let mut releaser = 0;
    let events = record("waits_have_the_reason_for_which_a_thread_waits", || {
        // Without a span, nothing is recorded.
        thread::sleep(WAIT);
        in_span(1, || thread::sleep(WAIT));
        thread::scope(|scope| {
            let holder = scope.spawn(|| {
                let held = mutex.lock();
                barrier.wait();
                thread::sleep(WAIT);
                drop(held);
                rustix::thread::gettid().as_raw_nonzero().get()
            });
            barrier.wait();
            in_span(2, || drop(mutex.lock()));
            releaser = holder.join().unwrap();
            scope.spawn(|| {
                thread::sleep(WAIT);
                other.write_all(b"x").unwrap();
                thread::sleep(WAIT);
                pipe_writer.write_all(b"x").unwrap();
                thread::sleep(WAIT);
                other.write_all(b"x").unwrap();
            });
            in_span(3, || one.read_exact(&mut [0]).unwrap());
            in_span(4, || pipe.read_exact(&mut [0]).unwrap());
            let mut polled = [rustix::event::PollFd::new(&one, rustix::event::PollFlags::IN)];
            in_span(5, || rustix::event::poll(&mut polled, None)).unwrap();
        });
    });
    let Some(events) = events else { return };
    one_wait(&events, 1, "sleep");
    let lock = one_wait(&events, 2, "lock");
    assert_eq!(lock.number("waker"), i64::from(releaser));
    assert_eq!(lock.number("call"), 202);
    one_wait(&events, 3, "network");
    let other = one_wait(&events, 4, "other");
    assert_eq!((other.number("call"), other.number("waker")), (0, 0));
    one_wait(&events, 5, "poll");
    let spans: Vec<i64> = events
        .iter()
        .filter(|event| event.name == "request:wait")
        .map(|event| event.number("span_id"))
        .collect();
    assert!(spans.iter().all(|span| (1..=5).contains(span)), "{spans:?}");
}

/// System calls have the ids of the span, their arguments, result and duration. Calls of others,
/// and calls that are not selected, are not recorded.
#[test]
fn system_calls_belong_to_the_span_that_made_them() {
    const SENT: usize = 32 << 20;
    let read = |file: &File, from: u64| file.read_at(&mut [0; 100], from).unwrap();
    let path = std::env::current_exe().unwrap();
    let events = record("system_calls_belong_to_the_span_that_made_them", || {
        let file = File::open(&path).unwrap();
        read(&file, 1);
        in_span(1, || read(&file, 2));
        in_span(2, || {
            let again = File::open(&path).unwrap();
            read(&again, 3);
            (&again).read_exact(&mut [0]).unwrap();
        });
        in_span(3, || assert!(File::open("/there is no such file").is_err()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut sender = TcpStream::connect(address).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let mut receiver = listener.accept().unwrap().0;
                thread::sleep(WAIT);
                receiver.read_exact(&mut vec![0; SENT]).unwrap();
            });
            // More than the buffers of the sockets have room for.
            in_span(4, || sender.write_all(&vec![1; SENT])).unwrap();
        });
    });
    let Some(events) = events else { return };
    let calls: Vec<_> =
        events.iter().filter(|event| event.name.starts_with("request:syscall:")).collect();
    let seen = |event: &&Event| {
        let name = event.name.strip_prefix("request:syscall:").unwrap_or_default();
        (event.number("span_id"), name.to_owned(), event.number("ret"))
    };
    let expected = [(1, "pread64", 100), (2, "openat", -1), (2, "pread64", 100), (3, "openat", -2)];
    let found: Vec<_> = calls.iter().map(seen).collect();
    for ((span, name, result), (found_span, found_name, found_result)) in
        expected.iter().zip(&found)
    {
        assert_eq!((span, *name), (found_span, &**found_name), "{found:?}");
        // The result of the successful `openat` is any descriptor.
        assert!(found_result == result || *result == -1 && *found_result > 2, "{found:?}");
    }
    let sent = &found[expected.len()..];
    assert!(sent.iter().all(|(span, name, _)| (*span, &**name) == (4, "sendto")), "{found:?}");
    assert_eq!(sent.iter().map(|(.., result)| result).sum::<i64>(), SENT as i64);
    for call in &calls {
        let ids = [call.number("trace_id"), call.number("trace_id_high")];
        assert_eq!((ids, call.pid), ([TRACE as i64, 7], std::process::id()), "{call:?}");
        assert!(call.number("duration") > 0, "{call:?}");
    }
    assert_eq!(calls[0].number("pos"), 2);
    assert_eq!(calls[3].text("filename"), "/there is no such file");
    let sending = calls[expected.len()..].iter().map(|call| call.number("duration"));
    assert!(sending.sum::<i64>() > WAIT.as_nanos() as i64 / 2, "{calls:#?}");
}

/// Threads that could have run, while others ran on all processors, have waited for a processor.
#[test]
fn preempted_threads_wait_for_a_processor() {
    let processors = thread::available_parallelism().unwrap().get() as u64;
    let spin = || {
        let end = Instant::now() + 10 * WAIT;
        while Instant::now() < end {
            std::hint::spin_loop();
        }
    };
    let events = record("preempted_threads_wait_for_a_processor", || {
        thread::scope(|scope| {
            for span in 1..=2 * processors {
                scope.spawn(move || in_span(span, spin));
            }
        });
    });
    let Some(events) = events else { return };
    let waited = |span| {
        let waits = waits(&events, span).into_iter();
        let waits = waits.filter(|(reason, _)| *reason == "runnable");
        waits
            .map(|(_, event)| {
                assert_eq!(event.number("blocked"), 0);
                event.number("runnable")
            })
            .sum::<i64>()
    };
    let all: i64 = (1..=2 * processors).map(waited).sum();
    // Twice as many threads as processors: half of their time.
    let expected = (processors * 10 * WAIT.as_nanos() as u64) as i64;
    assert!(all > expected / 2, "{all} of {expected}");
}

/// Time that a thread was off its processor, and the moment until which it was, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Absence {
    end: u64,
    duration: u64,
}

/// Returns the absences of a thread in a recording of `perf sched`, as text. `perf` does not record
/// each switch from an idle processor to the thread; absences that end so are left out.
fn absences_by_perf(script: &str, thread: u32) -> Vec<Absence> {
    let (leaves, begins) = (format!("prev_pid={thread} "), format!("next_pid={thread} "));
    let mut absences = Vec::new();
    let mut left = None;
    for line in script.lines().filter(|line| line.contains("sched:sched_switch:")) {
        let time = line.split_whitespace().find_map(|word| {
            let (seconds, fraction) = word.strip_suffix(':')?.split_once('.')?;
            Some(seconds.parse::<u64>().ok()? * 1_000_000_000 + fraction.parse::<u64>().ok()?)
        });
        let time = time.unwrap_or_else(|| panic!("{line}"));
        if line.contains(&begins)
            && let Some(left) = left.take()
        {
            absences.push(Absence { end: time, duration: time - left });
        }
        if line.contains(&leaves) {
            left = Some(time);
        }
    }
    absences
}

/// `perf sched` and the events give the same times for threads that sleep, wait for each other and
/// compete for processors.
#[test]
fn waits_are_those_that_perf_sched_sees() {
    const TEST: &str = "waits_are_those_that_perf_sched_sees";
    const ROUNDS: u64 = 20;
    if !is_installed("perf") {
        return skip(TEST, "perf is not installed");
    }
    let folder = Scratch::new("perf-sched");
    let recording = folder.0.join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["sched", "record", "-k", "CLOCK_MONOTONIC", "-o"]).arg(&recording);
    // The command ends when its input does, and tells when it has begun.
    perf.args(["--", "sh", "-c", "echo begun; cat"]);
    perf.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mutex = Mutex::new(());
    let threads = Mutex::new(Vec::new());
    let mut has_begun = false;
    let events = record(TEST, || {
        let mut perf = perf.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(perf.stdout.take().unwrap()).read_line(&mut line).unwrap();
        has_begun = line == "begun\n";
        thread::scope(|scope| {
            for span in 1..=4 {
                let (mutex, threads) = (&mutex, &threads);
                scope.spawn(move || {
                    let thread = rustix::thread::gettid().as_raw_nonzero().get().cast_unsigned();
                    threads.lock().unwrap().push((span, thread));
                    in_span(span, || {
                        for round in 0..ROUNDS {
                            thread::sleep(Duration::from_millis(1 + span * round % 3));
                            let _held = mutex.lock();
                            let end = Instant::now() + Duration::from_millis(2);
                            while Instant::now() < end {
                                std::hint::spin_loop();
                            }
                        }
                    });
                });
            }
        });
        drop(perf.stdin.take());
        assert!(perf.wait().unwrap().success() || !has_begun);
    });
    let Some(events) = events else { return };
    if !has_begun {
        return skip(TEST, "perf cannot record");
    }
    let script = Command::new("perf").args(["script", "--ns", "-i"]).arg(&recording).output();
    let script = script.unwrap();
    assert!(script.status.success(), "{script:?}");
    let script = String::from_utf8_lossy(&script.stdout);
    let (mut compared, mut differing) = (0, Vec::new());
    for (span, thread) in threads.into_inner().unwrap() {
        let own: Vec<Absence> = waits(&events, span)
            .into_iter()
            .map(|(_, event)| {
                let duration = (event.number("blocked") + event.number("runnable")) as u64;
                Absence { end: event.time, duration }
            })
            .collect();
        let [first, .., last] = own[..] else { panic!("{own:?}") };
        let (first, last) = (first.end, last.end);
        // Before and after, the thread did not show the span.
        let by_perf = absences_by_perf(&script, thread);
        let by_perf = by_perf.into_iter().filter(|one| one.end > first && one.end <= last);
        for absence in by_perf {
            // Both see the moment of the switch, the one a little later than the other.
            let is_same = |own: &&Absence| {
                own.end.abs_diff(absence.end) < 100_000
                    && own.duration.abs_diff(absence.duration) < 100_000
            };
            compared += 1;
            if !own.iter().any(|own| is_same(&own)) {
                differing.push(absence);
            }
        }
    }
    assert!(compared as u64 >= 2 * ROUNDS, "{compared}");
    // The hypervisor may take the processor from the machine between the two.
    assert!(differing.len() * 20 <= compared, "{} of {compared}: {differing:?}", differing.len());
}

/// Reads a new file in a folder directly, in the span 9, 8 times. Returns what was recorded; `None`
/// if the folder is not writable, or its file system has no direct input and output.
fn read_directly(test: &str, folder: &Path) -> Option<Vec<Event>> {
    const O_DIRECT: i32 = 0o40_000;
    let path = folder.join(format!("blkkin-requests-{}", std::process::id()));
    let mut file = File::create(&path).ok()?;
    file.write_all(&[7; 1 << 16]).and_then(|()| file.sync_all()).unwrap();
    let direct = File::options().read(true).custom_flags(O_DIRECT).open(&path);
    std::fs::remove_file(&path).unwrap();
    let mut direct = direct.ok()?;
    // A page-aligned part of a buffer.
    let mut buffer = vec![0u8; 3 << 12];
    let start = buffer.as_ptr().align_offset(1 << 12);
    record(test, || {
        for _ in 0..8 {
            in_span(9, || direct.read_exact(&mut buffer[start..start + (1 << 12)])).unwrap();
        }
    })
}

/// A direct read waits for the disk, and its request is that of the reading span.
#[test]
fn requests_to_disks_belong_to_the_span_that_asked() {
    const TEST: &str = "requests_to_disks_belong_to_the_span_that_asked";
    let own = |event: &&Event| event.name == "request:disk" && event.number("span_id") == 9;
    // One of the two may be on no disk.
    let program = std::env::current_exe().unwrap();
    let folders = [program.parent().unwrap().to_owned(), std::env::temp_dir()];
    let mut recorded = folders.iter().filter_map(|folder| read_directly(TEST, folder));
    let Some(events) = recorded.find(|events| events.iter().any(|event| own(&event))) else {
        return skip(TEST, "no folder is on a disk, or nothing can be recorded");
    };
    let requests: Vec<&Event> = events.iter().filter(own).collect();
    assert_eq!(requests.len(), 8, "{events:#?}");
    for request in requests {
        assert_eq!((request.number("bytes"), request.number("operation")), (1 << 12, 0));
        assert_eq!((request.number("error"), request.pid), (0, std::process::id()));
        assert!(request.number("served") > 0 && request.number("device") > 0, "{request:?}");
    }
    let disk = waits(&events, 9).into_iter().filter(|(reason, _)| *reason == "disk");
    assert!(disk.count() >= 1, "{events:#?}");
}

/// A slot at an address without memory, or with arbitrary contents, is no span.
#[test]
fn wrong_slots_record_nothing() {
    const TEST: &str = "wrong_slots_record_nothing";
    let _alone = alone();
    let Some(slots) = slots(TEST) else { return };
    let Some((mut recorder, _chosen)) = recorder(TEST, &slots) else { return };
    let process = std::process::id();
    for offset in [-(1 << 20), 1 << 20] {
        assert!(slots.insert(process, SlotOffset::new(offset).unwrap()));
        in_span(1, || thread::sleep(Duration::from_millis(1)));
    }
    assert!(slots.insert(process, own_offset()));
    for words in [[1, 1, 1, 1], [3, 1, 1, 1], [SPAN, 0, 0, 1], [SPAN, 1, 1, 0], [u64::MAX; 4]] {
        thread_slot::set(&words);
        thread::sleep(Duration::from_millis(1));
    }
    thread_slot::set(&[0; 4]);
    slots.remove(process);
    in_span(1, || thread::sleep(Duration::from_millis(1)));
    recorder.stop();
    let events = drain(&mut recorder);
    let own: Vec<_> = events.iter().filter(|event| event.pid == process).collect();
    assert!(own.is_empty(), "{own:#?}");
    // An entry belongs to one process at a time.
    assert!(slots.insert(process, own_offset()));
    assert!(!slots.insert(process + (1 << 16), own_offset()));
    slots.remove(process + (1 << 16));
    assert!(slots.insert(process, own_offset()));
    slots.remove(process);
    assert!(slots.insert(process + (1 << 16), own_offset()));
}
