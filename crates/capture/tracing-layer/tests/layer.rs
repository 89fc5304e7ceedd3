//! Tests of spans and events that the macros of `tracing` record, as the decoder reads them from
//! the ring.

#[path = "../../trace/tests/support/mod.rs"]
mod support;

use blkkin_trace::registry::{self, Levels};
use blkkin_trace::{Level, control, sample};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use support::{Channel, DecodedEvent, all, alone, rule};
use tracing::dispatcher::WeakDispatch;
use tracing::field::Empty;
use tracing::subscriber::Interest;
use tracing::{Dispatch, dispatcher};
use tracing_subscriber::layer::{Context, SubscriberExt};

fn with_layer(work: impl FnOnce()) {
    let subscriber = tracing_subscriber::registry().with(blkkin_tracing::layer());
    dispatcher::with_default(&Dispatch::new(subscriber), work);
}

/// Returns the fields of an event without the ids and times that the layer adds.
fn own(found: &DecodedEvent) -> Vec<(&str, &str)> {
    let ours = ["trace_id", "trace_id_high", "span_id", "parent_span_id", "start", "duration"];
    let own = found.fields.iter().map(|(name, value)| (&**name, &**value));
    own.filter(|(name, _)| !ours.contains(name)).collect()
}

#[test]
fn spans_and_events_are_recorded() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    with_layer(|| {
        let outer =
            tracing::info_span!(target: "osd::store", "write", oid = "rb.1", bytes = 4096u64);
        let _entered = outer.enter();
        tracing::debug!(queue = -3, ratio = 0.5, sync = true, who = ?Some("x"), "dequeued {}", 7);
        tracing::trace_span!("inner", text = %"shown").in_scope(|| {
            tracing::event!(name: "named", tracing::Level::ERROR, big = u128::MAX);
        });
    });
    let found = channel.decoded();
    let [dequeued, named, inner, outer] = &found[..] else { panic!("{found:?}") };
    let here = "layer";
    assert_eq!((outer.name, outer.level), ("osd.store:write", Level::Info));
    assert_eq!(own(outer), [("oid", "rb.1"), ("bytes", "4096")]);
    assert!(dequeued.name.starts_with(&format!("{here}:")), "{dequeued:?}");
    assert!(dequeued.name.contains("layer.rs:"), "{dequeued:?}");
    assert_eq!(dequeued.level, Level::DebugLine);
    let mut said = own(dequeued);
    said.sort_unstable();
    let expected = [
        ("message", "dequeued 7"),
        ("queue", "-3"),
        ("ratio", "0.5"),
        ("sync", "1"),
        ("who", "Some(\"x\")"),
    ];
    assert_eq!(said, expected);
    assert_eq!((inner.name, inner.level), ("layer:inner", Level::Debug));
    assert_eq!(own(inner), [("text", "shown")]);
    assert_eq!((named.name, named.level), ("layer:named", Level::Error));
    assert_eq!(own(named), [("big", &*u128::MAX.to_string())]);

    // Nesting and times.
    assert_eq!(outer.field("parent_span_id"), "0");
    assert_eq!(inner.field("parent_span_id"), outer.field("span_id"));
    assert_eq!(dequeued.field("span_id"), outer.field("span_id"));
    assert_eq!(named.field("span_id"), inner.field("span_id"));
    assert!(found.iter().all(|event| event.field("trace_id") == outer.field("span_id")));
    let times = |span: &DecodedEvent| {
        (span.number("start"), span.number("start") + span.number("duration"))
    };
    let (inner_times, outer_times) = (times(inner), times(outer));
    assert!(outer_times.0 < dequeued.time && dequeued.time < inner_times.0, "{found:?}");
    assert!(inner_times.0 < named.time && named.time < inner_times.1, "{found:?}");
    assert!(inner_times.1 <= inner.time && inner.time < outer_times.1, "{found:?}");
}

/// Spans and events of a service's layer have the service's name and address. Spans and events of a
/// plain layer in the same process do not.
#[test]
fn a_layer_of_a_service_says_it() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let work = || {
        let _span = tracing::info_span!(target: "shop", "order", port_no = "own").entered();
        tracing::info!(name: "paid", target: "shop", sum = 7);
    };
    let service = blkkin_tracing::Endpoint::new("checkout", "10.0.0.3", 8080);
    let layer = blkkin_tracing::layer_of(service);
    let subscriber = tracing_subscriber::registry().with(layer);
    dispatcher::with_default(&Dispatch::new(subscriber), work);
    with_layer(work);
    let found = channel.decoded();
    let [paid, order, plain_paid, plain_order] = &found[..] else { panic!("{found:?}") };
    let said = [("service_name", "checkout"), ("port_no", "8080"), ("ip", "10.0.0.3")];
    assert_eq!(own(paid), [&said[..], &[("sum", "7")]].concat());
    // The program's field of the same name gets another name.
    assert_eq!(own(order)[..3], said);
    assert_eq!((own(order).len(), own(order)[3].1), (4, "own"));
    assert_eq!(own(plain_paid), [("sum", "7")]);
    assert_eq!(own(plain_order), [("port_no", "own")]);
}

/// A change of rules on a thread without a subscriber takes effect on the program's threads, which
/// have one.
#[test]
fn rules_change_on_any_thread() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    with_layer(|| {
        for (names, expected) in [("none:*", 0), ("layer:*", 1), ("none:*", 0), ("*", 1)] {
            let rules = [all(names)];
            std::thread::spawn(move || registry::set_rules(0, &rules)).join().unwrap();
            tracing::info!("event");
            assert_eq!(channel.names().len(), expected, "{names}");
        }
    });
}

/// Filters on fields apply to spans and events that no rule without a filter selects.
#[test]
fn filters_choose_by_fields() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    let work = || {
        let _slow =
            tracing::info_span!(target: "filtered", "failing", error = "no space").entered();
        tracing::info!(name: "event", target: "filtered", ret = -1);
        tracing::info_span!(target: "filtered", "plain").in_scope(|| ());
    };
    for (filter, expected) in [
        ("has(span_id) && has(start) && duration >= 0", &["plain", "failing"][..]),
        ("has(span_id) && has(error)", &["failing"]),
        ("ret < 0", &["event"]),
        ("missing == 1", &[]),
        ("!has(ret)", &["plain", "failing"]),
    ] {
        let rule = control::EventRule { filter: Some(filter.to_owned()), ..all("*") };
        with_layer(|| {
            registry::set_rules(0, &[rule]);
            work();
        });
        let names: Vec<&str> =
            channel.names().iter().filter_map(|name| name.strip_prefix("filtered:")).collect();
        assert_eq!(names, expected, "{filter}");
    }
}

/// An event that no channel wants is not recorded, and its fields are evaluated only if another
/// layer gets the event.
#[test]
fn interest_follows_the_rules() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    #[derive(Clone, Default)]
    struct Counts(Arc<AtomicUsize>);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Counts {
        fn on_event(&self, _: &tracing::Event<'_>, _: Context<'_, S>) {
            self.0.fetch_add(1, Relaxed);
        }
    }
    let counts = Counts::default();
    let evaluated = AtomicUsize::new(0);
    let pass = |dispatch: &Dispatch| {
        dispatcher::with_default(dispatch, || {
            tracing::info!(target: "quiet", n = evaluated.fetch_add(1, Relaxed));
            let _span = tracing::warn_span!(target: "loud", "span").entered();
            tracing::info!(target: "loud", "event");
        });
    };
    let alone_here = Dispatch::new(tracing_subscriber::registry().with(blkkin_tracing::layer()));
    registry::set_rules(0, &[]);
    pass(&alone_here);
    assert_eq!((channel.names().len(), evaluated.load(Relaxed)), (0, 0));
    registry::set_rules(0, &[all("loud:*")]);
    pass(&alone_here);
    assert_eq!((channel.names().len(), evaluated.load(Relaxed)), (2, 0));
    registry::set_rules(0, &[rule("*", &[], Levels::Exactly { level: Level::Info })]);
    pass(&alone_here);
    // Both events are outside of all recorded spans.
    let found = channel.decoded();
    assert_eq!((found.len(), evaluated.load(Relaxed)), (2, 1));
    assert!(found.iter().all(|event| event.field("span_id") == "0"), "{found:?}");
    registry::set_rules(0, &[]);
    let both = tracing_subscriber::registry().with(blkkin_tracing::layer()).with(counts.clone());
    pass(&Dispatch::new(both));
    assert_eq!((channel.names().len(), counts.0.load(Relaxed)), (0, 2));
    // `tracing` notices only now that the other subscriber is gone.
    registry::set_rules(0, &[]);
    pass(&alone_here);
    assert_eq!((channel.names().len(), evaluated.load(Relaxed)), (0, 2));
}

/// Fields may be set late, or never, or to a value of another type each time.
#[test]
fn fields_of_any_form() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let span = |late: &dyn Fn(&tracing::Span)| {
        let span = tracing::info_span!("late", first = 1, second = Empty, third = "three");
        late(&span);
    };
    with_layer(|| {
        span(&|_| ());
        span(&|span| _ = span.record("second", 2u64));
        span(&|span| {
            _ = span.record("second", "two").record("second", "two again").record("first", 7)
        });
        span(&|span| _ = span.record("second", "a long string").record("second", true));
        span(&|span| _ = span.record("third", "3").record("third", "a longer string"));
        span(&|span| _ = span.record("second", 1.5));
        span(&|span| _ = span.record("second", -2));
        // More combinations of kinds than a callsite has variants: all fields become strings.
        span(&|span| _ = span.record("third", -2).record("second", 1));
        span(&|span| _ = span.record("third", 0.25).record("first", false));
    });
    let found = channel.decoded();
    let expected: [&[(&str, &str)]; 9] = [
        &[("first", "1"), ("third", "three")],
        &[("first", "1"), ("second", "2"), ("third", "three")],
        &[("first", "7"), ("second", "two again"), ("third", "three")],
        &[("first", "1"), ("second", "1"), ("third", "three")],
        &[("first", "1"), ("third", "a longer string")],
        &[("first", "1"), ("second", "1.5"), ("third", "three")],
        &[("first", "1"), ("second", "-2"), ("third", "three")],
        &[("first", "1"), ("second", "1"), ("third", "-2")],
        &[("first", "false"), ("second", ""), ("third", "0.25")],
    ];
    assert_eq!(found.iter().map(own).collect::<Vec<_>>(), expected);
    let types = registry::types().filter(|event| event.name() == "layer:late").count();
    assert_eq!(types, 8);
}

/// Long strings are truncated at a character boundary, other strings at a NUL. Later numbers stay
/// whole.
#[test]
fn long_strings_are_cut() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    struct Endless;
    impl std::fmt::Debug for Endless {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            // Code may rely on successful writes, so these must not fail.
            (0..100_000).for_each(|_| write!(f, "é").unwrap());
            Ok(())
        }
    }
    let long = "é".repeat(1000);
    with_layer(|| {
        tracing::info!(a = &*long, b = &*long, c = 7, d = "a\0b", e = ?"c\0d");
        tracing::info!(a = ?Endless, c = 7, b = "");
        tracing::info!(a = "a\0b", b = %"c\0d", c = 7);
        let span = tracing::info_span!("often", a = Empty, b = 1);
        for _ in 0..1000 {
            span.record("a", &*long);
            span.record("b", 2);
        }
    });
    let found = channel.decoded();
    let [strings, endless, nuls, often] = &found[..] else { panic!("{found:?}") };
    assert!(long.starts_with(strings.field("a")) && strings.field("a").len() > 400);
    // There is hardly any room left.
    assert!(long.starts_with(strings.field("b")) && strings.field("b").len() < 20);
    assert_eq!(strings.field("c"), "7");
    assert!(long.starts_with(endless.field("a")) && endless.field("a").len() > 400);
    assert_eq!(endless.field("c"), "7");
    assert_eq!(nuls.fields(["a", "b", "c"]), ["a", "c", "7"]);
    assert!(long.starts_with(often.field("a")) && often.field("a").len() > 400);
    assert_eq!(often.field("b"), "2");
}

#[test]
fn names_are_sound() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    with_layer(|| {
        tracing::info!(target: "a:b::\"c\"", start = 1, span_id = 2, http.method = "GET");
        tracing::info_span!(target: "", "a span: *").in_scope(|| ());
    });
    let found = channel.decoded();
    let [event, span] = &found[..] else { panic!("{found:?}") };
    assert!(event.name.starts_with("a_b._c_:"), "{event:?}");
    assert_eq!(own(event), [("span_id_", "2"), ("http_method", "GET")]);
    assert_eq!(span.name, "tracing:a span: _");
    assert_eq!(event.field("start"), "1");
}

/// The spans and events of a request are all recorded if the request is sampled; otherwise none is.
#[test]
fn sampled_requests() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let request = || {
        tracing::info_span!("request").in_scope(|| {
            tracing::info!("event");
            tracing::info_span!("child").in_scope(|| tracing::info!("event"));
        });
    };
    for (rules, expected) in [(sample::Sampling::NONE, 0), (sample::Sampling::ALL, 4)] {
        sample::set_default(rules);
        with_layer(request);
        assert_eq!(channel.names().len(), expected);
    }
}

/// Spans may be entered on many threads, and closed on another thread than the one that created
/// them.
#[test]
fn spans_across_threads() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    let subscriber = tracing_subscriber::registry().with(blkkin_tracing::layer());
    let dispatch = Dispatch::new(subscriber);
    let request = dispatcher::with_default(&dispatch, || tracing::info_span!("request"));
    std::thread::scope(|scope| {
        for number in 0..4u64 {
            let (dispatch, request) = (dispatch.clone(), request.clone());
            scope.spawn(move || {
                dispatcher::with_default(&dispatch, || {
                    let step = tracing::info_span!(parent: &request, "step", number);
                    request.in_scope(|| tracing::info!(number));
                    let close = move |dispatch| dispatcher::with_default(&dispatch, || drop(step));
                    let dispatch = dispatch.clone();
                    std::thread::spawn(move || close(dispatch)).join().unwrap();
                });
            });
        }
    });
    dispatcher::with_default(&dispatch, || drop(request));
    let found = channel.decoded();
    let (steps, rest): (Vec<_>, Vec<_>) =
        found.iter().partition(|event| event.name == "layer:step");
    let (requests, events): (Vec<&DecodedEvent>, Vec<_>) =
        rest.into_iter().partition(|event| event.name == "layer:request");
    let [request] = &requests[..] else { panic!("{requests:?}") };
    assert_eq!((steps.len(), events.len()), (4, 4));
    assert!(steps.iter().all(|step| step.field("parent_span_id") == request.field("span_id")));
    assert!(events.iter().all(|event| event.field("span_id") == request.field("span_id")));
    assert_eq!(blkkin_tracing::callsites_refused(), 0);
}

/// Messages of the `log` crate are recorded through `tracing-log`.
#[test]
fn log_records() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    tracing_log::LogTracer::init().unwrap();
    with_layer(|| {
        for (names, expected) in [("log:*", 1), ("none:*", 0), ("*", 1)] {
            registry::set_rules(0, &[all(names)]);
            log::info!(target: "store", "written");
            let found = channel.decoded();
            assert_eq!(found.len(), expected, "{names}");
            for event in &found {
                assert_eq!((event.name, event.field("message")), ("log:log event", "written"));
                assert_eq!(event.field("log_target"), "store");
            }
        }
    });
}

/// An event of another thread is recorded even while the first thread still registers the callsite
/// with `tracing`.
#[test]
fn events_while_their_place_is_made_known() {
    static DISPATCH: OnceLock<WeakDispatch> = OnceLock::new();
    /// A layer that makes another thread reach a callsite while that callsite is being registered.
    struct ConcurrentEvent(AtomicUsize);
    impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for ConcurrentEvent {
        fn register_callsite(&self, metadata: &'static tracing::Metadata<'static>) -> Interest {
            if metadata.target() == "meanwhile" && self.0.fetch_add(1, Relaxed) == 0 {
                let dispatch = DISPATCH.get().and_then(WeakDispatch::upgrade).unwrap();
                let other = move || dispatcher::with_default(&dispatch, event);
                std::thread::spawn(other).join().unwrap();
            }
            Interest::always()
        }
    }
    fn event() {
        tracing::info!(target: "meanwhile", "event");
    }
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    // The layer that was added last is called first.
    let layers = tracing_subscriber::registry()
        .with(blkkin_tracing::layer())
        .with(ConcurrentEvent(AtomicUsize::new(0)));
    let dispatch = Dispatch::new(layers);
    DISPATCH.set(dispatch.downgrade()).unwrap();
    dispatcher::with_default(&dispatch, event);
    assert_eq!(channel.names().len(), 2);
}

/// A request from another process continues in a child of the sender's span, and the header for the
/// next process identifies the current span.
#[test]
fn requests_cross_processes() {
    let _alone = alone();
    let mut channel = Channel::wanting("*");
    registry::set_rules(0, &[rule("*", &["layer:unwanted"], Levels::Any)]);
    let header = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let refused = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let text = || blkkin_tracing::traceparent().map(|header| header.as_str().to_owned());
    let mut sent = Vec::new();
    with_layer(|| {
        assert_eq!(text(), None);
        let parent = blkkin_tracing::parse_traceparent(header);
        assert!(parent.is_some());
        let span = blkkin_tracing::with_parent(parent, || tracing::info_span!("remote"));
        span.in_scope(|| {
            sent.push(text().expect("a header"));
            tracing::info_span!("within").in_scope(|| sent.push(text().expect("a header")));
            // In an unwanted span, the header identifies the recorded span around it.
            tracing::info_span!("unwanted").in_scope(|| sent.push(text().expect("a header")));
        });
        // Only spans created within `with_parent` are children.
        tracing::info_span!("own").in_scope(|| sent.push(text().expect("a header")));

        let parent = blkkin_tracing::parse_traceparent(refused);
        let span = blkkin_tracing::with_parent(parent, || tracing::info_span!("refused"));
        span.in_scope(|| {
            tracing::info_span!("refused too").in_scope(|| {});
            // The flags say: the trace id is random, and the request is not sampled.
            assert!(text().expect("a header").ends_with("-02"));
        });

        let parent = blkkin_tracing::context_of([7; 16], [8; 8], 1);
        let span = blkkin_tracing::with_parent(parent, || tracing::info_span!("other tracer"));
        span.in_scope(|| sent.push(text().expect("a header")));
        assert!(blkkin_tracing::context_of([0; 16], [8; 8], 1).is_none());
        assert!(blkkin_tracing::parse_traceparent(b"nonsense").is_none());
    });
    let found = channel.decoded();
    let names: Vec<_> = found.iter().map(|event| event.name).collect();
    assert_eq!(names, ["layer:within", "layer:own", "layer:other tracer", "layer:remote"]);
    let [within, own, other, remote] = &found[..] else { panic!("{found:?}") };
    assert_eq!(remote.number("trace_id_high"), 0x4bf92f3577b34da6);
    assert_eq!(remote.number("trace_id"), 0xa3ce929d0e0e4736);
    assert_eq!(remote.number("parent_span_id"), 0x00f067aa0ba902b7);
    assert_eq!(within.number("parent_span_id"), remote.number("span_id"));
    assert_eq!(own.field("parent_span_id"), "0");
    assert_eq!(other.number("trace_id"), 0x0707070707070707);
    assert_eq!(other.number("parent_span_id"), 0x0808080808080808);
    let expected = [remote, within, remote, own, other].map(|span| {
        let [high, low] = ["trace_id_high", "trace_id"].map(|name| span.number(name));
        format!("00-{high:016x}{low:016x}-{:016x}-", span.number("span_id"))
    });
    for (sent, expected) in sent.iter().zip(expected) {
        assert!(sent.starts_with(&expected), "{sent} {expected}");
    }
}
