//! Thread that sends the requests of a growing recording to a server, as `blkkin spans --follow
//! --to` does.

use crate::exit::Error;
use blkkin_deliver::{Destination, Exporter, Options};
use blkkin_reader::{Follower, Source, Stats};
use blkkin_spans::{Collector, Limits, Request};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time without an event after which a request is complete.
const IDLE: Duration = Duration::from_millis(300);

/// Time without an event after which a request with an unended span is complete. It is longer than
/// [`IDLE`], as the disk may be slow.
const IDLE_UNENDED: Duration = Duration::from_secs(10);

/// Maximum age of a batch of spans before it is sent.
const BATCH_AGE: Duration = Duration::from_millis(100);

/// Maximum time to send the last spans.
const END_MAX: Duration = Duration::from_secs(10);

const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// Handle of the thread that reads the recording and sends its requests.
pub(super) struct Feed {
    ends: Arc<AtomicBool>,
    /// Number of events that the tracer lost plus number of spans that the exporter dropped.
    lost: Arc<AtomicU64>,
    thread: JoinHandle<Option<String>>,
}

impl Feed {
    /// Starts the thread, which follows the traces in a directory.
    pub(super) fn start(trace: PathBuf, url: &str) -> Result<Feed, Error> {
        let failed = |error: String| Error::failed(format!("cannot send spans: {error}"));
        let destination =
            Destination::parse(url, None).map_err(|error| failed(error.to_string()))?;
        let options = Options { batch_age: BATCH_AGE, ..Options::new(destination) };
        let exporter = Exporter::open(options).map_err(|error| failed(error.to_string()))?;
        let (ends, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (ends_clone, lost_clone) = (Arc::clone(&ends), Arc::clone(&lost));
        let thread = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || follow(trace, exporter, &ends_clone, &lost_clone))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Feed { ends, lost, thread })
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Sends everything recorded so far and ends the thread; returns the number of losses.
    pub(super) fn end(self) -> Result<u64, Error> {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(None) => Ok(self.lost.load(Ordering::Relaxed)),
            Ok(Some(trouble)) => Err(Error::failed(format!("spans were not delivered: {trouble}"))),
            Err(_) => Err(Error::failed("what sends spans has ended in disorder")),
        }
    }
}

/// Follows the trace until `ends` is set, and sends its requests. Returns the first error of
/// reading, or else the exporter's error if spans were dropped.
fn follow(
    trace: PathBuf,
    exporter: Exporter,
    ends: &AtomicBool,
    lost: &AtomicU64,
) -> Option<String> {
    let mut follower = Follower::new(&[Source::Path(trace)]);
    let limits = Limits {
        idle_ns: IDLE.as_nanos() as u64,
        idle_unended_ns: IDLE_UNENDED.as_nanos() as u64,
        ..Limits::default()
    };
    let push = |request: &Request<'_>| {
        for step in &request.steps {
            while step.with_own_tags(|span| exporter.push(span)).is_err() {
                exporter.wait_for_room(ROOM_INTERVAL);
            }
        }
        ControlFlow::Continue(())
    };
    let mut collector = Collector::new(limits, push);
    let mut stats = Stats::default();
    let start = Instant::now();
    loop {
        // Read the flag first, so that events before it are still read in the last round.
        let is_last = ends.load(Ordering::Relaxed);
        follower.refresh(is_last);
        let _ = collector.advance(i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX));
        stats.add(follower.deliver(|reading| reading, &mut collector));
        let _ = exporter.flush();
        lost.store(stats.events_lost + exporter.counters().dropped_total(), Ordering::Relaxed);
        if is_last {
            break;
        }
        follower.wait();
    }
    let _ = collector.finish();
    drop(collector);
    exporter.wait_until_empty(END_MAX);
    let trouble = exporter.trouble();
    let counters = exporter.close();
    let undelivered = counters.dropped_total();
    lost.store(stats.events_lost + undelivered, Ordering::Relaxed);
    let problem =
        stats.problems.iter().find(|problem| !problem.is_warning()).map(ToString::to_string);
    problem.or(trouble.filter(|_| undelivered > 0))
}
