//! Conformance cases for calls between services.

use super::tested_store::{MS, NOON, SpanBuilder, Subject, span};
use crate::Window;
use blkkin_model::{Kind, Span};

const MINUTE: u64 = 60_000;

/// Returns the links of requests that began in the minutes `from_minute..to_minute` since [`NOON`].
/// Each link has the form `parent>child calls errors durations`, where `durations` is the number of
/// calls with a known duration.
fn links(subject: &Subject, from_minute: u64, to_minute: u64) -> String {
    subject.settle();
    let ns = |minute: u64| NOON + minute * MINUTE * MS;
    let window = Window { start_ns: ns(from_minute), end_ns: ns(to_minute) - 1 };
    let links = subject.store().links(window).expect("an answer");
    assert!(links.is_sorted_by_key(|link| (link.parent.clone(), link.child.clone())));
    let shown = links.iter().map(|link| {
        let known = link.durations.count();
        format!("{}>{} {} {} {known}", link.parent, link.child, link.calls, link.errors)
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Creates a request through three services. The last service sends no span; only its caller names
/// it.
fn request(trace: u128, start_ms: u64) -> Vec<Span> {
    vec![
        span(trace, 1, start_ms, "web", "get").kind(Kind::Server),
        span(trace, 2, start_ms + 1, "web", "get").child_of(1).kind(Kind::Client),
        span(trace, 2, start_ms + 2, "app", "get").child_of(1).kind(Kind::Server).shared(),
        span(trace, 3, start_ms + 3, "app", "query")
            .child_of(2)
            .kind(Kind::Client)
            .remote("db")
            .tag("error", "deadlock"),
    ]
}

/// A call is counted once, whether both sides recorded it or only one side did.
pub(super) fn calls_are_counted(subject: &Subject) {
    subject.accept(&request(1, 0));
    assert_eq!(links(subject, 0, 1), "app>db 1 1 1, web>app 1 0 1");
    // Each span of the request arrives in its own batch, the root last. The root names the caller.
    for part in request(2, 10).into_iter().rev() {
        let part = if part.parent_id.is_none() { part.remote("browser") } else { part };
        subject.accept(&[part]);
    }
    assert_eq!(links(subject, 0, 1), "app>db 2 2 2, browser>web 1 0 1, web>app 2 0 2");
    // A request without a root, a message, an internal step, and a client that gives the called
    // service's name as its own.
    subject.accept(&request(3, 20)[1..]);
    subject.accept(&[
        span(4, 1, 30, "sender", "send").kind(Kind::Producer).remote("queue"),
        span(4, 2, 31, "taker", "take").child_of(1).kind(Kind::Consumer).remote("queue"),
        span(4, 3, 32, "taker", "step").child_of(2),
        span(4, 4, 33, "taker", "call").child_of(3).kind(Kind::Client).remote("db"),
        span(4, 5, 33, "cache", "call").child_of(3).kind(Kind::Client),
    ]);
    subject.accept(&[span(5, 1, 40, "self", "x").kind(Kind::Client).remote("self")]);
    assert_eq!(
        links(subject, 0, 1),
        "app>db 3 3 3, browser>web 1 0 1, queue>taker 1 0 1, self>self 1 0 1, sender>queue 1 0 1, \
         taker>cache 1 0 0, taker>db 1 0 1, web>app 3 0 3"
    );
}

/// A call counts for the window in which its request began, even if the call itself began later.
pub(super) fn calls_are_in_the_window_of_their_request(subject: &Subject) {
    subject.accept(&request(1, MINUTE - 2));
    subject.accept(&request(2, 5 * MINUTE));
    let one = "app>db 1 1 1, web>app 1 0 1";
    assert_eq!(links(subject, 0, 1), one);
    assert_eq!(links(subject, 1, 5), "");
    assert_eq!(links(subject, 5, 6), one);
    assert_eq!(links(subject, 6, 60), "");
    assert_eq!(links(subject, 0, 6), "app>db 2 2 2, web>app 2 0 2");
}

/// A call is not counted again when duplicates or late spans arrive.
pub(super) fn calls_are_counted_once(subject: &Subject) {
    subject.accept(&request(1, 0));
    subject.accept(&request(1, 0));
    assert_eq!(links(subject, 0, 1), "app>db 1 1 1, web>app 1 0 1");
    subject.accept(&request(1, 0)[2..]);
    let late = span(1, 9, 9, "app", "look").child_of(2).kind(Kind::Client).remote("cache");
    subject.accept(&[late]);
    assert_eq!(links(subject, 0, 1), "app>cache 1 0 1, app>db 1 1 1, web>app 1 0 1");
}

/// Spans whose service knows only the lower half of the trace id are linked with the request.
pub(super) fn ids_that_are_cut_are_linked(subject: &Subject) {
    let mut spans = request(7 | 5 << 64, 0);
    spans[2].trace_id = super::tested_store::trace_id(7);
    subject.accept(&spans);
    assert_eq!(links(subject, 0, 1), "app>db 1 1 1, web>app 1 0 1");
}
