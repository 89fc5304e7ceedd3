//! How an NBD connection begins: the server's greeting, options of the client, and then requests. This is the
//! fixed newstyle handshake. No I/O: bytes in, bytes out.

use super::request::{BLOCK_SIZE_PREFERRED, LENGTH_MAX};
use crate::volume::Volume;

const GREETING: u64 = 0x4e42_444d_4147_4943; // NBDMAGIC
const OPTION: u64 = 0x4948_4156_454f_5054; // IHAVEOPT
const REPLY: u64 = 0x0003_e889_0455_65a9;

/// Bits that both sides have in their greeting.
const FIXED_NEWSTYLE: u32 = 1;
const NO_ZEROES: u32 = 2;

pub(crate) const EXPORT_NAME: u32 = 1;
pub(crate) const ABORT: u32 = 2;
pub(crate) const LIST: u32 = 3;
pub(crate) const INFO: u32 = 6;
pub(crate) const GO: u32 = 7;

pub(crate) const ACK: u32 = 1;
pub(crate) const SERVER: u32 = 2;
pub(crate) const REPLY_INFO: u32 = 3;
pub(crate) const UNSUPPORTED: u32 = 1 << 31 | 1;
pub(crate) const INVALID: u32 = 1 << 31 | 3;
pub(crate) const UNKNOWN: u32 = 1 << 31 | 6;

const INFO_EXPORT: u16 = 0;
const INFO_NAME: u16 = 1;
const INFO_BLOCK_SIZE: u16 = 3;

/// What a volume can do: flush, FUA, trim, write zeroes, and that all connections see one state.
const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;

/// What an option may carry before the connection is given up: names have up to 4096 bytes.
const DATA_MAX: u32 = 16 << 10;
/// How many options a client may try.
const OPTIONS_MAX: u32 = 256;

/// How far a client has come.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// None before the client has said what it knows.
    client_flags: Option<u32>,
    option_count: u32,
    /// Whether the server has said hello.
    pub(crate) has_greeted: bool,
}

/// What has become of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// So many bytes are needed.
    Short(usize),
    /// So many bytes were one message.
    Took(usize),
    /// The same, and requests to this volume follow.
    Go(usize, usize),
    /// The connection is to end, when it has been told what is to be told.
    End,
}

/// What the server says first.
pub(crate) fn greet(output: &mut Vec<u8>) {
    output.extend_from_slice(&GREETING.to_be_bytes());
    output.extend_from_slice(&OPTION.to_be_bytes());
    output.extend_from_slice(&((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
}

impl Handshake {
    /// Looks at the next message of the client.
    pub(crate) fn step(&mut self, input: &[u8], volumes: &[Volume], output: &mut Vec<u8>) -> Step {
        let Some(flags) = self.client_flags else {
            let Some((flags, _)) = input.split_first_chunk::<4>() else { return Step::Short(4) };
            let flags = u32::from_be_bytes(*flags);
            // Who knows nothing of replies to options cannot be told anything; unknown bits may mean anything.
            if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 || flags & FIXED_NEWSTYLE == 0 {
                return Step::End;
            }
            self.client_flags = Some(flags);
            return Step::Took(4);
        };
        let Some((magic, rest)) = input.split_first_chunk::<8>() else { return Step::Short(16) };
        let Some((option, rest)) = rest.split_first_chunk::<4>() else { return Step::Short(16) };
        let Some((size, rest)) = rest.split_first_chunk::<4>() else { return Step::Short(16) };
        let (option, size) = (u32::from_be_bytes(*option), u32::from_be_bytes(*size));
        if u64::from_be_bytes(*magic) != OPTION || size > DATA_MAX {
            return Step::End;
        }
        let whole = 16 + size as usize;
        let Some(data) = rest.get(..size as usize) else { return Step::Short(whole) };
        self.option_count += 1;
        if self.option_count > OPTIONS_MAX {
            return Step::End;
        }
        match option {
            EXPORT_NAME => {
                // An answer to this one has no way to say no.
                let Some(at) = find(data, volumes) else { return Step::End };
                output.extend_from_slice(&volumes[at].size.to_be_bytes());
                output.extend_from_slice(&TRANSMISSION_FLAGS.to_be_bytes());
                if flags & NO_ZEROES == 0 {
                    output.extend_from_slice(&[0; 124]);
                }
                return Step::Go(whole, at);
            }
            ABORT => {
                reply(option, ACK, &[], output);
                return Step::End;
            }
            LIST if !data.is_empty() => reply(option, INVALID, b"no data expected", output),
            LIST => {
                for volume in volumes {
                    let size = (volume.name.len() as u32).to_be_bytes();
                    reply(option, SERVER, &[&size[..], volume.name.as_bytes()].concat(), output);
                }
                reply(option, ACK, &[], output);
            }
            INFO | GO => match Wanted::read(data) {
                None => reply(option, INVALID, b"lengths do not fit", output),
                Some(wanted) => match find(wanted.name, volumes) {
                    None => reply(option, UNKNOWN, b"no such volume", output),
                    Some(at) => {
                        wanted.answer(option, &volumes[at], output);
                        if option == GO {
                            return Step::Go(whole, at);
                        }
                    }
                },
            },
            _ => reply(option, UNSUPPORTED, &[], output),
        }
        Step::Took(whole)
    }
}

/// What INFO and GO carry.
struct Wanted<'a> {
    name: &'a [u8],
    /// Numbers of what is to be told, two bytes each.
    infos: &'a [[u8; 2]],
}

impl Wanted<'_> {
    fn read(data: &[u8]) -> Option<Wanted<'_>> {
        let (size, rest) = data.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (infos, odd) = rest.as_chunks::<2>();
        let is_right = odd.is_empty() && infos.len() == usize::from(u16::from_be_bytes(*count));
        is_right.then_some(Wanted { name, infos })
    }

    fn asks_for(&self, info: u16) -> bool {
        self.infos.iter().any(|number| u16::from_be_bytes(*number) == info)
    }

    fn answer(&self, option: u32, volume: &Volume, output: &mut Vec<u8>) {
        let mut info = |number: u16, data: &[u8]| {
            reply(option, REPLY_INFO, &[&number.to_be_bytes()[..], data].concat(), output);
        };
        let flags = TRANSMISSION_FLAGS.to_be_bytes();
        info(INFO_EXPORT, &[&volume.size.to_be_bytes()[..], &flags].concat());
        if self.asks_for(INFO_NAME) {
            info(INFO_NAME, volume.name.as_bytes());
        }
        if self.asks_for(INFO_BLOCK_SIZE) {
            let sizes = [1, BLOCK_SIZE_PREFERRED, LENGTH_MAX].map(u32::to_be_bytes);
            info(INFO_BLOCK_SIZE, &sizes.concat());
        }
        reply(option, ACK, &[], output);
    }
}

/// The volume with a name; the first one, if there is none.
fn find(name: &[u8], volumes: &[Volume]) -> Option<usize> {
    match name {
        [] => (!volumes.is_empty()).then_some(0),
        _ => volumes.iter().position(|volume| volume.name.as_bytes() == name),
    }
}

fn reply(option: u32, kind: u32, data: &[u8], output: &mut Vec<u8>) {
    output.extend_from_slice(&REPLY.to_be_bytes());
    for number in [option, kind, data.len() as u32] {
        output.extend_from_slice(&number.to_be_bytes());
    }
    output.extend_from_slice(data);
}

#[cfg(test)]
mod tests;
