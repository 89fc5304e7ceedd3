//! The first pass over an image: finds the first pages of areas, and pages that may be page tables.

use crate::image::{Image, Machine, PAGE, Page, Space, long};
use std::io;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};

/// Size of the parts that are read at once, in bytes.
const PART_SIZE: u64 = 1 << 20;
/// Maximum number of threads. More would wait for memory.
const THREADS_MAX: usize = 4;

/// First word of the memory of rings.
const RINGS_MAGIC: u64 = u64::from_le_bytes(*b"blkring\0");
/// First word of a catalog.
const CATALOG_MAGIC: u64 = blkkin_control::catalog::MAGIC[0];

/// Addresses of pages that the scan has found, in ascending order.
#[derive(Debug, Default)]
pub(crate) struct ScanResult {
    /// Pages that start with the magic number of rings.
    pub(crate) rings: Vec<u64>,
    /// Pages that start with the magic number of a catalog.
    pub(crate) catalogs: Vec<u64>,
    /// Pages that may be page tables of processes; only of physical memory.
    pub(crate) tables: Vec<u64>,
}

impl ScanResult {
    fn add(&mut self, mut more: ScanResult) {
        self.rings.append(&mut more.rings);
        self.catalogs.append(&mut more.catalogs);
        self.tables.append(&mut more.tables);
    }

    fn look_at(&mut self, address: u64, page: &Page, tables_of: Option<Machine>) {
        match long(page, 0) {
            RINGS_MAGIC => self.rings.push(address),
            CATALOG_MAGIC => self.catalogs.push(address),
            _ if tables_of.is_some_and(|machine| machine.may_be_table(page)) => {
                self.tables.push(address);
            }
            _ => {}
        }
    }
}

/// Part of an image that one thread reads at once.
struct Part {
    address: u64,
    offset: u64,
    size: usize,
}

/// Reads all of an image on some threads. Memory use is bounded by 8 bytes for each page of the
/// image.
pub(crate) fn scan(image: &Image) -> io::Result<ScanResult> {
    let parts = Mutex::new(image.segments().iter().flat_map(parts_of));
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(THREADS_MAX);
    let scan_parts = || {
        let mut found = ScanResult::default();
        let mut bytes = vec![0; PART_SIZE as usize];
        let tables_of = (image.space() == Space::Physical).then_some(image.machine());
        while let Some(part) = next() {
            let bytes = &mut bytes[..part.size];
            image.read_part(part.offset, bytes)?;
            let (pages, _) = bytes.as_chunks::<PAGE>();
            for (page, address) in pages.iter().zip((part.address..).step_by(PAGE)) {
                found.look_at(address, page, tables_of);
            }
        }
        Ok(found)
    };
    let all: io::Result<Vec<ScanResult>> = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(scan_parts)).collect();
        let own = scan_parts();
        let ended = others.into_iter().map(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a thread of the scan has failed")))
        });
        [own].into_iter().chain(ended).collect()
    });
    let mut found = ScanResult::default();
    all?.into_iter().for_each(|part| found.add(part));
    for list in [&mut found.rings, &mut found.catalogs, &mut found.tables] {
        list.sort_unstable();
    }
    Ok(found)
}

fn parts_of(segment: &crate::image::Segment) -> impl Iterator<Item = Part> + use<> {
    let segment = *segment;
    (0..segment.size).step_by(PART_SIZE as usize).map(move |at| Part {
        address: segment.address + at,
        offset: segment.offset + at,
        size: PART_SIZE.min(segment.size - at) as usize,
    })
}

impl Machine {
    /// Bits of an entry that are not 0 in no entry of a user's page table: upper bits of an address
    /// that is larger than any machine's.
    const ADDRESS_UPPER: u64 = 0x000f_0000_0000_0000;
    /// Bits of an entry with the address of a frame.
    const ADDRESS: u64 = 0x0000_ffff_ffff_f000;

    /// Returns false if a page cannot be a page table of a process: if any of its entries that are
    /// marked as valid is invalid, or if it has no valid entry.
    pub(crate) fn may_be_table(self, page: &Page) -> bool {
        // A valid entry has bit 0; user's entries of x86 have bit 2, those of ARM bit 1.
        let needed = match self {
            Machine::X86 => 0b101,
            Machine::Arm => 0b11,
        };
        let (entries, _) = page.as_chunks::<8>();
        let (groups, _) = entries.as_chunks::<16>();
        let mut has_valid = false;
        for group in groups {
            let (mut bad, mut valid) = (0, 0);
            for entry in group {
                let entry = u64::from_le_bytes(*entry);
                let is_valid = entry & 1;
                valid |= is_valid;
                let is_odd = (entry & Machine::ADDRESS_UPPER) | (!entry & needed);
                bad |= is_odd * is_valid;
            }
            if bad != 0 {
                return false;
            }
            has_valid |= valid != 0;
        }
        has_valid
    }

    /// Returns the address of the frame to which an entry of a user's page table points; `None` if
    /// the entry is not valid.
    pub(crate) fn frame_of(self, entry: u64) -> Option<u64> {
        let needed = match self {
            Machine::X86 => 0b101,
            Machine::Arm => 0b11,
        };
        (entry & needed == needed).then_some(entry & Machine::ADDRESS)
    }

    /// Returns true if an entry of a second or higher level maps a large page and not a table.
    pub(crate) fn is_large(self, entry: u64) -> bool {
        self == Machine::X86 && entry & 0x80 != 0
    }
}
