//! Conformance cases for searches by conditions and time windows.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, US, condition, span, trace_id};
use crate::zipkin::Parameters;
use crate::{Heat, Order, Query, Window};
use blkkin_model::{Kind, Span};
use blkkin_wire::Format;

const ASK: Parameters<'static> = Parameters {
    service: "",
    remote_service: "",
    span_name: "",
    annotation_query: "",
    duration_us_min: None,
    duration_us_max: None,
};

/// A store without spans returns empty results, and its counters are 0.
pub(super) fn an_empty_store_answers(subject: &Subject) {
    let store = subject.store();
    subject.settle();
    assert!(subject.trace(trace_id(1)).is_empty());
    assert!(store.traces_of_low(1).expect("an answer").is_empty());
    for order in [Order::Newest, Order::Slowest] {
        let page = subject.page(&Query { order, ..Query::new(10) });
        assert!(page.requests.is_empty() && page.next.is_none());
    }
    assert!(
        subject
            .search_zipkin(&Parameters { service: "a", annotation_query: "b=c", ..ASK })
            .is_empty()
    );
    assert!(store.services().expect("an answer").is_empty());
    assert!(store.span_names("a").expect("an answer").is_empty());
    assert!(store.remote_services("a").expect("an answer").is_empty());
    assert!(store.tag_keys().expect("an answer").is_empty());
    assert!(store.tag_values("a", 10).expect("an answer").is_empty());
    assert!(store.links(Window::ALL).expect("an answer").is_empty());
    let latency = store.latency(Window::ALL, &condition("!error")).expect("an answer");
    assert!(latency.durations.count() == 0 && latency.examples.is_empty());
    let mut heat = Heat::new(Window::ALL, 5);
    store.heat(&condition("!error"), &mut heat).expect("an answer");
    assert_eq!((heat.spans(), store.starts().expect("an answer")), (0, None));
    let counters = store.counters();
    assert_eq!((counters.accepted, counters.kept, counters.refused), (0, 0, 0));
}

/// A request whose spans all lack a start is stored, but searches do not find it.
pub(super) fn requests_without_times_are_kept_but_not_found(subject: &Subject) {
    let timeless = Span { start_ns: None, duration_ns: None, ..span(1, 1, 0, "a", "get") };
    subject.accept(std::slice::from_ref(&timeless));
    subject.assert_trace(std::slice::from_ref(&timeless));
    assert!(subject.found(&Query::new(10)).is_empty());
    assert!(
        subject.search_zipkin(&Parameters { service: "a", span_name: "get", ..ASK }).is_empty()
    );
    // A later span of the request has a start.
    let later = span(1, 1, 0, "a", "get").remote("b");
    subject.accept(std::slice::from_ref(&later));
    subject.assert_trace(&[timeless, later]);
    assert_eq!(
        subject.search_zipkin(&Parameters { service: "a", remote_service: "b", ..ASK }),
        [1]
    );
}

/// A request is assembled from spans that arrive in any order. They are interleaved with spans of
/// other requests, and the root does not arrive first.
pub(super) fn spans_of_a_request_are_put_together(subject: &Subject) {
    let of = |trace: u128| -> Vec<Span> {
        (1..=6)
            .map(|id| span(trace, id, id * 2, "a", &format!("step {id}")).child_of(id - 1))
            .collect()
    };
    let (one, two, three) = (of(1), of(2), of(3));
    subject.accept(&[one[5].clone(), two[3].clone(), one[2].clone()]);
    subject.accept(&[two[5].clone(), three[1].clone(), two[0].clone()]);
    subject.accept(&[one[0].clone(), one[1].clone(), one[4].clone(), three[0].clone()]);
    subject.accept(&[two[4].clone(), one[3].clone(), two[1].clone(), two[2].clone()]);
    subject.accept(&three[2..]);
    for spans in [&one, &two, &three] {
        subject.assert_trace(spans);
    }
    assert_eq!(subject.found(&Query::new(10)), [1, 2, 3]);
    // The conditions may match different spans of the request.
    let conditions = vec![condition(r#"name == "step 2""#), condition(r#"name == "step 6""#)];
    assert_eq!(subject.found(&Query { conditions, ..Query::new(10) }), [1, 2, 3]);
    let conditions = vec![condition(r#"name == "step 2""#), condition(r#"name == "step 7""#)];
    assert!(subject.found(&Query { conditions, ..Query::new(10) }).is_empty());
}

/// Trace ids that differ only in their upper halves identify different requests. A query for the
/// lower half returns the spans of all these requests.
pub(super) fn upper_halves_of_ids_count(subject: &Subject) {
    let ids = [7, 7 | 1 << 64, 7 | 2 << 64, 8 | 1 << 64];
    let spans: Vec<Span> = (0..)
        .zip(ids)
        .map(|(at, id)| span(id, 1, at, "a", "get").tag("at", &format!("v{at}")))
        .collect();
    subject.accept(&spans);
    for (at, id) in ids.into_iter().enumerate() {
        subject.assert_trace(&spans[at..=at]);
        let query = format!("at=v{at}");
        assert_eq!(subject.search_zipkin(&Parameters { annotation_query: &query, ..ASK }), [id]);
    }
    let together = subject.store().traces_of_low(7).expect("an answer");
    super::tested_store::assert_same(&together, &spans[..3]);
    super::tested_store::assert_ordered(&together);
    assert!(subject.store().traces_of_low(1).expect("an answer").is_empty());
    assert!(subject.trace(trace_id(1 << 64)).is_empty());
}

/// Requests are in order of start, newest first, then of trace id. If more match than the limit
/// allows, the oldest are left out.
pub(super) fn the_newest_come_first(subject: &Subject) {
    let early: Vec<Span> = (1..=10).map(|at| span(at, 1, 100 - at as u64, "a", "early")).collect();
    let late: Vec<Span> =
        (1..=10).map(|at| span(at + 10, 1, 300 - at as u64, "a", "late")).collect();
    subject.accept(&late);
    subject.accept(&early);
    let all: Vec<u128> = (11..=20).chain(1..=10).collect();
    assert_eq!(subject.found(&Query::new(100)), all);
    for limit in [1, 3, 10, 15, 20] {
        assert_eq!(subject.found(&Query::new(limit)), all[..limit]);
    }
    let window = Window { start_ns: 0, end_ns: NOON + 100 * MS };
    assert_eq!(subject.found(&Query { window, ..Query::new(4) }), [1, 2, 3, 4]);
    // Requests with the same start are in order of their ids.
    let at_once: Vec<Span> = [9 << 64, 25, 31, 22].map(|id| span(id, 1, 400, "a", "x")).to_vec();
    subject.accept(&at_once);
    assert_eq!(subject.found(&Query::new(5)), [22, 25, 31, 9 << 64, 11]);
}

/// All other parameters of a Zipkin query must match spans of the service that the query names.
pub(super) fn services_constrain_what_is_asked(subject: &Subject) {
    let client = |trace, service: &str, text: &str| {
        let start = trace as u64 * 10;
        span(trace, 1, start, service, &format!("{text} call"))
            .kind(Kind::Client)
            .remote(&format!("{text} remote"))
            .annotation(NOON + start * MS, text)
            .tag("local", text)
    };
    let server = |trace, service| {
        let span = span(trace, 1, trace as u64 * 10 + 1, service, "other").lasting(9 * MS);
        span.kind(Kind::Server).shared()
    };
    subject.accept(&[
        client(1, "front", "web"),
        server(1, "back"),
        client(2, "back", "app"),
        server(2, "front"),
    ]);
    let check = |text: &str, service: &str, expected: &[u128]| {
        let (name, remote) = (&*format!("{text} call"), &*format!("{text} remote"));
        let tag = &*format!("local={text}");
        for asked in [
            Parameters { span_name: name, ..ASK },
            Parameters { remote_service: remote, ..ASK },
            Parameters { annotation_query: text, ..ASK },
            Parameters { annotation_query: tag, ..ASK },
        ] {
            assert_eq!(
                subject.search_zipkin(&Parameters { service, ..asked }),
                expected,
                "{asked:?}"
            );
        }
    };
    check("web", "front", &[1]);
    check("web", "back", &[]);
    check("web", "", &[1]);
    check("app", "back", &[2]);
    check("app", "front", &[]);
    check("app", "nobody", &[]);
    check("none", "", &[]);
    assert_eq!(subject.search_zipkin(&Parameters { service: "front", ..ASK }), [2, 1]);
    assert_eq!(subject.search_zipkin(&Parameters { span_name: "all", ..ASK }), [2, 1]);
    let slow = Parameters { duration_us_min: Some(9000), ..ASK };
    assert_eq!(subject.search_zipkin(&Parameters { service: "front", ..slow }), [2]);
    assert_eq!(subject.search_zipkin(&slow), [2, 1]);
}

/// A condition must hold for a single span of the request; two spans together cannot satisfy it.
pub(super) fn one_span_must_meet_a_condition_whole(subject: &Subject) {
    subject.accept(&[
        span(1, 1, 0, "a", "x"),
        span(1, 2, 0, "b", "y").child_of(1),
        span(2, 1, 1, "a", "y"),
        span(2, 2, 1, "b", "x").child_of(1),
    ]);
    assert_eq!(subject.search_filter(r#"service == "a" && name == "x""#), [1]);
    assert_eq!(subject.search_filter(r#"service == "a" && name == "y""#), [2]);
    let conditions = vec![condition(r#"service == "a""#), condition(r#"name == "x""#)];
    assert_eq!(subject.found(&Query { conditions, ..Query::new(9) }), [2, 1]);
    // A negation holds if any span does not match, even if another span matches.
    assert_eq!(subject.search_filter(r#"!(service == "a")"#), [2, 1]);
}

/// Searches for names ignore case, and names are returned as sent.
pub(super) fn case_of_names_does_not_matter(subject: &Subject) {
    // The spans are sent in OTLP, as Zipkin's formats convert names to lower case.
    let mixed = span(1, 1, 0, "Guest.VM", "Read Block").kind(Kind::Client);
    subject.accept_as(Format::OtlpProto, &[mixed]);
    let name =
        subject.trace(trace_id(1)).first().map(|it| (it.local.service.clone(), it.name.clone()));
    assert_eq!(name, Some(("Guest.VM".to_owned(), "Read Block".to_owned())));
    for service in ["guest.vm", "GUEST.VM", "Guest.VM"] {
        for span_name in ["read block", "READ BLOCK"] {
            assert_eq!(subject.search_zipkin(&Parameters { service, span_name, ..ASK }), [1]);
        }
        assert_eq!(subject.store().span_names(service).expect("an answer"), ["Read Block"]);
    }
    assert_eq!(subject.search_filter(r#"service == "gUEST*" && name != "write*""#), [1]);
    assert_eq!(subject.store().services().expect("an answer"), ["Guest.VM"]);
}

/// A request matches an annotation query only if each term matches one of its spans. Annotations
/// and values of tags are case-sensitive.
pub(super) fn annotations_and_tags_are_found(subject: &Subject) {
    let base = |trace: u128| span(trace, 1, trace as u64, "front", "call");
    let at = NOON + 5 * MS;
    subject.accept(&[
        base(1).annotation(at, "foo"),
        base(2).annotation(at, "bar").annotation(at, "foo"),
        base(3).annotation(at, "foo").tag("baz", "qux"),
        base(4).annotation(at, "bar").annotation(at, "foo").tag("baz", "qux"),
        base(5).tag("error", ""),
        base(6).tag("http.path", "/api").tag("http.path.more", "/api/api"),
    ]);
    let check = |query, expected: &[u128]| {
        for service in ["", "front"] {
            let asked = Parameters { service, annotation_query: query, ..ASK };
            assert_eq!(subject.search_zipkin(&asked), expected, "{query}");
        }
    };
    check("foo", &[4, 3, 2, 1]);
    check("foo and bar", &[4, 2]);
    check("foo and bar and baz=qux", &[4]);
    check("baz", &[4, 3]);
    check("baz=Qux", &[]);
    check("Foo", &[]);
    check("fo", &[]);
    check("error", &[5]);
    check("error=1", &[]);
    check("http.path=/api", &[6]);
    check("http.path=/api/api", &[]);
    check("http.path.more", &[6]);
    check("foo=", &[4, 3, 2, 1]);
}

/// Zipkin's duration parameters apply to spans of the given service, not to whole requests.
pub(super) fn durations_are_found(subject: &Subject) {
    let step = |trace, id, parent, start, (service, remote), name, duration_ms| {
        span(trace, id, start, service, name)
            .child_of(parent)
            .remote(remote)
            .lasting(duration_ms * MS)
    };
    subject.accept(&[
        step(1, 1, 0, 0, ("front", "db"), "targz", 200),
        step(1, 2, 1, 1, ("back", "back"), "tar", 150),
        step(1, 3, 1, 2, ("db", "front"), "gz", 50),
        step(2, 1, 0, 10, ("db", "front"), "targz", 200),
        step(2, 2, 1, 11, ("back", "db"), "tar", 150),
        step(2, 3, 1, 12, ("front", "back"), "gz", 50),
        step(3, 3, 0, 20, ("back", "back"), "zip", 50),
        Span { duration_ns: None, ..span(4, 1, 30, "front", "open") },
    ]);
    let check = |asked: Parameters<'_>, min: i64, max: Option<i64>, expected: &[u128]| {
        let asked = Parameters { duration_us_min: Some(min), duration_us_max: max, ..asked };
        assert_eq!(subject.search_zipkin(&asked), expected, "{asked:?}");
    };
    let of = |service| Parameters { service, ..ASK };
    check(of("front"), 200_000, None, &[1]);
    check(of("db"), 200_000, None, &[2]);
    check(of("front"), 200_001, None, &[]);
    check(of("back"), 50_000, Some(150_000), &[3, 2, 1]);
    check(of("back"), 50_000, Some(50_000), &[3]);
    check(of("back"), 1, Some(49_999), &[]);
    check(Parameters { span_name: "zip", ..of("back") }, 1, Some(50_000), &[3]);
    check(Parameters { remote_service: "back", ..of("front") }, 1, Some(50_000), &[2]);
    check(ASK, 1, None, &[3, 2, 1]);
    assert_eq!(subject.search_filter("duration > 199999999ns"), [2, 1]);
    assert_eq!(subject.search_filter("!has(duration)"), [4]);
}

/// Spans with the same id but different fields are stored separately, and searches match the fields
/// of each. A late span may move the start of its request to an earlier time.
pub(super) fn parts_may_be_late(subject: &Subject) {
    let whole = span(1, 5, 3, "a", "get").lasting(7 * MS);
    let first = Span { duration_ns: None, ..whole.clone() };
    let last = Span { name: String::new(), ..whole };
    subject.accept(std::slice::from_ref(&first));
    assert!(subject.search_filter("duration >= 7ms").is_empty());
    subject.settle();
    subject.accept(std::slice::from_ref(&last));
    subject.assert_trace(&[first, last]);
    assert_eq!(subject.search_filter("duration >= 7ms"), [1]);
    assert_eq!(subject.search_filter(r#"name == "get""#), [1]);
    // A late span moves the start of the request to an earlier time.
    assert_eq!(subject.search_starts(0, 2 * MS), [0; 0]);
    subject.accept(&[span(1, 4, 1, "a", "start")]);
    assert_eq!(subject.search_starts(0, 2 * MS), [1]);
    assert_eq!(subject.search_starts(2 * MS, 5 * MS), [0; 0]);
}

/// A request is in a window if it starts in the window, bounds included, whatever its duration.
pub(super) fn both_ends_of_a_window_are_in_it(subject: &Subject) {
    subject.accept(&[
        span(1, 1, 10, "a", "x").lasting(100 * MS),
        span(1, 2, 30, "a", "y").child_of(1),
        span(2, 1, 20, "a", "x"),
        // By skewed clocks, the root starts later than its child.
        span(3, 1, 40, "a", "x"),
        span(3, 2, 38, "a", "x").child_of(1),
        // Without a root, the earliest span determines the start.
        span(4, 3, 52, "a", "x").child_of(1),
        span(4, 2, 50, "a", "x").child_of(1),
    ]);
    let check = |first: u64, last: u64, expected: &[u128]| {
        assert_eq!(subject.search_starts(first, last), expected, "{first} {last}");
    };
    check(0, 10 * MS - 1, &[]);
    check(0, 10 * MS, &[1]);
    check(10 * MS, 10 * MS, &[1]);
    check(10 * MS, 20 * MS, &[2, 1]);
    check(10 * MS + 1, 20 * MS - 1, &[]);
    check(20 * MS, 39 * MS, &[2]);
    check(25 * MS, 35 * MS, &[]);
    check(38 * MS, 39 * MS, &[]);
    check(40 * MS, 49 * MS, &[3]);
    check(50 * MS, 50 * MS, &[4]);
    check(51 * MS, 60 * MS, &[]);
    check(60 * MS, 10 * MS, &[]);
    assert_eq!(subject.found(&Query::new(9)), [4, 3, 2, 1]);
}

/// Filters on fields, tags and annotations of spans find exactly the requests with a matching span.
pub(super) fn filters_are_found(subject: &Subject) {
    subject.accept(&[
        span(1, 1, 0, "osd.1", "read").kind(Kind::Server).tag("offset", "4096"),
        span(2, 1, 1, "osd.10", "write").kind(Kind::Client).tag("offset", "many"),
        span(3, 1, 2, "disk", "write").child_of(9).tag("error", "bad").tag("offset", "-5.5"),
        span(4, 1, 3, "", "").child_of(9).remote("disk").annotation(NOON, "sent to disk"),
        Span {
            duration_ns: None,
            start_ns: Some(NOON + 4 * MS + 500 * US),
            ..span(5, 1, 0, "disk", "flush")
        },
    ]);
    let check = |filter: &str, expected: &[u128]| {
        assert_eq!(subject.search_filter(filter), expected, "{filter}");
    };
    check(r#"service == "osd.*""#, &[2, 1]);
    check(r#"service != "osd.*""#, &[5, 3]);
    check(r#"!(service == "osd.*")"#, &[5, 4, 3]);
    check(r#"service == "osd.1" || name == "flush""#, &[5, 1]);
    check(r#"service == "*s*1*" && name == "*e""#, &[2]);
    check("has(service) && has(name)", &[5, 3, 2, 1]);
    check("!has(name)", &[4]);
    check(r#"remote == "disk""#, &[4]);
    check("kind == client || kind == server", &[2, 1]);
    check("kind != server", &[2]);
    check("error", &[3]);
    check("!error", &[5, 4, 2, 1]);
    check("root", &[5, 2, 1]);
    check("status == error", &[3]);
    check("status == unset", &[5, 4, 2, 1]);
    check(r#"trace_id == "4""#, &[4]);
    check(r#"trace_id == "4" && root"#, &[]);
    check("!root", &[4, 3]);
    check("offset >= 4096", &[1]);
    check("offset < 4096", &[3]);
    check("offset != 4096", &[3]);
    check(r#"offset != "4096""#, &[3, 2]);
    check(r#"offset == "m*""#, &[2]);
    check("has(offset)", &[3, 2, 1]);
    check("!has(offset)", &[5, 4]);
    check(r#"annotation == "sent*""#, &[4]);
    check(r#"annotation == "*disk" && service == "disk""#, &[]);
    check("has(annotation)", &[4]);
    check("has(duration)", &[4, 3, 2, 1]);
    check("duration == 1ms", &[4, 3, 2, 1]);
    check("duration < 1ms || duration > 1ms", &[]);
    check(&format!("start > {}", NOON + 4 * MS), &[5]);
    check(&format!("start <= {}", NOON + MS), &[2, 1]);
}

/// Filters on events and links match their names, targets and attributes.
pub(super) fn events_and_links_are_found(subject: &Subject) {
    let link = format!("{:032x}|{:016x}||{{\"batch\":7}}|0", 3, 1);
    subject.accept(&[
        span(1, 1, 0, "disk", "sync")
            .annotation(NOON, r#""retry": {"errno":5,"path":"/dev/sdb"}"#)
            .annotation(NOON + 1, "done"),
        span(2, 1, 1, "mailer", "send").tag("otlp.link.0", &link).annotation(NOON, "retry"),
        span(3, 1, 2, "orders", "place").tag("errno", "5"),
    ]);
    let check = |filter: &str, expected: &[u128]| {
        assert_eq!(subject.search_filter(filter), expected, "{filter}");
    };
    check(r#"event == "retry""#, &[2, 1]);
    check(r#"event == "don?" || event == "don*""#, &[1]);
    check("event.errno == 5", &[1]);
    check("errno == 5", &[3]);
    check(r#"event.path == "/dev/*" && service == "disk""#, &[1]);
    check("has(event.errno)", &[1]);
    check("has(event)", &[2, 1]);
    check("has(link)", &[2]);
    check(r#"link == "3""#, &[2]);
    check(r#"link == "2""#, &[]);
    check("link.batch > 6", &[2]);
    check("!has(link) && !has(event)", &[3]);
}
