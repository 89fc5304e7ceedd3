//! Following of sources that grow: files until Ctrl-C, or a session of a relay until it ends.

use crate::exit::{self, Error};
use crate::input::InputArgs;
use crate::interrupt::Interrupt;
use crate::output::plural;
use crate::relay_credentials;
use blkkin_live::{Error as LiveError, Progress, Seek, Session, Url, Viewer};
use blkkin_reader::{Consumer, Follower, Reading, Source, Stats, TimeBase};
use std::time::Duration;

/// Options for sessions of a relay.
#[derive(clap::Args, Debug)]
pub(crate) struct RelayArgs {
    /// Begin a session at net://HOST with the next packet, as babeltrace2 does, or with the oldest
    /// one that the relay has [default: now]
    #[arg(long, value_enum, value_name = "WHERE", help_heading = "Input")]
    pub(crate) from: Option<From>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[allow(missing_docs, reason = "the names say it")]
pub(crate) enum From {
    Beginning,
    Now,
}

/// Sources that are followed.
pub(crate) enum Feed {
    Files(Vec<Source>, TimeBase),
    Relay(RelayFeed),
}

/// Session of a relay, and the progress at the last round.
pub(crate) struct RelayFeed {
    viewer: Viewer,
    url: Url,
    last: Option<Progress>,
}

/// Round of reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Set if this is the last round.
    pub(crate) is_last: bool,
    /// Time up to which the round delivers; `None` for everything.
    pub(crate) end_ns: Option<i64>,
}

/// Maximum time between two rounds.
const ROUND_TIME_MAX: Duration = Duration::from_millis(50);

impl Feed {
    /// Finds the sources of the command line; attaches to a session of a relay.
    pub(crate) fn open(
        input: &InputArgs,
        relay: &RelayArgs,
        time_base: TimeBase,
    ) -> Result<Feed, Error> {
        if let Some(url) = input.url()? {
            return open_session(url, relay.from.unwrap_or(From::Now), time_base).map(Feed::Relay);
        }
        if relay.from.is_some() {
            return Err(Error::usage("--from is for sessions of a relay")
                .hint("give net://HOST/host/NAME/SESSION, or leave --from out"));
        }
        let sources = input.sources()?;
        if sources.iter().any(|source| matches!(source, Source::Stdin { .. })) {
            return Err(Error::usage("--follow cannot read standard input")
                .hint("give the directory that the recording is written to"));
        }
        Ok(Feed::Files(sources, time_base))
    }

    /// Opens the sources for reading. Warns of those that cannot be read yet.
    pub(crate) fn follower(&self) -> Follower {
        let follower = match self {
            Feed::Files(sources, time_base) => Follower::with_time_base(sources, *time_base),
            Feed::Relay(relay) => Follower::new(&[relay.viewer.source()]),
        };
        // Warnings are reported with all other problems at the end.
        for problem in follower.problems().iter().filter(|problem| !problem.is_warning()) {
            exit::warn(&format!("{problem}; waiting for what may come"));
        }
        follower
    }

    /// Begins a round, which comes before [`Follower::refresh`]. Ctrl-C makes it the last one,
    /// after the relay has been told.
    pub(crate) fn begin_round(&mut self, interrupt: &Interrupt) -> Round {
        let Feed::Relay(relay) = self else {
            // The flag is read first, so that events recorded before it was set are still
            // delivered in the last round.
            return Round { is_last: interrupt.is_set(), end_ns: None };
        };
        if interrupt.is_set() {
            relay.viewer.stop();
        }
        let progress = relay.viewer.wait(relay.last, ROUND_TIME_MAX);
        relay.last = Some(progress);
        let end_ns = Some(progress.end_ns).filter(|_| !progress.has_ended);
        Round { is_last: progress.has_ended, end_ns }
    }

    /// Waits until the next round is due.
    pub(crate) fn wait(&self, follower: &Follower, interrupt: &Interrupt) {
        if matches!(self, Feed::Files(..)) && !interrupt.is_set() {
            follower.wait();
        }
    }

    /// Ends the following, after `events` were delivered, `late` of them out of order. Fails if
    /// the relay or its messages have ended it.
    pub(crate) fn conclude(self, events: u64, late: u64) -> Result<(), Error> {
        let Feed::Relay(RelayFeed { viewer, url, last }) = self else { return Ok(()) };
        if late > 0 {
            let late = plural(late, "event");
            exit::warn(&format!("{late} came too late, and are shown after later ones"));
        }
        let missing = last.map_or(0, |progress| progress.missing_packets);
        if missing > 0 {
            let missing = plural(missing, "packet");
            exit::warn(&format!("{missing} were no longer at the relay when they were asked for"));
        }
        match viewer.take_error() {
            None => Ok(()),
            Some(error) => {
                let came = plural(events, "event");
                Err(describe(&error, &url, &format!("{error} ({came} had come)")))
            }
        }
    }
}

impl Round {
    /// Delivers the events of the round.
    pub(crate) fn deliver(
        self,
        follower: &mut Follower,
        select: impl for<'r> FnOnce(Reading<'r>) -> Reading<'r>,
        consumer: &mut blkkin_live::Late<impl Consumer>,
    ) -> Stats {
        match self.end_ns {
            None => follower.deliver(select, consumer),
            Some(end_ns) => {
                let stats = follower.deliver_until(end_ns, select, consumer);
                consumer.end_round(end_ns);
                stats
            }
        }
    }
}

fn open_session(url: Url, from: From, time_base: TimeBase) -> Result<RelayFeed, Error> {
    if url.session.is_none() {
        return Err(Error::usage(format!("`{url}` has no session"))
            .hint(format!("`blkkin live ls {url}` lists the sessions, with their URLs")));
    }
    // Each stream has a file in memory.
    crate::limits::raise_descriptors();
    let seek = match from {
        From::Beginning => Seek::Beginning,
        From::Now => Seek::Last,
    };
    let credentials = relay_credentials::for_relay(url.is_secure)?;
    match Viewer::open(&url, credentials.as_ref(), seek, time_base) {
        Ok(viewer) => Ok(RelayFeed { viewer, url, last: None }),
        Err(error) => Err(failed(&error, &url)),
    }
}

/// Makes the error of a command that reads from a relay.
pub(crate) fn failed(error: &LiveError, url: &Url) -> Error {
    let failed = describe(error, url, &error.to_string());
    match error {
        LiveError::Lost { .. } if !url.is_secure => {
            failed.hint(format!("a relay with TLS is nets://{}", url.host))
        }
        _ => failed,
    }
}

fn describe(error: &LiveError, url: &Url, message: &str) -> Error {
    let failed = Error::failed(message);
    let create = format!("`lttng create NAME --live --set-url=net://{}`", url.host);
    if let LiveError::Connect { error, .. } = error
        && let Some(hint) = relay_credentials::hint(error).filter(|_| url.is_secure)
    {
        return failed.hint(hint);
    }
    match error {
        LiveError::Connect { .. } => failed.hint(format!(
            "start a relay there, such as lttng-relayd, or give the port of its viewers: \
             net://{}:PORT",
            url.host
        )),
        LiveError::NoSession { sessions, .. } if sessions.is_empty() => {
            failed.hint(format!("it has no sessions; {create} creates one"))
        }
        LiveError::NoSession { sessions, .. } => {
            failed.hint(format!("it has {}", names(sessions, url)))
        }
        LiveError::NotLive(_) => failed.hint(format!("a live session has a timer: {create}")),
        LiveError::Taken(_) => failed.hint("end the other one: a session has one viewer"),
        _ => failed,
    }
}

/// Maximum number of sessions in a hint.
const NAMES_MAX: usize = 10;

fn names(sessions: &[Session], url: &Url) -> String {
    let mut names: Vec<String> = sessions
        .iter()
        .map(|session| url.with_session(&session.host, &session.name).to_string())
        .collect();
    names.sort();
    names.dedup();
    let more = names.len().saturating_sub(NAMES_MAX);
    names.truncate(NAMES_MAX);
    match more {
        0 => names.join(", "),
        _ => format!("{} and {more} more", names.join(", ")),
    }
}
