//! `blkkin live ls`: a line for each session of a relay, with the URL to view it.

use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::live;
use crate::relay_credentials;
use crate::table::{Align, Table};
use blkkin_live::{Session, Url};
use std::collections::BTreeMap;

/// List the sessions of a relay, with the URLs to view them
///
/// A relay is `blkkin relay`, `lttng-relayd`, or another program with this protocol. Only sessions
/// with a live timer can be viewed. `lttng-relayd` permits one viewer of a session at a time.
#[derive(clap::Args, Debug)]
#[command(after_help = crate::help::RELAY_HELP)]
pub(super) struct Ls {
    /// Relay: net://HOST or net://HOST:PORT, nets:// for one with TLS, and net4:// or net6:// for
    /// one kind of address
    #[arg(value_name = "URL", default_value = "net://localhost", value_parser = parse)]
    relay: Url,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

fn parse(text: &str) -> Result<Url, String> {
    let url: Url = text.parse().map_err(|error: blkkin_live::UrlError| error.reason.to_owned())?;
    match url.session {
        None => Ok(url),
        Some(_) => Err(format!("a relay has no path: {}", url.relay())),
    }
}

pub(super) fn run(args: &Ls) -> Result<Exit, Error> {
    let credentials = relay_credentials::for_relay(args.relay.is_secure)?;
    let sessions = blkkin_live::list(&args.relay, credentials.as_ref());
    let sessions = joined(sessions.map_err(|error| live::failed(&error, &args.relay))?);
    let text = match args.json {
        true => json(&sessions, &args.relay),
        false if sessions.is_empty() => {
            note(&format!("the relay has no session ({})", args.relay));
            String::new()
        }
        false => lines(&sessions, &args.relay),
    };
    print(&text)?;
    Ok(Exit::Ok)
}

/// Joins entries with the same host and name, as one session of a traced machine can have several:
/// the viewer attaches to all of them.
fn joined(sessions: Vec<Session>) -> Vec<Session> {
    let mut joined: BTreeMap<(String, String), Session> = BTreeMap::new();
    for session in sessions {
        let key = (session.host.clone(), session.name.clone());
        let Some(first) = joined.get_mut(&key) else {
            joined.insert(key, session);
            continue;
        };
        first.live_timer_us = first.live_timer_us.max(session.live_timer_us);
        first.clients = first.clients.max(session.clients);
        first.streams = first.streams.saturating_add(session.streams);
    }
    joined.into_values().collect()
}

fn url(session: &Session, relay: &Url) -> Option<String> {
    let url = relay.with_session(&session.host, &session.name);
    Some(url.to_string()).filter(|_| session.live_timer_us > 0)
}

fn lines(sessions: &[Session], relay: &Url) -> String {
    let mut table = Table::new(&[
        ("HOST", Align::Left),
        ("SESSION", Align::Left),
        ("TIMER", Align::Right),
        ("VIEWERS", Align::Right),
        ("STREAMS", Align::Right),
        ("URL", Align::Left),
    ]);
    for session in sessions {
        let timer = match session.live_timer_us {
            0 => "not live".to_owned(),
            us => format!("{} s", f64::from(us) / 1e6),
        };
        table.row(vec![
            printable(&session.host).into(),
            printable(&session.name).into(),
            timer.into(),
            session.clients.to_string().into(),
            session.streams.to_string().into(),
            printable(&url(session, relay).unwrap_or_default()).into(),
        ]);
    }
    table.print(false)
}

/// Replaces control characters, which a terminal would obey.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

fn json(sessions: &[Session], relay: &Url) -> String {
    let sessions: Vec<_> = sessions
        .iter()
        .map(|session| {
            serde_json::json!({
                "host": session.host,
                "session": session.name,
                "live_timer_us": session.live_timer_us,
                "viewers": session.clients,
                "streams": session.streams,
                "url": url(session, relay),
            })
        })
        .collect();
    let object = serde_json::json!({
        "schema": "blkkin.live-sessions.v1",
        "relay": relay.to_string(),
        "sessions": sessions,
    });
    format!("{object}\n")
}
