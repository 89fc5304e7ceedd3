//! Options shared by the commands that read traces: paths, time range, filter, threads.

use crate::commands::completions;
use crate::conversation::AgentConnection;
use crate::exit::{self, Error};
use crate::output::ColorChoice;
use blkkin_client::Timeouts;
use blkkin_control::{Forwarding, Purpose};
use blkkin_live::Url;
use blkkin_reader::{BoundFilter, OpenTraces, Reading, Source, Trace};
use blkkin_text::time::{TIME_FORMS, TimePoint};
use clap_complete::engine::ArgValueCandidates;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Traces to read.
#[derive(clap::Args, Debug)]
pub(crate) struct InputArgs {
    /// Trace directories, directories that contain some, stream files, or `-` for standard input;
    /// for `view` and `spans --follow` also net://HOST/host/NAME/SESSION: a session of a
    /// relay, live
    #[arg(value_name = "PATH", required_unless_present = "session")]
    pub(crate) paths: Vec<PathBuf>,

    /// Read what this session of the agent has written so far; with --follow, also what it writes
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["paths", "metadata"],
        help_heading = "Input",
        add = ArgValueCandidates::new(completions::sessions)
    )]
    session: Option<String>,

    /// Metadata for standard input, if the stream does not start with it (cat metadata stream | …)
    #[arg(long, value_name = "FILE", help_heading = "Input")]
    metadata: Option<PathBuf>,

    /// Number of threads, for commands that decode in parallel [default: one for each CPU]
    #[arg(long, value_name = "N", help_heading = "Input")]
    threads: Option<usize>,
}

impl InputArgs {
    pub(crate) fn threads(&self) -> usize {
        let available = || std::thread::available_parallelism().map_or(1, |count| count.get());
        self.threads.unwrap_or_else(available).clamp(1, 256)
    }

    /// Finds and opens the traces at the paths of the command line. Prints a warning for each trace
    /// that may miss events.
    pub(crate) fn open(&self) -> Result<OpenTraces, Error> {
        let opened = blkkin_reader::open(&self.sources()?);
        opened.traces.iter().filter(|trace| is_cut_off(&trace.path)).for_each(warn_cut_off);
        Ok(opened)
    }

    /// Returns the URL of a relay's session, which is then the only source; `None` for paths.
    pub(crate) fn url(&self) -> Result<Option<Url>, Error> {
        let mut texts = self.paths.iter().filter_map(|path| path.to_str());
        let Some(text) = texts.find(|text| Url::is_url(text)) else { return Ok(None) };
        if self.paths.len() > 1 || self.metadata.is_some() {
            return Err(Error::usage(format!(
                "`{text}` cannot be read together with other sources"
            ))
            .hint("give it alone"));
        }
        match text.parse() {
            Ok(url) => Ok(Some(url)),
            Err(error) => Err(Error::usage(error.to_string())
                .hint("a session is net://HOST[:PORT]/host/NAME/SESSION")),
        }
    }

    /// Returns the sources to read: each path, or standard input for `-`.
    pub(crate) fn sources(&self) -> Result<Vec<Source>, Error> {
        if let Some(session) = &self.session {
            return output_of(session).map(|path| vec![Source::Path(path)]);
        }
        let is_stdin = |path: &PathBuf| path.as_os_str() == "-";
        if self.metadata.is_some() && !self.paths.iter().any(is_stdin) {
            return Err(Error::usage("--metadata is for standard input, which is not read")
                .hint("give `-` as a path, or leave --metadata out: directories have their own"));
        }
        if let Some(url) = self.url()? {
            return Err(Error::usage(format!("`{url}` is read while it is recorded")).hint(
                "`blkkin view` and `blkkin spans --follow` can do that; the relay has the trace on \
                 its disk, too",
            ));
        }
        let sources: Vec<Source> = self
            .paths
            .iter()
            .map(|path| match is_stdin(path) {
                true => Source::Stdin { metadata: self.metadata.clone() },
                false => Source::Path(path.clone()),
            })
            .collect();
        Ok(sources)
    }
}

/// Returns the directory to which a session of the agent writes its traces.
fn output_of(session: &str) -> Result<PathBuf, Error> {
    let details = AgentConnection::open(Timeouts::default())?.sessions(Some(session))?;
    let details = details.into_iter().next().ok_or_else(|| {
        Error::failed(format!("the agent tells nothing about session `{session}`"))
    })?;
    if details.state.session.purpose == Purpose::Snapshot {
        return Err(Error::failed(format!("session `{session}` has its events in memory"))
            .hint(format!("`blkkin view \"$(blkkin session snapshot {session})\"` shows them")));
    }
    if let Some(Forwarding { destination, .. }) = &details.forwarding
        && destination.is_spool
    {
        let host = destination.target.split(':').take(2).collect::<Vec<_>>().join(":");
        return Err(Error::failed(format!("the events of session `{session}` are at a relay"))
            .hint(format!("`blkkin live ls {host}` shows how to view it")));
    }
    details.state.session.output.ok_or_else(|| {
        Error::failed(format!("the agent does not tell where session `{session}` is written"))
    })
}

/// Name of the mark: an empty file that an agent creates in a trace and locks while it writes. At
/// the trace's end the agent removes the mark, unless the trace misses events.
const MARK: &str = ".recording";

/// Returns true if a trace may miss events: the mark exists, and no agent holds its lock.
fn is_cut_off(trace: &Path) -> bool {
    let path = trace.join(MARK);
    // Traces are untrusted: a file may be a FIFO, which blocks when opened.
    path.symlink_metadata().is_ok_and(|mark| mark.is_file())
        && File::open(path).is_ok_and(|mark| mark.try_lock_shared().is_ok())
}

fn warn_cut_off(trace: &Arc<Trace>) {
    exit::warn(&format!(
        "{} may miss events: its program or its agent ended without writing all of them",
        trace.path.display()
    ));
}

/// Events to select.
#[derive(clap::Args, Debug)]
pub(crate) struct SelectArgs {
    /// Only events from this time on: 12:34:56.7, '2026-11-21 12:34:56', seconds, +1.5s, -200ms
    #[arg(
        short,
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    pub(crate) begin: Option<String>,

    /// Only events up to this time
    #[arg(
        short,
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        help_heading = "Selection"
    )]
    pub(crate) end: Option<String>,

    /// Only events between two times
    #[arg(
        short,
        long,
        value_name = "BEGIN,END",
        allow_hyphen_values = true,
        conflicts_with_all = ["begin", "end"],
        help_heading = "Selection"
    )]
    pub(crate) timerange: Option<String>,

    /// Only events for which this is true: 'ret < 0 && name == "zipkin:*"'
    #[arg(long, value_name = "EXPRESSION", help_heading = "Selection")]
    pub(crate) filter: Option<String>,
}

impl SelectArgs {
    /// Resolves times and filter against these traces.
    pub(crate) fn resolve(
        &self,
        traces: &[Arc<Trace>],
        utc: bool,
        color: bool,
    ) -> Result<Selection, Error> {
        let Times { range, .. } = self.times(traces, utc)?;
        let filter = self.filter.as_ref().map(|text| BoundFilter::new(text, traces)).transpose();
        let filter = filter.map_err(|error| Error::usage(error.render(color)))?;
        Ok(Selection { range, filter })
    }

    /// Compiles the filter for a growing trace. A field that no event class has yet causes only a
    /// warning.
    pub(crate) fn growing_filter(
        &self,
        traces: &[Arc<Trace>],
        color: ColorChoice,
    ) -> Result<Option<BoundFilter>, Error> {
        let Some(text) = &self.filter else { return Ok(None) };
        let color = color.applies(&io::stderr());
        let filter = BoundFilter::of_growing(text, traces);
        let filter = filter.map_err(|error| Error::usage(error.render(color)))?;
        // Before there is a trace, no field can be known.
        if !traces.is_empty()
            && let Err(error) = filter.refuse_unknown(traces)
        {
            exit::warn(&format!("no event passes the filter yet: {error}"));
        }
        Ok(Some(filter))
    }

    /// Resolves the times of the command line against the time range of these traces.
    pub(crate) fn times(&self, traces: &[Arc<Trace>], utc: bool) -> Result<Times, Error> {
        let (begin, end) = match &self.timerange {
            None => (self.begin.as_deref(), self.end.as_deref()),
            Some(range) => {
                let range = range.trim_start_matches('[').trim_end_matches(']');
                let (begin, end) = range.split_once(',').ok_or_else(|| {
                    Error::usage(format!("`{range}` is not a range of time"))
                        .hint(format!("write BEGIN,END, each {TIME_FORMS}"))
                })?;
                (Some(begin), Some(end))
            }
        };
        let parse = |text: &str| TimePoint::parse(text, utc).map_err(Error::usage);
        let (begin, end) = (begin.map(parse).transpose()?, end.map(parse).transpose()?);
        if begin.is_none() && end.is_none() {
            return Ok(Times { range: Range::default(), are_final: true });
        }
        let span = Reading::new(traces).span();
        let (first, last) = span.unwrap_or((0, 0));
        let resolve = |point: TimePoint| point.resolve(first, last, utc);
        let (begin, end) = (begin.map(resolve), end.map(resolve));
        if matches!((begin, end), (Some(begin), Some(end)) if end < begin) {
            return Err(Error::usage("the time range ends before it begins"));
        }
        Ok(Times { range: (begin, end), are_final: span.is_some() })
    }
}

/// Optional start and optional end of a time range, in nanoseconds.
pub(crate) type Range = (Option<i64>, Option<i64>);

/// Time range given on the command line, converted to the traces' time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) range: Range,
    /// Set if `range` is final: no time is given, or a packet declares a time, so that relative
    /// times and times of day could be resolved.
    pub(crate) are_final: bool,
}

/// Time range and filter, resolved for the opened traces.
#[derive(Clone, Debug, Default)]
pub(crate) struct Selection {
    pub(crate) range: Range,
    pub(crate) filter: Option<BoundFilter>,
}

impl Selection {
    /// Restricts a reading to the selected events.
    pub(crate) fn apply<'r>(&self, reading: Reading<'r>) -> Reading<'r> {
        let (begin, end) = self.range;
        reading.range(begin, end).filter(self.filter.clone())
    }
}
