//! Tests of spans and annotations. They compare the calls that a program makes with the events that
//! the decoder reads from the ring.

mod support;

use blkkin_ring::Clock;
use blkkin_trace::context::{Decision, Incoming, packed};
use blkkin_trace::registry::{self, Levels};
use blkkin_trace::sample::Sampling;
use blkkin_trace::{
    CoreAnnotation, Endpoint, Level, Sampler, Span, SpanContext, SpanKind, Trace, channels, family,
};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use support::{Channel, DecodedEvent, all, alone, rule};

static ALL: Sampler = Sampler::new();
static OSD: Endpoint<'static> = Endpoint::new("osd.3", "10.0.0.7", 50_000);
static STORE: Endpoint<'static> = Endpoint::named("store");

/// `Trace`, `Span` and `Endpoint` are `Send` and `Sync`: none is bound to a thread.
const _: () = {
    const fn goes_anywhere<T: Send + Sync + 'static>() {}
    goes_anywhere::<Trace<'static>>();
    goes_anywhere::<Span<'static>>();
    goes_anywhere::<Endpoint<'static>>();
};

fn ids(context: &SpanContext) -> [String; 3] {
    let parent = context.parent_span_id.map_or(0, |id| id.number());
    [context.trace_id.low(), context.span_id.number(), parent]
        .map(|id| id.cast_signed().to_string())
}

#[track_caller]
fn check_place(found: &DecodedEvent, trace: &Trace<'_>) {
    let expected = ids(&trace.context().unwrap());
    assert_eq!(
        found.fields(["trace_id", "span_id", "parent_span_id"]),
        expected.each_ref().map(|id| &**id)
    );
    let port = trace.endpoint().port().to_string();
    let endpoint = [trace.endpoint().service_name(), trace.endpoint().ip(), &port];
    assert_eq!(found.fields(["service_name", "ip", "port_no"]), endpoint);
}

#[test]
fn annotations_say_what_and_of_which_span() {
    let _alone = alone();
    let mut channel = Channel::wanting("zipkin:*");
    let root = Trace::root("client io", &OSD, &ALL);
    let child = root.child_at("write", &STORE);
    let text = String::from("volume");
    root.event("dequeued");
    root.server_receive();
    child.keyval_at(Level::Debug, "pool", &text);
    child.keyval("bytes", u64::MAX);
    child.keyval_at(Level::Info, "offset", -7i8);
    child.event_at(Level::Emergency, CoreAnnotation::WireSend);
    root.server_address(&STORE);
    let check = |found: &DecodedEvent, name: &str, level, trace: &Trace<'_>, said: &[&str]| {
        assert_eq!((found.name, found.level), (name, level));
        assert_eq!(found.field("trace_name"), trace.name());
        check_place(found, trace);
        let last: Vec<_> = found.fields[7..].iter().map(|(_, value)| &**value).collect();
        assert_eq!(last, said);
    };
    let found = channel.decoded();
    let [dequeued, received, pool, bytes, offset, sent, address] = &found[..] else {
        panic!("{found:?}")
    };
    let default = Level::Warning;
    check(dequeued, "zipkin:timestamp", default, &root, &["dequeued"]);
    check(received, "zipkin:timestamp", default, &root, &["sr"]);
    check(pool, "zipkin:keyval_string", Level::Debug, &child, &["pool", "volume"]);
    check(bytes, "zipkin:keyval_integer", default, &child, &["bytes", "-1"]);
    check(offset, "zipkin:keyval_integer", Level::Info, &child, &["offset", "-7"]);
    check(sent, "zipkin:timestamp", Level::Emergency, &child, &["ws"]);
    check(address, "zipkin:keyval_string", default, &root.at(&STORE), &["sa", "1"]);
}

#[test]
fn spans_are_one_event_at_their_end() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let now = || Trace::root("now", &OSD, &ALL).event("now");
    now();
    let request = Trace::root("client io", &OSD, &ALL).server_span();
    let write = request.child("write").span_of(SpanKind::Client, Level::Debug);
    std::thread::sleep(Duration::from_millis(2));
    let write_trace = write.trace();
    write.end();
    now();
    let request_trace = request.trace();
    drop(request);
    let found = channel.decoded();
    let [before, write, middle, request] = &found[..] else { panic!("{found:?}") };
    let (before, middle) = (before.time, middle.time);
    let check = |found: &DecodedEvent, level, trace: &Trace<'_>, kind: SpanKind| {
        assert_eq!((found.name, found.level), ("blkkin:span", level));
        check_place(found, trace);
        let kind = (kind as u8).to_string();
        // The trace id of a root is random, which is flag 2.
        let expected = [trace.name(), &kind, "2", "0"];
        assert_eq!(found.fields(["span_name", "kind", "flags", "trace_id_high"]), expected);
        let (start, duration) = (found.number("start"), found.number("duration"));
        assert!(start > before && duration > 0, "{before} {found:?}");
        assert!(found.time >= start + duration, "{found:?}");
        (start, start + duration)
    };
    let inner = check(write, Level::Debug, &write_trace, SpanKind::Client);
    let outer = check(request, Level::Warning, &request_trace, SpanKind::Server);
    assert!(outer.0 <= inner.0 && inner.1 <= middle && middle <= outer.1, "{outer:?} {inner:?}");
    if !blkkin_sys::tsc_is_steady() {
        assert!(inner.1 - inner.0 >= 2_000_000);
    }
}

/// A span is recorded only if a channel wants it both at its start and at its end. A released span
/// is not recorded.
#[test]
fn spans_are_recorded_from_start_to_end() {
    let _alone = alone();
    let mut channel = Channel::wanting("other:*");
    let before = Trace::root("before", &OSD, &ALL).span();
    registry::set_rules(0, &[all("blkkin:span")]);
    let within = Trace::root("within", &OSD, &ALL).span();
    let after = Trace::root("after", &OSD, &ALL).span();
    let released = Trace::root("released", &OSD, &ALL).span();
    drop(before);
    drop(within);
    released.release();
    registry::set_rules(0, &[]);
    drop(after);
    let names: Vec<_> =
        channel.decoded().iter().map(|found| found.field("span_name").to_owned()).collect();
    assert_eq!(names, ["within"]);
}

/// A span is not recorded if the clock changes before its end, because its duration is then
/// unknown.
#[test]
fn spans_do_not_mix_clocks() {
    let _alone = alone();
    let span = {
        let _channel = Channel::with(0, 8192, Clock::Monotonic);
        registry::set_rules(0, &[all("blkkin:span")]);
        Trace::root("mixed", &OSD, &ALL).span()
    };
    let mut channel = Channel::with(0, 8192, Clock::Tsc);
    registry::set_rules(0, &[all("blkkin:span")]);
    drop(span);
    Trace::root("pure", &OSD, &ALL).span().end();
    let found = channel.decoded();
    assert_eq!(found.iter().map(|found| found.field("span_name")).collect::<Vec<_>>(), ["pure"]);
}

#[test]
fn levels_and_names_choose() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    let request = Trace::root("request", &OSD, &ALL);
    let all_levels = (0..).map_while(Level::from_number);
    assert_eq!(all_levels.clone().count(), 15);
    let mut check = |names: &str, levels: u16, expected: [&str; 4]| {
        let wanted = all_levels.clone().filter(|level| levels >> level.number() & 1 != 0);
        let exactly = |level| rule(names, &[], Levels::Exactly { level });
        registry::set_rules(0, &wanted.map(exactly).collect::<Vec<_>>());
        for level in all_levels.clone() {
            request.event_at(level, "event");
            request.keyval_at(level, "key", "val");
            request.keyval_at(level, "key", 1);
            request.child("child").span_of(SpanKind::Internal, level).end();
            let expected: Vec<_> = expected
                .into_iter()
                .filter(|name| !name.is_empty() && levels & 1 << level.number() != 0)
                .collect();
            assert_eq!(channel.names(), expected, "{names} {levels:#x} {level}");
            let is_annotated = expected.iter().any(|name| name.starts_with("zipkin:"));
            assert_eq!(request.is_annotated_at(level), is_annotated, "{names} {levels:#x} {level}");
        }
    };
    let [event, string, integer, span] =
        ["zipkin:timestamp", "zipkin:keyval_string", "zipkin:keyval_integer", "blkkin:span"];
    for level in 0..15 {
        check("*", 1 << level, [event, string, integer, span]);
        check("zipkin:*", !(1 << level), [event, string, integer, ""]);
    }
    check("blkkin:*", 0x7fff, ["", "", "", span]);
    check("zipkin:keyval_*", 0x7fff, ["", string, integer, ""]);
    check("zipkin:timestamp", 0, [""; 4]);
}

/// A request that is not sampled records nothing, and neither do its children, in this process or
/// others.
#[test]
fn what_is_not_followed_is_silent() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let none = Sampler::new();
    none.set(Sampling::NONE);
    let mut check = |request: Trace<'_>, [packed, b3, traceparent_end]: [&str; 3]| {
        assert!(!request.is_followed());
        let span = request.child("child").client_span();
        request.event("event");
        span.keyval("key", "val");
        span.child("child").keyval("key", 1);
        span.server_address(&OSD);
        for trace in [request, span.trace()] {
            assert!(!trace.is_annotated_at(Level::Warning));
            let bytes: String = trace.packed().iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!([&bytes, trace.b3().as_str()], [packed, b3]);
            let sent = trace.traceparent();
            assert!(sent.as_str().ends_with(traceparent_end), "{sent}");
            let there = Trace::receive_traceparent("there", &OSD, sent.as_bytes(), &ALL);
            assert!(!there.is_followed(), "{sent}");
            assert!(!Trace::receive_b3("there", &OSD, trace.b3().as_bytes(), &ALL).is_followed());
            assert!(!Trace::receive_packed("there", &OSD, &trace.packed(), &ALL).is_followed());
        }
        drop(span);
        assert_eq!(channel.decoded(), []);
    };
    let zeros = &"0".repeat(48);
    check(Trace::root("root", &OSD, &none), [zeros, "0", "-02"]);
    check(Trace::root_wide("root", &OSD, &none), [zeros, "0", "-02"]);
    check(Trace::receive("request", &OSD, None, &none), [zeros, "0", "-02"]);
    let denied = Incoming::Decision(Decision::No);
    check(Trace::receive("request", &OSD, Some(&denied), &ALL), [zeros, "0", "-02"]);
    check(Trace::receive_packed("request", &OSD, &[0; 24], &ALL), [zeros, "0", "-02"]);
    // The received ids are passed on.
    let id = "00f067aa0ba902b7";
    let header = format!("00-{}-{id}-00", id.repeat(2));
    let request = Trace::receive_traceparent("request", &OSD, header.as_bytes(), &ALL);
    check(request, [zeros, &format!("{}-{id}-0", id.repeat(2)), &format!("-{id}-00")]);
    let header = format!("{id}-{id}");
    let request = Trace::receive_b3("request", &OSD, header.as_bytes(), &none);
    check(request, [zeros, &format!("{id}-{id}-0"), &format!("-{id}-00")]);
}

/// A valid context in any format gives a child of the sender's span; an invalid one gives the root
/// span of a new request.
#[test]
fn children_of_what_was_received() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let none = Sampler::new();
    none.set(Sampling::NONE);
    let cause = Trace::root("cause", &OSD, &ALL);
    let wide = Trace::root_wide("cause", &OSD, &ALL);
    let mut check = |child: Trace<'_>, cause: &Trace<'_>, is_wide: bool| {
        let (child_context, cause) = (child.context().unwrap(), cause.context().unwrap());
        assert_eq!(child_context.parent_span_id, Some(cause.span_id));
        assert_ne!(child_context.span_id, cause.span_id);
        assert_eq!(child_context.trace_id.low(), cause.trace_id.low());
        assert_eq!(child_context.decision, Decision::Yes);
        child.event("here");
        let found = channel.decoded();
        check_place(found.last().unwrap(), &child);
        // The upper half of the trace id is recorded as a separate event.
        let beside: Vec<_> = found[..found.len() - 1]
            .iter()
            .map(|found| (found.name, found.field("trace_id_high").to_owned()))
            .filter(|_| is_wide)
            .collect();
        let high = cause.trace_id.high().cast_signed().to_string();
        assert_eq!(beside.last(), is_wide.then_some(&("blkkin:wide_trace_id", high)));
    };
    check(Trace::receive_packed("child", &STORE, &cause.packed(), &none), &cause, false);
    let [traceparent, b3] = [cause.traceparent().to_string(), cause.b3().to_string()];
    check(
        Trace::receive_traceparent("child", &STORE, traceparent.as_bytes(), &none),
        &cause,
        false,
    );
    check(Trace::receive_b3("child", &STORE, b3.as_bytes(), &none), &cause, false);
    let [traceparent, b3] = [wide.traceparent().to_string(), wide.b3().to_string()];
    check(Trace::receive_traceparent("child", &STORE, traceparent.as_bytes(), &none), &wide, true);
    check(Trace::receive_b3("child", &STORE, b3.as_bytes(), &none), &wide, true);
    check(cause.child("child"), &cause, false);
    check(cause.child_at("child", &STORE), &cause, false);
    // After an invalid context a new request begins, if the sampler chooses it.
    for broken in [&b""[..], b"00-", &[b'0'; 55]] {
        let [traceparent, b3, bytes] =
            [Trace::receive_traceparent, Trace::receive_b3, Trace::receive_packed]
                .map(|receive| receive("root", &OSD, broken, &ALL).context().unwrap());
        assert!([traceparent, b3, bytes].iter().all(|context| context.parent_span_id.is_none()));
        assert!(!Trace::receive_traceparent("root", &OSD, broken, &none).is_followed());
    }
    let debug = Trace::receive_b3("root", &OSD, b"d", &none);
    assert_eq!(debug.context().unwrap().decision, Decision::Debug);
    debug.span().end();
    // The flags for debugging and for a random trace id.
    assert_eq!(channel.decoded()[0].field("flags"), "3");
    assert_eq!(
        packed::read(&cause.packed()).unwrap().unwrap().span_id,
        cause.context().unwrap().span_id
    );
}

/// The upper half of a 128-bit trace id is recorded in each span. For annotations it is recorded as
/// a separate event.
#[test]
fn wide_trace_ids_are_recorded_whole() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let root = Trace::root_wide("root", &OSD, &ALL);
    root.child("child").span().end();
    let found = channel.decoded();
    let [beside, span] = &found[..] else { panic!("{found:?}") };
    assert_eq!([beside.name, span.name], ["blkkin:wide_trace_id", "blkkin:span"]);
    let id = root.context().unwrap().trace_id;
    assert!(id.is_wide());
    for found in [beside, span] {
        let halves = [found.number("trace_id_high"), found.number("trace_id")];
        assert_eq!(halves, [id.high(), id.low()], "{found:?}");
    }
    // A trace id of 64 bits has no upper half.
    Trace::root("root", &OSD, &ALL);
    assert_eq!(channel.decoded(), []);
}

/// Spans keep their request and parent across threads, and annotations keep their span: traces are
/// shared by reference, and spans are moved.
#[test]
fn requests_hold_together_across_threads() {
    let _alone = alone();
    const THREADS: usize = 8;
    const DEPTH: usize = 10;
    let mut channel = Channel::wanting("*");
    // Registers the types before the threads start.
    go_down(Trace::root("first", &OSD, &ALL).span(), 1);
    channel.decoded();
    let roots: Vec<Trace<'_>> = (0..4).map(|_| Trace::root_wide("root", &OSD, &ALL)).collect();
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let root = &roots[thread % roots.len()];
                scope.spawn(move || go_down(root.child("child").span(), DEPTH))
            })
            .collect();
        // ThreadSanitizer sees a join, but not the end of a scope.
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let found = channel.decoded();
    let spans: Vec<_> = found.iter().filter(|found| found.name == "blkkin:span").collect();
    assert_eq!(spans.len(), THREADS * DEPTH);
    let mut seen = std::collections::HashSet::new();
    for span in &spans {
        assert!(seen.insert(span.field("span_id")), "{span:?} twice");
        let parent = span.field("parent_span_id");
        let cause = spans.iter().find(|other| other.field("span_id") == parent);
        let trace = [span.field("trace_id"), span.field("trace_id_high")];
        match cause {
            Some(cause) => {
                assert_eq!([cause.field("trace_id"), cause.field("trace_id_high")], trace);
                let (start, end) = (span.number("start"), span.time);
                // Time-stamp counters of two processors may differ a little.
                assert!(cause.number("start") <= start + 10_000 && end <= cause.time + 10_000);
            }
            None => {
                let root = roots.iter().find(|root| ids(&root.context().unwrap())[1] == parent);
                let id = root.unwrap().context().unwrap().trace_id;
                assert_eq!(
                    [span.number("trace_id"), span.number("trace_id_high")],
                    [id.low(), id.high()]
                );
            }
        }
        let said: Vec<_> = found
            .iter()
            .filter(|other| other.name == "zipkin:keyval_integer")
            .filter(|other| other.field("span_id") == span.field("span_id"))
            .collect();
        let [said] = &said[..] else { panic!("{said:?}") };
        assert_eq!(said.field("trace_id"), span.field("trace_id"));
    }
}

/// Ends a span after `depth - 1` nested children, each on a separate thread.
fn go_down(span: Span<'static>, depth: usize) {
    span.keyval("depth", depth);
    if depth > 1 {
        let child = span.child("child").span();
        std::thread::spawn(move || go_down(child, depth - 1)).join().unwrap();
    }
}

/// A span can live in a future, even if each poll runs on another thread.
#[test]
fn spans_live_in_futures() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let future = async {
        let span = Trace::root("async", &OSD, &ALL).span();
        for step in 0..4 {
            span.keyval("step", step);
            Yield(false).await;
        }
    };
    struct Ignores;
    impl Wake for Ignores {
        fn wake(self: Arc<Self>) {}
    }
    let mut future = pin!(future);
    let mut is_ready = false;
    while !is_ready {
        let poll = || {
            future
                .as_mut()
                .poll(&mut Context::from_waker(&Waker::from(Arc::new(Ignores))))
                .is_ready()
        };
        is_ready = std::thread::scope(|scope| scope.spawn(poll).join().unwrap());
    }
    let found = channel.decoded();
    let steps: Vec<_> = found[..4].iter().map(|found| found.field("val")).collect();
    assert_eq!(steps, ["0", "1", "2", "3"]);
    assert_eq!((found.len(), found[4].name), (5, "blkkin:span"));
    assert!(found.iter().all(|event| event.field("span_id") == found[0].field("span_id")));
}

struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: std::pin::Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) { Poll::Ready(()) } else { Poll::Pending }
    }
}

/// Long strings damage neither later fields nor other events. A string is recorded up to its first
/// NUL.
#[test]
fn strings_of_any_kind() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    for length in [0, 1, 15, 16, 17, 31, 32, 33, 255, 1000, 4000, 10_000] {
        let long = "n".repeat(length);
        let endpoint = Endpoint::new(&long, "::1", 1);
        let trace = Trace::root(&long, &endpoint, &ALL);
        trace.keyval(&long, &long);
        trace.keyval("last", 7);
        trace.span().end();
        let found = channel.decoded();
        let [string, integer, span] = &found[..] else { panic!("{length}: {found:?}") };
        for (found, names) in [
            (string, &["trace_name", "service_name", "key", "val"][..]),
            (integer, &["trace_name", "service_name"]),
            (span, &["span_name", "service_name"]),
        ] {
            for name in names {
                let field = found.field(name);
                assert!(long.starts_with(field), "{length} {found:?}");
                assert!(length > 500 || field.len() == length, "{length} {found:?}");
            }
        }
        if length < 3000 {
            assert_eq!(integer.fields(["key", "val"]), ["last", "7"], "{length}");
        }
        check_place_ids(span, &trace);
    }
    let trace = Trace::root("a\0b", &OSD, &ALL);
    trace.event("c\0d");
    let found = channel.decoded();
    assert_eq!(found[0].fields(["trace_name", "service_name", "event"]), ["a", "osd.3", "c"]);
}

#[track_caller]
fn check_place_ids(found: &DecodedEvent, trace: &Trace<'_>) {
    let expected = ids(&trace.context().unwrap());
    assert_eq!(
        found.fields(["trace_id", "span_id", "parent_span_id"]),
        expected.each_ref().map(|id| &**id)
    );
}

/// Spans and annotations can be used without a channel, and with rules for a channel that has no
/// rings.
#[test]
fn without_channels() {
    let _alone = alone();
    registry::set_rules(0, &[]);
    for _ in 0..3 {
        let span = Trace::root_wide("root", &OSD, &ALL).span();
        span.event("event");
        span.child("child").span().end();
    }
    registry::set_rules(7, &[all("*")]);
    let span = Trace::root_wide("root", &OSD, &ALL).span();
    span.event("event");
    drop(span);
    registry::set_rules(7, &[]);
    assert!(channels::detach(7, Duration::ZERO).unwrap().is_none());
    assert_eq!(family::SPAN.types().len(), 15);
}
