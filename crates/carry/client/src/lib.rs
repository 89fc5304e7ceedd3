//! Client of the node agent, for commands: finds the agent, sends requests, and returns the items
//! of the agent's replies. Start at [`Client`].
//!
//! Each operation has a timeout, whatever the agent does, and the agent's messages are not trusted.
//! An [`Error`] has the reason. Most errors also have the agent's address, and some have a hint.

mod connection;
mod conversation;
mod error;
mod replies;

pub use conversation::Timeouts;
pub use error::Error;
pub use replies::Replies;

use blkkin_control::address::SocketEnvironment;
use blkkin_control::{
    Answer, Decoder, Fault, Hello, Opening, Received, Reply, Request, Role, Version, Welcome,
    encode,
};
use connection::{Connection, Deadline};
use conversation::Conversation;
use std::env;
use std::path::{Path, PathBuf};

/// Returns the addresses on which an agent for this process may listen, in the order in which to
/// try them.
pub fn addresses() -> Vec<PathBuf> {
    SocketEnvironment::new(blkkin_sys::user_id(), env::var_os).candidates()
}

/// Checks that a request is within the limits of the protocol, so that it can be sent. Does not
/// contact an agent.
pub fn check(request: &Request) -> Result<(), Fault> {
    encode(request, &mut Vec::new())
}

/// A command's connection to an agent, for requests and their replies.
///
/// ```no_run
/// use blkkin_client::{Client, Timeouts, addresses};
/// use blkkin_control::{Reply, Request};
///
/// let mut client = Client::connect(&addresses(), "blkkin", "0.1.0", Timeouts::default())?;
/// for reply in client.request(&Request::ListSessions(None))? {
///     let Reply::Session(state) = reply? else { continue };
///     println!("{}", state.session.name);
/// }
/// # Ok::<(), blkkin_client::Error>(())
/// ```
#[derive(Debug)]
pub struct Client {
    conversation: Conversation,
    welcome: Welcome,
}

impl Client {
    /// Connects to the first of `addresses` that accepts a connection from this user. `program` and
    /// `release` identify this command in `Hello`.
    pub fn connect(
        addresses: &[PathBuf],
        program: &str,
        release: &str,
        patience: Timeouts,
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
        // An agent may refuse the connection and close it before it has read `Hello`, so a failed
        // send does not matter if there is an answer.
        let sent = connection.send(&bytes, deadline);
        match connection.receive(&mut decoder, deadline) {
            Ok(Received::Message { message: Answer::Welcome(welcome), .. }) => {
                sent?;
                let decoder = decoder.followed_by();
                let is_in_step = true;
                let conversation =
                    Conversation { connection, decoder, patience, has_whole_reply: is_in_step };
                Ok(Client { conversation, welcome })
            }
            Ok(Received::Message { message: Answer::Refused(refused), .. }) => {
                Err(Error::Refused { address: connection.address, refused })
            }
            // In all versions of the protocol, the agent's first message is of a known kind.
            Ok(Received::Unknown { .. }) => {
                Err(Error::Disconnected { address: connection.address })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns the path of the agent's socket.
    pub fn address(&self) -> &Path {
        &self.conversation.connection.address
    }

    /// Returns the release of the connected agent, such as `0.1.0`.
    pub fn release(&self) -> &str {
        &self.welcome.release
    }

    /// Sends a request, and returns an iterator over the items of its reply. Unread items of the
    /// previous reply are skipped first.
    pub fn request(&mut self, request: &Request) -> Result<Replies<'_>, Error> {
        let mut bytes = Vec::new();
        encode(request, &mut bytes)?;
        let conversation = &mut self.conversation;
        if !conversation.has_whole_reply {
            Replies::of(conversation).skip()?;
        }
        let deadline = Deadline::after(conversation.patience.item);
        conversation.connection.send(&bytes, deadline)?;
        conversation.has_whole_reply = false;
        Ok(Replies::of(conversation))
    }

    /// Sends a request, and returns all items of its reply.
    pub fn request_all(&mut self, request: &Request) -> Result<Vec<Reply>, Error> {
        self.request(request)?.collect()
    }
}
