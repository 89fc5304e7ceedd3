//! Event types of a program, from the memory of its catalog.

use crate::area::CatalogArea;
use crate::image::{Image, long};
use blkkin_control::{EventType, catalog, limits::EVENT_TYPES_MAX};
use std::io;

/// Event types that were found in a catalog.
#[derive(Debug, Default)]
pub(crate) struct Types {
    pub(crate) found: Vec<EventType>,
    /// Number of types whose description is missing or damaged. Their events cannot be read.
    pub(crate) lost: u64,
}

impl Types {
    /// Reads the event types of a catalog. Without the page that counts them, all entries of the
    /// table are tried.
    pub(crate) fn read(area: &CatalogArea, image: &Image) -> io::Result<Types> {
        let end = catalog::word_of(EVENT_TYPES_MAX) as u64;
        let start = catalog::word_of(0) as u64;
        let count = area.area.load(image, 0..start)?;
        let count = long(&count.bytes, catalog::COUNT).min(EVENT_TYPES_MAX as u64);
        let table = area.area.load(image, start..end)?;
        let mut types = Types::default();
        for index in 0..count as usize {
            match area.read_type(image, index, long(&table.bytes, 8 * index))? {
                Some(found) => types.found.push(found),
                // A type that is being described has no events yet, and would be lost in vain.
                None => types.lost += 1,
            }
        }
        Ok(types)
    }
}

impl CatalogArea {
    fn read_type(&self, image: &Image, index: usize, word: u64) -> io::Result<Option<EventType>> {
        let Some(place) = catalog::decode_word(word) else { return Ok(None) };
        let place = place.start as u64..place.end as u64;
        let Some(bytes) = self.area.bytes(image, place)? else { return Ok(None) };
        Ok(catalog::decode(&bytes).ok().filter(|found| found.index as usize == index))
    }
}
