//! [`Options`] of the writer.

/// How files are written.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// How hard zstd tries, from 1 on.
    pub level: i32,
    /// The same where values recur: names, tags and the like.
    pub level_of_recurring: i32,
    /// Most rows of a row group.
    pub rows_of_group: usize,
    /// Most rows of a page: as much as is decoded to find one. More than 65536 are taken for so many.
    pub rows_of_page: usize,
    /// Whether other programs get a bloom filter of request ids.
    pub bloom: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            level: 1,
            level_of_recurring: 1,
            rows_of_group: 1 << 16,
            rows_of_page: 2048,
            bloom: true,
        }
    }
}
