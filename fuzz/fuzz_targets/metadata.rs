//! Fuzzes the unpacker of metadata packets, with the parsers that it calls: they survive any bytes.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = blkkin_ctf::metadata::parse(bytes);
});
