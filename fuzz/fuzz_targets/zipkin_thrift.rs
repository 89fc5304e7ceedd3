//! The decoders of Zipkin's thrift, of a list and of one span, survive any batch, and what they give
//! can be written. A list starts with a byte that no span starts with.
#![no_main]

mod wire;

use blkkin_wire::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let is_list = input.first() == Some(&12);
    wire::survive(if is_list { Format::ZipkinThrift } else { Format::ZipkinThriftSpan }, input);
});
