//! Shared code of the commands that write traces: options, the rewriting, the final report.

use crate::exit::{self, Error, Exit};
use crate::input::{InputArgs, SelectArgs};
use crate::interrupt::{self, Interrupt};
use crate::output::{describe_losses, ignore_closed_pipe, own_command, plural, shell_word};
use crate::progress::ProgressLine;
use blkkin_reader::{Reading, Stats};
use blkkin_rewrite::{Form, Rewriter, Summary};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

/// Output of a command that writes traces.
#[derive(clap::Args, Debug)]
pub(crate) struct OutputArgs {
    /// Directory to write: new, or empty
    #[arg(short, long, value_name = "DIR", required = true)]
    output: PathBuf,

    /// Print the result as one JSON object
    #[arg(long, help_heading = "Output")]
    json: bool,
}

/// Writes the selected events of `input` as new traces below `output`. `select` is the selection,
/// with a flag that is set for times in UTC; `None` selects all events. `form` selects the CTF
/// version.
pub(crate) fn run(
    input: &InputArgs,
    select: Option<(&SelectArgs, bool)>,
    output: &OutputArgs,
    form: Form,
) -> Result<Exit, Error> {
    let opened = input.open()?;
    if opened.traces.is_empty() {
        let exit = exit::report_problems(&opened.problems);
        return Ok(exit);
    }
    // The number of lost events within the range is unknown, so the new trace contains the whole
    // loss.
    let mut reading = Reading::new(&opened.traces).losses_whole();
    if let Some((select, utc)) = select {
        let color = crate::output::ColorChoice::Auto.applies(&io::stderr());
        reading = select.resolve(&opened.traces, utc, color)?.apply(reading);
    }
    let interrupt = Interrupt::listen()?;
    interrupt::handle_file_size_signal()?;
    let asked = interrupt.clone();
    reading = reading.stop_when(move || asked.is_set());
    let asked = interrupt.clone();
    let (mut rewriter, refused) =
        Rewriter::new(&opened.traces, &output.output, form, move || asked.is_set())
            .map_err(failed)?;
    if refused.len() == opened.traces.len() {
        report(&refused);
        return Err(Error::failed("nothing was written"));
    }
    let line = ProgressLine::start(reading.progress(), reading.total_bytes(), false);
    let mut stats = reading.ordered(&mut rewriter);
    drop(line);
    let summary = rewriter
        .finish()
        .map_err(|error| failed(error).hint("what had been written so far was removed"))?;
    stats.problems.splice(0..0, opened.problems);
    print_summary(&summary, &stats, output)?;
    report(&refused);
    let exit = exit::report_problems(&stats.problems);
    Ok(match interrupt.is_set() {
        true => {
            let _ = writeln!(io::stderr(), "interrupted: what was read until then is written");
            Exit::Interrupted
        }
        false if !refused.is_empty() => Exit::Failed,
        false => exit,
    })
}

fn failed(error: blkkin_rewrite::Error) -> Error {
    let failed = Error::failed(error.to_string());
    match error.hint {
        Some(hint) => failed.hint(hint),
        None => failed,
    }
}

fn report(refused: &[blkkin_rewrite::Error]) {
    for error in refused {
        failed(error.clone()).report();
    }
}

fn print_summary(summary: &Summary, stats: &Stats, output: &OutputArgs) -> io::Result<()> {
    let Summary { traces, streams, packets, bytes } = summary;
    if output.json {
        let object = serde_json::json!({
            "output": output.output.display().to_string(),
            "traces": traces,
            "streams": streams,
            "events": stats.events,
            "packets": packets,
            "bytes": bytes,
            "events_lost": stats.events_lost,
            "events_lost_unknown": stats.events_lost_unknown,
            "packets_lost": stats.packets_lost,
            "problems": stats.problems.iter().map(ToString::to_string).collect::<Vec<_>>(),
        });
        return ignore_closed_pipe(writeln!(crate::output::stdout(), "{object}"));
    }
    let (events, packets) = (plural(stats.events, "event"), plural(*packets, "packet"));
    let mut err = crate::output::stderr();
    let megabytes = *bytes as f64 / 1e6;
    let path = output.output.display();
    let _ = writeln!(err, "{path}: {events} in {packets}, {megabytes:.1} MB");
    if let Some(lost) = describe_losses(stats) {
        let _ = writeln!(err, "lost by the tracer, as the new trace tells too: {lost}");
    }
    if io::stderr().is_terminal() {
        let (blkkin, path) = (own_command(), shell_word(&output.output));
        let _ = writeln!(err, "look at it with: {blkkin} view {path}");
    }
    Ok(())
}
