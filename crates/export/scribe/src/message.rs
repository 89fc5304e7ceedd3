//! Message headers: the called method, and the sequence number that matches call and reply.
//!
//! There are two encodings, distinguished by the first bit. The strict encoding begins with a
//! version, the old encoding with the length of the name. Old clients write the old encoding, and
//! all clients read the strict one by default.

use crate::binary::{Input, Result, put_text};
use crate::fault::Reason;

/// Thrift message type of a call. The following constants are the other message types.
pub(crate) const CALL: u8 = 1;
pub(crate) const REPLY: u8 = 2;
pub(crate) const EXCEPTION: u8 = 3;
pub(crate) const ONE_WAY: u8 = 4;

const VERSION: u16 = 0x8001;

/// Maximum length of a method name in bytes, as replies repeat the name.
const NAME_BYTES_MAX: usize = 1024;

/// Header of a Thrift message: method, message type and sequence number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'a> {
    /// Name of the called method, such as `Log`.
    pub name: &'a [u8],
    /// Message type: 1 for a call, 2 for a reply, 3 for an exception, 4 for a one-way call.
    pub kind: u8,
    /// Sequence number, which the reply repeats.
    pub sequence: i32,
    /// True for the strict encoding, which begins with a version.
    pub is_strict: bool,
}

impl<'a> Header<'a> {
    /// Reads the header of a message; also returns the offset of the arguments.
    pub fn read(body: &'a [u8]) -> Result<(Header<'a>, usize)> {
        let mut input = Input::new(body);
        let header = Header::read_from(&mut input)?;
        Ok((header, input.at()))
    }

    pub(crate) fn read_from(input: &mut Input<'a>) -> Result<Header<'a>> {
        let start = input.at();
        let first = input.i32()?;
        let is_strict = first < 0;
        let (name, kind) = match is_strict {
            true => {
                let version = (first as u32 >> 16) as u16;
                if version != VERSION {
                    return Err(Reason::Version(version).at(start));
                }
                (input.text()?, first as u8)
            }
            false => (input.bytes(first as usize, start)?, input.byte()?),
        };
        if name.len() > NAME_BYTES_MAX {
            let what = "bytes of a name";
            return Err(Reason::TooMany { what, count_max: NAME_BYTES_MAX }.at(start));
        }
        Ok(Header { name, kind, sequence: input.i32()?, is_strict })
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
