//! Fuzzes the decoder of Zipkin's v1 JSON: it survives any batch, and the decoded spans can be
//! encoded.
#![no_main]

mod wire;

use blkkin_wire::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| wire::check_batch(Format::ZipkinV1Json, input));
