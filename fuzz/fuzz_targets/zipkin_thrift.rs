//! Fuzzes the decoders of Zipkin's thrift, for a list and for a single span. The decoders survive
//! any batch, and the decoded spans can be encoded. The first byte selects a list or a span.
#![no_main]

mod wire;

use blkkin_wire::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let is_list = input.first() == Some(&12);
    wire::check_batch(if is_list { Format::ZipkinThrift } else { Format::ZipkinThriftSpan }, input);
});
