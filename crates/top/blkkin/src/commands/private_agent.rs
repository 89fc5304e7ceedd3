//! Agent of one recording on a thread of this process, and the commands whose programs it records.

use crate::exit::Error;
use crate::losses;
use crate::output::agent_log;
use blkkin_agent::Background;
use blkkin_client::{Client, Timeouts};
use blkkin_control::address::VARIABLE;
use blkkin_control::{
    Channel, Events, Loss, NewChannel, Purpose, Request, Rotation, Selection, Session,
    SessionRotation, code,
};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum time that traced programs wait for the agent at their start, in milliseconds. The agent
/// already runs.
const WAIT_MS: &str = "2000";

/// Agent that serves only this process and the commands that it starts.
pub(crate) struct PrivateAgent {
    client: Client,
    background: Background,
}

impl PrivateAgent {
    /// Starts the agent, and connects to it as the program `name`.
    pub(crate) fn start(name: &str) -> Result<PrivateAgent, Error> {
        let failed = |error: io::Error| Error::failed(format!("cannot start an agent: {error}"));
        let background = Background::start(agent_log).map_err(failed)?;
        let sockets = [background.socket().to_owned()];
        let version = env!("CARGO_PKG_VERSION");
        let client = Client::connect(&sockets, name, version, Timeouts::default())?;
        Ok(PrivateAgent { client, background })
    }

    /// Returns the connection to the agent.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Returns the path of a file in the agent's directory, which only this user can enter and
    /// which is removed at the end.
    pub(crate) fn private_path(&self, name: &str) -> PathBuf {
        self.background.socket().with_file_name(name)
    }

    /// Returns the path of the agent's socket.
    pub(crate) fn socket(&self) -> &Path {
        self.background.socket()
    }

    /// Starts a recording session with one channel, which writes traces below `output`. The traces
    /// are divided into chunks if `rotation` is given.
    pub(crate) fn record(
        &mut self,
        session: &str,
        output: &Path,
        rotation: Option<Rotation>,
        is_direct: bool,
        channel: Channel,
        selection: Selection,
    ) -> Result<(), Error> {
        let name = || session.to_owned();
        let purpose = Purpose::Record;
        let output = Some(output.to_owned());
        let create = Request::CreateSession(Session { name: name(), purpose, output });
        let divide = rotation.map(|rotation| SessionRotation { session: name(), rotation });
        let others = [
            Request::CreateChannel(NewChannel { session: name(), channel }),
            Request::EnableEvents(Events { session: name(), channel: None, selection }),
            Request::StartSession(name()),
        ];
        let divide = divide.map(Request::DivideSession);
        let direct = is_direct.then(|| Request::WriteDirectly(name()));
        for request in [create].into_iter().chain(divide).chain(direct).chain(others) {
            self.client.request_all(&request)?;
        }
        Ok(())
    }

    /// Returns the command, in whose programs traced libraries find the agent.
    pub(crate) fn command(&self, words: &[OsString]) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env(VARIABLE, self.background.socket()).env("BLKKIN_WAIT", WAIT_MS);
        command
    }

    /// Stops and destroys a session, so that all events are written. Returns the losses.
    pub(crate) fn finish(&mut self, session: &str) -> Result<Vec<Loss>, Error> {
        match self.client.request_all(&Request::StopSession(session.to_owned())) {
            // The destroy request counts events that cannot be written.
            Err(blkkin_client::Error::Failed { failed, .. }) if failed.code == code::OUTPUT => {}
            stopped => drop(stopped?),
        }
        let replies = self.client.request_all(&Request::DestroySession(session.to_owned()))?;
        Ok(losses::from_replies(&replies))
    }

    /// Ends the agent, and removes its directory.
    pub(crate) fn end(self) -> Result<(), Error> {
        let PrivateAgent { client, background } = self;
        drop(client);
        let failed =
            |error: io::Error| Error::failed(format!("the agent did not end well: {error}"));
        background.end().map_err(failed)
    }
}
