//! Fuzzes the decoders of answers from OpenTelemetry receivers: any bytes are decoded or refused,
//! and stored messages have a bounded size.
#![no_main]

use blkkin_wire::{Failure, PartialSuccess};
use libfuzzer_sys::fuzz_target;

/// Maximum size of a stored message, in bytes. The decoder reads at most 1 KiB of a message, and
/// replaces each invalid byte by three bytes.
const MESSAGE_BYTES_MAX: usize = 3 << 10;

fuzz_target!(|bytes: &[u8]| {
    for partial in [PartialSuccess::from_proto(bytes), PartialSuccess::from_json(bytes)] {
        assert!(partial.is_err() || partial.is_ok_and(|it| it.message.len() <= MESSAGE_BYTES_MAX));
    }
    for failure in [Failure::from_proto(bytes), Failure::from_json(bytes)] {
        assert!(failure.is_err() || failure.is_ok_and(|it| it.message.len() <= MESSAGE_BYTES_MAX));
    }
    let _ = Failure::from_base64(bytes);
});
