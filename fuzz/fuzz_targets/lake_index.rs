//! The index beside a file of spans may say anything, with checksums that are right: it is refused, or each question is
//! answered within what it has.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    blkkin_lake::testing::index(bytes);
});
