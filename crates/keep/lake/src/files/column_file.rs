//! [`ColumnFile`]: the columns of a span file, read through the store's [`Disk`].

use crate::Error;
use crate::files::bytes::read_exact;
use crate::files::naming::{open_either, spans_name};
use blkkin_columns::{Block, ReadAt};
use blkkin_journal::{Disk, File};
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

pub(crate) type ColumnFile = blkkin_columns::File<DiskInput>;

/// Number of rows read at a time when an index is rebuilt, a file is adopted, or the values of a
/// tag key are collected.
pub(crate) const ROWS_AT_ONCE: u32 = 64 << 10;

pub(crate) fn spans_error(number: u64, error: impl fmt::Display) -> Error {
    Error::Spans(format!("{}: {error}", spans_name(number)))
}

/// Converts a read error of the `columns` crate. An error of the operating system stays distinct
/// from damage of the file.
pub(crate) fn read_error(number: u64, error: blkkin_columns::Error) -> Error {
    match error {
        blkkin_columns::Error::Io(source) => Error::io(spans_name(number))(source),
        error => spans_error(number, error),
    }
}

pub(crate) fn open_spans(disk: &dyn Disk, number: u64) -> Result<ColumnFile, Error> {
    let file = open_either(disk, number).map_err(Error::io(spans_name(number)))?;
    ColumnFile::open(DiskInput(file)).map_err(|error| read_error(number, error))
}

pub(crate) fn read_rows(
    file: &ColumnFile,
    number: u64,
    rows: Range<u32>,
    to: &mut Block,
) -> Result<(), Error> {
    let wanted = u64::from(rows.start)..u64::from(rows.end);
    match file.rows(wanted.clone(), to) {
        Ok(read) if read == wanted.end - wanted.start => Ok(()),
        Ok(_) => Err(spans_error(number, "more than a block takes")),
        Err(error) => Err(read_error(number, error)),
    }
}

/// Adapter that reads a span file of the disk for the `columns` crate.
pub(crate) struct DiskInput(pub(crate) Arc<dyn File>);

impl ReadAt for DiskInput {
    fn len(&self) -> io::Result<u64> {
        self.0.size_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        read_exact(&*self.0, buffer, offset)
    }
}
