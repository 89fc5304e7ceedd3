//! Tests that conversion between [`Span`] and [`SpanRef`] loses nothing, and tests of ids, of
//! endpoints, and of a span's methods.

use crate::*;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::ControlFlow;

fn span<'a>(annotations: &'a [AnnotationRef<'a>], tags: &'a [TagRef<'a>]) -> SpanRef<'a> {
    let trace_id = TraceId::from_number(7).expect("not 0");
    let id = SpanId::from_number(9).expect("not 0");
    SpanRef { annotations, tags, ..SpanRef::new(trace_id, id) }
}

#[test]
fn ids_are_printed_as_wide_as_they_are() {
    let show = |number| TraceId::from_number(number).map(|id| id.to_string());
    assert_eq!(show(0), None);
    assert_eq!(show(0xabc).as_deref(), Some("0000000000000abc"));
    assert_eq!(show(1 << 64).as_deref(), Some("00000000000000010000000000000000"));
    assert_eq!(SpanId::from_number(u64::MAX).map(|id| id.to_string()), Some("f".repeat(16)));
    let wide = TraceId::from_number(3 << 64 | 5).expect("not 0");
    assert_eq!((wide.high(), wide.low(), wide.is_wide()), (3, 5, true));
}

#[test]
fn owned_and_borrowed_say_the_same() {
    let annotations = [AnnotationRef { time_ns: 3, value: "sent" }];
    let tags = [
        TagRef { key: "a", value: ValueRef::Int(-1), origin: Origin::Resource },
        TagRef { key: "b", value: ValueRef::Bool(true), origin: Origin::Scope },
        TagRef { key: "c", value: ValueRef::Double(0.5), origin: Origin::Span },
        TagRef { key: "d", value: ValueRef::Bytes(&[0, 255]), origin: Origin::Span },
        TagRef::text("e", "text"),
    ];
    let endpoint = EndpointRef {
        service: "osd.0",
        ipv4: Some(Ipv4Addr::LOCALHOST),
        ipv6: Some(Ipv6Addr::LOCALHOST),
        port: 6800,
    };
    let full = SpanRef {
        parent_id: SpanId::from_number(8),
        kind: Kind::Server,
        status: Status::Error,
        debug: true,
        shared: true,
        name: "Write",
        start_ns: Some(1),
        duration_ns: Some(0),
        local: endpoint,
        remote: EndpointRef { port: 1, ..EndpointRef::NONE },
        ..span(&annotations, &tags)
    };
    let mut kept = Vec::new();
    for span in [full, span(&[], &[])] {
        let sink: &mut dyn SpanSink = &mut kept;
        assert_eq!(sink.span(&span), ControlFlow::Continue(()));
        assert_eq!(kept.last().expect("one").ref_buffer().as_ref(), span);
        assert_eq!(Span::from(&span), span.to_owned());
    }
    let mut count = Count::default();
    kept.iter().for_each(|span| assert!(count.span(&span.ref_buffer().as_ref()).is_continue()));
    assert_eq!(count, Count(2));
}

#[test]
fn endpoints_of_which_nothing_is_known_are_none() {
    assert!(EndpointRef::default().is_none());
    for known in [
        EndpointRef { service: "x", ..EndpointRef::NONE },
        EndpointRef { ipv4: Some(Ipv4Addr::UNSPECIFIED), ..EndpointRef::NONE },
        EndpointRef { ipv6: Some(Ipv6Addr::UNSPECIFIED), ..EndpointRef::NONE },
        EndpointRef { port: 1, ..EndpointRef::NONE },
    ] {
        assert!(!known.is_none(), "{known:?}");
    }
}

#[test]
fn of_one_name_the_spans_own_tag_counts() {
    let of = |origin, value| TagRef { key: "host", value: ValueRef::Str(value), origin };
    let tags = [
        TagRef::text("a", "1"),
        of(Origin::Resource, "resource"),
        of(Origin::Span, "span"),
        TagRef::text("z", "2"),
    ];
    let span = span(&[], &tags);
    assert_eq!(span.tag("host"), Some(ValueRef::Str("span")));
    assert_eq!(span.tag("a"), Some(ValueRef::Str("1")));
    assert_eq!(span.tag("z"), Some(ValueRef::Str("2")));
    for absent in ["", "b", "zz"] {
        assert_eq!(span.tag(absent), None, "{absent}");
    }
}

#[test]
fn errors_are_known_by_status_or_tag() {
    fn check(status: Status, error: Option<(ValueRef<'_>, Origin)>, expected: bool) {
        let tags: Vec<TagRef<'_>> = error
            .map(|(value, origin)| TagRef { key: "error", value, origin })
            .into_iter()
            .collect();
        assert_eq!(
            SpanRef { status, ..span(&[], &tags) }.is_error(),
            expected,
            "{status:?} {tags:?}"
        );
    }
    let said = |value| Some((value, Origin::Span));
    check(Status::Unset, None, false);
    check(Status::Unset, said(ValueRef::Str("")), true);
    check(Status::Unset, said(ValueRef::Str("false")), true);
    check(Status::Unset, said(ValueRef::Bool(true)), true);
    check(Status::Unset, said(ValueRef::Bool(false)), false);
    check(Status::Unset, Some((ValueRef::Str("x"), Origin::Resource)), false);
    check(Status::Ok, said(ValueRef::Str("x")), false);
    check(Status::Error, None, true);
    check(Status::Error, said(ValueRef::Bool(false)), true);
}
