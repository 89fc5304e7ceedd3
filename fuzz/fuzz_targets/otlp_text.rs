//! Any annotation is an event, and any tag a link or none: their parts can be looked at, whatever the text is.
#![no_main]

use blkkin_store::{SpanEvent, SpanLink, text_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let event = SpanEvent::of(&text);
    let attributes = event.attributes();
    // A plain annotation is its own name.
    assert!(event.name == text || text.starts_with('"'));
    let link = SpanLink::of("otlp.link.0", &text);
    let of_link = link.iter().flat_map(SpanLink::attributes);
    for attribute in attributes.into_iter().chain(of_link) {
        // No value is longer than its text, but for a number with an exponent.
        assert!(text_of(attribute.value()).len() <= 330 + text.len());
    }
});
