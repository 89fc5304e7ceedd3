//! Pages of which a file has bytes. The gaps of a file are skipped, since they can be far larger
//! than the file.

use crate::error::ImageError;
use crate::memory::{PAGE, Segment};
use crate::source::Source;

/// Maximum number of parts of a file that are visited.
const PARTS_MAX: usize = 1 << 23;

/// Returns the pages of segments of which the file has a byte, as segments in the same order. A
/// page has `unit` bytes in the file; those of the page at `offset` start at `place_of(offset)`.
pub(crate) fn pages_of(
    source: &Source,
    segments: Vec<Segment>,
    unit: u64,
    place_of: impl Fn(u64) -> u64,
) -> Result<Vec<Segment>, ImageError> {
    let mut stored: Vec<Segment> = Vec::new();
    let mut parts_left = PARTS_MAX;
    for segment in segments {
        let start = place_of(segment.offset);
        let end = start + segment.size / PAGE as u64 * unit;
        let mut at = start;
        while let Some(part) = source.next_stored(at..end) {
            let too_many = ImageError::Damaged("it has too many parts");
            parts_left = parts_left.checked_sub(1).ok_or(too_many)?;
            let pages = (part.start - start) / unit..(part.end - start).div_ceil(unit);
            at = start + pages.end * unit;
            push(&mut stored, segment.part(pages));
        }
    }
    Ok(stored)
}

/// Adds a segment, or extends the last one if it continues that.
fn push(segments: &mut Vec<Segment>, segment: Segment) {
    match segments.last_mut() {
        Some(last)
            if last.address + last.size == segment.address
                && last.offset + last.size == segment.offset =>
        {
            last.size += segment.size;
        }
        _ => segments.push(segment),
    }
}

#[cfg(test)]
mod tests {
    use crate::image::{Image, ImageError, PAGE};
    use crate::{Options, extract};
    use blkkin_sys::MemoryFile;
    use std::time::{Duration, Instant};

    /// An offset near the largest of a file, which is a multiple of a page.
    const FAR: u64 = (1 << 63) - (1 << 20);

    /// Returns a flattened file with these records.
    fn flattened(records: &[(u64, &[u8])]) -> Vec<u8> {
        let mut bytes = b"makedumpfile\0".to_vec();
        bytes.resize(PAGE, 0);
        for (offset, content) in records {
            bytes.extend(offset.to_be_bytes());
            bytes.extend((content.len() as u64).to_be_bytes());
            bytes.extend(*content);
        }
        bytes.extend([0xff; 16]);
        bytes
    }

    /// Returns the header of a memory dump with these segments: physical address, offset, size.
    fn elf(segments: &[(u64, u64, u64)]) -> Vec<u8> {
        let mut bytes = b"\x7fELF\x02\x01\x01".to_vec();
        bytes.resize(64 + 56 * segments.len(), 0);
        for (at, half) in [(16, 4), (18, 62), (32, 64), (54, 56), (56, segments.len() as u16)] {
            bytes[at..at + 2].copy_from_slice(&half.to_le_bytes());
        }
        for (header, (address, offset, size)) in bytes[64..].chunks_mut(56).zip(segments) {
            header[0] = 1;
            for (at, number) in [(8, offset), (24, address), (32, size)] {
                header[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
        }
        bytes
    }

    /// Returns the headers of a compressed dump with bitmaps of 512 MiB.
    fn kdump() -> Vec<u8> {
        let mut bytes = vec![0; 2 * PAGE];
        bytes[..12].copy_from_slice(b"KDUMP   \x06\0\0\0");
        bytes[272..278].copy_from_slice(b"x86_64");
        for (at, word) in [(428, PAGE as u32), (432, 1), (436, (1 << 30) / PAGE as u32)] {
            bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        bytes[PAGE + 96..PAGE + 104].fill(0xff);
        bytes
    }

    /// Opens a file of these bytes and, up to `size`, a hole.
    fn image_of(bytes: &[u8], size: u64) -> Result<Image, ImageError> {
        let file = MemoryFile::create(c"image").unwrap();
        file.write(bytes, 0).unwrap();
        file.file().set_len(size.max(bytes.len() as u64)).unwrap();
        Image::of_file(file.file().try_clone().unwrap())
    }

    /// Returns the number of pages of a file, of which nothing can be extracted; `None` if the
    /// file is no image.
    fn pages_in(bytes: &[u8], size: u64) -> Option<u64> {
        let image = image_of(bytes, size).ok()?;
        let pages = image.page_count();
        let report = extract(&[image], &Options::default()).unwrap();
        assert!(report.traces.is_empty());
        Some(pages)
    }

    /// Neither time nor memory depends on the size of the gaps.
    #[test]
    fn gaps_are_skipped() {
        let start = Instant::now();
        assert_eq!(pages_in(&flattened(&[(FAR + 5, &[1; 2 * PAGE])]), 0), Some(2));
        let far_core = elf(&[(PAGE as u64, PAGE as u64, FAR)]);
        let core = [(0, &far_core[..]), (FAR, &[1; 2 * PAGE])];
        assert_eq!(pages_in(&flattened(&core), 0), Some(1));
        assert_eq!(pages_in(&[7; 10], FAR), Some(1));
        assert_eq!(pages_in(&far_core, FAR), Some(0));
        // Bitmaps and descriptions are in gaps.
        let dump = kdump();
        assert_eq!(pages_in(&flattened(&[(0, &dump), (FAR, &[1])]), 0), Some(0));
        assert_eq!(pages_in(&dump, FAR), Some(0));
        // The second bitmap has pages, and one description is there.
        let (second, descriptions) = (2 * PAGE as u64 + (512 << 20), 2 * PAGE as u64 + (1 << 30));
        let bits: (u64, &[u8]) = (second + 100, &[0xff; 1000]);
        let records = [(0, &dump[..]), bits, (descriptions + 24 * 70, &[1; 24]), (FAR, &[1])];
        assert_eq!(pages_in(&flattened(&records), 0), Some(1));
        assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    }

    /// The images among the inputs of the fuzzer are small, and so is the work on them.
    #[test]
    fn hostile_images_are_read_soon() {
        let corpus = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/corpus/crash_image");
        let mut images = 0;
        for entry in std::fs::read_dir(corpus).unwrap() {
            let bytes = std::fs::read(entry.unwrap().path()).unwrap();
            // An odd first byte tells that the rest is an image.
            let Some((1, image)) = bytes.split_first() else { continue };
            let start = Instant::now();
            if let Ok(image) = image_of(image, 0) {
                assert!(image.page_count() < 1000);
                let _ = extract(&[image], &Options::default());
            }
            assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
            images += 1;
        }
        assert!(images >= 5);
    }

    /// Segments that all have the same bytes of the file make no image.
    #[test]
    fn repeated_segments_are_refused() {
        let of_count = |count: u64| {
            let segments: Vec<(u64, u64, u64)> =
                (1..=count).map(|at| (at << 30, 0, 1 << 20)).collect();
            pages_in(&elf(&segments), 1 << 20)
        };
        assert!(of_count(1).is_some());
        assert_eq!(of_count(1000), None);
    }

    /// Each page of segments that overlap is found, and is found once.
    #[test]
    fn overlapping_segments_are_cut() {
        let page = PAGE as u64;
        // Addresses in pages: 1 to 3, 1 to 9, 4 to 12, 12 to 13, 5 to 6.
        let segments = [(1, 1, 2), (1, 1, 8), (4, 4, 8), (12, 12, 1), (5, 5, 1)];
        let segments = segments.map(|(at, offset, size)| (at * page, offset * page, size * page));
        let mut bytes = elf(&segments);
        bytes.resize(13 * PAGE, 1);
        let image = image_of(&bytes, 0).unwrap();
        assert_eq!(image.page_count(), 12);
        assert!((1..13).all(|at| image.has_page(at * page)));
        assert!(!image.has_page(0) && !image.has_page(13 * page));
    }
}
