//! Test with a destination that never answers, and at least ten times as many spans as the queue
//! can store. Memory and disk usage stay bounded, and dropped spans are counted. The test runs
//! alone in a process, because it measures the memory of the process.

use blkkin_deliver::{Cause, Destination, Exporter, Options, WhenFull};
use blkkin_model::{SpanId, SpanRef, TagRef, TraceId};
use blkkin_sys::testing::{env_number, figure};
use std::fs;
use std::path::Path;
use std::time::Duration;

const QUEUE_BYTES: u64 = 10 << 20;

/// Returns the peak memory of this process, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse::<u64>().expect("a number") << 10
}

fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry"));
    entries
        .map(|entry| match entry.file_type().expect("a type").is_dir() {
            true => size(&entry.path()),
            false => entry.metadata().map_or(0, |data| data.len()),
        })
        .sum()
}

#[test]
fn what_nobody_takes_is_bounded() {
    // A listener that never accepts.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}/api/v2/spans", listener.local_addr().expect("an address"));
    let scratch = tempfile::tempdir().expect("a folder");
    let text = "a text that is as long as others".repeat(32);
    let before = peak();
    for queue in [None, Some(scratch.path().to_owned())] {
        let is_on_disk = queue.is_some();
        let options = Options {
            queue,
            queue_bytes_max: QUEUE_BYTES,
            when_full: WhenFull::DropOldest,
            answer_timeout: Duration::from_millis(200),
            ..Options::new(Destination::parse(&url, None).expect("a destination"))
        };
        let exporter = Exporter::open(options).expect("an exporter");
        let count = env_number("TEST_TIMES", 1) * 10 * QUEUE_BYTES / text.len() as u64;
        let mut disk_max = 0;
        for number in 0..count {
            let id = SpanId::from_number(number + 1).expect("an id");
            let tags = [TagRef::text("text", &text)];
            let mut span = SpanRef::new(TraceId::from(id), id);
            span.tags = &tags;
            exporter.push(&span).expect("room is made");
            if is_on_disk && number % 1000 == 0 {
                disk_max = disk_max.max(size(scratch.path()));
            }
        }
        let counters = exporter.close();
        let dropped = counters.dropped(Cause::QueueFull) + counters.dropped(Cause::Ended);
        assert_eq!(counters.pushed, count);
        assert_eq!(dropped + counters.waiting, count, "{counters:?}");
        assert_eq!(counters.dropped_total(), dropped);
        assert!(counters.dropped(Cause::QueueFull) >= count * 8 / 10, "{counters:?}");
        assert_eq!(is_on_disk, counters.waiting > 0);
        // Other files, such as the stored position, are small.
        assert!(disk_max <= QUEUE_BYTES + (64 << 10), "{disk_max}");
    }
    let grown = peak() - before;
    assert!(grown < 5 * QUEUE_BYTES, "{grown}");
    let times = env_number("TEST_TIMES", 1) * 10;
    figure(
        "D6",
        &format!(
            "{times} times as much as may wait for nobody, in memory and on disk: {} MiB of memory more, for queues of {} MiB",
            grown >> 20,
            QUEUE_BYTES >> 20
        ),
    );
}
