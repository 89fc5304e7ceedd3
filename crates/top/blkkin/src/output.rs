//! Standard output: whether to colour it, and a quiet end when nobody reads it any more.

use std::fs::File;
use std::io::{self, IsTerminal};
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

/// Standard output without the library's line buffer, for those who write in large pieces.
pub(crate) fn raw_stdout() -> io::Result<File> {
    Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?))
}

/// Turns the error of a closed pipe into a quiet end.
pub(crate) fn unless_closed(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}
