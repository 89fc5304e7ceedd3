//! Fuzzes the parser of filter expressions: it survives any text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = blkkin_filter::Filter::parse(&String::from_utf8_lossy(bytes));
});
