//! Tests of promise D7: a refused batch is stored in a bounded folder, and the next batch arrives
//! within a second.

use crate::accounts::{PATIENCE, finish, push};
use crate::server::{Reply, Server};
use blkkin_deliver::{Cause, Destination, Exporter, Options};
use blkkin_sys::testing::{deadline, figure};
use blkkin_wire::Format;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Maximum time between a refused batch and the arrival of the next batch.
const MOVES_ON: Duration = Duration::from_secs(1);

const SPANS: u64 = 10;

fn push_batch(exporter: &Exporter, batch: u64) {
    (batch * SPANS..(batch + 1) * SPANS).for_each(|number| push(exporter, number));
    exporter.flush().expect("room");
}

/// Returns options with the default delays before retries, as a real program has them, and with a
/// batch age that no batch reaches.
fn usual(server: &Server, path: &str, queue: &Path) -> Options {
    let destination = Destination::parse(&server.url(path), None).expect("a destination");
    Options { queue: Some(queue.to_owned()), batch_age: PATIENCE, ..Options::new(destination) }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the time between the arrivals of a refused batch and the next batch. A batch has been
/// delivered before.
fn next_comes_after(path: &str, format: Format, refusal: Reply) -> Duration {
    let scratch = tempfile::tempdir().expect("a folder");
    let times: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let kept = Arc::clone(&times);
    let server = Server::new(move |count, _| {
        kept.lock().expect("no panic").push(Instant::now());
        match count {
            1 => refusal.clone(),
            _ => Reply::status(202),
        }
    });
    let exporter = Exporter::open(usual(&server, path, scratch.path())).expect("an exporter");
    push_batch(&exporter, 0);
    until("the first comes", || exporter.counters().delivered == SPANS);
    push_batch(&exporter, 1);
    push_batch(&exporter, 2);
    let counters = finish(exporter);
    assert_eq!((counters.delivered, counters.dropped(Cause::Refused)), (2 * SPANS, SPANS));
    assert_eq!((counters.refused_stored, counters.retries), (1, 0));
    assert_eq!(server.numbers(format), (0..3 * SPANS).collect::<Vec<_>>());
    let times = times.lock().expect("no panic");
    times[2] - times[1]
}

#[test]
fn d7_the_queue_moves_on_behind_a_batch_that_nobody_wants() {
    let closing =
        |status| Reply::Answer(status, vec![("connection", "close".to_owned())], b"no".to_vec());
    let zipkin = ("/api/v2/spans", Format::ZipkinJson);
    let otlp = ("/v1/traces", Format::OtlpProto);
    let mut slowest = Duration::ZERO;
    for ((path, format), reply) in [
        (zipkin, Reply::status(400)),
        (zipkin, Reply::status(413)),
        (zipkin, Reply::status(415)),
        (zipkin, closing(400)),
        (otlp, Reply::status(400)),
        (otlp, Reply::status(500)),
        (otlp, closing(413)),
    ] {
        let took = next_comes_after(path, format, reply.clone());
        assert!(took <= deadline(MOVES_ON), "{path} {reply:?}: the next comes after {took:?}");
        slowest = slowest.max(took);
    }
    figure(
        "D7",
        &format!(
            "batches that nobody wants are put aside, the next comes after {} ms at most",
            slowest.as_millis()
        ),
    );
}

/// Returns the total size and number of the files in a folder.
fn size(folder: &Path) -> (u64, usize) {
    let entries = std::fs::read_dir(folder).expect("a folder");
    let sizes = entries.map(|entry| entry.expect("an entry").metadata().expect("data").len());
    let sizes: Vec<u64> = sizes.collect();
    (sizes.iter().sum(), sizes.len())
}

/// The folder of refused batches stays within its limit over two runs in which all batches are
/// refused. Refused batches for which the folder has no room are counted.
#[test]
fn d7_the_folder_of_what_nobody_wants_has_a_limit() {
    const BYTES_MAX: u64 = 10_000;
    let scratch = tempfile::tempdir().expect("a folder");
    let server = Server::new(|_, _| Reply::Answer(400, Vec::new(), b"no".to_vec()));
    let (mut kept, mut not_kept) = (0, 0);
    for life in 0..2 {
        let options = usual(&server, "/api/v2/spans", scratch.path());
        let options = Options { refused_bytes_max: BYTES_MAX, ..options };
        let exporter = Exporter::open(options).expect("an exporter");
        let begun = Instant::now();
        for batch in 0..20 {
            push_batch(&exporter, batch);
        }
        let counters = finish(exporter);
        assert!(begun.elapsed() < 20 * deadline(MOVES_ON), "{:?}", begun.elapsed());
        assert_eq!(counters.dropped(Cause::Refused), 20 * SPANS);
        assert_eq!(counters.refused_stored + counters.refused_not_stored, 20);
        (kept, not_kept) = (kept + counters.refused_stored, not_kept + counters.refused_not_stored);
        let (bytes, files) = size(&scratch.path().join("refused"));
        assert!(bytes <= BYTES_MAX, "{bytes} in life {life}");
        assert_eq!(files as u64, 2 * kept, "a batch and why it was refused, of each");
        assert!(kept > 2 && counters.refused_not_stored > 10, "{counters:?}");
    }
    figure(
        "D7",
        &format!(
            "of {} refused batches {kept} are kept, in {BYTES_MAX} bytes at most",
            kept + not_kept
        ),
    );
}
