//! Areas: the shared memory of a set of rings, or of a catalog, put together from an image.

use crate::image::{Image, PAGE, Page, Space};
use crate::scan::{ScanResult, scan};
use crate::tables::{Claims, Pages, Tables};
use blkkin_control::{RingDescription, catalog};
use blkkin_ring::{DESCRIPTION, SHAPE_SIZE, Shape};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Shared memory that an image holds in part or in whole.
#[derive(Debug)]
pub(crate) struct Area {
    /// Pages by image. The first are the area's own; the others are of copies of the area, and fill
    /// its gaps.
    parts: Vec<(usize, Arc<Pages>)>,
}

/// The memory of a set of rings.
#[derive(Debug)]
pub(crate) struct RingArea {
    pub(crate) area: Area,
    pub(crate) shape: Shape,
    /// `None` if an older agent made the rings, or if the description is damaged.
    pub(crate) description: Option<RingDescription>,
    /// For rings of which a later copy has sub-buffers: the least number of these. Those from there
    /// on are read from the copy.
    pub(crate) limits: BTreeMap<usize, u64>,
}

/// The memory of a catalog.
#[derive(Debug)]
pub(crate) struct CatalogArea {
    pub(crate) area: Area,
    /// Number by which rings name the catalog; 0 if the program has not chosen one.
    pub(crate) number: u64,
}

/// All areas of an image.
#[derive(Debug, Default)]
pub(crate) struct Areas {
    pub(crate) rings: Vec<RingArea>,
    pub(crate) catalogs: Vec<CatalogArea>,
    /// Number of first pages that no process has mapped: remnants of freed memory.
    pub(crate) unmapped: u64,
    /// Number of pages of the image that cannot be read.
    pub(crate) unreadable: u64,
    /// Addresses of the pages that lead to others: first pages, pages of catalogs, page tables.
    pub(crate) structure: Vec<u64>,
}

/// Bytes of a range of an area, as far as the image has them. Missing bytes are 0.
#[derive(Debug, Default)]
pub(crate) struct LoadedRange {
    pub(crate) bytes: Vec<u8>,
    /// For each page of the range: true if the image has it, and if it is not all zeros. A page of
    /// zeros is a page that was never written, or that the dump has lost.
    pub(crate) has: Vec<bool>,
}

impl Area {
    /// Returns an area of the pages `pages` of image number `image`.
    fn new(image: usize, pages: Pages) -> Area {
        Area { parts: vec![(image, Arc::new(pages))] }
    }

    /// Fills the gaps of the area by the pages of a copy. Copies after the first few are ignored.
    pub(crate) fn fill(&mut self, copy: &Area) {
        /// Maximum number of parts, which bounds the work on forged images.
        const PARTS_MAX: usize = 8;
        let more = copy.parts.first().filter(|_| self.parts.len() < PARTS_MAX);
        self.parts.extend(more.cloned());
    }

    /// Returns the area without the pages of copies.
    pub(crate) fn own(&self) -> Area {
        Area { parts: self.parts.iter().take(1).cloned().collect() }
    }

    fn own_pages(&self) -> impl Iterator<Item = (&u64, &u64)> {
        self.parts.first().into_iter().flat_map(|(_, pages)| pages.iter())
    }

    /// Returns the number of pages that were found, without those of copies.
    pub(crate) fn page_count(&self) -> u64 {
        self.parts.first().map_or(0, |(_, pages)| pages.len() as u64)
    }

    /// Returns the indexes of the pages within a range of pages, in ascending order.
    pub(crate) fn pages_in(&self, range: Range<u64>) -> Box<dyn Iterator<Item = u64> + '_> {
        let indexes = |pages: &'_ Pages| -> Vec<u64> {
            pages.range(range.clone()).map(|(index, _)| *index).collect()
        };
        match &self.parts[..] {
            [(_, pages)] => Box::new(pages.range(range).map(|(index, _)| *index)),
            parts => {
                let all: BTreeSet<u64> =
                    parts.iter().flat_map(|(_, pages)| indexes(pages)).collect();
                Box::new(all.into_iter())
            }
        }
    }

    /// Reads a range of bytes, which starts at a page.
    pub(crate) fn load(&self, images: &[Image], range: Range<u64>) -> io::Result<LoadedRange> {
        let first = range.start / PAGE as u64;
        let size = (range.end - range.start) as usize;
        let count = size.div_ceil(PAGE);
        let mut loaded = LoadedRange { bytes: vec![0; count * PAGE], has: vec![false; count] };
        let (pages, _) = loaded.bytes.as_chunks_mut::<PAGE>();
        for (image, part) in &self.parts {
            let Some(image) = images.get(*image) else { continue };
            for (index, address) in part.range(first..first + count as u64) {
                let at = (index - first) as usize;
                let (Some(page), Some(has)) = (pages.get_mut(at), loaded.has.get_mut(at)) else {
                    continue;
                };
                *has = *has || (image.read_page(*address, page)? && !is_zero(page));
            }
        }
        loaded.bytes.truncate(size);
        Ok(loaded)
    }

    /// Reads bytes at any place; `None` unless the image has all of their pages.
    pub(crate) fn bytes(&self, images: &[Image], range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let start = range.start / PAGE as u64 * PAGE as u64;
        let loaded = self.load(images, start..range.end)?;
        let is_whole = loaded.has.iter().all(|has| *has);
        Ok(is_whole.then(|| loaded.bytes[(range.start - start) as usize..].to_vec()))
    }
}

fn is_zero(page: &Page) -> bool {
    page.iter().all(|byte| *byte == 0)
}

impl Areas {
    /// Finds all areas of an image, which is number `number` in the list of images.
    pub(crate) fn find(image: &Image, number: usize) -> io::Result<Areas> {
        let (found, unreadable) = image.count_unreadable(|| scan(image))?;
        let mut claims = Claims::new(image);
        let firsts = FirstPages::read(image, &found)?;
        let tables = match image.space() {
            Space::Physical => Some(Tables::find(image, &found.tables, &firsts.addresses())?),
            Space::Process | Space::File => None,
        };
        let mut areas = Areas { unreadable, ..Areas::default() };
        let mut area_of = |address: u64, size: u64| -> io::Result<Option<Area>> {
            let count = size.div_ceil(PAGE as u64);
            let pages = match &tables {
                Some(tables) if tables.is_unmapped(address) => return Ok(None),
                Some(tables) => tables.pages_of(image, address, count, &mut claims)?,
                None => contiguous(image, address, count, &mut claims)?,
            };
            Ok(Some(Area::new(number, pages)))
        };
        for (address, shape, description) in firsts.rings {
            match area_of(address, shape.memory_size() as u64)? {
                Some(area) => {
                    let limits = BTreeMap::new();
                    areas.rings.push(RingArea { area, shape, description, limits });
                }
                None => areas.unmapped += 1,
            }
        }
        for (address, identity) in firsts.catalogs {
            match area_of(address, catalog::SIZE as u64)? {
                Some(area) => {
                    areas.catalogs.push(CatalogArea { area, number: identity });
                }
                None => areas.unmapped += 1,
            }
        }
        areas.structure = claims.into_tables().into_iter().collect();
        let firsts = areas.rings.iter().flat_map(|one| one.area.own_pages().take(1));
        let firsts = firsts.filter(|(index, _)| **index == 0);
        let catalogs = areas.catalogs.iter().flat_map(|one| one.area.own_pages());
        areas.structure.extend(firsts.chain(catalogs).map(|(_, address)| *address));
        Ok(areas)
    }
}

/// First pages of areas that are valid.
struct FirstPages {
    rings: Vec<(u64, Shape, Option<RingDescription>)>,
    catalogs: Vec<(u64, u64)>,
}

/// Maximum number of areas in an image. A machine has one set of rings for each program and
/// channel; the limit bounds the memory that a forged image takes.
const AREAS_MAX: usize = 1 << 16;

impl FirstPages {
    fn read(image: &Image, found: &ScanResult) -> io::Result<FirstPages> {
        let mut first = FirstPages { rings: Vec::new(), catalogs: Vec::new() };
        let mut page: Page = [0; PAGE];
        for address in found.rings.iter().take(AREAS_MAX) {
            if !image.read_page(*address, &mut page)? {
                continue;
            }
            let mut header = [0; SHAPE_SIZE];
            header.copy_from_slice(&page[..SHAPE_SIZE]);
            if let Ok(shape) = Shape::of_memory(&header, usize::MAX) {
                let description = RingDescription::from_block(&page[DESCRIPTION]);
                first.rings.push((*address, shape, description));
            }
        }
        for address in found.catalogs.iter().take(AREAS_MAX) {
            if image.read_page(*address, &mut page)?
                && crate::image::long(&page, 8) == catalog::MAGIC[1]
            {
                first.catalogs.push((*address, crate::image::long(&page, catalog::IDENTITY)));
            }
        }
        Ok(first)
    }

    fn addresses(&self) -> Vec<u64> {
        let rings = self.rings.iter().map(|(address, ..)| *address);
        rings.chain(self.catalogs.iter().map(|(address, _)| *address)).collect()
    }
}

/// Returns the pages of an area that is contiguous in the image.
fn contiguous(image: &Image, start: u64, count: u64, claims: &mut Claims) -> io::Result<Pages> {
    let page = PAGE as u64;
    let end = start.saturating_add(count.saturating_mul(page));
    let mut pages = Pages::new();
    let segments = image.segments();
    let first = segments.partition_point(|segment| segment.address + segment.size <= start);
    for segment in &segments[first..] {
        claims.step(1)?;
        if segment.address >= end {
            break;
        }
        let from = segment.address.max(start);
        let to = (segment.address + segment.size).min(end);
        for address in (from..to).step_by(PAGE) {
            claims.step(1)?;
            if claims.claim(address) {
                pages.insert((address - start) / page, address);
            }
        }
    }
    Ok(pages)
}
