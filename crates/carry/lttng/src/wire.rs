//! Fields of messages: big-endian integers, strings with a NUL, and strings padded with NULs.

use crate::fault::{Fault, Reason};
use crate::name::{is_component, sanitized_path};
use blkkin_ctf::clock_offsets::Measurement;

/// Reader of a whole message's fields, in their order.
#[derive(Debug)]
pub(crate) struct Fields<'b> {
    message: &'static str,
    bytes: &'b [u8],
    offset: usize,
}

impl<'b> Fields<'b> {
    /// Makes a reader of `bytes`, the message called `message`, from byte `offset` on.
    pub(crate) fn new(message: &'static str, bytes: &'b [u8], offset: usize) -> Fields<'b> {
        Fields { message, bytes, offset }
    }

    /// Returns the error of the field at the present offset.
    pub(crate) fn fault(&self, reason: Reason) -> Fault {
        self.fault_at(self.offset, reason)
    }

    fn fault_at(&self, offset: usize, reason: Reason) -> Fault {
        Fault { message: self.message, offset, reason }
    }

    pub(crate) fn remaining(&self) -> usize {
        self.bytes.len().saturating_sub(self.offset)
    }

    pub(crate) fn take(&mut self, size: usize) -> Result<&'b [u8], Fault> {
        let end = self.offset.checked_add(size);
        let Some(field) = end.and_then(|end| self.bytes.get(self.offset..end)) else {
            return Err(self.fault(Reason::Short));
        };
        self.offset += size;
        Ok(field)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let field = self.take(N)?;
        Ok(field.try_into().unwrap_or([0; N]))
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Fault> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Fault> {
        self.array().map(u64::from_be_bytes)
    }

    pub(crate) fn bytes16(&mut self) -> Result<[u8; 16], Fault> {
        self.array()
    }

    pub(crate) fn measurement(&mut self) -> Result<Measurement, Fault> {
        Ok(Measurement {
            monotonic_ns: self.u64()?,
            tsc: self.u64()?,
            reference_ns: self.u64()?,
            error_ns: self.u64()?,
        })
    }

    /// Reads the length of a string that follows later, with its NUL.
    pub(crate) fn length(&mut self, max: usize, permitted: &'static str) -> Result<usize, Fault> {
        let offset = self.offset;
        let declared = self.u32()?;
        match usize::try_from(declared) {
            Ok(length) if length <= max => Ok(length),
            _ => {
                let declared = declared.into();
                Err(self.fault_at(offset, Reason::Size { declared, permitted }))
            }
        }
    }

    /// Reads a string in a field of `size` bytes, up to its first NUL. Bytes after the NUL are
    /// ignored, because LTTng does not clear them.
    pub(crate) fn string(&mut self, size: usize) -> Result<&'b str, Fault> {
        let offset = self.offset;
        let text = until_nul(self.take(size)?);
        std::str::from_utf8(text).map_err(|_| {
            let name = String::from_utf8_lossy(text).into_owned();
            self.fault_at(offset, Reason::Name(name))
        })
    }

    /// Reads a name that must be a single component of a path.
    pub(crate) fn name(&mut self, size: usize) -> Result<String, Fault> {
        let offset = self.offset;
        let name = self.string(size)?.to_owned();
        match is_component(&name) {
            true => Ok(name),
            false => Err(self.fault_at(offset, Reason::Name(name))),
        }
    }

    /// Reads a relative path, without the `/` that old producers write before it. Its components
    /// may contain the name of a process, which is any bytes: characters that a name of a file
    /// should not have are replaced.
    pub(crate) fn path(&mut self, size: usize) -> Result<String, Fault> {
        let offset = self.offset;
        let text = until_nul(self.take(size)?);
        let text = String::from_utf8_lossy(text);
        let path = sanitized_path(text.strip_prefix('/').unwrap_or(&text));
        path.ok_or_else(|| self.fault_at(offset, Reason::Path(text.into_owned())))
    }

    /// Fails if the message has more bytes.
    pub(crate) fn end(self) -> Result<(), Fault> {
        match self.remaining() {
            0 => Ok(()),
            _ => Err(self.fault(Reason::Long)),
        }
    }
}

/// Returns the bytes before the first NUL.
fn until_nul(field: &[u8]) -> &[u8] {
    field.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Appends fields to a message.
pub(crate) trait PutFields {
    fn put_u8(&mut self, value: u8);
    fn put_u32(&mut self, value: u32);
    fn put_u64(&mut self, value: u64);
    fn put_measurement(&mut self, value: &Measurement);
    /// Appends a string and its NUL.
    fn put_text(&mut self, text: &str);
    /// Appends a string, cut off to leave a NUL, in a field of `size` bytes.
    fn put_padded(&mut self, text: &str, size: usize);
}

impl PutFields for Vec<u8> {
    fn put_u8(&mut self, value: u8) {
        self.push(value);
    }

    fn put_u32(&mut self, value: u32) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_u64(&mut self, value: u64) {
        self.extend_from_slice(&value.to_be_bytes());
    }

    fn put_measurement(&mut self, value: &Measurement) {
        for field in [value.monotonic_ns, value.tsc, value.reference_ns, value.error_ns] {
            self.put_u64(field);
        }
    }

    fn put_text(&mut self, text: &str) {
        self.extend_from_slice(text.as_bytes());
        self.push(0);
    }

    fn put_padded(&mut self, text: &str, size: usize) {
        let end = self.len() + size;
        let kept = text.floor_char_boundary(size.saturating_sub(1));
        self.extend_from_slice(text.get(..kept).unwrap_or_default().as_bytes());
        self.resize(end, 0);
    }
}

/// Size of a string's field, with its NUL.
pub(crate) fn text_size(text: &str) -> u32 {
    u32::try_from(text.len() + 1).unwrap_or(u32::MAX)
}
