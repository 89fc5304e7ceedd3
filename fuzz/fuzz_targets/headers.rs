//! Fuzzes the readers of trace contexts in requests. The readers survive any bytes, and each
//! context round-trips unchanged.
//!
//! The input is a value for `traceparent`, for `b3`, and for the packed form. Its lines are also
//! headers, `name: value`.
#![no_main]

use blkkin_trace::context::{Incoming, b3, packed, w3c};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let w3c = w3c::read(input);
    if let Ok(context) = w3c {
        assert_eq!(w3c::read(w3c::write(&context).as_bytes()), w3c);
    }
    let one = b3::read(input);
    if let Ok(Incoming::Context(context)) = one {
        assert_eq!(b3::read(b3::write(&context).as_bytes()), one);
    }
    let packed = packed::read(input);
    if let Ok(Some(context)) = packed {
        assert_eq!(packed::write(&context), input);
    }
    let mut headers = b3::Headers::default();
    for line in input.split(|byte| *byte == b'\n') {
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        headers.add(&line[..colon], line.get(colon + 1..).unwrap_or_default());
    }
    let several = headers.read();
    if let Ok(Some(Incoming::Context(context))) = several {
        let written = b3::write_parts(&context);
        let mut again = b3::Headers::default();
        for (name, value) in written.headers() {
            again.add(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(again.read(), several);
    }
    let errors = [w3c.err(), one.err(), packed.err(), several.err()];
    for error in errors.into_iter().flatten() {
        assert!(error.offset <= input.len(), "{error}");
    }
});
