//! Credentials for relays with TLS: files in a directory of the user.

use crate::directories::configuration_directory;
use crate::exit::Error;
use blkkin_live::Url;
use blkkin_secure::{Credentials, Refusal};
use std::env;
use std::io;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::thread;

/// Environment variable with the path of the directory.
const VARIABLE: &str = "BLKKIN_RELAY_CREDENTIALS";

fn directory() -> Option<PathBuf> {
    let set = env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    set.or_else(|| configuration_directory().map(|all| all.join("relay-credentials")))
}

/// Reads the credentials.
pub(crate) fn read() -> io::Result<Credentials> {
    let directory = directory();
    let directory = directory.ok_or_else(|| io::Error::other("there is no home directory"))?;
    Credentials::read(&directory).map_err(io::Error::other)
}

/// Reads the credentials for a relay; `None` for one without TLS.
pub(crate) fn for_relay(is_secure: bool) -> Result<Option<Credentials>, Error> {
    let failed = |error| Error::failed(format!("cannot read the relay's credentials: {error}"));
    is_secure.then(read).transpose().map_err(failed)
}

/// Reads the credentials for the relay of a URL, as a part of connecting to it.
pub(crate) fn for_url(url: &Url) -> Result<Option<Credentials>, blkkin_live::Error> {
    let failed = |error| blkkin_live::Error::Connect { address: url.relay().to_string(), error };
    url.is_secure.then(read).transpose().map_err(failed)
}

/// Returns what to do about an error of a connection with TLS.
pub(crate) fn hint(error: &io::Error) -> Option<String> {
    let directory = directory().unwrap_or_default();
    Some(match Refusal::of(error)? {
        Refusal::Client => {
            format!("write a token of the relay's into {}", directory.join("token").display())
        }
        Refusal::Server => format!(
            "{} has the certificate that signed the relay's, and the URL the host in the relay's \
             certificate",
            directory.join("ca.pem").display()
        ),
    })
}

/// Reader of the credentials for threads that have the rights of other users.
#[derive(Clone)]
pub(crate) struct CredentialReader(Sender<Sender<io::Result<Credentials>>>);

impl CredentialReader {
    /// Starts a thread with the rights of this one.
    pub(crate) fn start() -> io::Result<CredentialReader> {
        let (ask, asked) = channel::<Sender<io::Result<Credentials>>>();
        thread::Builder::new().name("credentials".to_owned()).spawn(move || {
            for answer in asked {
                let _ = answer.send(read());
            }
        })?;
        Ok(CredentialReader(ask))
    }

    /// Reads the credentials.
    pub(crate) fn read(&self) -> io::Result<Credentials> {
        let (answer, answered) = channel();
        let ended = || io::Error::other("the thread that reads credentials has ended");
        self.0.send(answer).map_err(|_| ended())?;
        answered.recv().map_err(|_| ended())?
    }
}
