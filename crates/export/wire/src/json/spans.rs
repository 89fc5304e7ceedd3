//! A list of spans, of which a bad one costs itself only where its end can be found.

use super::Reader;
use crate::decoder::{Batch, Stop};
use crate::fault::{Fault, Result};

/// Why a span is not taken.
pub(crate) enum Refused {
    /// It is bad.
    Fault(Box<Fault>),
    /// No more are wanted.
    Stop(Stop),
}

/// Reads the items of a list, of which there is one, by `one`, which gives back where the span ends.
pub(crate) fn spans(
    reader: &mut Reader<'_>,
    batch: &mut Batch<'_>,
    mut one: impl FnMut(Reader<'_>, &mut Batch<'_>) -> Result<usize, Refused>,
) -> Result<(), Stop> {
    loop {
        reader.peek()?;
        let start = reader.at();
        batch.open(start)?;
        match one(*reader, batch) {
            Ok(end) => reader.go_to(end),
            Err(Refused::Stop(stop)) => return Err(stop),
            Err(Refused::Fault(fault)) => {
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

impl From<Box<Fault>> for Refused {
    fn from(fault: Box<Fault>) -> Refused {
        Refused::Fault(fault)
    }
}

impl From<Stop> for Refused {
    fn from(stop: Stop) -> Refused {
        Refused::Stop(stop)
    }
}
