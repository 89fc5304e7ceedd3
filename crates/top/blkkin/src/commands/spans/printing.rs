//! Selection and output of requests: as trees, as JSON, or through an exporter.

use super::delivery::Delivery;
use super::options::Args;
use crate::exit::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::{EscapedOutput, locale_is_utf8, raw_stdout, width};
use blkkin_ctf::schema::ClockOrigin;
use blkkin_reader::Trace;
use blkkin_spans::{Request, Sink};
use blkkin_text::requests::json::{self, End};
use blkkin_text::requests::{Options, TreePrinter};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Sink of requests that prints or sends them.
#[derive(Debug)]
pub(super) struct Printing {
    out: EscapedOutput<std::fs::File>,
    /// Formatted output that is not written yet.
    text: Vec<u8>,
    wrote: io::Result<()>,
    form: Form,
    service: Option<String>,
    min_duration: u64,
    limit: Option<u64>,
    shown: u64,
    /// Set if the own time of a printed span is known.
    has_own_time: bool,
    interrupt: Interrupt,
    /// Maximum time after Ctrl-C in which requests are still printed or sent.
    grace: Duration,
    is_follow: bool,
}

#[derive(Debug)]
enum Form {
    /// Trees as text. The printer is created with the first request after each
    /// [`begin`](Printing::begin), when the clocks of the traces are known.
    Tree(Options, Option<TreePrinter>),
    Json,
    /// Delivery of spans to another system. The flag is set for totals in JSON.
    Delivery(Box<Delivery>, bool),
}

/// Size in bytes at which buffered output is written to standard output.
const CHUNK: usize = 64 << 10;

impl Printing {
    pub(super) fn new(args: &Args, interrupt: &Interrupt) -> Result<Printing, Error> {
        let options = Options {
            color: args.color.applies(&io::stdout()),
            ascii: args.ascii || !locale_is_utf8(),
            width: width(),
            annotations: args.annotations,
            kernel: args.kernel,
            utc: args.clock_gmt,
            absolute: true,
        };
        let form = match Delivery::open(&args.to, args.follow, interrupt)? {
            Some(delivery) => Form::Delivery(Box::new(delivery), args.json),
            None if args.json => Form::Json,
            None => Form::Tree(options, None),
        };
        Ok(Printing {
            out: raw_stdout()?,
            text: Vec::new(),
            wrote: Ok(()),
            form,
            service: args.service.clone(),
            min_duration: args.min_duration.unwrap_or(0),
            limit: args.limit,
            shown: 0,
            has_own_time: false,
            interrupt: interrupt.clone(),
            grace: if args.follow { Duration::from_secs(1) } else { Duration::ZERO },
            is_follow: args.follow,
        })
    }

    /// Writes the traces as a line of JSON, or selects absolute times for trees if the clocks
    /// permit. `--follow` calls this method again for new traces.
    pub(super) fn begin(&mut self, traces: &[Arc<Trace>]) {
        match &mut self.form {
            Form::Json => json::begin(&mut self.text, traces.iter().map(|trace| &**trace)),
            Form::Tree(options, printer) => {
                let mut clocks = traces.iter().flat_map(|trace| &trace.schema().clocks);
                options.absolute = clocks.all(|clock| clock.origin == ClockOrigin::UnixEpoch);
                *printer = None;
            }
            Form::Delivery(..) => {}
        }
    }

    /// Writes the totals as JSON, or waits for the delivery and writes its totals. Trees have no
    /// totals.
    pub(super) fn end(&mut self, end: &End<'_>) {
        match &mut self.form {
            Form::Tree(..) => {}
            Form::Json => json::end(&mut self.text, end),
            Form::Delivery(delivery, is_json) => delivery.end(*is_json, self.shown, &mut self.text),
        }
        self.flush();
    }

    /// Reports spans that were not delivered; returns the exit status.
    pub(super) fn report_delivery(&self) -> Exit {
        match &self.form {
            Form::Delivery(delivery, _) => delivery.report(),
            Form::Tree(..) | Form::Json => Exit::Ok,
        }
    }

    /// Returns the number of requests that were printed or passed to the exporter.
    pub(super) fn shown(&self) -> u64 {
        self.shown
    }

    /// Returns true if the own time of a span that was printed or sent is known.
    pub(super) fn has_own_time(&self) -> bool {
        self.has_own_time
    }

    /// Returns true if a write has failed, the grace time after Ctrl-C is over, the limit is
    /// reached, or the delivery's queue accepts no more spans.
    pub(super) fn is_over(&self) -> bool {
        self.wrote.is_err()
            || self.interrupt.is_set_since(self.grace)
            || self.limit.is_some_and(|limit| self.shown >= limit)
            || matches!(&self.form, Form::Delivery(delivery, _) if delivery.is_over())
    }

    /// Writes the buffered output, and flushes the delivery.
    pub(super) fn flush(&mut self) {
        if let Form::Delivery(delivery, _) = &mut self.form {
            delivery.flush();
        }
        if self.wrote.is_ok() {
            self.wrote = self.out.write_all(&self.text);
        }
        self.text.clear();
    }

    /// Returns the result of writing so far, and resets it.
    pub(super) fn take_error(&mut self) -> io::Result<()> {
        std::mem::replace(&mut self.wrote, Ok(()))
    }

    fn is_wanted(&self, request: &Request<'_>) -> bool {
        request.duration_ns() >= self.min_duration
            && self.service.as_deref().is_none_or(|service| request.has_service(service))
    }

    fn print(&mut self, request: &Request<'_>) {
        match &mut self.form {
            Form::Json => json::request(&mut self.text, request),
            Form::Tree(options, printer) => {
                let mut text = String::new();
                if self.shown > 0 {
                    text.push('\n');
                }
                printer.get_or_insert_with(|| TreePrinter::new(*options)).print(&mut text, request);
                self.text.extend_from_slice(text.as_bytes());
            }
            Form::Delivery(delivery, _) => delivery.request(request),
        }
        self.shown += 1;
        self.has_own_time |= request.steps.iter().any(|step| step.own.is_some());
    }
}

impl Sink for Printing {
    fn request(&mut self, request: &Request<'_>) -> ControlFlow<()> {
        if self.is_over() {
            return ControlFlow::Break(());
        }
        if self.is_wanted(request) {
            self.print(request);
        }
        if self.text.len() >= CHUNK || (self.is_follow && !matches!(self.form, Form::Delivery(..)))
        {
            self.flush();
        }
        if self.is_over() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}
