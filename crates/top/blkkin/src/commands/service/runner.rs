//! Process of a recorder: makes its session and its triggers, makes them again if they are gone,
//! and ends them.

use super::recorder::Recorder;
use crate::conversation::{AgentConnection, SessionDetails};
use crate::definition::{Definition, TriggerWords};
use crate::exit::{Error, Exit};
use crate::interrupt::on_signals;
use crate::losses;
use crate::output::stderr;
use crate::service_manager::{self, watchdog_interval};
use blkkin_client::Timeouts;
use blkkin_control::{Activity, Request};
use serde_json::json;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR2};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Event for which the process waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wake {
    End,
    /// The file may have changed.
    Reload,
    Rotate,
}

/// Reason why nothing is recorded.
enum Trouble {
    /// The agent does not answer.
    Away(Error),
    /// It refuses the session, or a trigger cannot be made.
    Refused(Error),
}

struct Runner<'r> {
    recorder: &'r Recorder,
    definition: Definition,
    /// Time at which the agent has created the recorder's session, in nanoseconds since 1970. It
    /// tells this session from others with the name.
    created_ns: Option<u64>,
    /// Directory in which the session records, and since when it does, in seconds since 1970.
    output: Option<PathBuf>,
    since: Option<u64>,
    trouble: Option<String>,
    /// Set once the service manager knows that the recorder records.
    has_begun: bool,
}

/// Interval at which the session is looked for.
const LOOK_INTERVAL: Duration = Duration::from_secs(5);
/// Pause before an agent is looked for again that did not answer.
const AWAY_PAUSE: Duration = Duration::from_secs(1);
const TIMEOUTS: Timeouts =
    Timeouts { opening: Duration::from_secs(30), item: Duration::from_secs(30) };

/// Runs a recorder until a signal ends it.
pub(super) fn run(recorder: &Recorder) -> Result<Exit, Error> {
    let failed = |error: io::Error| Error::failed(format!("the recorder cannot run: {error}"));
    let definition = recorder.definition()?;
    recorder.prepare()?;
    let (sender, wakes) = channel();
    send_signals(&sender).map_err(failed)?;
    let mut lock = recorder.lock().take()?;
    let before = recorder.state();
    let mut runner = Runner {
        recorder,
        definition,
        created_ns: before["created_ns"].as_u64(),
        output: before["output"].as_str().map(PathBuf::from),
        since: before["since"].as_u64(),
        trouble: None,
        has_begun: false,
    };
    runner.save("starting");
    lock.set_ready().map_err(failed)?;
    runner.work(&wakes)
}

fn send_signals(sender: &Sender<Wake>) -> io::Result<()> {
    let wakes: [(&[i32], Wake); 3] =
        [(&[SIGTERM, SIGINT], Wake::End), (&[SIGHUP], Wake::Reload), (&[SIGUSR2], Wake::Rotate)];
    wakes.into_iter().try_for_each(|(signals, wake)| {
        let sender = sender.clone();
        on_signals(signals, move || {
            let _ = sender.send(wake);
        })
    })
}

impl Runner<'_> {
    fn log(&self, line: &str) {
        let now = jiff::Timestamp::now();
        let line =
            format!("{now:.3} recorder {}: {}\n", self.recorder.name(), line.replace('\n', " "));
        let _ = stderr().write_all(line.as_bytes());
    }

    /// Tells the service manager the state.
    fn notify(&self, state: &str) {
        service_manager::notify(state, |line| self.log(line));
    }

    fn save(&self, phase: &str) {
        let is_down = phase == "stopped";
        let state = json!({
            "schema": "blkkin.recorder.v1",
            "pid": if is_down { None } else { Some(std::process::id()) },
            "phase": phase,
            "created_ns": self.created_ns,
            "output": self.output.as_ref().map(|path| path.display().to_string()),
            "since": self.since,
            "trouble": self.trouble,
        });
        if let Err(error) = self.recorder.set_state(&state) {
            self.log(&format!("the state cannot be written: {error}"));
        }
    }

    /// Keeps the session and its triggers, until a signal ends it.
    fn work(&mut self, wakes: &Receiver<Wake>) -> Result<Exit, Error> {
        let interval = watchdog_interval().map_or(LOOK_INTERVAL, |most| most.min(LOOK_INTERVAL));
        loop {
            let pause = match self.look() {
                Ok(()) => {
                    self.begin();
                    interval
                }
                Err(Trouble::Refused(error)) if !self.has_begun => {
                    self.save("stopped");
                    return Err(error);
                }
                Err(Trouble::Refused(error)) => {
                    self.report(&error);
                    interval
                }
                Err(Trouble::Away(error)) => {
                    self.report(&error);
                    interval.min(AWAY_PAUSE)
                }
            };
            self.notify(blkkin_sys::ALIVE);
            match wakes.recv_timeout(pause) {
                Ok(Wake::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(Wake::Reload) => self.reload(),
                Ok(Wake::Rotate) => self.rotate(),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
        self.notify(blkkin_sys::STOPPING);
        self.finish();
        self.save("stopped");
        Ok(Exit::Ok)
    }

    /// Notes that the recorder records.
    fn begin(&mut self) {
        if !self.has_begun {
            self.has_begun = true;
            self.notify(blkkin_sys::READY);
        }
        if self.trouble.take().is_some() {
            self.log("records again");
            self.save("recording");
        }
    }

    fn report(&mut self, error: &Error) {
        let told = error.message().to_owned();
        if self.trouble.as_ref() != Some(&told) {
            self.log(&told);
            self.trouble = Some(told);
            self.save("waiting");
        }
    }

    /// Makes the session and its triggers, unless they are there.
    fn look(&mut self) -> Result<(), Trouble> {
        let mut agent = AgentConnection::open(TIMEOUTS).map_err(Trouble::Away)?;
        match self.own_session(&mut agent).map_err(Trouble::Away)? {
            Some(session) if Some(session.state.created_ns) == self.created_ns => {
                if session.state.activity == Activity::New {
                    // An earlier process has ended before it could start it.
                    self.start(&mut agent).map_err(Trouble::Refused)?;
                }
                if !self.has_begun {
                    self.keep_triggers().map_err(Trouble::Refused)?;
                    self.log("continues");
                    self.save("recording");
                }
                Ok(())
            }
            Some(_) => {
                let name = self.recorder.name();
                let what =
                    format!("the agent has a session `{name}` that the recorder did not make");
                let hint = format!("`blkkin session destroy {name}` destroys it");
                Err(Trouble::Refused(Error::failed(what).hint(hint)))
            }
            None => self.make(&mut agent).map_err(Trouble::Refused),
        }
    }

    /// Returns this user's session with the recorder's name.
    fn own_session(&self, agent: &mut AgentConnection) -> Result<Option<SessionDetails>, Error> {
        let (name, user) = (self.recorder.name(), blkkin_sys::user_id());
        let mut all = agent.sessions(None)?.into_iter();
        Ok(all.find(|one| one.state.session.name == name && one.state.owner == user))
    }

    fn make(&mut self, agent: &mut AgentConnection) -> Result<(), Error> {
        let mut definition = self.definition.clone();
        if let Some(base) = &self.definition.session.output {
            fs::create_dir_all(base).map_err(|error| {
                Error::failed(format!("cannot make {}: {error}", base.display()))
            })?;
            definition.session.output = Some(dated(base, self.recorder.name()));
        }
        definition.make(agent)?;
        self.since = SystemTime::now().duration_since(UNIX_EPOCH).ok().map(|since| since.as_secs());
        let made = self.own_session(agent)?;
        self.created_ns = made.as_ref().map(|session| session.state.created_ns);
        self.output = made.and_then(|session| session.state.session.output);
        // Otherwise a next process would not know the session.
        self.save("starting");
        if let Err(error) = self.start(agent).and_then(|()| self.keep_triggers()) {
            self.finish();
            return Err(error);
        }
        let output = self.output.as_ref().map(|path| path.display().to_string());
        self.log(&format!("records to {}", output.as_deref().unwrap_or("memory")));
        self.trouble = None;
        self.save("recording");
        Ok(())
    }

    fn start(&self, agent: &mut AgentConnection) -> Result<(), Error> {
        agent.request(&Request::StartSession(self.recorder.name().to_owned())).map(drop)
    }

    /// Adds the triggers, or starts those that are there.
    fn keep_triggers(&self) -> Result<(), Error> {
        for TriggerWords { name, words } in &self.definition.triggers {
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if self.trigger(&["start", name]).is_err() {
                self.trigger(&[&["add", name], &words[..]].concat())?;
            }
        }
        Ok(())
    }

    fn trigger(&self, words: &[&str]) -> Result<(), Error> {
        let ran = std::env::current_exe().and_then(|program| {
            Command::new(program)
                .arg("trigger")
                .args(words)
                .env_remove("NOTIFY_SOCKET")
                .stdin(Stdio::null())
                .output()
        });
        let ran =
            ran.map_err(|error| Error::failed(format!("triggers cannot be made: {error}")))?;
        if ran.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&ran.stderr);
        let why = text.lines().find_map(|line| line.strip_prefix("error: "));
        let name = words.get(1).copied().unwrap_or_default();
        Err(Error::failed(format!("trigger `{name}`: {}", why.unwrap_or("it cannot be made"))))
    }

    /// Reads the file again. If it is valid and has changed, another session replaces this one.
    fn reload(&mut self) {
        match self.recorder.definition() {
            Ok(definition) if definition == self.definition => self.log("its file has not changed"),
            Ok(definition) => {
                self.log("its file has changed; it begins anew");
                self.finish();
                self.definition = definition;
            }
            Err(error) => {
                self.log(&format!(
                    "goes on as before, since its file is wrong: {}",
                    error.message()
                ));
            }
        }
    }

    fn rotate(&mut self) {
        let rotate = Request::RotateSession(self.recorder.name().to_owned());
        let rotated = AgentConnection::open(TIMEOUTS).and_then(|mut agent| agent.request(&rotate));
        if let Err(error) = rotated {
            self.log(&format!("cannot be rotated: {}", error.message()));
        }
    }

    /// Ends the triggers and the session.
    fn finish(&mut self) {
        for TriggerWords { name, .. } in &self.definition.triggers {
            // One that was removed meanwhile needs no end.
            let _ = self.trigger(&["remove", name]);
        }
        match self.destroy() {
            Ok(()) => (self.created_ns, self.since) = (None, None),
            Err(error) => self.log(&format!("its session is not ended: {}", error.message())),
        }
    }

    fn destroy(&self) -> Result<(), Error> {
        let mut agent = AgentConnection::open(TIMEOUTS)?;
        let session = self.own_session(&mut agent)?;
        let is_own = |one: &SessionDetails| Some(one.state.created_ns) == self.created_ns;
        if !session.as_ref().is_some_and(is_own) {
            return Ok(());
        }
        let name = self.recorder.name().to_owned();
        agent.stop_before_destroy(name.clone())?;
        let replies = agent.request(&Request::DestroySession(name))?;
        self.log("its session has ended");
        losses::from_replies(&replies).iter().for_each(|loss| self.log(&losses::line(loss)));
        Ok(())
    }
}

/// Returns the path of a new directory for a session that begins now. Several may begin within a
/// second.
fn dated(base: &Path, name: &str) -> PathBuf {
    let path = base.join(format!("{name}-{}", jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")));
    let numbered = |number: u32| PathBuf::from(format!("{}-{number}", path.display()));
    let mut later = (2..).map(numbered);
    let is_new = |path: &PathBuf| path.symlink_metadata().is_err();
    Some(path.clone()).filter(is_new).or_else(|| later.find(is_new)).unwrap_or(path)
}
