//! Places of the pages of shared memory in physical memory, by the page tables of the processes
//! that have mapped it.
//!
//! The scan finds the first page of an area by its magic number. Each process that has mapped the
//! area has a page table with an entry for this page; the entries after it are those of the area's
//! next pages. Where a table ends, the table of the next level leads to the next one, and is found
//! in the same way: it has an entry for the table at hand.
//!
//! ```text
//! third level      second level        first level       pages of the area
//! [ .. U  .. ] --> [ .. T1 T2 .. ] --> [ .. H P1 P2 ] --> header page, page 1, page 2
//!                           |
//!                           +--------> [ P3 P4 ..   ] --> page 3, page 4
//! ```
//!
//! No symbols of the kernel are needed, and only the processor defines the form of the entries.
//! Usually an area has two mappings, of the traced program and of the agent; each fills the gaps
//! of the other. Areas are found up to the end of the third level's table, which spans 512 GiB.

use crate::image::{Image, PAGE, Page};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;

/// Entries of a page table.
const ENTRIES: u64 = 512;
/// Size of an entry, in bytes.
const ENTRY_SIZE: usize = 8;

/// Position of an entry: address of its table, and index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EntryPosition {
    table: u64,
    index: u64,
}

/// Positions of the entries that point to a page, by the page's address.
type EntryPositions = HashMap<u64, Vec<EntryPosition>>;

/// Maximum number of entries for one page that are followed. An area has as many mappings as
/// processes share it: two.
const MAPPINGS_MAX: usize = 8;

/// Entries that lead to the first pages of areas, on each level.
#[derive(Debug)]
pub(crate) struct Tables {
    first: EntryPositions,
    second: EntryPositions,
    third: EntryPositions,
}

/// Pages of an area: address in the image, by the index in the area.
pub(crate) type Pages = BTreeMap<u64, u64>;

/// Pages that areas may still use. A page belongs to one place of one area, and the work on all
/// areas together is bounded by the size of the image, whatever its page tables say.
#[derive(Debug)]
pub(crate) struct Claims {
    used: HashSet<u64>,
    /// Page tables that were followed.
    tables: BTreeSet<u64>,
    steps_left: u64,
}

impl Claims {
    pub(crate) fn new(image: &Image) -> Claims {
        /// Average number of visits to each page of an image, at most.
        const VISITS_MAX: u64 = 8;
        /// Number of visits that even a small image may take.
        const VISITS_MIN: u64 = 1 << 16;
        let steps_left = image.page_count().saturating_mul(VISITS_MAX).max(VISITS_MIN);
        Claims { used: HashSet::new(), tables: BTreeSet::new(), steps_left }
    }

    /// Counts `steps` more steps of work. Fails if there were too many.
    pub(crate) fn step(&mut self, steps: u64) -> io::Result<()> {
        self.steps_left = self.steps_left.checked_sub(steps).ok_or_else(|| {
            let text = "its page tables contradict each other: the image is forged";
            io::Error::new(io::ErrorKind::InvalidData, text)
        })?;
        Ok(())
    }

    /// Claims a page for an area. Returns false if an area has it already.
    pub(crate) fn claim(&mut self, address: u64) -> bool {
        self.used.insert(address)
    }

    /// Returns the page tables that were followed.
    pub(crate) fn into_tables(self) -> BTreeSet<u64> {
        self.tables
    }
}

impl Tables {
    /// Searches the page tables among `candidates` for the entries of the first pages `first`.
    pub(crate) fn find(image: &Image, candidates: &[u64], first: &[u64]) -> io::Result<Tables> {
        let tables_of = |places: &EntryPositions| -> Vec<u64> {
            places.values().flatten().map(|place| place.table).collect()
        };
        let first = places_of(image, candidates, first)?;
        let second = places_of(image, candidates, &tables_of(&first))?;
        let third = places_of(image, candidates, &tables_of(&second))?;
        Ok(Tables { first, second, third })
    }

    /// Returns true if no process has mapped the page at `address`: the page is a remnant of freed
    /// memory.
    pub(crate) fn is_unmapped(&self, address: u64) -> bool {
        !self.first.contains_key(&address)
    }

    /// Returns the pages of the area of `count` pages whose first page is at `address`.
    pub(crate) fn pages_of(
        &self,
        image: &Image,
        address: u64,
        count: u64,
        claims: &mut Claims,
    ) -> io::Result<Pages> {
        let mut walk = Walk { image, count, claims, pages: Pages::new() };
        if walk.claims.claim(address) {
            walk.pages.insert(0, address);
        }
        for place in self.first.get(&address).into_iter().flatten() {
            walk.add_first(place.table, place.index, 0)?;
            // Index in the area of the first page that the next table has.
            let next = ENTRIES - place.index;
            for second in self.second.get(&place.table).into_iter().flatten() {
                walk.add_second(second.table, second.index + 1, next)?;
                let next = next + (ENTRIES - 1 - second.index) * ENTRIES;
                for third in self.third.get(&second.table).into_iter().flatten() {
                    walk.add_third(third.table, third.index + 1, next)?;
                }
            }
        }
        Ok(walk.pages)
    }
}

/// Collection of the pages of one area.
struct Walk<'w> {
    image: &'w Image,
    /// Number of pages of the area.
    count: u64,
    claims: &'w mut Claims,
    pages: Pages,
}

impl Walk<'_> {
    /// Adds the pages of a table of the first level from entry `from` on, which is page `page`.
    fn add_first(&mut self, table: u64, from: u64, page: u64) -> io::Result<()> {
        self.each_entry(table, from, page, 1, |walk, entry, page| {
            let Some(frame) = walk.image.machine().frame_of(entry) else { return Ok(()) };
            if !walk.pages.contains_key(&page)
                && walk.image.has_page(frame)
                && walk.claims.claim(frame)
            {
                walk.pages.insert(page, frame);
            }
            Ok(())
        })
    }

    /// Adds the pages below a table of the second level.
    fn add_second(&mut self, table: u64, from: u64, page: u64) -> io::Result<()> {
        self.each_entry(table, from, page, ENTRIES, |walk, entry, page| {
            match walk.image.machine().frame_of(entry) {
                Some(frame) if !walk.image.machine().is_large(entry) => {
                    walk.add_first(frame, 0, page)
                }
                _ => Ok(()),
            }
        })
    }

    /// Adds the pages below a table of the third level.
    fn add_third(&mut self, table: u64, from: u64, page: u64) -> io::Result<()> {
        self.each_entry(table, from, page, ENTRIES * ENTRIES, |walk, entry, page| {
            match walk.image.machine().frame_of(entry) {
                Some(frame) if !walk.image.machine().is_large(entry) => {
                    walk.add_second(frame, 0, page)
                }
                _ => Ok(()),
            }
        })
    }

    /// Calls `each` with the entries of a table, from entry `from` on, each of which spans `span`
    /// pages of the area.
    fn each_entry(
        &mut self,
        table: u64,
        from: u64,
        mut page: u64,
        span: u64,
        each: impl Fn(&mut Self, u64, u64) -> io::Result<()>,
    ) -> io::Result<()> {
        if page >= self.count || from >= ENTRIES {
            return Ok(());
        }
        self.claims.step(1)?;
        let mut bytes: Page = [0; PAGE];
        if !self.image.read_page(table, &mut bytes)? {
            return Ok(());
        }
        self.claims.tables.insert(table);
        let (entries, _) = bytes.as_chunks::<ENTRY_SIZE>();
        for entry in &entries[from as usize..] {
            if page >= self.count {
                break;
            }
            each(self, u64::from_le_bytes(*entry), page)?;
            page += span;
        }
        Ok(())
    }
}

/// Returns the places of entries for the pages `targets` in the tables `candidates`.
fn places_of(image: &Image, candidates: &[u64], targets: &[u64]) -> io::Result<EntryPositions> {
    let mut places: EntryPositions = targets.iter().map(|target| (*target, Vec::new())).collect();
    if places.is_empty() {
        return Ok(places);
    }
    let filter = Filter::of(targets);
    let machine = image.machine();
    let mut page: Page = [0; PAGE];
    for table in candidates {
        if !image.read_page(*table, &mut page)? {
            continue;
        }
        let (entries, _) = page.as_chunks::<ENTRY_SIZE>();
        for (entry, index) in entries.iter().zip(0..) {
            let Some(frame) = machine.frame_of(u64::from_le_bytes(*entry)) else { continue };
            if !filter.may_have(frame) {
                continue;
            }
            if let Some(found) = places.get_mut(&frame)
                && found.len() < MAPPINGS_MAX
            {
                found.push(EntryPosition { table: *table, index });
            }
        }
    }
    places.retain(|_, found| !found.is_empty());
    Ok(places)
}

/// Set of addresses that may have more members than were added.
struct Filter(Vec<u64>);

impl Filter {
    const BITS: u64 = 1 << 16;

    fn of(addresses: &[u64]) -> Filter {
        let mut words = vec![0; (Filter::BITS / 64) as usize];
        for address in addresses {
            let bit = Filter::bit(*address);
            words[(bit / 64) as usize] |= 1 << (bit % 64);
        }
        Filter(words)
    }

    fn may_have(&self, address: u64) -> bool {
        let bit = Filter::bit(address);
        self.0[(bit / 64) as usize] >> (bit % 64) & 1 != 0
    }

    fn bit(address: u64) -> u64 {
        address / PAGE as u64 % Filter::BITS
    }
}
