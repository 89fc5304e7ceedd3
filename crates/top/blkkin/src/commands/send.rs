//! `blkkin send`: sends events or requests of a trace, or lines of text, to a server of Scribe's
//! protocol.

mod lines;
mod trace;

use crate::exit::{self, Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use crate::interrupt::Interrupt;
use crate::output::{ignore_closed_pipe, plural};
use blkkin_scribe::{ClientOptions, DeliveryError, Entry, Sender, SenderCounts, SenderOptions};
use std::io::{self, Write};
use std::ops::ControlFlow;
use std::time::Duration;

/// Send events, requests or lines to a server of Scribe's protocol
///
/// Each event becomes a message: the JSON object that `blkkin view --json` prints, in the category
/// of your choice; losses too. With --spans, each span of the requests that `blkkin spans` shows
/// becomes a message, as Zipkin's collectors read it (thrift, base64, category zipkin). With
/// --lines, each line of a text becomes a message.
///
/// A batch is sent again until the server accepts it, or until --patience is over. If the
/// connection breaks during a batch, its messages may arrive twice; the number of failed attempts
/// is reported at the end.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin send --category trace scribe://localhost ~/lttng-traces/my-session\n  \
        blkkin send --category slow --filter 'ret < 0' scribe://collector:1463 TRACE\n  \
        blkkin send --spans --follow scribe://zipkin:9410 ~/lttng-traces/my-session   as they become complete\n  \
        tail -f log | blkkin send --lines --category log scribe://localhost -",
    after_help = crate::help::EXIT_HELP
)]
pub(crate) struct Args {
    /// The server: scribe://HOST or scribe://HOST:PORT; the default port is 1463
    #[arg(value_name = "URL", value_parser = server)]
    server: String,

    #[command(flatten)]
    input: InputArgs,

    #[command(flatten)]
    select: SelectArgs,

    /// Category of all messages
    #[arg(long, value_name = "NAME", required_unless_present = "spans")]
    category: Option<String>,

    /// Send requests, span by span [default category: zipkin]
    #[arg(long, conflicts_with = "lines")]
    spans: bool,

    /// Read PATHs as text files and send each line as a message; `-` is standard input
    #[arg(long, conflicts_with_all = ["begin", "end", "timerange", "filter", "follow", "metadata"])]
    lines: bool,

    /// Keep reading while the recording grows, until Ctrl-C
    #[arg(long, help_heading = "Input")]
    follow: bool,

    /// Give up when no batch could be sent for this many seconds; 0: never
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = crate::values::patience,
        default_value = "60"
    )]
    patience: Duration,

    /// Print the totals as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,

    /// Read times in UTC instead of the local time zone
    #[arg(long, visible_alias = "clock-utc", help_heading = "Times")]
    clock_gmt: bool,
}

/// Parses a URL of Scribe's protocol; returns `host:port`.
pub(super) fn server(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is not of the form scribe://HOST[:PORT]");
    let rest = text.strip_prefix("scribe://").ok_or_else(wrong)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port: u16 = port.parse().map_err(|_| format!("there is no port `{port}`"))?;
            (host, port)
        }
        _ => (rest, blkkin_scribe::PORT),
    };
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || is_bare_v6 || host.contains(['/', '@', ' ']) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

/// Time after Ctrl-C in which messages are still sent. Lines and growing traces are still read
/// meanwhile.
const GRACE: Duration = Duration::from_secs(1);

/// Sender of messages, and their category.
struct MessageSink {
    sender: Sender<'static>,
    category: Vec<u8>,
    gave_up: Option<DeliveryError>,
    interrupt: Interrupt,
}

impl MessageSink {
    fn new(args: &Args, interrupt: &Interrupt) -> MessageSink {
        let client = ClientOptions::default();
        let patience = args.patience;
        let options = SenderOptions { client, patience, ..SenderOptions::default() };
        let asked = interrupt.clone();
        let sender = Sender::new(args.server.as_str(), options, move || asked.is_set_since(GRACE));
        let usual = if args.spans { "zipkin" } else { "" };
        let category = args.category.as_deref().unwrap_or(usual).as_bytes().to_vec();
        MessageSink { sender, category, gave_up: None, interrupt: interrupt.clone() }
    }

    fn push(&mut self, message: &[u8]) -> ControlFlow<()> {
        let entry = Entry { category: &self.category, message };
        if self.gave_up.is_none() {
            self.gave_up = self.sender.push(entry).err();
        }
        self.flow()
    }

    fn flush(&mut self) -> ControlFlow<()> {
        if self.gave_up.is_none() {
            self.gave_up = self.sender.flush().err();
        }
        self.flow()
    }

    /// Returns `Break` after the sender gave up, or [`GRACE`] after Ctrl-C.
    fn flow(&self) -> ControlFlow<()> {
        match self.gave_up.is_some() || self.interrupt.is_set_since(GRACE) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if args.category.as_deref().is_some_and(|category| category.trim().is_empty()) {
        return Err(Error::usage("--category is empty, and messages without one are thrown away"));
    }
    let interrupt = Interrupt::listen()?;
    let mut messages = MessageSink::new(&args, &interrupt);
    let done = match args.lines {
        true => lines::send(&args, &mut messages),
        false => trace::send(&args, &mut messages, &interrupt),
    };
    // Messages that were already read are sent, even after a failure.
    let _ = messages.flush();
    let counts = messages.sender.counts();
    let unsent = messages.gave_up.as_ref().map_or(0, |gave_up| gave_up.messages);
    print_totals(&args, &counts, unsent)?;
    if counts.too_large > 0 {
        let count = plural(counts.too_large, "message");
        exit::warn(&format!("{count} left out that were larger than a server takes"));
    }
    if let Some(gave_up) = messages.gave_up {
        let count = plural(gave_up.messages, "message");
        let told = Error::failed(format!("{}: {gave_up}; {count} not sent", args.server));
        let exit = told.hint("see --patience; what follows was not sent either").report();
        return Ok(if interrupt.is_set() { Exit::Interrupted } else { exit });
    }
    let exit = done?;
    Ok(match (interrupt.is_set(), counts.too_large) {
        (true, _) => Exit::Interrupted,
        (_, 0) => exit,
        _ => Exit::Failed,
    })
}

fn print_totals(args: &Args, counts: &SenderCounts, unsent: u64) -> io::Result<()> {
    let SenderCounts { messages, bytes, batches, too_large, tries_later, broken } = *counts;
    if args.json {
        let object = serde_json::json!({
            "server": args.server,
            "category": args.category.as_deref().unwrap_or("zipkin"),
            "messages": messages,
            "bytes": bytes,
            "batches": batches,
            "unsent": unsent,
            "too_large": too_large,
            "tries_later": tries_later,
            "broken": broken,
        });
        return ignore_closed_pipe(writeln!(crate::output::stdout(), "{object}"));
    }
    let sent = plural(messages, "message");
    let batches = format!("{batches} batch{}", if batches == 1 { "" } else { "es" });
    let megabytes = bytes as f64 / 1e6;
    exit::note(&format!("{}: sent {sent} in {batches}, {megabytes:.1} MB", args.server));
    if tries_later > 0 {
        exit::note(&format!("the server wanted to be asked later: {tries_later} times"));
    }
    if broken > 0 {
        let what = plural(broken, "connection");
        exit::note(&format!("{what} failed; what was on its way then may have come twice"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::server;

    #[test]
    fn urls() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(server(text).ok().as_deref(), expected, "{text}");
        };
        check("scribe://localhost", Some("localhost:1463"));
        check("scribe://localhost/", Some("localhost:1463"));
        check("scribe://10.0.0.1:9410", Some("10.0.0.1:9410"));
        check("scribe://[::1]:9410", Some("[::1]:9410"));
        check("scribe://[::1]", Some("[::1]:1463"));
        check("scribe://::1", None);
        check("scribe://", None);
        check("scribe://:1463", None);
        check("scribe://a:port", None);
        check("scribe://a:99999", None);
        check("scribe://a/b", None);
        check("http://localhost", None);
        check("localhost:1463", None);
    }
}
