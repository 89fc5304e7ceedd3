//! Fuzzes the index beside a span file, with correct checksums: the index is refused, or searches
//! stay within the rows of the index.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    blkkin_lake::testing::index(bytes);
});
