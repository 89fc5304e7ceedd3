//! Fuzzing support: reads indexes and manifests from arbitrary bytes.

use crate::files::index::{Index, links, may_hold};
use crate::files::manifest;
use blkkin_journal::File;
use blkkin_store::Window;
use std::io;
use std::sync::Arc;

/// Maximum number of requests that the fuzzer reads from an index. The same limit applies to
/// groups.
const ASKED_MAX: usize = 64;

/// Reads all sections of an index after correcting its magic and checksums. Returns `false` if the
/// index cannot be opened.
pub fn index(bytes: &[u8]) -> bool {
    let file: Arc<dyn File> = Arc::new(Bytes(crate::files::index::with_checksums(bytes)));
    let Ok(index) = Index::open(Arc::clone(&file)) else { return false };
    let directory = &index.directory;
    let (first, last) = (directory.min_start_ns, directory.max_start_ns);
    let windows = [(0, u64::MAX), (first, last), (first.saturating_add(1), last / 2)];
    for (start_ns, end_ns) in windows {
        if let Ok(ordinals) = index.ordinals(Window { start_ns, end_ns }) {
            assert!(ordinals.end <= directory.timed);
            for (place, group) in directory.all_groups().enumerate().take(ASKED_MAX) {
                let entries = index.entries(place, &ordinals).unwrap_or_default();
                assert!(entries.len() <= group.entries.len as usize);
            }
        }
    }
    for ordinal in 0..directory.timed.min(ASKED_MAX as u32) {
        let _ = index.start_ns(ordinal);
        if let Ok(rows) = index.rows(ordinal) {
            assert!(rows.end <= directory.rows);
        }
    }
    let _ = index.ordinals_elsewhere();
    let codes = index.length_codes().unwrap_or_default();
    assert!(codes.len() <= directory.timed as usize);
    let of_file = may_hold(&*file, &index.sections.bloom, first);
    assert_eq!(of_file.ok(), Some(index.may_hold(first)));
    let _ = links(&*file, &index.sections.links);
    true
}

/// Parses a manifest after appending its checksum to the JSON text. Asserts that a valid manifest
/// survives a round trip. Returns whether the manifest is valid.
pub fn manifest(json: &[u8]) -> bool {
    manifest::survives_writing(json)
}

/// Read-only file in memory.
struct Bytes(Vec<u8>);

impl File for Bytes {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        let from = usize::try_from(offset).ok().and_then(|from| self.0.get(from..));
        let from = from.unwrap_or_default();
        let count = from.len().min(to.len());
        to[..count].copy_from_slice(&from[..count]);
        Ok(count)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn reserve(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn forget(&self) -> io::Result<()> {
        Ok(())
    }

    fn size_bytes(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    /// Returns a copy of the bytes with one to three random changes. A quarter of the copies are
    /// truncated.
    fn mutate(bytes: &[u8], number: &mut u64) -> Vec<u8> {
        let mut below = |bound: usize| {
            *number = number.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (*number >> 33) as usize % bound
        };
        let mut bytes = bytes.to_vec();
        for _ in 0..=below(3) {
            let at = below(bytes.len());
            let values = [0, 1, 0x7f, 0x80, 0xff, b'0', b'9', below(256) as u8];
            bytes[at] = values[below(values.len())];
        }
        bytes.truncate(bytes.len() - below(bytes.len()) * usize::from(below(4) == 0));
        bytes
    }

    /// The fuzzer's seeds are valid, and random changes of them cause no panic.
    #[test]
    fn seeds_are_read() {
        let mut number = 1;
        let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
        for (target, read) in
            [("lake_index", super::index as fn(&[u8]) -> bool), ("lake_manifest", super::manifest)]
        {
            let seeds: Vec<_> = std::fs::read_dir(corpus.join(target)).expect("seeds").collect();
            assert!(!seeds.is_empty());
            for seed in seeds {
                let path = seed.expect("a seed").path();
                let bytes = std::fs::read(&path).expect("read");
                assert!(read(&bytes), "{}", path.display());
                for _ in 0..3000 {
                    let _ = read(&mutate(&bytes, &mut number));
                }
            }
        }
    }
}
