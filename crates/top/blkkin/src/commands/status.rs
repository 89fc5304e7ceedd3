//! `blkkin status`: sessions, programs and rings, with rates and losses.

mod agent_status;
mod rows;
mod show;

use super::completions;
use crate::conversation::{AgentArgs, check, print};
use crate::exit::{Error, Exit};
use crate::interrupt::Interrupt;
use crate::output::ColorChoice;
use crate::values;
use agent_status::{Status, collect_status, request_status};
use blkkin_control::Request;
use clap_complete::engine::ArgValueCandidates;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::{Duration, Instant};

/// Show sessions, programs and rings: rates and losses
///
/// Rates are averages over `--interval`. Each traced program has one ring per channel and CPU.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin status\n  \
        blkkin status web --watch                             until Ctrl-C\n  \
        blkkin status --rings                                 a line for each ring\n  \
        blkkin status --json | jq '.lost.events'",
    after_help = crate::help::LOSS_HELP
)]
pub(crate) struct Args {
    /// Show only this session
    #[arg(value_name = "SESSION", add = ArgValueCandidates::new(completions::sessions))]
    session: Option<String>,

    /// Show a line for each ring instead of each program and channel
    #[arg(long, help_heading = "Output")]
    rings: bool,

    /// Repeat after each interval, until Ctrl-C
    #[arg(short, long, help_heading = "Output")]
    watch: bool,

    /// Time over which rates are averaged
    #[arg(
        short,
        long,
        value_name = "SECONDS",
        default_value = "1",
        value_parser = values::seconds,
        help_heading = "Output"
    )]
    interval: Duration,

    /// When to colour the output
    #[arg(long, value_enum, value_name = "WHEN", default_value_t, help_heading = "Output")]
    color: ColorChoice,

    #[command(flatten)]
    agent: AgentArgs,
}

pub(crate) fn run(args: Args) -> Result<Exit, Error> {
    let request = Request::Status(args.session.clone());
    check(&request)?;
    let mut conversation = args.agent.connect()?;
    let mut before = request_status(&mut conversation, &request)?.rings;
    if !args.watch {
        thread::sleep(args.interval);
        let status = collect_status(&mut conversation, args.session.as_deref(), &request, before)?;
        print(&text(&status, &args))?;
        let has_lost = status.losses.iter().any(|loss| !loss.is_destroyed);
        return Ok(if has_lost { Exit::Lost } else { Exit::Ok });
    }
    let interrupt = Interrupt::listen()?;
    loop {
        if !sleep(args.interval, &interrupt) {
            return Ok(Exit::Interrupted);
        }
        let status = collect_status(&mut conversation, args.session.as_deref(), &request, before)?;
        let mut text = text(&status, &args);
        if !args.agent.json {
            text = match io::stdout().is_terminal() {
                // Moves the cursor to the top left and clears the screen.
                true => format!("\x1b[H\x1b[J{text}"),
                false => text + "\n",
            };
        }
        if !goes_on(crate::output::write(&text))? {
            return Ok(Exit::Ok);
        }
        before = status.rings;
    }
}

/// Returns true if output can continue, false if the reader of the pipe has closed it. Other write
/// errors are returned.
fn goes_on(wrote: io::Result<()>) -> io::Result<bool> {
    match wrote {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        wrote => wrote.map(|()| true),
    }
}

/// Sleeps for `time`; returns false if interrupted.
fn sleep(time: Duration, interrupt: &Interrupt) -> bool {
    const STEP: Duration = Duration::from_millis(20);
    let start = Instant::now();
    while !interrupt.is_set() {
        match time.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return true,
            Some(left) => thread::sleep(left.min(STEP)),
        }
    }
    false
}

fn text(status: &Status, args: &Args) -> String {
    let rows = rows::rows(status, args.rings);
    match args.agent.json {
        true => format!("{}\n", show::to_json(status, &rows, args.rings)),
        false => show::text(status, &rows, args.rings, args.color.applies(&io::stdout())),
    }
}
