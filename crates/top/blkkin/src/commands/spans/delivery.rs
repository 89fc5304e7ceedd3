//! `blkkin spans --to URL`: spans go to another system. Where to and how ([`ToArgs`]), handing them over, waiting until
//! they have arrived, and the totals.

use super::Args;
use crate::exit::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::plural;
use crate::table::{Align, Table};
use crate::values;
use blkkin_deliver::{Cause, Counters, Destination, Exporter, Headers, Options, WhenFull};
use blkkin_spans::Request;
use blkkin_text::time::length;
use blkkin_wire::Format;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use indicatif::ProgressBar;
use serde_json::json;
use std::io::{IsTerminal, Read};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Where spans go, and how.
#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Sending")]
pub(super) struct ToArgs {
    /// Send spans there, instead of printing them: http://HOST:9411/api/v2/spans (Zipkin),
    /// http://HOST:4318/v1/traces or otlp://HOST:4317 (OpenTelemetry, by HTTP or gRPC), with https,
    /// otlps by TLS; scribe://HOST:9410/CATEGORY (Scribe)
    ///
    /// Each span is delivered at least once, or counted as not delivered, and then the exit status is 1.
    /// What fails for now is sent again, what the destination refuses is put aside.
    #[arg(long, value_name = "URL", conflicts_with_all = ["tree", "annotations"])]
    to: Option<String>,

    /// Keep what waits in this folder, so that it survives the end of this program; without PATHs, only
    /// send what waits there. Otherwise it waits in memory
    #[arg(long, value_name = "DIR", requires = "to")]
    queue: Option<PathBuf>,

    /// How much may wait; by default 1G on disk, 64M in memory. When that is full, reading waits
    #[arg(long, value_name = "SIZE", value_parser = values::bytes, requires = "to")]
    queue_size: Option<u64>,

    /// When the queue is full, give up the oldest spans instead of waiting
    #[arg(long, requires = "to")]
    drop_oldest: bool,

    /// The format, where the destination understands several
    #[arg(long, value_name = "FORMAT", value_parser = formats(), requires = "to")]
    format: Option<Format>,

    /// Compress what is sent
    #[arg(long, requires = "to")]
    gzip: bool,

    /// Add a header to each request: 'X-Team: storage'. For secrets, use a file
    #[arg(long, value_name = "HEADER", requires = "to")]
    header: Vec<String>,

    /// A file with headers, one a line: 'Authorization: Bearer …'. They are never shown
    #[arg(long, value_name = "FILE", requires = "to")]
    header_file: Option<PathBuf>,

    /// Trust the certificates in this file (PEM), instead of those that the system trusts
    #[arg(long, value_name = "FILE", requires = "to")]
    ca: Option<PathBuf>,

    /// Give up spans that wait for longer: 30m. Only time in which this runs counts,
    /// and of earlier runs what passed until their last spans
    #[arg(long, value_name = "DURATION", value_parser = length, requires = "to", default_value = "24h")]
    max_age: u64,

    /// End when the destination has taken nothing for so long; 0 is never. With --follow, it is waited
    /// for until Ctrl-C
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = values::patience,
        requires = "to",
        default_value = "30"
    )]
    patience: Duration,
}

/// More is no list of headers.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// How long Ctrl-C lets delivery go on.
const GRACE: Duration = Duration::from_secs(1);

/// How often to look whether the user wants an end.
const LOOK_EVERY: Duration = Duration::from_millis(50);

fn formats() -> impl TypedValueParser<Value = Format> {
    let sent = |format: &Format| *format != Format::ZipkinThriftSpan;
    let names = Format::ALL.into_iter().filter(sent).map(Format::name);
    PossibleValuesParser::new(names).try_map(|name| {
        Format::ALL.into_iter().find(|format| format.name() == name).ok_or("no such format")
    })
}

impl ToArgs {
    fn options(&self, url: &str) -> Result<Options, Error> {
        let wrong = |error: blkkin_deliver::Error| Error::usage(error.to_string());
        let destination = Destination::parse(url, self.format).map_err(wrong)?;
        let queue_bytes = if self.queue.is_some() { 1 << 30 } else { 64 << 20 };
        Ok(Options {
            headers: self.headers()?,
            gzip: self.gzip,
            ca: self.ca.clone(),
            queue: self.queue.clone(),
            queue_bytes_max: self.queue_size.unwrap_or(queue_bytes),
            when_full: if self.drop_oldest { WhenFull::DropOldest } else { WhenFull::Refuse },
            age_max: Duration::from_nanos(self.max_age),
            ..Options::new(destination)
        })
    }

    fn headers(&self) -> Result<Headers, Error> {
        let mut text = self.header.join("\n");
        if let Some(path) = &self.header_file {
            let failed = |error| Error::failed(format!("{}: cannot read: {error}", path.display()));
            let file = std::fs::File::open(path).map_err(failed)?;
            text.push('\n');
            file.take(HEADER_BYTES_MAX).read_to_string(&mut text).map_err(failed)?;
        }
        Headers::parse(&text).map_err(|error| Error::usage(error.to_string()))
    }
}

/// Hands requests over.
pub(super) struct Delivery {
    /// Until the end.
    exporter: Option<Exporter>,
    destination: Destination,
    queue: Option<PathBuf>,
    interrupt: Interrupt,
    /// How long the destination may take nothing.
    patience: Duration,
    is_follow: bool,
    /// What was delivered or given up, when that last changed.
    last: (u64, Instant),
    /// Requests were not read to their end, as there was no room for them.
    is_over: bool,
    outcome: Outcome,
}

/// What has come of it.
#[derive(Default)]
struct Outcome {
    counters: Counters,
    /// What the destination has said.
    trouble: Option<String>,
}

impl std::fmt::Debug for Delivery {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Delivery({})", self.destination)
    }
}

impl Delivery {
    /// `None` if spans are to be printed.
    pub(super) fn open(args: &Args, interrupt: &Interrupt) -> Result<Option<Delivery>, Error> {
        let Some(url) = &args.to.to else { return Ok(None) };
        let options = args.to.options(url)?;
        let (destination, queue) = (options.destination.clone(), options.queue.clone());
        let exporter = Exporter::open(options).map_err(|error| Error::failed(error.to_string()))?;
        Ok(Some(Delivery {
            exporter: Some(exporter),
            destination,
            queue,
            interrupt: interrupt.clone(),
            patience: args.to.patience,
            is_follow: args.follow,
            last: (0, Instant::now()),
            is_over: false,
            outcome: Outcome::default(),
        }))
    }

    /// Whether nothing more is to be read.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Hands over a request; waits as long as there is no room.
    pub(super) fn request(&mut self, request: &Request<'_>) {
        for step in &request.steps {
            loop {
                let Some(exporter) = &self.exporter else { return };
                if exporter.push(&step.span).is_ok() {
                    break;
                }
                // A recording that goes on waits on disk.
                let patience = if self.is_follow { Duration::MAX } else { self.patience };
                if !exporter.wait_for_room(LOOK_EVERY) && self.is_enough(patience) {
                    self.is_over = true;
                    return;
                }
            }
        }
    }

    /// Nothing more comes for now: what was handed over should be safe.
    pub(super) fn flush(&mut self) {
        // If there is no room now, it is tried again.
        let _ = self.exporter.as_ref().map(Exporter::flush);
    }

    /// Whether the user wants an end, or the destination has taken nothing for too long.
    fn is_enough(&mut self, patience: Duration) -> bool {
        let Some(exporter) = &self.exporter else { return true };
        let counters = exporter.counters();
        let settled = counters.delivered + counters.dropped_in_all();
        if settled != self.last.0 {
            self.last = (settled, Instant::now());
        }
        self.interrupt.is_asked_since(GRACE) || self.last.1.elapsed() >= patience
    }

    /// Waits until all has arrived, as long as that makes sense.
    fn wait(&mut self) {
        let start = Instant::now();
        let mut bar = None;
        // While there was nothing to send, nothing could be taken.
        self.last.1 = start;
        while let Some(exporter) = &self.exporter {
            if exporter.wait_until_empty(LOOK_EVERY) {
                break;
            }
            if std::io::stderr().is_terminal() && start.elapsed() > GRACE {
                let bar = bar.get_or_insert_with(ProgressBar::new_spinner);
                let waiting = plural(exporter.counters().waiting, "span");
                let trouble = exporter.trouble().map_or(String::new(), |it| format!(": {it}"));
                bar.set_message(format!("{waiting} still to be delivered{trouble}"));
                bar.tick();
            }
            if self.is_enough(self.patience) {
                break;
            }
        }
        if let Some(bar) = bar {
            bar.finish_and_clear();
        }
    }

    /// Waits for the end, and writes the totals.
    pub(super) fn end(&mut self, is_json: bool, requests: u64, out: &mut Vec<u8>) {
        self.wait();
        let Some(exporter) = self.exporter.take() else { return };
        let trouble = exporter.trouble();
        self.outcome = Outcome { counters: exporter.close(), trouble };
        let text = if is_json { self.json(requests) } else { self.table() };
        out.extend_from_slice(text.as_bytes());
    }

    /// One object.
    fn json(&self, requests: u64) -> String {
        let Outcome { counters, trouble } = &self.outcome;
        let dropped = Cause::ALL.into_iter().map(|cause| (cause.word(), counters.dropped(cause)));
        let dropped: serde_json::Map<String, serde_json::Value> =
            dropped.map(|(word, count)| (word.to_owned(), count.into())).collect();
        let line = json!({
            "type": "delivery",
            "schema": "blkkin.delivery.v1",
            "destination": self.destination.to_string(),
            "format": self.destination.format().name(),
            "requests": requests,
            "found": counters.found,
            "pushed": counters.pushed,
            "delivered": counters.delivered,
            "dropped": dropped,
            "waiting": counters.waiting,
            "batches": counters.batches,
            "bytes": counters.bytes,
            "retries": counters.retries,
            "batches_refused_kept": counters.refused_kept,
            "batches_refused_not_kept": counters.refused_not_kept,
            "damages": counters.damages,
            "answers_odd": counters.answers_odd,
            "trouble": trouble,
        });
        format!("{line}\n")
    }

    /// Rows for what there is.
    fn table(&self) -> String {
        let counters = &self.outcome.counters;
        let mut table =
            Table::new(&[("SPANS", Align::Left), ("COUNT", Align::Right), ("NOTE", Align::Left)]);
        let queue = self.queue.as_ref().map(|folder| folder.display().to_string());
        let queue = queue.unwrap_or_default();
        let mut row = |what: String, count: u64, note: String| {
            table.row(vec![what.into(), count.to_string().into(), note.into()]);
        };
        if counters.found > 0 {
            row("found".to_owned(), counters.found, format!("waited in {queue}"));
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
            Cause::Refused => match (self.outcome.counters.refused_kept, &self.queue) {
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

    /// Tells the user what was not delivered; gives the status that follows.
    pub(super) fn report(&self) -> Exit {
        let Outcome { counters, trouble } = &self.outcome;
        let all = counters.found + counters.pushed;
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
