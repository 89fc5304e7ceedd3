//! The NBD handshake: the server's greeting and the client's options, in the fixed newstyle. The
//! module does no I/O; it reads from and writes to buffers.

use super::request::{BLOCK_SIZE_PREFERRED, LENGTH_MAX};
use crate::volume::Volume;

const GREETING: u64 = 0x4e42_444d_4147_4943; // NBDMAGIC
const OPTION: u64 = 0x4948_4156_454f_5054; // IHAVEOPT
const REPLY: u64 = 0x0003_e889_0455_65a9;

/// Handshake flag of server and client: the fixed newstyle of the protocol.
const FIXED_NEWSTYLE: u32 = 1;
/// Handshake flag of server and client: no 124 zero bytes follow the reply to `EXPORT_NAME`.
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

/// Features of a volume: flush, FUA, trim, write zeroes, and a consistent view over several
/// connections.
const TRANSMISSION_FLAGS: u16 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 6 | 1 << 8;

/// Maximum size of an option's data, in bytes. The protocol limits the name in the data to 4096
/// bytes.
const DATA_MAX: u32 = 16 << 10;
/// Maximum number of options that a client may send.
const OPTIONS_MAX: u32 = 256;

/// State of a client's handshake.
#[derive(Debug, Default)]
pub(crate) struct Handshake {
    /// The client's flags; `None` until they arrive.
    client_flags: Option<u32>,
    option_count: u32,
    /// Set once the greeting was sent.
    pub(crate) has_greeted: bool,
}

/// Result of processing the client's next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// The message is incomplete; it has at least this many bytes.
    Short(usize),
    /// A message of this size was processed.
    Consumed(usize),
    /// A message of this size ended the handshake; requests to the volume with this index follow.
    Ready(usize, usize),
    /// The connection must be closed once the pending output is sent.
    End,
}

/// Writes the server's greeting.
pub(crate) fn greet(output: &mut Vec<u8>) {
    output.extend_from_slice(&GREETING.to_be_bytes());
    output.extend_from_slice(&OPTION.to_be_bytes());
    output.extend_from_slice(&((FIXED_NEWSTYLE | NO_ZEROES) as u16).to_be_bytes());
}

impl Handshake {
    /// Processes the client's next message.
    pub(crate) fn step(&mut self, input: &[u8], volumes: &[Volume], output: &mut Vec<u8>) -> Step {
        let Some(flags) = self.client_flags else {
            let Some((flags, _)) = input.split_first_chunk::<4>() else { return Step::Short(4) };
            let flags = u32::from_be_bytes(*flags);
            // Without the fixed newstyle, the client does not understand option replies. The
            // meaning of unknown flags is undefined.
            if flags & !(FIXED_NEWSTYLE | NO_ZEROES) != 0 || flags & FIXED_NEWSTYLE == 0 {
                return Step::End;
            }
            self.client_flags = Some(flags);
            return Step::Consumed(4);
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
                // This option has no reply for errors.
                let Some(at) = find(data, volumes) else { return Step::End };
                output.extend_from_slice(&volumes[at].size.to_be_bytes());
                output.extend_from_slice(&TRANSMISSION_FLAGS.to_be_bytes());
                if flags & NO_ZEROES == 0 {
                    output.extend_from_slice(&[0; 124]);
                }
                return Step::Ready(whole, at);
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
            INFO | GO => match InfoRequest::read(data) {
                None => reply(option, INVALID, b"lengths do not fit", output),
                Some(wanted) => match find(wanted.name, volumes) {
                    None => reply(option, UNKNOWN, b"no such volume", output),
                    Some(at) => {
                        wanted.answer(option, &volumes[at], output);
                        if option == GO {
                            return Step::Ready(whole, at);
                        }
                    }
                },
            },
            _ => reply(option, UNSUPPORTED, &[], output),
        }
        Step::Consumed(whole)
    }
}

/// Data of the options INFO and GO.
struct InfoRequest<'a> {
    name: &'a [u8],
    /// Types of the requested information, two bytes each.
    infos: &'a [[u8; 2]],
}

impl InfoRequest<'_> {
    fn read(data: &[u8]) -> Option<InfoRequest<'_>> {
        let (size, rest) = data.split_first_chunk::<4>()?;
        let (name, rest) = rest.split_at_checked(u32::from_be_bytes(*size) as usize)?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (infos, odd) = rest.as_chunks::<2>();
        let is_right = odd.is_empty() && infos.len() == usize::from(u16::from_be_bytes(*count));
        is_right.then_some(InfoRequest { name, infos })
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

/// Finds a volume by name; an empty name selects the first volume.
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
