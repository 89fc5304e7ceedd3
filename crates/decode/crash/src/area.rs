//! Areas: the shared memory of a set of rings, or of a catalog, put together from an image.

use crate::image::{Image, PAGE, Page, Space};
use crate::scan::{ScanResult, scan};
use crate::tables::{Claims, Pages, Tables};
use blkkin_control::{RingDescription, catalog};
use blkkin_ring::{DESCRIPTION, SHAPE_SIZE, Shape};
use std::io;
use std::ops::Range;

/// Shared memory that an image holds in part or in whole.
#[derive(Debug)]
pub(crate) struct Area {
    pages: Pages,
}

/// The memory of a set of rings.
#[derive(Debug)]
pub(crate) struct RingArea {
    /// Index of the image in the list of images.
    pub(crate) image: usize,
    pub(crate) area: Area,
    pub(crate) shape: Shape,
    /// `None` if an older agent made the rings, or if the description is damaged.
    pub(crate) description: Option<RingDescription>,
}

/// The memory of a catalog.
#[derive(Debug)]
pub(crate) struct CatalogArea {
    pub(crate) image: usize,
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
    /// Returns the number of pages that were found.
    pub(crate) fn page_count(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Returns the indexes of the pages within a range of pages.
    pub(crate) fn pages_in(&self, range: Range<u64>) -> impl Iterator<Item = u64> {
        self.pages.range(range).map(|(index, _)| *index)
    }

    /// Reads a range of bytes, which starts at a page.
    pub(crate) fn load(&self, image: &Image, range: Range<u64>) -> io::Result<LoadedRange> {
        let first = range.start / PAGE as u64;
        let size = (range.end - range.start) as usize;
        let count = size.div_ceil(PAGE);
        let mut loaded = LoadedRange { bytes: vec![0; count * PAGE], has: vec![false; count] };
        let (pages, _) = loaded.bytes.as_chunks_mut::<PAGE>();
        for (index, address) in self.pages.range(first..first + count as u64) {
            let at = (index - first) as usize;
            let (Some(page), Some(has)) = (pages.get_mut(at), loaded.has.get_mut(at)) else {
                continue;
            };
            *has = image.read_page(*address, page)? && !is_zero(page);
        }
        loaded.bytes.truncate(size);
        Ok(loaded)
    }

    /// Reads bytes at any place; `None` unless the image has all of their pages.
    pub(crate) fn bytes(&self, image: &Image, range: Range<u64>) -> io::Result<Option<Vec<u8>>> {
        let start = range.start / PAGE as u64 * PAGE as u64;
        let loaded = self.load(image, start..range.end)?;
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
            Ok(Some(Area { pages }))
        };
        for (address, shape, description) in firsts.rings {
            match area_of(address, shape.memory_size() as u64)? {
                Some(area) => {
                    areas.rings.push(RingArea { image: number, area, shape, description });
                }
                None => areas.unmapped += 1,
            }
        }
        for (address, identity) in firsts.catalogs {
            match area_of(address, catalog::SIZE as u64)? {
                Some(area) => {
                    areas.catalogs.push(CatalogArea { image: number, area, number: identity });
                }
                None => areas.unmapped += 1,
            }
        }
        areas.structure = claims.into_tables().into_iter().collect();
        areas.structure.extend(areas.rings.iter().filter_map(|one| one.area.pages.get(&0)));
        areas.structure.extend(areas.catalogs.iter().flat_map(|one| one.area.pages.values()));
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
