//! Positional reads that fill a buffer completely.

use blkkin_journal::File;
use std::io;
use std::ops::Range;

/// Reads a range of a file. Returns an error if the file ends before the range does.
pub(crate) fn read(file: &dyn File, range: Range<u64>) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; (range.end - range.start) as usize];
    read_exact(file, &mut bytes, range.start)?;
    Ok(bytes)
}

/// Fills a buffer with the bytes from an offset of a file.
pub(crate) fn read_exact(file: &dyn File, mut to: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !to.is_empty() {
        match file.read_at(to, offset) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => {
                to = &mut to[count..];
                offset += count as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
