//! Own times: exact bands of small requests, hostile numbers, limits, and a comparison with a model
//! that decides about each nanosecond.

use super::{TreeText, assemble, check, check_with, lines, report};
use crate::{
    Activity, Assembler, BANDS_MAX, CompleteSpan, Detail, Limits, OwnKind, ReportContent, Request,
    SpanReport, Step,
};
use blkkin_model::{Kind, ValueRef};
use std::ops::ControlFlow;

#[test]
fn each_moment_of_the_own_time_has_a_kind() {
    check(
        "
        200 1/1 a:x @server 100+100
        190 1/1 run 80
        150 1/1 wait disk 20+5
        145 1/1 disk vda 3+15
        170 1/1 wait lock 4+0 w77
        ",
        "
        1
          1 a:x server 100+100 [elsewhere 0+10, running 10+15, disk 25+20 vda, runnable 45+5, \
running 50+16, lock 66+4 77, running 70+20, elsewhere 90+10] {vda 3+15}
        ",
    );
}

#[test]
fn children_interrupt_the_own_time() {
    check(
        "
        200 1/1 a:x @internal 100+100
        200 1/1 run 100
        140 1/2<1 a:y @internal 120+20
        150 1/2 run 40
        180 1/3<1 a:z @internal 130+50
        185 1/1 wait network 70+1
        ",
        "
        1
          1 a:x internal 100+100 self 40 [running 0+14, network 14+6, network 80+4, runnable 84+1, \
running 85+15]
            2 a:y internal 120+20 [running 0+20]
            3 a:z internal 130+50
        ",
    );
}

#[test]
fn waits_may_begin_before_the_span_and_end_after_it() {
    check(
        "
        200 1/1 a:x @internal 100+100
        110 1/1 wait sleep 90+4
        215 1/1 wait poll 20+5
        500 1/1 run 450
        40 1/1 wait fault 3+3
        ",
        "
        1
          1 a:x internal 100+100 [sleep 0+6, runnable 6+4, running 10+80, poll 90+10]
        ",
    );
}

/// Without a run, nothing tells whether the rest of the time was spent elsewhere.
#[test]
fn without_runs_the_rest_is_unknown() {
    check(
        "
        20 1/1 a:x @internal 0+20
        10 1/1 wait other 4+1 futex
        20 1/2<1 a:y @internal 20+0
        20 1/2 disk vdb 5+5
        25 1/3<2 a:z @internal 20+5
        24 1/3 disk vdb 1+2
        ",
        "
        1
          1 a:x internal 0+20 [unknown 0+5, other 5+4 futex, runnable 9+1, unknown 10+10]
            2 a:y internal 20+0 [] {vdb 5+5}
              3 a:z internal 20+5 [unknown 0+5] {vdb 1+2}
        ",
    );
}

#[test]
fn a_span_without_such_events_or_times_has_no_own_time() {
    check(
        "
        20 1/1 a:x @internal 0+20
        20 1/2<1 a:y cs
        20 1/2 run 5
        ",
        "
        1
          1 a:x internal 0+20
            2 a:y client 20 !unfinished
        ",
    );
}

#[test]
fn any_running_thread_outweighs_waiting_ones() {
    // Threads 1 and 2 run; both wait from 20 to 30.
    let bands = "
        1
          1 a:x internal 0+50 [running 0+20, disk 20+10, running 30+20]
        ";
    let spans = "50 1/1 a:x @internal 0+50\n";
    let known = "50 1/1 run 50 t1\n40 1/1 run 40 t2\n30 1/1 wait disk 20+0 t1\n\
        35 1/1 wait lock 15+0 t2 w9\n";
    check(&format!("{spans}{known}"), bands);
    // The ids of threads in the program's trace may be unknown, or those of a container.
    let unknown = known.replace("run 50 t1", "run 50").replace("run 40 t2", "run 40");
    check(&format!("{spans}{unknown}"), bands);
    let other = known.replace("run 50 t1", "run 50 t901").replace("run 40 t2", "run 40 t902");
    check(&format!("{spans}{other}"), bands);
}

#[test]
fn a_wait_covers_only_its_own_thread() {
    // Thread 1 waits after its run was lost; thread 2 runs and waits later.
    check(
        "
        50 1/1 a:x @internal 0+50
        50 1/1 run 50 t2
        50 1/1 run 10 t1
        48 1/1 wait sleep 4+0 t1
        20 1/1 wait disk 10+0 t2
        ",
        "
        1
          1 a:x internal 0+50 [running 0+10, disk 10+10, running 20+30]
        ",
    );
}

#[test]
fn of_several_waits_the_first_kind_counts() {
    check(
        "
        50 1/1 a:x @internal 0+50
        10 1/1 wait runnable 0+10 t1
        20 1/1 wait other 15+0 t2 read
        30 1/1 wait sleep 25+0 t3
        40 1/1 wait lock 25+0 t4 w6
        41 1/1 wait lock 21+0 t5 w7
        44 1/1 wait disk 10+0 t6
        ",
        "
        1
          1 a:x internal 0+50 [runnable 0+5, sleep 5+10, lock 15+5 6, lock 20+14 7, disk 34+10, \
unknown 44+6]
        ",
    );
}

/// The wait begins before its request is queued, and ends after its completion.
#[test]
fn the_request_to_the_disk_names_the_device() {
    check(
        "
        90 1/1 a:x @internal 0+90
        30 1/1 wait disk 20+0
        28 1/1 disk vda 2+10
        60 1/1 wait disk 20+0
        65 1/1 disk sdb 1+15
        50 1/1 disk vda 0+8
        80 1/1 wait disk 5+0
        ",
        "
        1
          1 a:x internal 0+90 [unknown 0+10, disk 10+20 vda, unknown 30+10, disk 40+9 vda, \
disk 49+11 sdb, unknown 60+15, disk 75+5, unknown 80+10] {sdb 1+15} {vda 2+18}
        ",
    );
}

#[test]
fn lost_runs_make_the_rest_unknown() {
    let events = "60 1/1 a:x @internal 10+50\n40 1/1 run 20\n30 1/1 wait lock 3+0\n";
    let drawn = |from: i64, to: i64, source: u32| {
        let mut assembler = Assembler::new(Limits::default());
        let mut drawn = TreeText::default();
        assembler.add_loss(source, Some(from), Some(to));
        for line in lines(events) {
            assert!(assembler.add(&report(line), 0, &mut drawn).is_continue());
        }
        assert!(assembler.finish(&mut drawn).is_continue());
        drawn.0
    };
    let complete = "1\n  1 a:x internal 10+50 [elsewhere 0+10, running 10+7, lock 17+3, \
        running 20+10, elsewhere 30+20]\n";
    assert_eq!(drawn(0, 9, 0), complete);
    assert_eq!(drawn(61, 90, 0), complete);
    assert_eq!(drawn(20, 30, 1), complete);
    assert_eq!(drawn(0, 10, 0), complete.replace("elsewhere", "unknown"));
    assert_eq!(drawn(50, 55, 0), complete.replace("elsewhere", "unknown"));
}

#[test]
fn activities_make_neither_spans_nor_requests() {
    let (drawn, assembler) = assemble(
        Limits::default(),
        "
        20 1/1 a:x @internal 0+20
        10 1/7 run 4
        10 2/1 wait lock 4+0
        11 2/1 disk vda 4+0
        10 1^5/1 run 3
        ",
    );
    assert_eq!(drawn, "1\n  1 a:x internal 0+20 [elsewhere 0+7, running 7+3, elsewhere 10+10]\n");
    let counts = assembler.counts();
    assert_eq!((counts.requests, counts.spans, counts.unmatched), (1, 1, 3));
    assert_eq!((counts.events, counts.left_out), (5, 0));
}

#[test]
fn memory_of_activities_is_limited() {
    let limits = Limits { bytes_of_request: 4000, ..Limits::default() };
    let waits = "10 1/1 wait lock 4+0\n".repeat(200);
    let (drawn, assembler) = assemble(limits, &waits);
    assert_eq!((drawn.as_str(), assembler.counts().requests), ("", 0));
    let (dropped, unmatched) = (assembler.counts().left_out, assembler.counts().unmatched);
    assert!(dropped > 100 && unmatched > 10, "{dropped} {unmatched}");
    assert_eq!((dropped + unmatched, assembler.counts().cut), (200, 0));
    let (drawn, assembler) = assemble(limits, &format!("20 1/1 a:x @internal 0+20\n{waits}"));
    let counts = assembler.counts();
    assert!(drawn.starts_with(&format!("1 duplicate:{}", 199 - counts.left_out)), "{drawn}");
    assert!(drawn.contains(&format!(" left_out:{}\n", counts.left_out)), "{drawn}");
    assert!(drawn.ends_with("[unknown 0+6, lock 6+4, unknown 10+10]\n"), "{drawn}");
    assert_eq!((counts.unmatched, counts.cut), (0, 1));
}

#[test]
fn a_span_moved_for_its_clock_takes_its_bands_along() {
    check_with(
        Limits { correct_skew: true, ..Limits::default() },
        "
        1000 1/1 a:x ~10.0.0.1 @client 0+1000
        -- the server's clock is behind
        60 1/1 b:x ~10.0.0.2 @server 0+60
        50 1/1 run 40
        30 1/1 wait disk 10+0
        "
        .replace("        -- the server's clock is behind\n", "")
        .replace("@client 0+1000", "@client 100+1000")
        .as_str(),
        "
        1
          1 a:x client 100+1000 self 940 at [10.0.0.1]:0
            1 b:x server shared 570+60 at [10.0.0.2]:0 !moved +570 [elsewhere 0+10, running 10+10, \
disk 20+10, running 30+20, elsewhere 50+10]
        ",
    );
}

/// Both sides of a call have the same id. What a side did is told by its trace, or by the time.
#[test]
fn sides_of_a_call_have_their_own_activities() {
    let events = [
        (1, "100 1/1 a:x @client 0+100"),
        (2, "80 1/1 b:x @server 20+60"),
        (1, "110 1/1 run 110"),
        (2, "90 1/1 run 75"),
        (3, "95 1/1 wait network 85+0"),
        (3, "60 1/1 wait lock 20+0"),
    ];
    let mut drawn = TreeText::default();
    let mut assembler = Assembler::new(Limits::default());
    for (source, line) in events {
        let report = SpanReport { source, ..report(line) };
        assert!(assembler.add(&report, 0, &mut drawn).is_continue());
    }
    assert!(assembler.finish(&mut drawn).is_continue());
    let expected = "1\n  1 a:x client 0+100 self 40 \
        [running 0+10, network 10+10, network 80+15, running 95+5]\n    \
        1 b:x server shared 20+60 [running 0+20, lock 20+20, running 40+20]\n";
    assert_eq!(drawn.0, expected, "\n{}", drawn.0);
}

#[test]
fn requests_with_the_same_lower_half_have_their_own_activities() {
    check(
        "
        20 1^5/1 a:x @internal 0+20
        20 1^6/1 a:x @internal 0+20
        20 1^6/2<1 a:y @internal 0+10
        10 1^5/1 run 4
        10 1^6/1 wait sleep 5+0
        10 1/2 run 2
        ",
        "
        50000000000000001
          1 a:x internal 0+20 [elsewhere 0+6, running 6+4, elsewhere 10+10]
        60000000000000001
          1 a:x internal 0+20 self 10 [unknown 10+10]
            2 a:y internal 0+10 [elsewhere 0+8, running 8+2]
        ",
    );
}

#[test]
fn numbers_may_be_anything() {
    let numbers = [0, 1, 5, 1 << 63, u64::MAX - 1, u64::MAX];
    let kinds = [OwnKind::Disk, OwnKind::Runnable, OwnKind::Running, OwnKind::Unknown];
    let mut seen = 0;
    for start_ns in numbers {
        for duration_ns in numbers {
            let mut sink = |request: &Request<'_>| {
                for step in &request.steps {
                    let own = step.own.as_ref().expect("an own time");
                    assert_eq!(Some(own.total_ns()), step.self_ns);
                    step.with_own_tags(|span| assert!(span.tags.is_sorted_by_key(|tag| tag.key)));
                    seen += 1;
                }
                ControlFlow::Continue(())
            };
            let mut assembler = Assembler::new(Limits::default());
            let mut add = |span_id, time_ns, content| {
                let report = SpanReport { span_id, time_ns, content, ..report("5 1/2<1 a:x e") };
                assert!(assembler.add(&report, 0, &mut sink).is_continue());
            };
            for (id, start_ns, duration_ns) in
                [(1, start_ns, duration_ns), (2, duration_ns, start_ns)]
            {
                let (kind, debug, target, fields) = (Kind::Internal, false, "", &[][..]);
                let whole = CompleteSpan { start_ns, duration_ns, kind, debug, target, fields };
                add(id, 0, ReportContent::Span(whole));
            }
            for (first, second) in
                numbers.into_iter().flat_map(|first| numbers.map(|second| (first, second)))
            {
                let thread = u32::try_from(first).ok();
                let run = Activity::Run { start_ns: first, duration_ns: second, thread };
                let disk = Activity::Disk { device: "", queued_ns: first, served_ns: second };
                for (at, reason) in numbers.into_iter().zip(kinds.into_iter().cycle()) {
                    let (call, waker) = ("", 1);
                    let (blocked_ns, runnable_ns) = (first, second);
                    let wait =
                        Activity::Wait { reason, call, blocked_ns, runnable_ns, waker, thread };
                    for content in [run, disk, wait].map(ReportContent::Activity) {
                        add(1, at, content);
                        add(2, at, content);
                    }
                }
            }
            assert!(assembler.finish(&mut sink).is_continue());
        }
    }
    assert_eq!(seen, 2 * 36);
}

#[test]
fn bands_are_limited_and_sums_are_not() {
    // A run of 1,000 ns with a wait of 1 to 3 ns in each ten.
    let mut input = "20000 1/1 a:x @internal 0+20000\n20000 1/1 run 20000\n".to_owned();
    let mut waited = 0;
    for number in 0..1000u64 {
        let length = 1 + number % 3;
        waited += length;
        input.push_str(&format!("{} 1/1 wait lock {length}+0\n", 20 * number + 10));
    }
    // A child between two runs leaves bands without a neighbour.
    input.push_str("100000 2/1 a:x @internal 0+100000\n100000 2/1 run 100000\n");
    for number in 0..600u64 {
        let (start, length) = (100 * number + 7, 99 - number % 50);
        let end = start + length;
        input.push_str(&format!("{end} 2/{}<1 a:y @internal {start}+{length}\n", number + 2));
    }
    let mut sums = Vec::new();
    let mut sink = |request: &Request<'_>| {
        let own = request.steps[0].own.as_ref().expect("an own time");
        // A band that is removed between equal ones takes another with it.
        assert!((BANDS_MAX - 1..=BANDS_MAX).contains(&own.bands.len()), "{}", own.bands.len());
        let is_order = |pair: &[crate::Band<'_>]| pair[0].end_ns() <= pair[1].start_ns;
        assert!(own.bands.windows(2).all(is_order));
        assert_eq!(Some(own.total_ns()), request.steps[0].self_ns);
        let shown: u64 = own.bands.iter().map(|band| band.duration_ns).sum();
        sums.push((own.sum_ns(OwnKind::Running), own.sum_ns(OwnKind::Lock), shown));
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(Limits::default());
    for line in lines(&input) {
        assert!(assembler.add(&report(line), 0, &mut sink).is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
    assert_eq!(sums[0], (20_000 - waited, waited, 20_000));
    let (own, _, shown) = sums[1];
    assert!(own == 55_300 && shown < own && shown > own - 45 * 50 * 8, "{own} {shown}");
}

#[test]
fn tags_carry_the_own_time() {
    let input = "
        100 1/1 a:x @internal 0+100
        100 1/1 run 100
        60 1/1 wait disk 20+5
        50 1/1 disk vd;a 4+10
        90 1/1 wait lock 10+0 w31
        95 1/1 wait other 2+0 io_uring
        ";
    let mut tags = Vec::new();
    let mut sink = |request: &Request<'_>| {
        request.steps[0].with_own_tags(|span| {
            tags.extend(span.tags.iter().map(|tag| match tag.value {
                ValueRef::Str(text) => format!("{}={text}", tag.key),
                ValueRef::Int(number) => format!("{}={number}", tag.key),
                _ => panic!("{tag:?}"),
            }));
        });
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(Limits::default());
    let own = ReportContent::KeyValue("blkkin.own.disk", ValueRef::Str("of the program"));
    let other = ReportContent::KeyValue("z", ValueRef::Int(5));
    for content in [own, other] {
        let report = SpanReport { content, ..report("5 1/1 a:x e") };
        assert!(assembler.add(&report, 0, &mut sink).is_continue());
    }
    for line in lines(input) {
        assert!(assembler.add(&report(line), 0, &mut sink).is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
    let expected = [
        "blkkin.disk.vd_a.queued=4",
        "blkkin.disk.vd_a.served=10",
        "blkkin.own.bands=running 0 35;disk 35 20 vd_a;runnable 55 5;running 60 20;lock 80 10 31;\
         running 90 3;other 93 2 io_uring;running 95 5",
        "blkkin.own.disk=20",
        "blkkin.own.lock=10",
        "blkkin.own.other=2",
        "blkkin.own.runnable=5",
        "blkkin.own.running=63",
        "z=5",
    ];
    assert_eq!(tags, expected);
}

/// Random spans and activities of two traces give what the model gives. It decides about each
/// nanosecond from the definition.
#[test]
fn bands_are_those_of_a_model_of_each_nanosecond() {
    let mut random = Random(7);
    for _ in 0..3000 {
        let spans: Vec<(u64, u64)> =
            (0..1 + random.below(4)).map(|_| (random.below(40), random.below(30))).collect();
        let activities: Vec<(u64, u64, Activity<'static>)> =
            (0..random.below(12)).map(|_| random.activity()).collect();
        let mut inputs: Vec<SpanReport<'static>> = Vec::new();
        let base = report("5 1/1 a:x e");
        for (id, (start_ns, duration_ns)) in (1..).zip(&spans) {
            let (start_ns, duration_ns) = (*start_ns, *duration_ns);
            let (kind, debug, target, fields) = (Kind::Internal, false, "", &[][..]);
            let whole = CompleteSpan { start_ns, duration_ns, kind, debug, target, fields };
            let content = ReportContent::Span(whole);
            inputs.push(SpanReport { span_id: id, parent_id: id / 2, content, ..base });
        }
        for (span_id, time_ns, activity) in &activities {
            let content = ReportContent::Activity(*activity);
            let (span_id, time_ns) = (*span_id, *time_ns);
            inputs.push(SpanReport { span_id, time_ns, content, ..base });
        }
        for at in (1..inputs.len()).rev() {
            inputs.swap(at, random.below(at as u64 + 1) as usize);
        }
        let mut sink = |request: &Request<'_>| {
            assert_eq!(request.steps.len(), spans.len());
            for step in &request.steps {
                check_step(step, &spans, &activities);
            }
            ControlFlow::Continue(())
        };
        let mut assembler = Assembler::new(Limits::default());
        for input in &inputs {
            assert!(assembler.add(input, 0, &mut sink).is_continue());
        }
        assert!(assembler.finish(&mut sink).is_continue());
    }
}

/// Compares a step with the model.
fn check_step(step: &Step<'_>, spans: &[(u64, u64)], activities: &[(u64, u64, Activity<'static>)]) {
    let id = step.span.id.number();
    let (calls, own): (Vec<_>, Vec<_>) = activities
        .iter()
        .filter(|activity| activity.0 == id)
        .partition(|activity| matches!(activity.2, Activity::Call { .. }));
    assert_eq!(step.calls.len(), calls.len());
    let (start, duration) = spans[id as usize - 1];
    let Some(time) = &step.own else {
        assert!(own.is_empty());
        return;
    };
    assert!(!own.is_empty());
    let mut sums = [0; OwnKind::ALL.len()];
    for offset in 0..duration {
        let moment = start + offset;
        let is_in = |from: u64, to: u64| (from..to).contains(&moment);
        let has_child = (1..).zip(spans).any(|(child, (start, duration))| {
            child / 2 == id && child != id && is_in(*start, start + duration)
        });
        let band = time.bands.iter().find(|band| (band.start_ns..band.end_ns()).contains(&offset));
        let expected = (!has_child).then(|| model(moment, &own));
        assert_eq!(band.map(|band| band.kind), expected, "{moment} of {step:?} with {own:?}");
        if let Some(kind) = expected {
            sums[kind as usize] += 1;
        }
    }
    assert_eq!(OwnKind::ALL.map(|kind| time.sum_ns(kind)), sums);
    let is_distinct = |pair: &[crate::Band<'_>]| {
        let (one, next) = (pair[0], pair[1]);
        (one.end_ns(), one.kind, one.detail) != (next.start_ns, next.kind, next.detail)
    };
    assert!(time.bands.windows(2).all(is_distinct), "{:?}", time.bands);
}

/// Returns one of the eight kinds of waits.
fn wait_kind(number: u64) -> OwnKind {
    let mut kinds = OwnKind::ALL.into_iter().filter(|kind| kind.is_wait());
    kinds.nth(number as usize).expect("a number below 8")
}

/// Returns the kind of a moment of a span's own time, by the definition of the kinds.
fn model(moment: u64, own: &[&(u64, u64, Activity<'static>)]) -> OwnKind {
    let (mut running, mut waiting) = (Vec::new(), Vec::new());
    let mut kinds = Vec::new();
    for (_, end, activity) in own {
        match *activity {
            Activity::Run { start_ns, duration_ns, thread } => {
                if (start_ns..start_ns + duration_ns).contains(&moment) {
                    running.push(thread);
                }
            }
            Activity::Wait { reason, blocked_ns, runnable_ns, thread, .. } => {
                let woken = end.saturating_sub(runnable_ns);
                if (woken..*end).contains(&moment) {
                    kinds.push(OwnKind::Runnable);
                } else if (woken.saturating_sub(blocked_ns)..woken).contains(&moment) {
                    kinds.push(reason);
                } else {
                    continue;
                }
                waiting.push(thread);
            }
            Activity::Disk { .. } | Activity::Call { .. } => {}
        }
    }
    // A known thread runs if it does not wait. The others cannot be told apart: as many of them run
    // as there are more runs than waits.
    let distinct = |threads: &[Option<u32>], others: &[Option<u32>]| {
        let mut known: Vec<_> = threads.iter().flatten().collect();
        known.sort_unstable();
        known.dedup();
        known.retain(|thread| !others.contains(&Some(**thread)));
        known.len() + threads.iter().filter(|thread| thread.is_none()).count()
    };
    if distinct(&running, &waiting) > distinct(&waiting, &running) {
        return OwnKind::Running;
    }
    let has_run = own.iter().any(|(_, _, activity)| matches!(activity, Activity::Run { .. }));
    let rest = if has_run { OwnKind::Elsewhere } else { OwnKind::Unknown };
    kinds.into_iter().min().unwrap_or(rest)
}

/// A linear congruential generator.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) % end
    }

    /// Returns a span id, a time and an activity. No two activities are equal, since equal ones are
    /// duplicates: their details differ.
    fn activity(&mut self) -> (u64, u64, Activity<'static>) {
        let time = self.below(60);
        let thread = [None, Some(1), Some(2)][self.below(3) as usize];
        let (first, second) = (self.below(20), self.below(8));
        let activity = match self.below(6) {
            0 | 1 => {
                Activity::Run { start_ns: time.saturating_sub(first), duration_ns: first, thread }
            }
            2 => Activity::Disk { device: "vda", queued_ns: first, served_ns: second },
            3 => Activity::Call {
                name: "read",
                arguments: "fd=3",
                result: self.below(u64::from(u32::MAX)) as i64,
                duration_ns: first,
                thread,
            },
            _ => Activity::Wait {
                reason: wait_kind(self.below(8)),
                call: "read",
                blocked_ns: first,
                runnable_ns: second,
                waker: 1 + self.below(u64::from(u32::MAX)) as u32,
                thread,
            },
        };
        (1 + self.below(4), time, activity)
    }
}

/// Calls have no part in own times, move with their span, and occur once.
#[test]
fn system_calls_are_listed_below_their_span() {
    let call = |time_ns, span_id, duration_ns, result, arguments| SpanReport {
        time_ns,
        span_id,
        content: ReportContent::Activity(Activity::Call {
            name: "pread64",
            arguments,
            result,
            duration_ns,
            thread: Some(4),
        }),
        ..report("5 1/1 a:x e")
    };
    let reports = [
        report("200 1/1 a:x @internal 100+100"),
        call(150, 1, 20, 7, "fd=3"),
        call(120, 1, 10, -2, "fd=4"),
        call(150, 1, 20, 7, "fd=3"),
        call(150, 1, 20, 7, "fd=5"),
        call(9, 1, 99, i64::MIN, ""),
        call(130, 2, 10, 0, ""),
    ];
    let mut sink = |request: &Request<'_>| {
        let [step] = &request.steps[..] else { panic!("{request:?}") };
        assert_eq!((&step.own, step.self_ns), (&None, Some(100)));
        let calls: Vec<_> = step
            .calls
            .iter()
            .map(|call| (call.start_ns, call.arguments, call.errno(), call.thread))
            .collect();
        let expected = [
            (0, "", None, Some(4)),
            (110, "fd=4", Some(2), Some(4)),
            (130, "fd=3", None, Some(4)),
            (130, "fd=5", None, Some(4)),
        ];
        assert_eq!(calls, expected);
        ControlFlow::Continue(())
    };
    let mut assembler = Assembler::new(Limits::default());
    for report in &reports {
        assert!(assembler.add(report, 0, &mut sink).is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
    assert_eq!(assembler.counts().unmatched, 1);
}

#[test]
fn many_overlapping_activities_take_little_time() {
    const COUNT: u64 = 200_000;
    let start = std::time::Instant::now();
    let mut assembler = Assembler::new(Limits::default());
    let mut sink = |request: &Request<'_>| {
        let own = request.steps[0].own.as_ref().expect("an own time");
        assert_eq!(own.total_ns(), 2 * COUNT);
        assert!(matches!(own.bands[0].detail, Detail::Call(_) | Detail::None));
        ControlFlow::Continue(())
    };
    let span = format!("{0} 1/1 a:x @internal 0+{0}", 2 * COUNT);
    assert!(assembler.add(&report(&span), 0, &mut sink).is_continue());
    for number in 0..COUNT {
        let activity = Activity::Wait {
            reason: wait_kind(number % 8),
            call: "read",
            blocked_ns: COUNT - number,
            runnable_ns: number % 5,
            waker: number as u32,
            thread: u32::try_from(number % 100).ok(),
        };
        let content = ReportContent::Activity(activity);
        let report = SpanReport { time_ns: COUNT + number, content, ..report("5 1/1 a:x e") };
        assert!(assembler.add(&report, 0, &mut sink).is_continue());
    }
    assert!(assembler.finish(&mut sink).is_continue());
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}
