//! Requests of NBD clients, and simple replies. The module does no I/O.

use crate::message::{Kind, PAYLOAD_MAX};

const REQUEST: u32 = 0x2560_9513;
const REPLY: u32 = 0x6744_6698;

/// Size of a request without its data, in bytes.
pub(crate) const REQUEST_SIZE: usize = 28;
/// Maximum size of a read or write, in bytes.
pub(crate) const LENGTH_MAX: u32 = PAYLOAD_MAX;
pub(crate) const BLOCK_SIZE_PREFERRED: u32 = 4096;

pub(crate) const EIO: u32 = 5;
pub(crate) const EINVAL: u32 = 22;
pub(crate) const ENOSPC: u32 = 28;
pub(crate) const EOVERFLOW: u32 = 75;

const READ: u16 = 0;
const WRITE: u16 = 1;
const DISCONNECT: u16 = 2;
const FLUSH: u16 = 3;
const TRIM: u16 = 4;
const WRITE_ZEROES: u16 = 6;

const FLAG_FUA: u16 = 1;
/// Flag of WRITE_ZEROES that forbids punching a hole. Objects are sparse anyway, so the flag is
/// ignored.
const FLAG_NO_HOLE: u16 = 2;

/// A decoded request of an NBD client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    flags: u16,
    command: u16,
    /// Cookie of the client, repeated in the reply.
    pub(crate) cookie: u64,
    pub(crate) offset: u64,
    pub(crate) length: u32,
}

/// Operation on a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) kind: Kind,
    /// Set if the data must be durable before the reply.
    pub(crate) fua: bool,
    /// Name of the request's root span, such as `write zeroes`.
    pub(crate) name: &'static str,
}

/// Action of the server for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Task {
    /// Call of the composer, or operation in memory.
    Forward(Operation),
    /// Immediate reply without an error.
    Done,
    /// Immediate reply with this error number.
    Refuse(u32),
    /// End of the connection, after the replies to the requests in flight.
    Disconnect,
}

impl Request {
    /// Decodes a request. Returns `None` if the bytes are not a request; no later bytes of the
    /// connection can be decoded then.
    #[inline]
    pub(crate) fn read(bytes: &[u8; REQUEST_SIZE]) -> Option<Request> {
        let u16_at = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        let u32_at = |at: usize| u32::from(u16_at(at)) << 16 | u32::from(u16_at(at + 2));
        let u64_at = |at: usize| u64::from(u32_at(at)) << 32 | u64::from(u32_at(at + 4));
        (u32_at(0) == REQUEST).then_some(Request {
            flags: u16_at(4),
            command: u16_at(6),
            cookie: u64_at(8),
            offset: u64_at(16),
            length: u32_at(24),
        })
    }

    /// Returns the size of the data that follows the request, in bytes.
    #[inline]
    pub(crate) fn payload_size(&self) -> u32 {
        if self.command == WRITE { self.length } else { 0 }
    }

    /// Determines what the server must do for the request on a volume of this size.
    #[inline]
    pub(crate) fn task(&self, volume_size: u64) -> Task {
        let (kind, name, flags_known) = match self.command {
            READ => (Kind::Read, "read", FLAG_FUA),
            WRITE => (Kind::Write, "write", FLAG_FUA),
            DISCONNECT => return Task::Disconnect,
            FLUSH => (Kind::Flush, "flush", FLAG_FUA),
            TRIM => (Kind::Zero, "trim", FLAG_FUA),
            WRITE_ZEROES => (Kind::Zero, "write zeroes", FLAG_FUA | FLAG_NO_HOLE),
            _ => return Task::Refuse(EINVAL),
        };
        if self.flags & !flags_known != 0 {
            return Task::Refuse(EINVAL);
        }
        let fua = self.flags & FLAG_FUA != 0;
        if kind == Kind::Flush {
            return match (self.offset, self.length) {
                (0, 0) => Task::Forward(Operation { kind, fua, name }),
                _ => Task::Refuse(EINVAL),
            };
        }
        if kind != Kind::Zero && self.length > LENGTH_MAX {
            return Task::Refuse(EOVERFLOW);
        }
        match self.offset.checked_add(u64::from(self.length)) {
            Some(end) if end <= volume_size => {}
            _ if kind == Kind::Read => return Task::Refuse(EINVAL),
            _ => return Task::Refuse(ENOSPC),
        }
        if self.length == 0 { Task::Done } else { Task::Forward(Operation { kind, fua, name }) }
    }
}

/// Appends the reply to a request. The caller appends the data that was read.
#[inline]
pub(crate) fn reply(cookie: u64, error: u32, output: &mut Vec<u8>) {
    let mut bytes = [0; 16];
    bytes[..4].copy_from_slice(&REPLY.to_be_bytes());
    bytes[4..8].copy_from_slice(&nbd_error(error).to_be_bytes());
    bytes[8..].copy_from_slice(&cookie.to_be_bytes());
    output.extend_from_slice(&bytes);
}

/// Maps an error number to an error of the NBD protocol. Numbers that the protocol lacks become
/// EIO.
fn nbd_error(error: u32) -> u32 {
    match error {
        0 | 1 | EIO | 12 | EINVAL | ENOSPC | EOVERFLOW | 95 | 108 => error,
        _ => EIO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 1 << 30;

    fn bytes(flags: u16, command: u16, offset: u64, length: u32) -> [u8; REQUEST_SIZE] {
        let mut bytes = REQUEST.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(0xabcdu64.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.try_into().unwrap()
    }

    #[track_caller]
    fn check(flags: u16, command: u16, offset: u64, length: u32, expected: Task) {
        let request = Request::read(&bytes(flags, command, offset, length)).expect("a request");
        assert_eq!(request.cookie, 0xabcd);
        assert_eq!(request.task(SIZE), expected, "{request:?}");
    }

    fn ask(kind: Kind, fua: bool, name: &'static str) -> Task {
        Task::Forward(Operation { kind, fua, name })
    }

    #[test]
    fn what_can_be_done() {
        check(0, READ, 0, 4096, ask(Kind::Read, false, "read"));
        check(0, READ, SIZE - 1, 1, ask(Kind::Read, false, "read"));
        check(1, WRITE, 512, LENGTH_MAX, ask(Kind::Write, true, "write"));
        check(0, FLUSH, 0, 0, ask(Kind::Flush, false, "flush"));
        check(0, TRIM, 0, SIZE as u32, ask(Kind::Zero, false, "trim"));
        check(3, WRITE_ZEROES, 0, SIZE as u32, ask(Kind::Zero, true, "write zeroes"));
        check(0, WRITE, SIZE, 0, Task::Done);
        check(0xffff, DISCONNECT, 9, 9, Task::Disconnect);
    }

    #[test]
    fn what_cannot() {
        check(0, READ, SIZE, 1, Task::Refuse(EINVAL));
        check(0, READ, u64::MAX, 1, Task::Refuse(EINVAL));
        check(0, READ, 0, LENGTH_MAX + 1, Task::Refuse(EOVERFLOW));
        check(0, WRITE, SIZE - 1, 2, Task::Refuse(ENOSPC));
        check(0, TRIM, u64::MAX, u32::MAX, Task::Refuse(ENOSPC));
        check(2, WRITE, 0, 1, Task::Refuse(EINVAL));
        check(16, WRITE_ZEROES, 0, 1, Task::Refuse(EINVAL));
        check(0, FLUSH, 1, 0, Task::Refuse(EINVAL));
        for command in [5, 7, 8, u16::MAX] {
            check(0, command, 0, 1, Task::Refuse(EINVAL));
        }
    }

    #[test]
    fn what_is_no_request() {
        let good = bytes(0, READ, 0, 1);
        for at in 0..4 {
            let mut damaged = good;
            damaged[at] ^= 1;
            assert_eq!(Request::read(&damaged), None);
        }
    }

    #[test]
    fn answers() {
        let mut output = Vec::new();
        reply(0xabcd, ENOSPC, &mut output);
        // An error number that the protocol does not define.
        reply(1, 110, &mut output);
        assert_eq!(
            output[..16],
            [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 0, 0, 0, 0, 0, 0, 0xab, 0xcd]
        );
        assert_eq!(output[20..24], [0, 0, 0, 5]);
    }
}
