//! Tests of the order of events from several streams. A description lists packets, and the expected
//! text lists events in the order of delivery.

use crate::testing::{TraceFolder, check, check_lines, transcript};

#[test]
fn events_come_in_order_of_time() {
    check(
        "a 0.1 10..30 | 10 e 1, 30 e 2
         b 0.2 5..25  | 5 e 3, 20 f 4, 25 e 5
         a 0.1 31..40 | 40 e 6
         b 0.2 26..50 | 35 e 7",
        "5 e3 0.2
         10 e1 0.1
         20 f4 0.2
         25 e5 0.2
         30 e2 0.1
         35 e7 0.2
         40 e6 0.1",
    );
}

#[test]
fn equal_times_are_ordered_by_class_id_and_event() {
    // The order of the files is the reverse of the order of the streams.
    check(
        "a 1.1 7..7 | 7 e 1
         b 0.9 7..7 | 7 e 2
         c 0.2 7..7 | 7 f 3",
        "7 f3 0.2
         7 e2 0.9
         7 e1 1.1",
    );
    // One stream keeps its order, whatever the event classes are.
    check(
        "a 0.1 7..7 | 7 f 1, 7 e 2, 7 f 3",
        "7 f1 0.1
         7 e2 0.1
         7 f3 0.1",
    );
}

#[test]
fn equal_times_are_ordered_by_trace_first() {
    // The UUID of folder `k` is smaller than that of folder `c`.
    check(
        "c/a 0.1 7..8 | 7 e 1, 8 e 2
         k/a 1.2 7..8 | 7 e 3, 8 e 4",
        "7 e3 1.2
         7 e1 0.1
         8 e4 1.2
         8 e2 0.1",
    );
}

#[test]
fn a_late_event_counts_at_the_latest_time_before_it() {
    // The event at 5 follows one at 10, so it is delivered before the other stream's event at 12.
    check(
        "a 0.1 1..20 | 10 e 1, 5 e 2, 20 e 3
         b 0.2 1..20 | 7 e 4, 12 e 5",
        "7 e4 0.2
         10 e1 0.1
         5 e2 0.1
         12 e5 0.2
         20 e3 0.1",
    );
    // An event before its packet's begin is ordered at that begin.
    check(
        "a 0.1 10..20 | 3 e 1, 15 e 2
         b 0.2 1..20  | 7 e 3, 11 e 4",
        "7 e3 0.2
         3 e1 0.1
         11 e4 0.2
         15 e2 0.1",
    );
}

#[test]
fn a_loss_comes_at_the_begin_of_its_time() {
    check(
        "a 0.1 10..20    | 10 e 1
         a 0.1 40..50 -3 | 45 e 2
         b 0.2 10..50    | 15 e 3, 25 e 4, 42 e 5",
        "10 e1 0.1
         15 e3 0.2
         lost 3 events 20..50 0.1
         25 e4 0.2
         42 e5 0.2
         45 e2 0.1",
    );
}

#[test]
fn a_range_and_a_limit_select_events() {
    let folder = TraceFolder::new(
        "a 0.1 10..20    | 10 e 1, 20 e 2
         a 0.1 30..40 -3 | 30 e 3, 40 e 4
         b 0.2 10..40    | 15 e 5, 35 e 6",
    );
    let check = |begin, end, limit, expected: &str| {
        let text = transcript(&folder, |reading| reading.range(begin, end).limit(limit));
        check_lines(&text, expected, &format!("{begin:?} {end:?} {limit:?}"));
    };
    check(Some(16), Some(30), None, "20 e2 0.1 \n lost ? events 20..30 0.1 \n 30 e3 0.1");
    check(None, Some(15), None, "10 e1 0.1 \n 15 e5 0.2");
    check(Some(35), None, None, "lost ? events 35..40 0.1 \n 35 e6 0.2 \n 40 e4 0.1");
    check(None, None, Some(2), "10 e1 0.1 \n 15 e5 0.2");
    check(None, None, Some(0), "");
}
