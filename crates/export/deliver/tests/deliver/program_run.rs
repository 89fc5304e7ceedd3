//! Runs of a program that exports numbered spans through a queue on disk. Start at [`ProgramRun`].
//!
//! [`Destination::check`] looks for the spans of all batches that the program has reported as
//! flushed. The destination must have accepted each span, unless the span is in the folder of
//! refused batches.

use crate::accounts::{PATIENCE, balanced, options};
use crate::server::{Reply, Server};
use blkkin_deliver::{Exporter, Options};
use blkkin_model::{Span, SpanId, SpanRef, TagRef, TraceId};
use blkkin_sys::testing::own_test;
use blkkin_wire::{Decoder, Format, Limits};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Prefix of each line that the tested program prints. Lines of the test harness lack it.
const MARK: &str = "says: ";

/// Maximum time in which the exporter must continue after a disk failure.
pub(crate) const RESUMES: Duration = Duration::from_secs(5);

/// Number of spans in a batch.
pub(crate) const SPANS: u64 = 10;

/// Size of a span in bytes, chosen so that a run fills more than one segment of the queue.
const TEXT_BYTES: usize = 30_000;

/// Ratio of all batches to refused batches: the destination refuses one batch in seven.
const REFUSED_OF: u64 = 7;

fn is_refused(number: u64) -> bool {
    number / SPANS % REFUSED_OF == 3
}

fn with_span<T>(number: u64, then: impl FnOnce(&SpanRef<'_>) -> T) -> T {
    let text = char::from(b'a' + (number % 26) as u8).to_string().repeat(TEXT_BYTES);
    let tags = [TagRef::text("text", &text)];
    let id = SpanId::from_number(number + 1).expect("an id");
    let mut span = SpanRef::new(TraceId::from(id), id);
    (span.name, span.tags) = ("numbered", &tags);
    then(&span)
}

pub(crate) fn push(exporter: &Exporter, number: u64) -> Result<(), blkkin_deliver::Refusal> {
    with_span(number, |span| exporter.push(span))
}

/// Returns the numbers of the spans in a body, after a check that the spans are unchanged.
fn numbers(body: &[u8]) -> Result<Vec<u64>, String> {
    let mut spans: Vec<Span> = Vec::new();
    let outcome = Decoder::new(Limits::default()).decode(Format::ZipkinJson, body, &mut spans);
    if !outcome.is_good() {
        return Err(format!("{outcome:?}"));
    }
    let number = |span: &Span| {
        let number = span.id.number() - 1;
        let is_it = with_span(number, |expected| {
            let expected = expected.to_owned();
            (&span.name, &span.tags) == (&expected.name, &expected.tags)
        });
        if is_it { Ok(number) } else { Err(format!("{number} is not as it was pushed")) }
    };
    spans.iter().map(number).collect()
}

/// Acts as the tested program: pushes batches from a given number on, and reports the flushed
/// batches. If the disk fails for too long, the program reports that and exits normally; if the
/// exporter cannot be opened, it exits with status 1.
#[test]
#[ignore = "a program of other tests"]
fn exports_for_long() {
    let variable = |name| std::env::var(name).expect("a variable");
    let number = |name| variable(name).parse::<u64>().expect("a number");
    let queue = Some(variable("TEST_QUEUE").into());
    let opened = Exporter::open(Options { queue, ..options(&variable("TEST_URL")) });
    let exporter = opened.unwrap_or_else(|error| {
        say(&format!("cannot start: {error}"));
        std::process::exit(1);
    });
    let patience = Duration::from_millis(number("TEST_PATIENCE_MS"));
    let first = number("TEST_FIRST");
    for batch in first..first + number("TEST_BATCHES") {
        let mut spans = batch * SPANS..(batch + 1) * SPANS;
        let pushed = spans.try_for_each(|number| until(patience, || push(&exporter, number)));
        // With `TEST_EARLY`, the program reports batches that it has not flushed: the fault that
        // the tests must detect.
        let is_early = std::env::var_os("TEST_EARLY").is_some();
        let flushed = pushed.and_then(|()| match is_early {
            true => Ok(()),
            false => until(patience, || exporter.flush()),
        });
        match flushed {
            Ok(()) => say(&format!("flushed {}", batch + 1)),
            Err(refusal) => {
                say(&format!("refused: {refusal}"));
                break;
            }
        }
    }
    if !exporter.wait_until_empty(if patience < RESUMES { patience } else { PATIENCE }) {
        say(&format!("waits: {:?}", exporter.trouble()));
    }
    let counters = exporter.close();
    balanced(&counters);
    say(&format!("closed {}", counters.refused_not_stored));
    // Skips the test harness's own output, whose system calls might be made to fail.
    std::process::exit(0);
}

/// Retries `does` until it succeeds. Returns its last refusal if it still fails after `patience`.
fn until(
    patience: Duration,
    does: impl Fn() -> Result<(), blkkin_deliver::Refusal>,
) -> Result<(), blkkin_deliver::Refusal> {
    let begun = Instant::now();
    while let Err(refusal) = does() {
        if begun.elapsed() > patience {
            return Err(refusal);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

fn say(what: &str) {
    let line = format!("\n{MARK}{what}\n");
    // A single write, so that a report is never incomplete. The write may fail on purpose, hence
    // the repetition.
    let _ = (0..100).any(|_| std::io::stdout().lock().write_all(line.as_bytes()).is_ok());
}

/// Batches in the order of their arrival at a destination; true marks an accepted batch.
#[derive(Default)]
struct Arrivals {
    batches: Vec<(bool, Result<Vec<u64>, String>)>,
}

/// A server to which the tested program exports, with the program's queue folder.
pub(crate) struct Destination {
    server: Server,
    arrivals: Arc<Mutex<Arrivals>>,
    pub(crate) queue: PathBuf,
}

impl Destination {
    pub(crate) fn new(queue: &Path) -> Destination {
        let arrivals = Arc::<Mutex<Arrivals>>::default();
        let kept = Arc::clone(&arrivals);
        let server = Server::new(move |_, asked| {
            let numbers = numbers(&asked.body);
            let is_taken = !numbers.iter().flatten().any(|number| is_refused(*number));
            kept.lock().expect("no panic").batches.push((is_taken, numbers));
            Reply::status(if is_taken { 202 } else { 400 })
        });
        Destination { server, arrivals, queue: queue.to_owned() }
    }

    /// Returns the number of batches that arrived.
    pub(crate) fn count(&self) -> usize {
        self.arrivals.lock().expect("no panic").batches.len()
    }

    /// Checks that all batches numbered below `batches` were accepted, or stored as refused; up to
    /// `not_kept` refused batches may be missing. Batches must be unchanged. They must arrive in
    /// order, except that the order may go back up to `back_max` times, where batches were sent
    /// again.
    pub(crate) fn check(&self, batches: u64, not_kept: u64, back_max: u64) -> Result<(), String> {
        let arrivals = self.arrivals.lock().expect("no panic");
        let mut there: BTreeSet<u64> = BTreeSet::new();
        let mut order: Vec<u64> = Vec::new();
        for (is_taken, numbers) in &arrivals.batches {
            let numbers = numbers.as_ref().map_err(String::clone)?;
            order.extend(numbers);
            there.extend(numbers.iter().filter(|_| *is_taken));
        }
        let aside = self.put_aside()?;
        if let Some(number) = aside.iter().find(|number| !is_refused(**number)) {
            return Err(format!("{number} is put aside, and was not refused"));
        }
        there.extend(aside);
        let lost: Vec<u64> = (0..batches * SPANS).filter(|it| !there.contains(it)).collect();
        let all_refused = lost.iter().all(|number| is_refused(*number));
        if !all_refused || lost.len() as u64 > not_kept * SPANS {
            return Err(format!("of {batches} batches, {not_kept} told, are lost: {lost:?}"));
        }
        let steps = || order.windows(2).filter(|two| two[1] != two[0] + 1);
        if let Some(two) = steps().find(|two| two[1] > two[0]) {
            return Err(format!("{two:?} are not in order"));
        }
        let back = steps().count() as u64;
        match back <= back_max {
            true => Ok(()),
            false => Err(format!("went back {back} times, where only {back_max} were sent again")),
        }
    }

    /// Returns the numbers of the spans stored in the folder of refused batches.
    fn put_aside(&self) -> Result<BTreeSet<u64>, String> {
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(self.queue.join("refused")).into_iter().flatten() {
            let path = entry.map_err(|error| error.to_string())?.path();
            if path.extension().is_some_and(|it| it == "txt") {
                continue;
            }
            let body = std::fs::read(&path).map_err(|error| error.to_string())?;
            // If its program was killed, a batch may be incomplete; a later run writes it again.
            found.extend(numbers(&body).unwrap_or_default());
        }
        Ok(found)
    }
}

/// Parameters of one run of the tested program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOptions {
    pub(crate) first: u64,
    pub(crate) batches: u64,
    pub(crate) patience: Duration,
    pub(crate) is_early: bool,
}

/// Result of one run of the tested program.
#[derive(Debug)]
pub(crate) struct ProgramRun {
    pub(crate) status: ExitStatus,
    pub(crate) messages: Vec<String>,
    /// Number of refused batches that could not be stored; `None` if the exporter was not closed.
    pub(crate) closed: Option<u64>,
    /// Number after the last flushed batch.
    pub(crate) flushed: u64,
    /// Time from the start of the program to its first flush.
    pub(crate) took: Duration,
    /// Longest time between two flushes, or from the start to the first flush.
    pub(crate) slowest: Duration,
}

impl ProgramRun {
    /// Returns true if the program closed its exporter and exited normally, without a refusal or
    /// other message.
    pub(crate) fn is_good(&self) -> bool {
        self.status.success() && self.messages.is_empty() && self.closed.is_some()
    }

    /// Runs the tested program under the command `starter` until it ends.
    pub(crate) fn run(
        starter: &[String],
        destination: &Destination,
        how: RunOptions,
    ) -> ProgramRun {
        let mut command = own_test(starter, "program_run::exports_for_long");
        command.env("TEST_URL", destination.server.url("/api/v2/spans"));
        command.env("TEST_QUEUE", &destination.queue).env("TEST_FIRST", how.first.to_string());
        command.env("TEST_BATCHES", how.batches.to_string());
        command.env("TEST_PATIENCE_MS", how.patience.as_millis().to_string());
        if how.is_early {
            command.env("TEST_EARLY", "1");
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("a program");
        let mut life = ProgramRun::listen(&mut child, begun, how.first);
        life.status = child.wait().expect("its end");
        life
    }

    fn listen(child: &mut Child, begun: Instant, first: u64) -> ProgramRun {
        let output: ChildStdout = child.stdout.take().expect("a pipe");
        let (mut flushed, mut closed, mut said) = (first, None, Vec::new());
        let mut times = vec![begun];
        for line in BufReader::new(output).lines() {
            let line = line.expect("a line");
            let Some((_, what)) = line.split_once(MARK) else { continue };
            match what.split_once(' ') {
                Some(("flushed", number)) => {
                    flushed = number.parse().expect("a number");
                    times.push(Instant::now());
                }
                Some(("closed", number)) => closed = Some(number.parse().expect("a number")),
                _ => said.push(what.to_owned()),
            }
        }
        let between = times.windows(2).map(|two| two[1] - two[0]);
        ProgramRun {
            status: ExitStatus::default(),
            messages: said,
            closed,
            flushed,
            took: times.get(1).map_or(Duration::ZERO, |first| *first - begun),
            slowest: between.max().unwrap_or_default(),
        }
    }
}
