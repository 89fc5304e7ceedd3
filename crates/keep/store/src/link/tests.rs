//! Tests of calls derived from complete, incomplete and hostile requests.

use super::*;
use blkkin_model::Kind;
use blkkin_model::{EndpointRef, Origin, SpanId, TagRef, TraceId, ValueRef};
use blkkin_sys::testing::Random;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;

const ERROR: &[TagRef<'static>] =
    &[TagRef { key: "error", value: ValueRef::Str(""), origin: Origin::Span }];

fn bare(id: u64, parent: u64) -> SpanRef<'static> {
    let trace = TraceId::from_number(0xa).expect("not 0");
    let id = SpanId::from_number(id).expect("not 0");
    SpanRef { parent_id: SpanId::from_number(parent), ..SpanRef::new(trace, id) }
}

fn named(service: &str) -> EndpointRef<'_> {
    EndpointRef { service, ..EndpointRef::NONE }
}

/// Parses a span from text: `PARENT>ID KIND LOCAL>REMOTE`, followed by any of `shared`, `error` and
/// `DURATION`. A field written as `-` is missing.
fn span(text: &'static str) -> SpanRef<'static> {
    let mut words = text.split_whitespace();
    let mut pair = || words.next().and_then(|pair| pair.split_once('>')).expect("a pair");
    let said = |text: &'static str| if text == "-" { "" } else { text };
    let (parent, id) = pair();
    let number = |text| u64::from_str_radix(text, 16).unwrap_or_default();
    let mut span = bare(number(id), number(parent));
    span.kind = match words.next() {
        Some("client") => Kind::Client,
        Some("server") => Kind::Server,
        Some("producer") => Kind::Producer,
        Some("consumer") => Kind::Consumer,
        Some("internal") => Kind::Internal,
        _ => Kind::Unspecified,
    };
    let (local, remote) = words.next().and_then(|pair| pair.split_once('>')).expect("a pair");
    span.local = named(said(local));
    span.remote = named(said(remote));
    for word in words {
        match word {
            "shared" => span.shared = true,
            "error" => span.tags = ERROR,
            duration => span.duration_ns = duration.parse().ok(),
        }
    }
    span
}

/// Returns the links of spans, sorted, in the form `parent>child calls errors!`. The number of
/// errors is left out if it is 0.
fn links(spans: &[SpanRef<'_>], counts: impl Fn(usize) -> bool) -> String {
    let mut found: BTreeMap<(String, String), Link> = BTreeMap::new();
    Linker::default().link(spans, counts, |call| {
        assert!(call.span < spans.len());
        let ends = (call.parent.to_owned(), call.child.to_owned());
        found.entry(ends).or_insert_with(|| Link::between(&call)).add(&call);
    });
    let shown = found.values().map(|link| match link.errors {
        0 => format!("{}>{} {}", link.parent, link.child, link.calls),
        errors => format!("{}>{} {} {errors}!", link.parent, link.child, link.calls),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Asserts that spans have the expected links in each of several orders of arrival.
#[track_caller]
fn check(spans: &[&'static str], expected: &str) {
    let mut spans: Vec<SpanRef<'static>> = spans.iter().map(|text| span(text)).collect();
    for _ in 0..2 {
        for _ in 0..spans.len().max(1) {
            assert_eq!(links(&spans, |_| true), expected, "{spans:#?}");
            let last = spans.pop();
            spans.splice(0..0, last);
        }
        spans.reverse();
    }
}

/// Request through three services. Of the two servers' spans, only that of `app` names its client.
const REQUEST: [&str; 4] = [
    "b>c client app>db error",
    "a>b server app>web shared",
    "a>b client web>app",
    "->a server web>-",
];

#[test]
fn calls() {
    check(&[], "");
    check(&REQUEST, "app>db 1 1!, web>app 1");
    // A server without a parent id is linked with its client's span and without it.
    check(&["->a server arn>-", "a>b client arn>link", "->b server link>arn shared"], "arn>link 1");
    check(
        &["b>c client app>db error", "->b server app>web shared", "->a server web>-"],
        "app>db 1 1!, web>app 1",
    );
    check(
        &[REQUEST[0], "->b server app>web shared", REQUEST[2], REQUEST[3]],
        "app>db 1 1!, web>app 1",
    );
    // A server with its client's id is shared, even if it is not marked so.
    check(&["->a server web>-", "a>b client web>-", "a>b server app>-"], "web>app 1");
    // A call of which only one side was recorded is counted.
    check(&["->a server server>client"], "client>server 1");
    check(&["->a client client>server shared"], "client>server 1");
    check(&["->a server self>self"], "self>self 1");
    check(&["->a client self>self"], "self>self 1");
    check(&["b>c client foo>bar error"], "foo>bar 1 1!");
    for unknown in [
        "->a server ->-",
        "->a server server>-",
        "->a server ->client",
        "->a client ->-",
        "->a client client>-",
        "->a client ->server",
        "->a - client>-",
    ] {
        check(&[unknown], "");
    }
    // The call is counted once, whether the client or the server failed.
    check(&["->a client client>-", "a>b server server>-"], "client>server 1");
    check(&["->a client client>- error", "a>b server server>- error"], "client>server 1 1!");
    check(&["->a client client>- error", "a>b server server>-"], "client>server 1 1!");
    check(&["->a client client>- error", "->a server server>- shared error"], "client>server 1 1!");
    check(&["->a client client>server", "a>b server server>-"], "client>server 1");
    check(&["->a client client>other", "a>b server server>-"], "client>server 1");
    // Two servers with the same client are two calls, and so are two clients with the same parent.
    check(
        &["->a client client>-", "a>b server server>client error", "a>c server server>client"],
        "client>server 2 1!",
    );
    check(
        &["->a client client>server", "a>b server server>-", "a>c server server>-"],
        "client>server 2",
    );
    check(
        &["->a server client>-", "a>b client ->server", "a>c client ->server"],
        "client>server 2",
    );
    // Services are compared without case.
    check(&["->a server web>-", "a>b client WEB>-", "a>b server App>- shared"], "WEB>App 1");
    check(&["->a server Web>-", "a>b client web>db"], "web>db 1");
}

#[test]
fn steps_between() {
    check(
        &["->a server client>-", "a>b - ->-", "b>c client server>-", "b>d client server>-"],
        "client>server 2",
    );
    check(
        &[
            "->a server client>-",
            "a>b internal ->-",
            "b>c client server>- error",
            "b>d client server>- error",
        ],
        "client>server 2",
    );
    check(
        &["->a server foo>-", "a>b - foo>-", "b>c client bar>baz error", "b>d client bar>baz"],
        "bar>baz 2 1!, foo>bar 2",
    );
    // Without a kind, both services must be known; the span then counts as a client's.
    check(
        &["->a - some>web", "a>b - web>app error", "b>c - app>db"],
        "app>db 1, some>web 1, web>app 1 1!",
    );
    check(&["->a internal a>b"], "a>b 1");
    // A call is shown by the client's own name, or by the root if the server's parent is missing.
    check(&["->a server web>-", "a>b client app>-"], "web>app 1");
    check(&["->a server web>-", "b>c server app>-"], "web>app 1");
    // If the parent span is missing, siblings are not linked, but their descendants are.
    check(&["a>b server one>-", "a>c server two>-"], "");
    check(&["a>b server one>-", "b>c server two>-"], "one>two 1");
    // With two candidates for the root, the lesser id wins.
    check(&["->1 server one>-", "->2 server two>-"], "one>two 1");
    check(&["->2 server one>-", "->1 server two>-"], "two>one 1");
}

#[test]
fn messages() {
    check(&["->a producer p>-", "a>b consumer c>broker"], "broker>c 1");
    check(&["->a producer p>broker", "a>b consumer c>-"], "p>broker 1");
    check(&["->a producer p>broker", "a>b consumer c>broker"], "broker>c 1, p>broker 1");
    check(&["->a producer p>one", "a>b consumer c>two"], "p>one 1, two>c 1");
    check(&["->a producer p>-", "a>b consumer c>-"], "");
    check(&["->a producer p>-", "a>b server s>-"], "p>s 1");
    check(&["->a producer p>-", "->a server s>- shared"], "p>s 1");
    check(&["->a client c>-", "a>b consumer d>-"], "");
}

/// An annotation `error` does not mark a call as failed, unlike a tag `error`.
#[test]
fn annotations_are_no_errors() {
    let annotations = [blkkin_model::AnnotationRef { time_ns: 1, value: "error" }];
    let span = SpanRef { annotations: &annotations, ..span("b>c client foo>bar") };
    assert_eq!(links(&[span], |_| true), "foo>bar 1");
}

/// Spans with the same id and shared flag are merged into one node unless their endpoints differ.
/// A child of a shared span is linked with the shared node that has the child's endpoint.
#[test]
fn parts() {
    check(
        &["->a server web>-", "a>b client ->db", "a>b - web>- error", "a>b - ->-"],
        "web>db 1 1!",
    );
    check(&["->a server web>-", "a>b client web>-", "->b - web>db"], "web>db 1");
    // Two servers share an id; each child finds the server of its own host.
    check(
        &[
            "->a server web>-",
            "a>b client web>-",
            "a>b server one>- shared",
            "a>b server two>- shared",
            "b>c client one>x",
            "b>d client two>y",
            "b>e client three>z",
        ],
        "one>x 1, three>z 1, two>y 1, web>one 1, web>three 1, web>two 1",
    );
    let address = |span: SpanRef<'static>, last, port| {
        let ipv4 = Some(Ipv4Addr::new(10, 0, 0, last));
        SpanRef { local: EndpointRef { ipv4, port, ..span.local }, ..span }
    };
    // A child finds the server only if service, address and port are equal.
    let root = span("->a server web>-");
    let call = span("a>b client web>-");
    let below = |last, port| {
        [
            root,
            call,
            address(span("a>b server app>- shared"), 1, 80),
            address(span("b>c client app>db"), last, port),
        ]
    };
    assert_eq!(links(&below(1, 80), |_| true), "app>db 1, web>app 1");
    assert_eq!(links(&below(2, 80), |_| true), "app>db 1, web>app 2");
    assert_eq!(links(&below(1, 81), |_| true), "app>db 1, web>app 2");
}

/// Spans whose trace ids differ only in the upper half are linked as one request.
#[test]
fn ids_may_be_cut() {
    let mut spans = REQUEST.map(span);
    let wide = TraceId::from_number(0xa | 7 << 64).expect("not 0");
    spans[1].trace_id = wide;
    spans[3].trace_id = wide;
    assert_eq!(links(&spans, |_| true), "app>db 1 1!, web>app 1");
}

/// An emitted call has the index and the duration of the span that shows the call. A link counts
/// calls without a duration too.
#[test]
fn who_decides() {
    let spans = [
        span("->a server web>- 9"),
        span("a>b client web>- 7"),
        span("a>b server app>- shared 5"),
        span("b>c client db>- 3"),
        span("b>d - ->- 2"),
        span("b>d client app>cache"),
    ];
    let mut found = Vec::new();
    Linker::default().link(
        &spans,
        |_| true,
        |call| {
            found.push((call.parent, call.child, call.duration_ns, call.span));
        },
    );
    found.sort_unstable();
    assert_eq!(
        found,
        [
            ("app", "cache", Some(2), 5),
            ("web", "app", Some(5), 2),
            // A call that is only derived from the client's name has no duration.
            ("web", "db", None, 3),
        ]
    );
    let mut link = Link::default();
    for duration_ns in [Some(1), None, Some(3)] {
        let is_error = duration_ns.is_none();
        link.add(&Call { parent: "a", child: "b", is_error, duration_ns, span: 0 });
    }
    assert_eq!((link.calls, link.errors), (3, 1));
    assert_eq!(link.durations.counts(), [(1, 1), (3, 1)]);
}

/// Late spans are linked with earlier spans, and calls of the earlier spans are not counted again.
#[test]
fn late_spans() {
    let check = |earlier: &[&'static str], later: &[&'static str], expected: &str| {
        let all: Vec<SpanRef<'_>> = earlier.iter().chain(later).map(|text| span(text)).collect();
        assert_eq!(links(&all, |at| at >= earlier.len()), expected, "{earlier:?} {later:?}");
    };
    check(&REQUEST, &[], "");
    check(&[], &REQUEST, "app>db 1 1!, web>app 1");
    check(&REQUEST, &["b>d client app>cache"], "app>cache 1");
    check(&[REQUEST[3]], &[REQUEST[0], REQUEST[1], REQUEST[2]], "app>db 1 1!, web>app 1");
    // The client's span showed the call without its server; a second server is another call.
    check(&["->a client web>app"], &["a>b server app>-"], "");
    check(&["->a client web>app"], &["a>b server app>-", "a>c server app>-"], "web>app 1");
    check(&["->a client web>app", "a>b server app>-"], &["a>c server app>-"], "web>app 1");
    // The client's span did not show the call, as it lacked the called or the calling service.
    check(&["->a client web>-"], &["a>b server app>-"], "web>app 1");
    check(&["->a client ->app"], &["a>b server app>web"], "web>app 1");
    // A late part of an earlier span is no new call.
    check(&["->a client web>app"], &["->a - web>- error"], "");
}

/// A request with hostile parent ids is linked in about the time of sorting. A quadratic algorithm
/// would take minutes.
#[test]
fn hostile_requests_end_soon() {
    const COUNT: u64 = 100_000;
    let many = |make: &dyn Fn(u64) -> SpanRef<'static>| (1..=COUNT).map(make).collect::<Vec<_>>();
    let server = Kind::Server;
    let requests = [
        // Chains of steps and of calls, in either order of ids; children of a single root; only
        // roots.
        many(&|id| bare(id, id - 1)),
        many(&|id| bare(id, (id + 1) % (COUNT + 1))),
        many(&|id| SpanRef { kind: server, local: named("a"), ..bare(id, id - 1) }),
        many(&|id| SpanRef { kind: Kind::Client, local: named("a"), ..bare(id, (id > 1).into()) }),
        many(&|id| bare(id, 0)),
        // Cycles: of all spans, of two spans, and a chain that ends in a cycle.
        many(&|id| SpanRef { kind: server, local: named("a"), ..bare(id, id % COUNT + 1) }),
        many(&|id| SpanRef { kind: server, ..bare(id, ((id - 1) ^ 1) + 1) }),
        many(&|id| bare(id, if id == COUNT { COUNT / 2 } else { id + 1 })),
        // All spans are parts of a single span.
        many(&|id| SpanRef { start_ns: Some(id), kind: server, local: named("a"), ..bare(1, 0) }),
    ];
    // Spans of different hosts share an id, and each has a child.
    let services: Vec<String> = (0..COUNT).map(|number| format!("service {number}")).collect();
    let shared: Vec<SpanRef<'_>> = services
        .iter()
        .flat_map(|service| {
            let local = named(service);
            let above = SpanRef { shared: true, kind: server, local, ..bare(1, 0) };
            [above, SpanRef { kind: server, local, ..bare(2, 1) }]
        })
        .collect();
    let mut linker = Linker::default();
    let mut calls = 0u64;
    for spans in requests.iter().map(Vec::as_slice).chain([shared.as_slice()]) {
        linker.link(spans, |_| true, |_| calls += 1);
    }
    assert!(calls >= COUNT, "{calls}");
}

/// Links of random spans always name both services, and do not depend on the order of the spans.
#[test]
fn random_requests_have_one_answer() {
    let mut random = Random::new(4);
    let services = ["", "a", "b", "A", "c"];
    let kinds = [Kind::Unspecified, Kind::Internal, Kind::Client, Kind::Server, Kind::Consumer];
    let mut found = 0;
    for _ in 0..3000 {
        let count = 1 + random.below(9);
        let mut spans: Vec<SpanRef<'_>> = (0..count)
            .map(|_| SpanRef {
                kind: random.one_of(&kinds),
                shared: random.chance(30),
                local: named(random.one_of(&services)),
                remote: named(random.one_of(&services)),
                start_ns: random.one_of(&[None, Some(1), Some(2)]),
                duration_ns: random.one_of(&[None, Some(1), Some(2)]),
                tags: random.one_of(&[ERROR, &[]]),
                ..bare(1 + random.below(5u64), random.below(6u64))
            })
            .collect();
        let told = |spans: &[SpanRef<'_>]| {
            let mut all = Vec::new();
            Linker::default().link(
                spans,
                |_| true,
                |call| {
                    assert!(!call.parent.is_empty() && !call.child.is_empty());
                    let ends = (call.parent.to_owned(), call.child.to_owned());
                    all.push((ends, call.is_error, call.duration_ns));
                },
            );
            all.sort();
            all
        };
        let expected = told(&spans);
        found += expected.len();
        for _ in 0..3 {
            let (one, other) = (random.below(count), random.below(count));
            spans.swap(one, other);
            assert_eq!(told(&spans), expected, "{spans:#?}");
        }
    }
    assert!(found > 3000, "{found}");
}
