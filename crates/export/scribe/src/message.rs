//! The head of a message: what is called, and by which number its reply is known.
//!
//! There are two forms, told by the first bit: the strict one begins with a version, the old one with the name's
//! length. Clients of the time write the old one, and all read the strict one, unless they were told otherwise.

use crate::binary::{Result, Walk, put_text};
use crate::fault::Reason;

/// Kinds of messages.
pub(crate) const CALL: u8 = 1;
pub(crate) const REPLY: u8 = 2;
pub(crate) const EXCEPTION: u8 = 3;
pub(crate) const ONE_WAY: u8 = 4;

const VERSION: u16 = 0x8001;

/// Longer names are never echoed.
const NAME_BYTES_MAX: usize = 1024;

/// The head of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// What is called.
    pub name: &'a [u8],
    /// 1 for a call, 2 for a reply, 3 for an exception, 4 for a call that wants no reply.
    pub kind: u8,
    /// Comes back with the reply.
    pub sequence: i32,
    /// Whether it is the form with a version.
    pub is_strict: bool,
}

impl<'a> Header<'a> {
    /// Reads one, and says where what follows begins.
    pub fn read(body: &'a [u8]) -> Result<(Header<'a>, usize)> {
        let mut walk = Walk::new(body);
        let header = Header::walk(&mut walk)?;
        Ok((header, walk.at()))
    }

    pub(crate) fn walk(walk: &mut Walk<'a>) -> Result<Header<'a>> {
        let start = walk.at();
        let first = walk.i32()?;
        let is_strict = first < 0;
        let (name, kind) = match is_strict {
            true => {
                let version = (first as u32 >> 16) as u16;
                if version != VERSION {
                    return Err(Reason::Version(version).at(start));
                }
                (walk.text()?, first as u8)
            }
            false => (walk.bytes(first as usize, start)?, walk.byte()?),
        };
        if name.len() > NAME_BYTES_MAX {
            let what = "bytes of a name";
            return Err(Reason::TooMany { what, count_max: NAME_BYTES_MAX }.at(start));
        }
        Ok(Header { name, kind, sequence: walk.i32()?, is_strict })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        match self.is_strict {
            true => {
                out.extend_from_slice(&VERSION.to_be_bytes());
                out.extend_from_slice(&[0, self.kind]);
                put_text(out, self.name);
            }
            false => {
                put_text(out, self.name);
                out.push(self.kind);
            }
        }
        out.extend_from_slice(&self.sequence.to_be_bytes());
    }
}
