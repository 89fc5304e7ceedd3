//! Secret tokens of clients, and files with them.

use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use subtle::{Choice, ConstantTimeEq};

/// Permission that a client needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Permission to read what others have sent.
    Read,
    /// Permission to send.
    Write,
}

/// Reason why a token gives no permission.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// No file has this token.
    Unknown,
    /// The token gives the other permission.
    Access,
}

/// Files with tokens, one token per line, by the permission that they give.
#[derive(Clone, Debug, Default)]
pub struct TokenFiles {
    /// File with tokens for reading and writing.
    pub both: Option<PathBuf>,
    /// File with tokens for reading.
    pub read: Option<PathBuf>,
    /// File with tokens for writing.
    pub write: Option<PathBuf>,
}

/// Tokens of all token files, by the permission that they give. Empty without token files.
#[derive(Debug, Default)]
pub struct Tokens {
    both: Vec<Token>,
    read: Vec<Token>,
    write: Vec<Token>,
}

/// Secret token of a client. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Token(Vec<u8>);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads the first token in a client's file.
    pub(crate) fn read_first(path: &Path) -> Result<Token, Error> {
        let first = read(Some(path))?.into_iter().next();
        first.ok_or_else(|| Error::file(path, "has no token"))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl TokenFiles {
    /// Returns whether there is no token file.
    pub fn is_empty(&self) -> bool {
        [&self.both, &self.read, &self.write].iter().all(|file| file.is_none())
    }
}

impl Tokens {
    /// Reads the token files. Fails if a file is unusable, or if the only file is for one of the
    /// permissions, as no token would have the other permission.
    pub fn read(files: &TokenFiles) -> Result<Tokens, Error> {
        match (&files.both, &files.read, &files.write) {
            (None, Some(_), None) => Err(Error::Tokens { missing: "writing" }),
            (None, None, Some(_)) => Err(Error::Tokens { missing: "reading" }),
            _ => Tokens::read_any(files),
        }
    }

    /// Reads the token files, which may be for one of the permissions only.
    pub(crate) fn read_any(files: &TokenFiles) -> Result<Tokens, Error> {
        Ok(Tokens {
            both: read(files.both.as_deref())?,
            read: read(files.read.as_deref())?,
            write: read(files.write.as_deref())?,
        })
    }

    /// Returns whether there is no token.
    pub fn is_empty(&self) -> bool {
        [&self.both, &self.read, &self.write].iter().all(|tokens| tokens.is_empty())
    }

    /// Checks a client's token. It is compared with all tokens in constant time, so the duration
    /// reveals only the number and the lengths of the tokens.
    pub fn check(&self, token: &[u8], access: Access) -> Result<(), Denial> {
        let knows = |tokens: &[Token]| {
            tokens.iter().fold(Choice::from(0), |known, own| known | own.0.ct_eq(token))
        };
        let (both, read, write) = (knows(&self.both), knows(&self.read), knows(&self.write));
        let permitted = if access == Access::Write { write } else { read };
        match (bool::from(both | permitted), bool::from(read | write)) {
            (true, _) => Ok(()),
            (false, true) => Err(Denial::Access),
            (false, false) => Err(Denial::Unknown),
        }
    }
}

/// Reads the tokens in a file, one per line. Fails if the file is unreadable or has no token.
/// Without a path, returns no tokens.
fn read(path: Option<&Path>) -> Result<Vec<Token>, Error> {
    let Some(path) = path else { return Ok(Vec::new()) };
    let text = fs::read_to_string(path).map_err(|error| Error::file(path, error))?;
    let tokens: Vec<Token> = text
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(|line| Token(line.as_bytes().to_vec()))
        .collect();
    match tokens.is_empty() {
        true => Err(Error::file(path, "has no token")),
        false => Ok(tokens),
    }
}
