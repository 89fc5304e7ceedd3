//! A command's side of the conversation with the node daemon: finds it, says who asks, and gives
//! what it answers to a request, an item at a time. Start at [`Client`].
//!
//! Nothing here waits for longer than it was told to, whatever the daemon does, and nothing that it
//! says is believed: an [`Error`] tells what went wrong, with which daemon, and what to do.

mod connection;
mod error;
mod replies;

pub use error::Error;
pub use replies::Replies;

use blkkin_control::address::Surroundings;
use blkkin_control::{
    Answer, Decoder, Fault, Hello, Opening, Received, Reply, Request, Role, Version, Welcome,
    encode,
};
use connection::{Connection, Deadline};
use std::env;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// For a daemon to take a connection and to say whether it is welcome.
    pub opening: Duration,
    /// For each item of a reply.
    pub item: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { opening: Duration::from_secs(5), item: Duration::from_secs(30) }
    }
}

/// Where a daemon may listen that is there for this process, in the order in which to try.
pub fn addresses() -> Vec<PathBuf> {
    Surroundings::new(blkkin_sys::user_id(), env::var_os).candidates()
}

/// Whether a request keeps to the limits, so that it can be sent. Asks nobody.
pub fn check(request: &Request) -> Result<(), Fault> {
    encode(request, &mut Vec::new())
}

/// A conversation with a daemon.
///
/// ```no_run
/// use blkkin_client::{Client, Patience, addresses};
/// use blkkin_control::{Reply, Request};
///
/// let mut client = Client::connect(&addresses(), "blkkin", "0.1.0", Patience::default())?;
/// for reply in client.ask(&Request::ListSessions(None))? {
///     let Reply::Session(state) = reply? else { continue };
///     println!("{}", state.session.name);
/// }
/// # Ok::<(), blkkin_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    connection: Connection,
    decoder: Decoder<Reply>,
    welcome: Welcome,
    patience: Patience,
    /// Whether the last request's reply was taken to its end. If not, what comes belongs to it.
    is_in_step: bool,
}

impl Client {
    /// Connects to the first of the daemons that is there. `program` and its `release` are for it to
    /// show.
    pub fn connect(
        addresses: &[PathBuf],
        program: &str,
        release: &str,
        patience: Patience,
    ) -> Result<Client, Error> {
        let deadline = Deadline::after(patience.opening);
        let mut connection = Connection::open(addresses, deadline)?;
        let hello = Hello {
            version: Version::OURS,
            role: Role::Command,
            program: program.to_owned(),
            release: release.to_owned(),
        };
        let mut bytes = Vec::new();
        encode(&Opening::Hello(hello), &mut bytes)?;
        let mut decoder: Decoder<Answer> = Decoder::new();
        // A daemon that refuses may do so before it has read a word.
        let said = connection.send(&bytes, deadline);
        match connection.receive(&mut decoder, deadline) {
            Ok(Received::Message { message: Answer::Welcome(welcome), .. }) => {
                said?;
                let decoder = decoder.followed_by();
                Ok(Client { connection, decoder, welcome, patience, is_in_step: true })
            }
            Ok(Received::Message { message: Answer::Refused(refused), .. }) => {
                Err(Error::Refused { address: connection.address, refused })
            }
            // There is nothing newer that may come first.
            Ok(Received::Unknown { .. }) => Err(Error::Gone { address: connection.address }),
            Err(error) => Err(error),
        }
    }

    /// Socket of the daemon.
    pub fn address(&self) -> &Path {
        &self.connection.address
    }

    /// Release of the daemon.
    pub fn release(&self) -> &str {
        &self.welcome.release
    }

    /// Sends a request. What is left of the reply to the last one is passed over.
    pub fn ask(&mut self, request: &Request) -> Result<Replies<'_>, Error> {
        let mut bytes = Vec::new();
        encode(request, &mut bytes)?;
        if !self.is_in_step {
            Replies::of(self).pass_over()?;
        }
        self.connection.send(&bytes, Deadline::after(self.patience.item))?;
        self.is_in_step = false;
        Ok(Replies::of(self))
    }

    /// Sends a request, and gives the whole reply.
    pub fn ask_all(&mut self, request: &Request) -> Result<Vec<Reply>, Error> {
        self.ask(request)?.collect()
    }
}
