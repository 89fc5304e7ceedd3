//! Brings the requests of a recording that goes on to a server: what `blkkin spans --follow --to` does, on a thread.

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

/// A request is complete when nothing has come for so long.
const IDLE: Duration = Duration::from_millis(300);

/// The same while one of its spans has not ended, as where the disk takes long.
const IDLE_UNENDED: Duration = Duration::from_secs(10);

/// How soon spans are sent.
const BATCH_AGE: Duration = Duration::from_millis(100);

/// How long the last ones may take.
const FAREWELL: Duration = Duration::from_secs(10);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What brings them.
pub(super) struct Feed {
    ends: Arc<AtomicBool>,
    /// Events that the tracer has dropped, and spans that were not delivered.
    lost: Arc<AtomicU64>,
    thread: JoinHandle<Option<String>>,
}

impl Feed {
    /// Follows the traces in a directory.
    pub(super) fn start(trace: PathBuf, url: &str) -> Result<Feed, Error> {
        let failed = |error: String| Error::failed(format!("cannot send spans: {error}"));
        let destination =
            Destination::parse(url, None).map_err(|error| failed(error.to_string()))?;
        let options = Options { batch_age: BATCH_AGE, ..Options::new(destination) };
        let exporter = Exporter::open(options).map_err(|error| failed(error.to_string()))?;
        let (ends, lost) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (asked, counted) = (Arc::clone(&ends), Arc::clone(&lost));
        let thread = std::thread::Builder::new()
            .name("feed".to_owned())
            .spawn(move || follow(trace, exporter, &asked, &counted))
            .map_err(|error| failed(error.to_string()))?;
        Ok(Feed { ends, lost, thread })
    }

    pub(super) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Brings what is there by now, and ends; says what was lost.
    pub(super) fn end(self) -> Result<u64, Error> {
        self.ends.store(true, Ordering::Relaxed);
        match self.thread.join() {
            Ok(None) => Ok(self.lost.load(Ordering::Relaxed)),
            Ok(Some(trouble)) => Err(Error::failed(format!("spans were not delivered: {trouble}"))),
            Err(_) => Err(Error::failed("what sends spans has ended in disorder")),
        }
    }
}

/// Goes on until the end is asked for; says what was wrong, if something was.
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
            while exporter.push(&step.span).is_err() {
                exporter.wait_for_room(LOOK_EVERY);
            }
        }
        ControlFlow::Continue(())
    };
    let mut collector = Collector::new(limits, push);
    let mut stats = Stats::default();
    let start = Instant::now();
    loop {
        // What had come by then is still looked at.
        let is_last = ends.load(Ordering::Relaxed);
        if is_last {
            follower.look_at_all()
        } else {
            follower.look()
        };
        let _ = collector.advance(i64::try_from(start.elapsed().as_nanos()).unwrap_or(i64::MAX));
        stats.add(follower.round(|reading| reading, &mut collector));
        let _ = exporter.flush();
        lost.store(stats.events_lost + exporter.counters().dropped_in_all(), Ordering::Relaxed);
        if is_last {
            break;
        }
        follower.wait();
    }
    let _ = collector.finish();
    drop(collector);
    exporter.wait_until_empty(FAREWELL);
    let trouble = exporter.trouble();
    let counters = exporter.close();
    let undelivered = counters.dropped_in_all();
    lost.store(stats.events_lost + undelivered, Ordering::Relaxed);
    let problem =
        stats.problems.iter().find(|problem| !problem.is_warning()).map(ToString::to_string);
    problem.or(trouble.filter(|_| undelivered > 0))
}
