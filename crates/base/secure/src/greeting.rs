//! First bytes after the TLS handshake: the client's token, and the server's verdict.

use std::fmt;

/// Client's first message: `BKN1`, the token's length as 16 bits big-endian, and the token. A
/// client that has a certificate may have no token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Greeting<'a> {
    /// Token; empty for none.
    pub token: &'a [u8],
}

/// Error of bytes that are no greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GreetingError {
    /// The first bytes differ at this offset.
    Magic(usize),
    /// The token has this length, which is too long.
    Length(usize),
}

/// Server's answer to a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The client is admitted.
    Admitted,
    /// The client has neither a token nor a certificate.
    NoToken,
    /// The server does not know the token.
    UnknownToken,
    /// The token gives another permission.
    WrongAccess,
}

const MAGIC: &[u8; 4] = b"BKN1";
const HEADER_SIZE: usize = 6;
/// Maximum size of a token in bytes.
const TOKEN_SIZE_MAX: usize = 4096;

impl fmt::Display for GreetingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GreetingError::Magic(offset) => write!(f, "no greeting: byte {offset} is wrong"),
            GreetingError::Length(size) => {
                write!(
                    f,
                    "the greeting's token at byte 4 has {size} bytes, more than {TOKEN_SIZE_MAX}"
                )
            }
        }
    }
}

impl std::error::Error for GreetingError {}

impl<'a> Greeting<'a> {
    /// Appends the message. Fails if the token is too long.
    pub fn encode(self, out: &mut Vec<u8>) -> Result<(), GreetingError> {
        let size = self.token.len();
        let length = u16::try_from(size).ok().filter(|_| size <= TOKEN_SIZE_MAX);
        let length = length.ok_or(GreetingError::Length(size))?;
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(self.token);
        Ok(())
    }

    /// Decodes the message, and returns it with its size; `None` if bytes are missing.
    pub fn decode(bytes: &'a [u8]) -> Result<Option<(Greeting<'a>, usize)>, GreetingError> {
        if let Some(wrong) = bytes.iter().zip(MAGIC).position(|(byte, own)| byte != own) {
            return Err(GreetingError::Magic(wrong));
        }
        let Some((header, rest)) = bytes.split_at_checked(HEADER_SIZE) else { return Ok(None) };
        let [.., high, low] = *header else { return Ok(None) };
        let size = usize::from(u16::from_be_bytes([high, low]));
        if size > TOKEN_SIZE_MAX {
            return Err(GreetingError::Length(size));
        }
        Ok(rest.get(..size).map(|token| (Greeting { token }, HEADER_SIZE + size)))
    }
}

impl Verdict {
    pub(crate) fn byte(self) -> u8 {
        match self {
            Verdict::Admitted => 0,
            Verdict::NoToken => 1,
            Verdict::UnknownToken => 2,
            Verdict::WrongAccess => 3,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Verdict> {
        use Verdict::{Admitted, NoToken, UnknownToken, WrongAccess};
        let all = [Admitted, NoToken, UnknownToken, WrongAccess];
        all.into_iter().find(|verdict| verdict.byte() == byte)
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Admitted => "admitted",
            Verdict::NoToken => "a token or a client certificate is needed",
            Verdict::UnknownToken => "the token is not known",
            Verdict::WrongAccess => "the token does not permit this",
        })
    }
}
