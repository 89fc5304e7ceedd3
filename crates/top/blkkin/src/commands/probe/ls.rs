//! `blkkin probe ls`: probes of this machine by pattern, with their arguments.

use super::overview;
use crate::commands::completions::probes_from;
use crate::conversation::print;
use crate::exit::{self, Error, Exit};
use crate::output::message;
use blkkin_kernel::{
    ArgumentRole, FoundProbes, InabilityKind, ListedArgument, ListedProbe, Listing, ProbeKind,
};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::fmt::Write;
use std::io::{self, IsTerminal};

/// Maximum number of probes that are shown with their arguments on a terminal without `-v`.
const FEW: usize = 10;

/// List probes by name; without a pattern, the number of each kind
///
/// Kinds of names: syscall:NAME; SUBSYSTEM:EVENT (tracepoints); process:fork, exec and exit;
/// raw:NAME (tracepoints with the kernel's types); kprobe:FUNCTION and fentry:FUNCTION of the
/// kernel; uprobe:PROGRAM:SYMBOL and usdt:PROGRAM:PROVIDER:NAME; profile:HZ. A PROGRAM is a name, a
/// path, a library, or pid:PID.
#[derive(clap::Args, Debug)]
#[command(
    before_help = "Examples:\n  \
        blkkin probe ls                                what this machine has, by kind\n  \
        blkkin probe ls 'syscall:*at'                  one name a line\n  \
        blkkin probe ls '*unlink*'                     of all kinds\n  \
        blkkin probe ls -v 'block:*'                   with arguments and their types\n  \
        blkkin probe ls 'uprobe:bash:read*'            functions of a program\n  \
        blkkin probe ls 'usdt:libc:*'                  probes that its authors have put in\n  \
        blkkin probe ls --json 'syscall:*' | jq -r 'select(.arguments[].name == \"fd\").probe'",
    after_help = LS_HELP
)]
pub(super) struct Ls {
    /// Whole name of probes, in which `*` matches any characters
    #[arg(value_name = "PATTERN", add = ArgValueCompleter::new(complete))]
    pattern: Option<String>,

    /// Show arguments with their types, as on a terminal if at most ten probes match
    #[arg(short = 'v', long, requires = "pattern")]
    arguments: bool,

    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
}

/// Text after the options on the help page.
const LS_HELP: &str = "Exit status: 0 probes were found, 1 none or not all that might match (messages say why), 2 \
    wrong usage.\n`blkkin doctor` says how to enable kinds that are missing.";

/// Returns completion candidates for the beginning of a pattern.
fn complete(current: &OsStr) -> Vec<CompletionCandidate> {
    current.to_str().map(probes_from).unwrap_or_default()
}

pub(super) fn run(args: &Ls) -> Result<Exit, Error> {
    let listing = Listing::new();
    let Some(pattern) = &args.pattern else { return overview::run(&listing, args.json) };
    let found = listing.find(pattern);
    if found.probes.is_empty() {
        return Err(not_found(&listing, pattern, &found));
    }
    let is_few = found.probes.len() <= FEW && io::stdout().is_terminal();
    let mut unreadable = Vec::new();
    let text = match (args.json, args.arguments || is_few) {
        (false, false) => names(&found.probes),
        (is_json, _) => {
            let mut text = String::new();
            for probe in &found.probes {
                let arguments = listing.arguments(probe).unwrap_or_else(|inability| {
                    unreadable.push(format!("arguments of {}: {inability}", probe.name));
                    Vec::new()
                });
                match is_json {
                    true => text += &format!("{}\n", to_json(probe, &arguments)),
                    false => describe(probe, &arguments, &mut text),
                }
            }
            text
        }
    };
    print(&text)?;
    // What the kernel does not have is no error beside what it has.
    let unknown = found.inabilities.iter().filter(|(_, one)| one.kind != InabilityKind::Absent);
    let unknown = unknown.map(|(kind, one)| format!("{} is not listed: {one}", kind.word()));
    unreadable.extend(unknown);
    unreadable.iter().for_each(|text| exit::warn(text));
    Ok(if unreadable.is_empty() { Exit::Ok } else { Exit::Failed })
}

fn names(probes: &[ListedProbe]) -> String {
    let mut text = String::new();
    for probe in probes {
        text += &message(&probe.name);
        text.push('\n');
    }
    text
}

/// Appends a probe's name, and its arguments in aligned columns.
fn describe(probe: &ListedProbe, arguments: &[ListedArgument], text: &mut String) {
    text.push_str(&message(&probe.name));
    text.push('\n');
    if let Some(demangled) = &probe.demangled {
        let _ = writeln!(text, "    {}", message(demangled));
    }
    let width = |text: &str| text.chars().count();
    let widest = |part: fn(&ListedArgument) -> &str| {
        // A few types are very long; they do not move the names of all others.
        let widths = arguments.iter().map(|one| width(part(one)));
        widths.filter(|width| *width <= TYPE_WIDTH_MAX).max().unwrap_or(0)
    };
    let type_width = widest(|one| &one.type_text);
    let name_width = widest(|one| &one.name);
    for argument in arguments {
        let (type_text, name) = (message(&argument.type_text), message(&argument.name));
        let note = match argument.role {
            ArgumentRole::Argument => "",
            ArgumentRole::Result => "result",
            ArgumentRole::Duration => "nanoseconds",
        };
        let line = format!("    {type_text:type_width$}  {name:name_width$}  {note}");
        text.push_str(line.trim_end());
        text.push('\n');
    }
}

/// Maximum width of the column of types.
const TYPE_WIDTH_MAX: usize = 40;

fn to_json(probe: &ListedProbe, arguments: &[ListedArgument]) -> Value {
    let with_role = |is_wanted: fn(ArgumentRole) -> bool| -> Vec<Value> {
        let wanted = arguments.iter().filter(|one| is_wanted(one.role));
        wanted.map(|one| json!({"name": one.name, "type": one.type_text})).collect()
    };
    json!({
        "probe": probe.name,
        "kind": probe.kind.word(),
        "demangled": probe.demangled,
        "arguments": with_role(|role| role == ArgumentRole::Argument),
        "results": with_role(|role| role != ArgumentRole::Argument),
    })
}

/// Returns the error for a pattern that matches nothing, with the nearest names.
fn not_found(listing: &Listing, pattern: &str, found: &FoundProbes) -> Error {
    // If the pattern names one kind, its inability is the reason.
    if let [(kind, inability)] = &*found.inabilities
        && (pattern.starts_with(&format!("{}:", kind.word())) || *kind == ProbeKind::Tracepoint)
    {
        let error = Error::failed(format!("`{pattern}` cannot be listed: {inability}"));
        let is_of_program = matches!(kind, ProbeKind::UserFunction | ProbeKind::Usdt);
        return match is_of_program {
            true => error,
            false => error.hint("`blkkin doctor` says what is missing, and how to enable it"),
        };
    }
    for (kind, inability) in &found.inabilities {
        exit::warn(&format!("{} is not listed: {inability}", kind.word()));
    }
    let error = Error::failed(format!("no probe matches `{pattern}`"));
    let near: Vec<String> =
        listing.nearest(pattern).iter().map(|name| format!("`{name}`")).collect();
    match near.is_empty() {
        true => error.hint("`blkkin probe ls` shows the kinds; `*` matches any characters"),
        false => error.hint(format!("did you mean {}?", near.join(", "))),
    }
}
