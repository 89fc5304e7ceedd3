//! `blkkin spans --to URL`: passes spans to an exporter, waits for their delivery, and prints
//! totals. Options are in [`DeliveryArgs`].

use crate::commands::receiver_headers;
use crate::exit::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::plural;
use crate::table::{Align, Table};
use crate::values;
use blkkin_deliver::{Cause, Counters, Destination, Exporter, Options, WhenFull};
use blkkin_spans::Request;
use blkkin_text::time::parse_duration;
use blkkin_wire::Format;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Destination of spans, and options of the delivery.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Sending")]
pub(super) struct DeliveryArgs {
    /// Send spans to this URL instead of printing them: http://HOST:9411/api/v2/spans (Zipkin),
    /// http://HOST:4318/v1/traces or otlp://HOST:4317 (OpenTelemetry over HTTP or gRPC), https and
    /// otlps with TLS; scribe://HOST:9410/CATEGORY (Scribe)
    ///
    /// Each span is delivered at least once, or counted as not delivered, and then the exit status
    /// is 1. After a temporary failure spans are sent again. A batch that the destination refuses
    /// is dropped; with --queue it is kept in DIR/refused, up to 64 MiB in all.
    #[arg(long, value_name = "URL", conflicts_with_all = ["tree", "annotations", "kernel"])]
    to: Option<String>,

    /// Keep waiting spans in this directory, so that they survive the end of this program; without
    /// PATHs, only send what waits there [default: wait in memory]
    #[arg(long, value_name = "DIR", requires = "to")]
    queue: Option<PathBuf>,

    /// Maximum size of the queue; when it is full, reading waits [default: 1G on disk, 64M in
    /// memory]
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, requires = "to")]
    queue_size: Option<u64>,

    /// When the queue is full, drop the oldest spans instead of waiting
    #[arg(long, requires = "to")]
    drop_oldest: bool,

    /// Format of spans, if the destination accepts several
    #[arg(long, value_name = "FORMAT", value_parser = formats(), requires = "to")]
    format: Option<Format>,

    /// Compress request bodies
    #[arg(long, requires = "to")]
    gzip: bool,

    /// Add a header to each request: 'X-Team: storage'. For secrets, use a file
    #[arg(long, value_name = "HEADER", requires = "to")]
    header: Vec<String>,

    /// File with headers, one a line: 'Authorization: Bearer …'. They are never shown
    #[arg(long, value_name = "FILE", requires = "to")]
    header_file: Option<PathBuf>,

    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", requires = "to")]
    ca: Option<PathBuf>,

    /// Drop spans that have waited longer: 30m. Only time in which this program runs counts; an
    /// earlier run counts until its last span
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "to", default_value = "24h")]
    max_age: u64,

    /// Give up when the destination has accepted nothing for this long; 0: never. While --follow
    /// reads, wait until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = values::patience,
        requires = "to",
        default_value = "30"
    )]
    patience: Duration,
}

/// Maximum time of further delivery after Ctrl-C, and delay before the spinner is shown.
const GRACE: Duration = Duration::from_secs(1);

/// Maximum time of a wait for the exporter, between two checks for Ctrl-C and `patience`.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);

fn formats() -> impl TypedValueParser<Value = Format> {
    let sent = |format: &Format| *format != Format::ZipkinThriftSpan;
    let names = Format::ALL.into_iter().filter(sent).map(Format::name);
    PossibleValuesParser::new(names).try_map(|name| {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or("no such format")
    })
}

impl DeliveryArgs {
    fn options(&self, url: &str) -> Result<Options, Error> {
        let wrong = |error: blkkin_deliver::Error| Error::usage(error.to_string());
        let destination = Destination::parse(url, self.format).map_err(wrong)?;
        let queue_bytes = if self.queue.is_some() { 1 << 30 } else { 64 << 20 };
        Ok(Options {
            headers: receiver_headers::read(&self.header, self.header_file.as_deref())?,
            gzip: self.gzip,
            ca: self.ca.clone(),
            queue: self.queue.clone(),
            queue_bytes_max: self.queue_size.unwrap_or(queue_bytes),
            when_full: if self.drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse },
            age_max: Duration::from_nanos(self.max_age),
            ..Options::new(destination)
        })
    }
}

/// Delivery of requests by an exporter, until each span is delivered or dropped, or delivery is
/// abandoned.
pub(super) struct Delivery {
    /// Exporter; `None` once the delivery has ended.
    exporter: Option<Exporter>,
    destination: Destination,
    queue: Option<PathBuf>,
    interrupt: Interrupt,
    /// Maximum time without a delivered or dropped span, after which delivery is abandoned. Not
    /// applied while `--follow` reads.
    patience: Duration,
    is_follow: bool,
    /// Number of delivered or dropped spans, and the time from which `patience` counts: the last
    /// observed change of the number, or the start of [`wait`](Self::wait).
    progress: (u64, Instant),
    /// Set if reading stopped early, as the queue was full or could not be written.
    is_over: bool,
    result: DeliveryResult,
}

/// Counters and last error of a delivery.
#[derive(Default)]
struct DeliveryResult {
    counters: Counters,
    /// Reason why delivery was blocked, or last message of the destination.
    trouble: Option<String>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delivery({})", self.destination)
    }
}

impl Delivery {
    /// Opens the exporter; returns `None` if spans are to be printed. `is_follow` is set if
    /// the traces grow.
    pub(super) fn open(
        args: &DeliveryArgs,
        is_follow: bool,
        interrupt: &Interrupt,
    ) -> Result<Option<Delivery>, Error> {
        let Some(url) = &args.to else { return Ok(None) };
        let options = args.options(url)?;
        let (destination, queue) = (options.destination.clone(), options.queue.clone());
        let exporter = Exporter::open(options).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Some(Delivery {
            exporter: Some(exporter),
            destination,
            queue,
            interrupt: interrupt.clone(),
            patience: args.patience,
            is_follow,
            progress: (0, Instant::now()),
            is_over: false,
            result: DeliveryResult::default(),
        }))
    }

    /// Returns true if reading should stop, because the queue accepted no more spans.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Passes a request's spans to the exporter. Blocks while the queue is full or cannot be
    /// written, until delivery is abandoned.
    pub(super) fn request(&mut self, request: &Request<'_>) {
        for step in &request.steps {
            loop {
                let Some(exporter) = &self.exporter else { return };
                if step.with_own_tags(|span| exporter.push(span)).is_ok() {
                    break;
                }
                // A growing recording is stored on disk, so there is no time limit.
                let patience = if self.is_follow { Duration::MAX } else { self.patience };
                if !exporter.wait_for_room(CHECK_INTERVAL) && self.should_give_up(patience) {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Moves the incomplete batch to the queue.
    pub(super) fn flush(&mut self) {
        // A full queue is not an error here: the next call flushes again.
        let _ = self.exporter.as_ref().map(Exporter::flush);
    }

    /// Returns true if delivery should be abandoned: [`GRACE`] after Ctrl-C, or when no span was
    /// delivered or dropped for `patience`.
    fn should_give_up(&mut self, patience: Duration) -> bool {
        let Some(exporter) = &self.exporter else { return true };
        let counters = exporter.counters();
        let settled = counters.delivered + counters.dropped_total();
        if settled != self.progress.0 {
            self.progress = (settled, Instant::now());
        }
        self.interrupt.is_set_since(GRACE) || self.progress.1.elapsed() >= patience
    }

    /// Waits until each span is delivered or dropped, or delivery is abandoned.
    fn wait(&mut self) {
        let start = Instant::now();
        let mut bar = None;
        // Time before this call, possibly without spans, does not count as the destination's
        // failure.
        self.progress.1 = start;
        while let Some(exporter) = &self.exporter {
            if exporter.wait_until_empty(CHECK_INTERVAL) {
                break;
            }
            if std::io::stderr().is_terminal() && start.elapsed() > GRACE {
                let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
                let waiting = plural(exporter.counters().waiting, "span");
                let trouble = exporter.trouble().map_or(String::new(), |it| format!(": {it}"));
                bar.set_message(format!("{waiting} still to be delivered{trouble}"));
                bar.tick();
            }
            if self.should_give_up(self.patience) {
                break;
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    /// Waits for the delivery, closes the exporter and writes the totals.
    pub(super) fn end(&mut self, is_json: bool, requests: u64, out: &mut Vec<u8>) {
        self.wait();
        let Some(exporter) = self.exporter.take() else { return };
        let trouble = exporter.trouble();
        self.result = DeliveryResult { counters: exporter.close(), trouble };
        let text = if is_json { self.json(requests) } else { self.table() };
        out.extend_from_slice(text.as_bytes());
    }

    /// Formats the totals of the delivery as one JSON object.
    fn json(&self, requests: u64) -> String {
        let DeliveryResult { counters, trouble } = &self.result;
        let dropped = Cause::ALL.into_iter().map(|cause| (cause.word(), counters.dropped(cause)));
        let dropped: serde_json::Map<String, serde_json::Value> =
            dropped.map(|(word, count)| (word.to_owned(), count.into())).collect();
        let line = json!({
            "type": "delivery",
            "schema": "blkkin.delivery.v1",
            "destination": self.destination.to_string(),
            "format": self.destination.format().name(),
            "requests": requests,
            "found": counters.recovered,
            "pushed": counters.pushed,
            "delivered": counters.delivered,
            "dropped": dropped,
            "waiting": counters.waiting,
            "batches": counters.batches,
            "bytes": counters.bytes,
            "retries": counters.retries,
            "batches_refused_kept": counters.refused_stored,
            "batches_refused_not_kept": counters.refused_not_stored,
            "damages": counters.damages,
            "answers_odd": counters.answers_malformed,
            "trouble": trouble,
        });
        format!("{line}\n")
    }

    /// Formats the totals of the delivery as a table.
    fn table(&self) -> String {
        let counters = &self.result.counters;
        let mut table =
            Table::new(&[("SPANS", Align::Left), ("COUNT", Align::Right), ("NOTE", Align::Left)]);
        let queue = self.queue.as_ref().map(|folder| folder.display().to_string());
        let queue = queue.unwrap_or_default();
        let mut row = |what: String, count: u64, note: String| {
            table.row(vec![what.into(), count.to_string().into(), note.into()]);
        };
        if counters.recovered > 0 {
            row("found".to_owned(), counters.recovered, format!("waited in {queue}"));
        }
        row("read".to_owned(), counters.pushed, String::new());
        let batches = if counters.batches == 1 { "batch" } else { "batches" };
        let (bytes, times) = (counters.bytes, plural(counters.retries, "time"));
        let how = format!("{} {batches}, {bytes} bytes, sent again {times}", counters.batches);
        row("delivered".to_owned(), counters.delivered, how);
        for cause in Cause::ALL {
            if counters.dropped(cause) > 0 {
                row(cause.word().replace('_', " "), counters.dropped(cause), self.note(cause));
            }
        }
        let waits = (counters.waiting > 0).then(|| format!("in {queue}"));
        row("waiting".to_owned(), counters.waiting, waits.unwrap_or_default());
        table.print(false)
    }

    fn note(&self, cause: Cause) -> String {
        match cause {
            Cause::Refused => match (self.result.counters.refused_stored, &self.queue) {
                (1.., Some(folder)) => format!("kept in {}", folder.join("refused").display()),
                _ => "the destination does not want them".to_owned(),
            },
            Cause::Rejected => "the destination took their batches without them".to_owned(),
            Cause::TooOld => "waited for longer than --max-age".to_owned(),
            Cause::TooLarge => "larger than 4 MiB each".to_owned(),
            Cause::QueueFull => "gave way to newer ones".to_owned(),
            Cause::Damaged => "the queue was damaged".to_owned(),
            Cause::Ended => "were only in memory; see --queue".to_owned(),
        }
    }

    /// Reports spans that were not delivered, or a reading that stopped early; returns the exit
    /// status.
    pub(super) fn report(&self) -> Exit {
        let DeliveryResult { counters, trouble } = &self.result;
        let all = counters.recovered + counters.pushed;
        let missing = all - counters.delivered;
        if missing == 0 && !self.is_over {
            return Exit::Ok;
        }
        let why = trouble.as_ref().map_or(String::new(), |why| format!(": {why}"));
        let what =
            format!("{missing} of {} not delivered to {}", plural(all, "span"), self.destination);
        let error = Error::failed(format!("{what}{why}"));
        let error = match (&self.queue, counters.waiting) {
            _ if self.is_over => {
                error.hint("the queue was full, and the trace was not read to its end")
            }
            (Some(folder), 1..) => error.hint(format!(
                "they wait; send them by `blkkin spans --to URL --queue {}`",
                folder.display()
            )),
            (None, _) if counters.dropped(Cause::Ended) > 0 => {
                error.hint("with --queue DIR they would wait for the next time")
            }
            _ => error,
        };
        error.report()
    }
}
