//! Fuzzes the parsers of events and links in annotations and tags. Any annotation parses as an
//! event, any tag parses as a link or is refused, and their attributes can be read for any text.
#![no_main]

use blkkin_store::{SpanEvent, SpanLink, text_of};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let event = SpanEvent::of(&text);
    let attributes = event.attributes();
    // The name of a plain annotation is its whole text.
    assert!(event.name == text || text.starts_with('"'));
    let link = SpanLink::of("otlp.link.0", &text);
    let of_link = link.iter().flat_map(SpanLink::attributes);
    for attribute in attributes.into_iter().chain(of_link) {
        // A value is no longer than the text, except for a number with an exponent.
        assert!(text_of(attribute.value()).len() <= 330 + text.len());
    }
});
