//! Fuzzes the parser of CTF 2 metadata: it survives any text.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = blkkin_ctf::ctf2::parse(&String::from_utf8_lossy(bytes));
});
