//! Event types of a program, from the memory of its catalog.

use crate::area::CatalogArea;
use crate::image::{Image, long};
use blkkin_control::{EventType, catalog, limits::EVENT_TYPES_MAX};
use std::collections::BTreeMap;
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
    pub(crate) fn read(area: &CatalogArea, images: &[Image]) -> io::Result<Types> {
        let end = catalog::word_of(EVENT_TYPES_MAX) as u64;
        let start = catalog::word_of(0) as u64;
        let count = area.area.load(images, 0..start)?;
        let count = long(&count.bytes, catalog::COUNT).min(EVENT_TYPES_MAX as u64);
        let table = area.area.load(images, start..end)?;
        let mut types = Types::default();
        for index in 0..count as usize {
            match area.read_type(images, index, long(&table.bytes, 8 * index))? {
                Some(found) => types.found.push(found),
                // A type that is being described has no events yet, and would be lost in vain.
                None => types.lost += 1,
            }
        }
        Ok(types)
    }
}

impl Types {
    /// Reads the event types of a program from the catalogs that have its number: copies of one
    /// catalog, each of which may lack some types. Returns `None` if there is no catalog, or if two
    /// differ in a type.
    pub(crate) fn of_copies<'c>(
        copies: impl Iterator<Item = &'c CatalogArea>,
        images: &[Image],
    ) -> io::Result<Option<Types>> {
        /// Maximum number of copies that are read, which bounds the work on forged images.
        const COPIES_MAX: usize = 8;
        let mut all: Option<BTreeMap<u32, EventType>> = None;
        let mut count = 0;
        for copy in copies.take(COPIES_MAX) {
            let types = Types::read(copy, images)?;
            count = count.max(types.found.len() as u64 + types.lost);
            let all = all.get_or_insert_default();
            for found in types.found {
                let index = found.index;
                if all.get(&index).is_some_and(|other| *other != found) {
                    return Ok(None);
                }
                all.insert(index, found);
            }
        }
        Ok(all.map(|all| {
            let lost = count.saturating_sub(all.len() as u64);
            Types { found: all.into_values().collect(), lost }
        }))
    }
}

impl CatalogArea {
    fn read_type(
        &self,
        images: &[Image],
        index: usize,
        word: u64,
    ) -> io::Result<Option<EventType>> {
        let Some(place) = catalog::decode_word(word) else { return Ok(None) };
        let place = place.start as u64..place.end as u64;
        let Some(bytes) = self.area.bytes(images, place)? else { return Ok(None) };
        Ok(catalog::decode(&bytes).ok().filter(|found| found.index as usize == index))
    }
}
