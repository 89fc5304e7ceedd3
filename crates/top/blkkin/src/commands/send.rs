//! `blkkin send`: sends events or requests of a trace, or lines of text, to a server of Scribe's
//! protocol.

mod lines;
mod messages;
mod options;
mod trace;

use crate::exit::{self, Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::{ignore_closed_pipe, plural};
use blkkin_scribe::SenderCounts;
use messages::MessageSink;
use std::io::{self, Write};

pub(crate) use options::Args;

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    if args.category.as_deref().is_some_and(|category| category.trim().is_empty()) {
        return Err(Error::usage("--category is empty, and messages without one are thrown away"));
    }
    let interrupt = Interrupt::listen()?;
    let mut messages = MessageSink::new(&args, &interrupt);
    let done = match args.lines {
        true => lines::send(&args.input.paths, &mut messages),
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
