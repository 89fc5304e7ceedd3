//! [`Names`]: reads names of symbols through a window of the file, since the names of a large
//! program take hundreds of megabytes.

use super::error::ProgramErrorKind;
use super::source::Source;

/// Maximum size of a name in bytes. Longer names are skipped.
pub(super) const NAME_BYTES_MAX: usize = 32 << 10;
/// Size of the window in bytes.
const WINDOW_BYTES: usize = 256 << 10;

/// Names in a range of a file. Reading in the order of offsets reads each byte about once.
#[derive(Debug)]
pub(super) struct Names<'e> {
    source: &'e Source,
    /// Offset in the file of the first name.
    start: u64,
    /// Size of all names in bytes.
    size: u64,
    window: Vec<u8>,
    /// Offset of the window from `start`.
    window_start: u64,
}

impl<'e> Names<'e> {
    /// Makes a reader of names. The range must be within the file.
    pub(super) fn new(source: &'e Source, start: u64, size: u64) -> Names<'e> {
        Names { source, start, size, window: Vec::new(), window_start: 0 }
    }

    /// Returns the name at an offset. `None` for an empty name, for one longer than
    /// [`NAME_BYTES_MAX`], and for one that does not end within the range.
    pub(super) fn at(&mut self, offset: u32) -> Result<Option<&[u8]>, ProgramErrorKind> {
        let offset = u64::from(offset);
        let end = self.size.min(offset.saturating_add(NAME_BYTES_MAX as u64 + 1));
        let window_end = self.window_start + self.window.len() as u64;
        if offset < self.window_start || end > window_end {
            if offset >= self.size {
                return Ok(None);
            }
            let size = (self.size - offset).min(WINDOW_BYTES as u64) as usize;
            self.window = self.source.read(self.start + offset, size)?;
            self.window_start = offset;
        }
        let rest = self.window.get((offset - self.window_start) as usize..).unwrap_or_default();
        let rest = &rest[..rest.len().min(NAME_BYTES_MAX + 1)];
        let length = rest.iter().position(|byte| *byte == 0);
        Ok(length.filter(|length| *length > 0).map(|length| &rest[..length]))
    }
}
