//! Tests of events from the macro to the ring: events are recorded in the right channels, and
//! fields of unwanted events are not evaluated once the event type is registered.

mod support;

use blkkin_trace::registry::{self, Levels};
use blkkin_trace::{EventType, Level, channels, event};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use support::{Channel, all, alone, rule};

#[test]
fn fields_are_recorded_as_they_are() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("*")]);
    let oid = String::from("rb.1");
    event!(
        Level::Info,
        "fields:all",
        a = 1u8,
        b = -2i16,
        c = 3u32,
        d = 4usize,
        e = true,
        f = 1.5f64,
        g = "text",
        h = &oid,
        i = -9i64,
    );
    event!(Level::Debug, "fields:none");
    let found = channel.take();
    let expected = [
        &[1][..],
        &(-2i16).to_le_bytes(),
        &3u32.to_le_bytes(),
        &4u64.to_le_bytes(),
        &[1],
        &1.5f64.to_le_bytes(),
        b"text\0rb.1\0",
        &(-9i64).to_le_bytes(),
    ]
    .concat();
    let [(all, fields), (none, no_fields)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((all.name(), all.level()), ("fields:all", Level::Info));
    assert_eq!(*fields, expected);
    let names: Vec<_> = all.fields().map(|(name, kind)| format!("{name} {kind:?}")).collect();
    assert_eq!(
        names,
        ["a U8", "b I16", "c U32", "d U64", "e Bool", "f F64", "g String", "h String", "i I64"]
    );
    assert!(all.place().0.ends_with("events.rs"));
    assert_eq!((none.name(), no_fields.len()), ("fields:none", 0));
}

#[test]
fn the_first_event_of_a_type_counts() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("first:*")]);
    // The first event of this type.
    event!(Level::Info, "first:time");
    assert_eq!(channel.names(), ["first:time"]);
}

/// A failed `attach` to a channel that has rings already leaves the channel's maximum event size
/// unchanged. With the maximum of the larger rings, the event would not fit into a sub-buffer and
/// would be lost.
#[test]
fn refused_rings_change_no_channel() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("refused:*")]);
    assert!(channels::attach(0, Channel::unattached(1 << 20)).is_err());
    // Each string is cut to 4 KiB; three of them exceed a sub-buffer of 8 KiB.
    let text = "x".repeat(10_000);
    let text = text.as_str();
    event!(Level::Info, "refused:long", a = text, b = text, c = text);
    assert_eq!(channel.names(), ["refused:long"]);
}

#[test]
fn what_nobody_wants_is_not_evaluated() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[]);
    let mut evaluated = 0;
    let mut pass = || {
        event!(
            Level::Info,
            "lazy:event",
            n = {
                evaluated += 1;
                evaluated
            }
        );
    };
    // The first pass registers the type with the kinds of its fields.
    pass();
    pass();
    pass();
    assert_eq!(channel.names(), [""; 0]);
    assert!(evaluated <= 1, "evaluated {evaluated} times");
}

#[test]
fn each_channel_gets_what_it_wants() {
    let _alone = alone();
    let mut channels = [Channel::new(0), Channel::new(5), Channel::new(30)];
    let errors = Levels::Exactly { level: Level::Error };
    registry::set_rules(0, &[rule("who:*", &["who:b*"], Levels::Any)]);
    registry::set_rules(5, &[all("who:bb")]);
    registry::set_rules(30, &[rule("who:*", &[], errors)]);
    let pass = || {
        event!(Level::Info, "who:a");
        event!(Level::Info, "who:b");
        event!(Level::Error, "who:bb");
        event!(Level::Error, "whose:c");
    };
    pass();
    let names: Vec<_> = channels.iter_mut().map(Channel::names).collect();
    assert_eq!(names, [vec!["who:a"], vec!["who:bb"], vec!["who:bb"]]);
    registry::set_rules(0, &[]);
    registry::set_rules(5, &[all("who*:c")]);
    registry::set_rules(30, &[]);
    pass();
    let names: Vec<_> = channels.iter_mut().map(Channel::names).collect();
    assert_eq!(names, [vec![], vec!["whose:c"], vec![]]);
}

#[test]
fn types_that_come_while_rules_change_are_decided() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                registry::set_rules(0, &[]);
                registry::set_rules(0, &[all("race:*")]);
            }
        });
        // In leaked memory, so that each event has a separate type.
        for _ in 0..200 {
            let place = (file!(), line!());
            let event = Box::leak(Box::new(EventType::new("race:event", Level::Info, &[], place)));
            event.record(());
        }
        is_over.store(true, Relaxed);
    });
    registry::set_rules(0, &[all("race:*")]);
    channel.take();
    let types: Vec<_> = registry::types().filter(|event| event.name() == "race:event").collect();
    assert_eq!(types.len(), 200);
    for event in types {
        event.record(());
    }
    assert_eq!(channel.names().len(), 200);
}

/// The events of all threads are recorded when several threads reach a new type at the same time.
#[test]
fn the_first_events_of_several_threads_count() {
    const THREADS: usize = 4;
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("together:*")]);
    let barrier = std::sync::Barrier::new(THREADS);
    for turn in 0..300 {
        let place = (file!(), line!());
        let names = &["thread"];
        let event = EventType::new("together:event", Level::Info, names, place);
        let event: &'static EventType = Box::leak(Box::new(event));
        std::thread::scope(|scope| {
            for thread in 0..THREADS as u64 {
                let barrier = &barrier;
                scope.spawn(move || {
                    barrier.wait();
                    event.record((thread,));
                });
            }
        });
        assert_eq!(channel.names(), ["together:event"; THREADS], "{turn}");
    }
    assert_eq!(registry::types().filter(|event| event.name() == "together:event").count(), 300);
}
