//! Notices of a trigger: lines for the system's log, and JSON for web addresses.

use super::receiver::{Receiver, SETTINGS};
use super::schedule::Cause;
use blkkin_http::Server;
use serde_json::{Value, json};
use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

const SYSLOG: &str = "/dev/log";
/// Facility `daemon` and severity `warning`.
const PRIORITY: u32 = 3 * 8 + 4;
/// Number of attempts to reach a web address, and pause between them.
const ATTEMPTS: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);
/// Maximum size in bytes of the event in a line of the log.
const EVENT_SIZE_MAX: usize = 500;

/// Action of a trigger, for its receivers.
#[derive(Debug)]
pub(super) struct Notice<'a> {
    pub(super) trigger: &'a str,
    pub(super) cause: &'a Cause,
    pub(super) snapshot: Option<&'a Path>,
}

impl Notice<'_> {
    /// Returns a sentence for people.
    fn text(&self) -> String {
        let Notice { trigger, cause, snapshot } = self;
        let mut event = cause.text.clone();
        event.truncate(event.floor_char_boundary(EVENT_SIZE_MAX));
        let more = match cause.events {
            0 | 1 => String::new(),
            events => format!(" and {} more", events - 1),
        };
        let snapshot =
            snapshot.map(|path| format!("; snapshot: {}", path.display())).unwrap_or_default();
        format!("trigger {trigger} acted: {event}{more}{snapshot}")
    }

    fn to_json(&self, time: jiff::Timestamp) -> Value {
        let Notice { trigger, cause, snapshot } = self;
        let event = serde_json::from_str(&cause.text).unwrap_or_else(|_| json!(cause.text));
        json!({
            "schema": "blkkin.notice.v1",
            "text": self.text(),
            "trigger": trigger,
            "host": rustix::system::uname().nodename().to_string_lossy(),
            "time": format!("{time:.3}"),
            "events": cause.events,
            "event": event,
            "snapshot": snapshot.map(|path| path.display().to_string()),
        })
    }

    /// Sends the notice. A web address is tried again, until `stop` is set.
    pub(super) fn send(&self, to: &Receiver, stop: &AtomicBool) -> Result<(), String> {
        match to {
            Receiver::Syslog => self
                .log(Path::new(SYSLOG))
                .map_err(|error| format!("the system's log takes no notice: {error}")),
            Receiver::Web { server, path } => {
                let body = self.to_json(jiff::Timestamp::now()).to_string();
                let mut attempts = 1;
                loop {
                    let Err(why) = post(server, path, &body) else { return Ok(()) };
                    if attempts >= ATTEMPTS || stop.load(Ordering::Relaxed) {
                        return Err(format!("{server} takes no notice: {why}"));
                    }
                    attempts += 1;
                    thread::sleep(PAUSE);
                }
            }
        }
    }

    fn log(&self, socket: &Path) -> io::Result<()> {
        let text: String =
            self.text().chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
        let line = format!("<{PRIORITY}>blkkin-trigger[{}]: {text}", std::process::id());
        UnixDatagram::unbound()?.send_to(line.as_bytes(), socket).map(drop)
    }
}

fn post(server: &str, path: &str, body: &str) -> Result<(), String> {
    let answer = Server::at(server, &SETTINGS)?.post_json(path, body)?;
    match answer.status.is_success() {
        true => Ok(()),
        false => Err(format!("it answers {}", answer.status)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(text: &str, events: u64) -> Cause {
        Cause { text: text.to_owned(), events, ..Cause::default() }
    }

    #[test]
    fn notices_are_lines_and_objects() {
        let cause = cause("{\"name\":\"a:b\"}\n", 3);
        let notice =
            Notice { trigger: "slow", cause: &cause, snapshot: Some(Path::new("/data/s-1")) };
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("log");
        let log = UnixDatagram::bind(&path).expect("a socket");
        notice.log(&path).expect("sent");
        let mut bytes = [0; 1000];
        let size = log.recv(&mut bytes).expect("a line");
        let line = String::from_utf8_lossy(&bytes[..size]).into_owned();
        let (start, rest) = line.split_once("]: ").expect("a head");
        assert_eq!(start, format!("<28>blkkin-trigger[{}", std::process::id()));
        let told = "trigger slow acted: {\"name\":\"a:b\"}  and 2 more; snapshot: /data/s-1";
        assert_eq!(rest, told);
        let json = notice.to_json(jiff::Timestamp::UNIX_EPOCH);
        assert_eq!((&json["event"]["name"], &json["events"]), (&json!("a:b"), &json!(3)));
        assert_eq!(json["time"], "1970-01-01T00:00:00.000Z");
    }
}
