//! Fuzzes a store's manifest, with a correct checksum. The manifest either is refused or
//! round-trips unchanged, and its numbers cause no overflow.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    blkkin_lake::testing::manifest(bytes);
});
