//! Process of a recorder: makes its session and its triggers, makes them again if they are gone,
//! and ends them.

use super::recorder::Recorder;
use crate::conversation::{AgentConnection, SessionDetails};
use crate::definition::{Definition, TriggerWords};
use crate::exit::{Error, Exit};
use crate::interrupt::on_signals;
use crate::losses;
use crate::output::{own_program, stderr};
use crate::service_manager::{self, watchdog_interval};
use blkkin_client::Timeouts;
use blkkin_control::{Activity, Request};
use serde_json::{Value, json};
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
    /// Session that this or an earlier process has made.
    made: MadeSession,
    trouble: Option<String>,
    /// Set once the session records and has its triggers.
    has_begun: bool,
    /// Set once the service manager knows that the process does its work.
    is_ready: bool,
}

/// Session that a recorder has made, as its state file has it. Without a definition, it has ended.
#[derive(Clone, Debug, Default)]
struct MadeSession {
    /// Text of the definition.
    definition: Option<String>,
    /// Time before the session was created, and the time at which the agent has created it, once it
    /// is known, in nanoseconds since 1970. They tell this session from others with the name.
    begun_ns: u64,
    created_ns: Option<u64>,
    /// Directory in which the session records.
    output: Option<PathBuf>,
}

impl MadeSession {
    fn from_json(state: &Value) -> MadeSession {
        MadeSession {
            definition: state["definition"].as_str().map(str::to_owned),
            begun_ns: state["begun_ns"].as_u64().unwrap_or(u64::MAX),
            created_ns: state["created_ns"].as_u64(),
            output: state["output"].as_str().map(PathBuf::from),
        }
    }

    /// Returns whether a session of the agent is this one.
    fn is(&self, session: &SessionDetails) -> bool {
        let created_ns = session.state.created_ns;
        match self.created_ns {
            Some(own) => own == created_ns,
            // A process has ended before it knew the time.
            None => self.definition.is_some() && created_ns >= self.begun_ns,
        }
    }

    /// Returns the names of the session's triggers.
    fn triggers(&self) -> Vec<String> {
        let definition = self.definition.as_ref().map(|text| Definition::from_text(text));
        let triggers = definition.and_then(Result::ok).map(|definition| definition.triggers);
        triggers.into_iter().flatten().map(|trigger| trigger.name).collect()
    }
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
    recorder.prepare()?;
    let (sender, wakes) = channel();
    send_signals(&sender).map_err(failed)?;
    let mut lock = recorder.lock().take()?;
    lock.set_ready().map_err(failed)?;
    // A change from now on is told by a signal.
    let definition = recorder.definition()?;
    let made = MadeSession::from_json(&recorder.state());
    let (trouble, has_begun, is_ready) = (None, false, false);
    let mut runner = Runner { recorder, definition, made, trouble, has_begun, is_ready };
    runner.save("starting");
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
            "definition": self.made.definition,
            "begun_ns": self.made.begun_ns,
            "created_ns": self.made.created_ns,
            "output": self.made.output.as_ref().map(|path| path.display().to_string()),
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
                    self.tell_ready();
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
        if let Err(error) = self.finish() {
            self.log(&format!("its session is not ended: {}", error.message()));
        }
        self.save("stopped");
        Ok(Exit::Ok)
    }

    /// Notes that the recorder records.
    fn begin(&mut self) {
        self.has_begun = true;
        self.tell_ready();
        if self.trouble.take().is_some() {
            self.log("records again");
            self.save("recording");
        }
    }

    /// Tells the service manager that the process does its work, also if that is to wait for the
    /// agent: others may wait for the manager.
    fn tell_ready(&mut self) {
        if !std::mem::replace(&mut self.is_ready, true) {
            self.notify(blkkin_sys::READY);
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
        let session = self.own_session(&mut agent).map_err(Trouble::Away)?;
        let is_current = self.made.definition.as_ref() == Some(&self.definition.to_text());
        match session {
            Some(session) if self.made.is(&session) && is_current => {
                self.go_on(&mut agent, &session).map_err(refused_or_away)
            }
            Some(session) if self.made.is(&session) => {
                self.made.created_ns = Some(session.state.created_ns);
                self.finish().map_err(refused_or_away)?;
                self.make(&mut agent).map_err(refused_or_away)
            }
            Some(_) => {
                let name = self.recorder.name();
                let what =
                    format!("the agent has a session `{name}` that the recorder did not make");
                let hint = format!("`blkkin session destroy {name}` destroys it");
                Err(Trouble::Refused(Error::failed(what).hint(hint)))
            }
            None => self.make(&mut agent).map_err(refused_or_away),
        }
    }

    /// Goes on with a session that is there.
    fn go_on(&mut self, agent: &mut AgentConnection, own: &SessionDetails) -> Result<(), Error> {
        let name = self.recorder.name();
        if self.has_begun {
            return match own.state.activity {
                Activity::Active => Ok(()),
                _ => Err(Error::failed("its session was stopped")
                    .hint(format!("`blkkin session start {name}` starts it"))),
            };
        }
        self.made.created_ns = Some(own.state.created_ns);
        self.made.output.clone_from(&own.state.session.output);
        if own.state.activity != Activity::Active {
            self.start(agent)?;
        }
        self.keep_triggers()?;
        self.log("continues");
        self.save("recording");
        Ok(())
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
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.made = MadeSession {
            definition: Some(self.definition.to_text()),
            begun_ns: u64::try_from(now.as_nanos()).unwrap_or(u64::MAX),
            created_ns: None,
            output: definition.session.output.clone(),
        };
        // A next process knows the session by this, whenever this one ends.
        self.save("starting");
        let begun = definition.make(agent).and_then(|_| {
            let own = self.own_session(agent)?;
            self.made.created_ns = own.as_ref().map(|session| session.state.created_ns);
            self.made.output = own.and_then(|session| session.state.session.output);
            self.start(agent)?;
            self.keep_triggers()
        });
        if let Err(error) = begun {
            let output = self.made.output.clone();
            let _ = self.finish();
            // Otherwise each attempt would leave a directory.
            output.into_iter().for_each(|output| drop(fs::remove_dir(output)));
            return Err(error);
        }
        let output = self.made.output.as_ref().map(|path| path.display().to_string());
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
            let name = self.trigger_name(name);
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            if self.trigger(&["start", &name]).is_err() {
                self.trigger(&[&["add", &name], &words[..]].concat())?;
            }
        }
        Ok(())
    }

    /// Returns the name of a trigger, which must not be that of another recorder's or of a user's.
    fn trigger_name(&self, name: &str) -> String {
        format!("{}-{name}", self.recorder.name())
    }

    fn trigger(&self, words: &[&str]) -> Result<(), Error> {
        let ran = own_program().and_then(|program| {
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

    fn rotate(&self) {
        let rotate = || {
            let mut agent = AgentConnection::open(TIMEOUTS)?;
            let own = self.own_session(&mut agent)?.filter(|session| self.made.is(session));
            if own.is_none() {
                return Err(Error::failed("its session is gone"));
            }
            agent.request(&Request::RotateSession(self.recorder.name().to_owned()))
        };
        if let Err(error) = rotate() {
            self.log(&format!("cannot be rotated: {}", error.message()));
        }
    }

    /// Ends the triggers and the session.
    fn finish(&mut self) -> Result<(), Error> {
        for name in self.made.triggers() {
            // One that was removed meanwhile needs no end.
            let _ = self.trigger(&["remove", &self.trigger_name(&name)]);
        }
        self.destroy()?;
        self.made = MadeSession { output: self.made.output.take(), ..MadeSession::default() };
        Ok(())
    }

    fn destroy(&self) -> Result<(), Error> {
        let mut agent = AgentConnection::open(TIMEOUTS)?;
        let session = self.own_session(&mut agent)?.filter(|session| self.made.is(session));
        let Some(session) = session else { return Ok(()) };
        let name = self.recorder.name().to_owned();
        if session.state.activity == Activity::Active {
            agent.stop_before_destroy(name.clone())?;
        }
        let replies = agent.request(&Request::DestroySession(name))?;
        self.log("its session has ended");
        losses::from_replies(&replies).iter().for_each(|loss| self.log(&losses::line(loss)));
        Ok(())
    }
}

/// Returns why a session could not be made: an agent that is gone by now has not refused it.
fn refused_or_away(error: Error) -> Trouble {
    match AgentConnection::open(TIMEOUTS) {
        Ok(_) => Trouble::Refused(error),
        Err(_) => Trouble::Away(error),
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
