//! Fuzzes a store's manifest, with a correct checksum. The manifest is refused, or its numbers
//! cause no overflow and it is unchanged when written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    blkkin_lake::testing::manifest(bytes);
});
