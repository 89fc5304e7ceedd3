//! Reads a list of spans. A fault affects only one span if the end of the span can be found.

use super::Reader;
use crate::batch::{Batch, Stop};
use crate::error::{Fault, Result};

/// Reason why a span was not read: its own fault, or the end of decoding.
pub(crate) enum ItemError {
    /// The span has a fault.
    Fault(Box<Fault>),
    /// Decoding of the batch must stop.
    Stop(Stop),
}

/// Reads the items of a non-empty list. `one` decodes a span and returns the offset of its end.
pub(crate) fn spans(
    reader: &mut Reader<'_>,
    batch: &mut Batch<'_>,
    mut one: impl FnMut(Reader<'_>, &mut Batch<'_>) -> Result<usize, ItemError>,
) -> Result<(), Stop> {
    loop {
        reader.peek()?;
        let start = reader.at();
        batch.open(start)?;
        match one(*reader, batch) {
            Ok(end) => reader.go_to(end),
            Err(ItemError::Stop(stop)) => return Err(stop),
            Err(ItemError::Fault(fault)) => {
                reader.go_to(start);
                reader.skip()?;
                batch.refuse(*fault);
            }
        }
        if !reader.more_items()? {
            return Ok(());
        }
    }
}

impl From<Box<Fault>> for ItemError {
    fn from(fault: Box<Fault>) -> ItemError {
        ItemError::Fault(fault)
    }
}

impl From<Stop> for ItemError {
    fn from(stop: Stop) -> ItemError {
        ItemError::Stop(stop)
    }
}
