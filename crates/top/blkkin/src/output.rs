//! Standard output: whether to colour it, and a quiet end when nobody reads it any more; and
//! numbers in words.

use blkkin_reader::Stats;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;

/// When to colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum ColorChoice {
    /// On a terminal, unless NO_COLOR is set or TERM is dumb.
    #[default]
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

impl ColorChoice {
    /// Whether to colour what goes to `stream`.
    pub(crate) fn applies(self, stream: &impl IsTerminal) -> bool {
        let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        match self {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if set("NO_COLOR") => false,
            ColorChoice::Auto if std::env::var_os("CLICOLOR_FORCE").is_some_and(|v| v != "0") => {
                true
            }
            ColorChoice::Auto => {
                stream.is_terminal() && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
            }
        }
    }
}

/// How many characters a line of standard output has: what `COLUMNS` says, or else the terminal.
pub(crate) fn width() -> usize {
    let told = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal = || {
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok()?;
        Some(usize::from(size.ws_col)).filter(|columns| *columns > 0)
    };
    told.or_else(terminal).unwrap_or(100).clamp(20, 1000)
}

/// Whether the terminal can be expected to know more than ASCII: the first of these variables
/// that is set decides, as for the C library.
pub(crate) fn locale_is_utf8() -> bool {
    let set = |name: &&str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Standard output without the library's line buffer, for those who write in large pieces.
pub(crate) fn raw_stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Writes to standard output, at once.
pub(crate) fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Turns the error of a closed pipe into a quiet end.
pub(crate) fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// A number and what it counts.
pub(crate) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// What the tracer has lost; `None` if nothing.
pub(crate) fn lost(stats: &Stats) -> Option<String> {
    let unknown = |what: &str, count: u64| {
        format!("an unknown number of {what} at {}", plural(count, "place"))
    };
    let parts = [
        (stats.events_lost, plural(stats.events_lost, "event")),
        (stats.events_lost_unknown, unknown("events", stats.events_lost_unknown)),
        (stats.packets_lost, plural(stats.packets_lost, "packet")),
        (stats.packets_lost_unknown, unknown("packets", stats.packets_lost_unknown)),
    ];
    let parts: Vec<String> =
        parts.into_iter().filter(|(count, _)| *count > 0).map(|(_, text)| text).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
