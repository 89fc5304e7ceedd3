//! A volume in the server's own memory: nobody has to be asked for it, so that what is measured is the server alone.

use crate::message::Kind;
use std::io;

/// Its bytes.
pub(crate) struct Memory(Vec<u8>);

impl Memory {
    pub(crate) fn new(size: u64) -> io::Result<Memory> {
        let too_large = || io::Error::from(io::ErrorKind::OutOfMemory);
        let size = usize::try_from(size).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(size).map_err(|_| too_large())?;
        // Writes to all of it: pages come now, and not with requests.
        bytes.resize(size, 0);
        Ok(Memory(bytes))
    }

    /// Does what is asked for, which is within the volume; appends what is read.
    #[inline]
    pub(crate) fn serve(
        &mut self,
        kind: Kind,
        offset: u64,
        length: u32,
        payload: &[u8],
        output: &mut Vec<u8>,
    ) {
        let start = offset as usize;
        let Some(bytes) = self.0.get_mut(start..start + length as usize) else { return };
        match kind {
            Kind::Read => output.extend_from_slice(bytes),
            Kind::Write => bytes.copy_from_slice(payload),
            Kind::Zero => bytes.fill(0),
            // What is here is nowhere safer.
            Kind::Flush | Kind::List => {}
        }
    }
}
