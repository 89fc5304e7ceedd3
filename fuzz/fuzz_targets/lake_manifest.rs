//! A store's manifest may say anything, with a checksum that is right: it is refused, or its numbers can be reckoned with,
//! and it is the same when it is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    blkkin_lake::testing::manifest(bytes);
});
