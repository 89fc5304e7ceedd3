//! [`Options`] of the writer of span files.

/// Options of a [`Writer`](crate::Writer).
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// zstd level, 1 to 22, of columns whose values do not recur, such as ids and times, and of the
    /// index.
    pub level: i32,
    /// zstd level, 1 to 22, of columns whose values recur, such as names and tags.
    pub level_of_recurring: i32,
    /// Maximum number of rows in a row group.
    pub rows_of_group: usize,
    /// Maximum number of rows in a page. To read one row, its whole page is decoded. Values above
    /// 65536 are treated as 65536.
    pub rows_of_page: usize,
    /// Set to write a Bloom filter of trace ids, for other Parquet readers.
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
