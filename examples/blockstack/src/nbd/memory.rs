//! A volume in the server's own memory, to measure the server without other roles.

use crate::message::Kind;
use std::io;
use std::ops::Range;

/// Volume whose contents are in the server's memory.
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    pub(crate) fn new(size: u64) -> io::Result<Memory> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| too_large())?;
        // Touch all pages now, so that requests cause no page faults.
        bytes.resize(size, 0);
        Ok(Memory(bytes))
    }

    /// Executes a request within the volume and appends the data that was read.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        kind: Kind,
        range: Range<usize>,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) {
        let Some(bytes) = self.0.get_mut(range) else { return };
        match kind {
            Kind::Read => output.extend_from_slice(bytes),
            Kind::Write => bytes.copy_from_slice(payload),
            Kind::Zero => bytes.fill(0),
            // Memory has no durable state to flush to.
            Kind::Flush | Kind::List => {}
        }
    }
}
