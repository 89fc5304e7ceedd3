//! Fuzzes conditions on spans: any text is a condition, or an error that can be displayed. For each
//! span under test, a condition and its negation have opposite results.
#![no_main]

use blkkin_model::{
    AnnotationRef, EndpointRef, Kind, Origin, SpanId, SpanRef, TagRef, TraceId, ValueRef,
};
use blkkin_store::Condition;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let condition = match Condition::parse(&text) {
        Ok(condition) => condition,
        Err(error) => {
            assert!(!error.render(true).is_empty() && !error.to_string().is_empty());
            return;
        }
    };
    let (Some(trace), Some(id)) = (TraceId::from_number(1), SpanId::from_number(1)) else { return };
    let annotations = [AnnotationRef { time_ns: 1, value: "sent" }];
    let values = [ValueRef::Int(5), ValueRef::Str("5.5"), ValueRef::Double(f64::NAN)];
    let tag = |key, value| TagRef { key, value, origin: Origin::Span };
    let empty = SpanRef::new(trace, id);
    for value in values {
        let tags = [tag("a", value), tag("offset", value)];
        let span = SpanRef {
            kind: Kind::Client,
            name: "a",
            local: EndpointRef { service: "a", ..EndpointRef::NONE },
            duration_ns: Some(5),
            annotations: &annotations,
            tags: &tags,
            ..empty
        };
        for span in [&empty, &span] {
            let negated = Condition::Not(Box::new(condition.clone()));
            assert_ne!(condition.holds(span), negated.holds(span));
        }
    }
});
