//! Tests of filters that are bound to the fields of a trace.

use crate::bind::BoundFilter;
use crate::reading::Reading;
use crate::testing::{TraceFolder, Transcript, check_lines, transcript};
use crate::{Source, open};
use std::fs;

const STREAMS: &str = "a 0.1 10..20 | 10 e 1, 20 f 2
                       b 1.2 10..40 | 15 e 3, 25 f 4
                       a 0.1 30..40 | 30 e 5";

#[test]
fn a_filter_selects_events_by_their_fields() {
    let folder = TraceFolder::new(STREAMS);
    let opened = folder.open();
    // Each case: filter, and values of `x` in the selected events.
    let cases = [
        // Payload fields; only `f` has `s`.
        ("x > 2", "3 4 5"),
        ("s == \"s4\"", "4"),
        ("s != \"s4\"", "2"),
        ("has(s)", "2 4"),
        ("!has(s) && x < 5", "1 3"),
        ("a[1] == 20", "2"),
        ("a[0] == 4 || a[0] == 40", "4"),
        // Contexts of event and packet.
        ("$ctx.vtid == 102", "3 4"),
        ("$packet.cpu_id == 1", "1 2 5"),
        ("$packet.cpu_id == 2 && $ctx.vtid == 102 && s == \"s*\"", "4"),
        // Pseudo-fields, from fields and from the metadata.
        ("cpu == 2", "3 4"),
        ("tid == 101 && x == 5", "5"),
        ("name == \"f\"", "2 4"),
        ("severity == warning", "1 3 5"),
        ("stream == 2", "3 4"),
        ("time >= 20 && time < 30", "2 4"),
        ("pid == 1", ""),
        ("$env.nothing == 1", ""),
    ];
    for (filter, expected) in cases {
        let bound = BoundFilter::new(filter, &opened.traces).expect("a valid filter");
        let mut lines = Transcript::default();
        let stats = Reading::new(&opened.traces).filter(Some(bound)).ordered(&mut lines);
        let text = lines.finish(&folder, &stats);
        let x = text.lines().filter_map(|line| line.split_whitespace().nth(1));
        let mut x: Vec<&str> = x.map(|name| &name[1..]).collect();
        x.sort_unstable();
        assert_eq!(x.join(" "), expected, "{filter}");
        assert_eq!(stats.events, x.len() as u64, "{filter}");
    }
}

/// Values from the packet context of one trace are not used to filter events of another trace that
/// has no packet contexts.
#[test]
fn packets_of_other_traces_do_not_count() {
    let folder = TraceFolder::new("a 0.1 10..20 | 10 e 1, 20 e 2");
    let bare = tempfile::tempdir().expect("a folder");
    let metadata = "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; } := u8;
        trace { major = 1; minor = 8; byte_order = le; };
        clock { name = c; freq = 1000000000; };
        typealias integer { size = 8; align = 8; map = clock.c.value; } := time;
        stream { event.header := struct { time timestamp; }; };
        event { name = e; fields := struct { u8 x; }; };";
    fs::write(bare.path().join("metadata"), metadata).expect("to write");
    fs::write(bare.path().join("stream"), [15, 3]).expect("to write");
    let opened = open(&[folder.source(), Source::Path(bare.path().to_owned())]);
    for (filter, expected) in [("cpu == 1", 2), ("has(cpu)", 2), ("!has(cpu)", 1)] {
        let bound = BoundFilter::new(filter, &opened.traces).expect("a valid filter");
        let mut events = Transcript::default();
        let stats = Reading::new(&opened.traces).filter(Some(bound)).ordered(&mut events);
        assert_eq!(stats.events, expected, "{filter}: {:?}", stats.problems);
    }
}

#[test]
fn a_field_that_no_trace_has_is_an_error() {
    let folder = TraceFolder::new(STREAMS);
    let opened = folder.open();
    for (filter, field) in
        [("y == 1", "y"), ("x == 1 && $ctx.x == 1", "x"), ("$packet.vtid == 1", "vtid")]
    {
        let error = BoundFilter::new(filter, &opened.traces).expect_err("an unknown field");
        assert!(error.render(false).contains(field), "{}", error.render(false));
        // Newer metadata of a growing trace may add the field.
        let bound = BoundFilter::of_growing(filter, &opened.traces).expect("a valid filter");
        assert!(bound.refuse_unknown(&opened.traces).is_err());
        assert!(bound.refuse_unknown(&[]).is_ok());
    }
}

#[test]
fn a_filter_is_bound_to_each_trace() {
    // Field `s` has other node ids in the second trace, which gets its binding when it is read.
    let folder = TraceFolder::new("c/a 0.1 10..20 | 10 e 1, 20 f 2 \n k/a 1.2 10..20 | 15 f 3");
    folder.write_metadata("k", true);
    let opened = folder.open();
    let bound = BoundFilter::of_growing("s == \"s3\" || x == 1", &opened.traces[..1]);
    let bound = bound.expect("a valid filter");
    let text = transcript(&folder, |reading| reading.filter(Some(bound)));
    check_lines(&text, "10 e1 0.1 \n 15 f3 1.2", "two traces");
}
