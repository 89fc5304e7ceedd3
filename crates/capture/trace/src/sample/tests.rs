//! Tests of sampling with given times and random numbers, and with several threads at once; and
//! tests of the rules' text.

use super::{Limit, Sampler, Sampling};
use crate::context::{Decision, Incoming, SpanContext};
use blkkin_sys::testing::Random;
use std::num::NonZeroU64;
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECOND_NS: u64 = 1_000_000_000;
/// Rate limit of ten root spans per second, with a burst of two.
const TEN: Limit = Limit { per_second: 10, burst: 2 };

fn sampler(rules: Sampling) -> Sampler {
    let sampler = Sampler::new();
    sampler.set(rules);
    assert_eq!(sampler.rules(), rules);
    sampler
}

fn limited(limit: Limit) -> Sampler {
    sampler(Sampling { one_of: 1, limit: Some(limit) })
}

#[test]
fn rules_are_read() {
    let check = |text: &str, one_of: u64, per_second: Option<u32>| {
        let limit = per_second.map(Limit::per_second);
        assert_eq!(text.parse(), Ok(Sampling { one_of, limit }), "{text}");
    };
    check("1/100", 100, None);
    check("1/1", 1, None);
    check("1/18446744073709551615", u64::MAX, None);
    check("50/s", 1, Some(50));
    check("1/s", 1, Some(1));
    check("0/s", 1, Some(0));
    check("1/100,50/s", 100, Some(50));
    check(" 4294967295/s , 1/2 ", 2, Some(u32::MAX));
}

#[test]
fn bad_rules_are_explained() {
    let check = |text: &str, expected: &str| {
        let error = text.parse::<Sampling>().expect_err(text).to_string();
        let (what, example) = error.split_once("; ").expect("an example");
        assert_eq!(what, expected, "{text}");
        assert!(example.contains("BLKKIN_SAMPLE=1/100,50/s"), "{example}");
    };
    let not_a_number =
        |byte: usize| format!("byte {byte}: not a whole number, nor the s of a second");
    check("", "byte 0: a rule is missing");
    check("1/100,", "byte 6: a rule is missing");
    check(" , 1/100", "byte 1: a rule is missing");
    check("100", "byte 0: a rule without '/'");
    check("1/10, all", "byte 6: a rule without '/'");
    check("2/100", "byte 0: the fraction does not start with 1");
    check("/100", "byte 0: the fraction does not start with 1");
    check("0.01", "byte 0: a rule without '/'");
    check("1/0", "byte 0: one request of 0 cannot be, and none is 0/s");
    check("1/", &not_a_number(2));
    check("1/-5", &not_a_number(2));
    check("1/+5", &not_a_number(2));
    check("1/1e3", &not_a_number(3));
    check("50/m", &not_a_number(3));
    check("50/S", &not_a_number(3));
    check("/s", &not_a_number(0));
    check("5.5/s", &not_a_number(1));
    check("1/10/s", &not_a_number(4));
    check("1/18446744073709551616", "byte 2: the number is too large");
    check("1/10, 4294967296/s", "byte 6: the number is too large");
    check("1/10,1/20", "byte 5: a second rule of the same kind");
    check("5/s, 1/2, 5/s", "byte 10: a second rule of the same kind");
}

#[test]
fn rules_are_shown() {
    assert_eq!(Sampling::NONE.to_string(), "0/s");
    for text in ["1/100", "1/1", "50/s", "0/s", "1/100,50/s"] {
        assert_eq!(text.parse::<Sampling>().map(|rules| rules.to_string()), Ok(text.to_owned()));
    }
}

/// A sampler that selects no request or every request is exact. It needs neither random numbers nor
/// the time.
#[test]
fn none_and_all() {
    let never = || -> u64 { panic!("was asked for the time") };
    let check = |rules: Sampling, expected: bool| {
        let sampler = sampler(rules);
        for _ in 0..1000 {
            assert_eq!(sampler.root_by(|| panic!("was asked to draw"), never), expected);
            assert_eq!(sampler.root(never), expected);
        }
    };
    check(Sampling::ALL, true);
    check(Sampling::NONE, false);
    check(Sampling { one_of: 0, limit: Some(TEN) }, false);
    assert!(Sampler::default().root(never));
}

/// Random numbers are chosen if they are not above the threshold of a ratio.
#[test]
fn draws_are_chosen() {
    let check = |one_of: u64, draw: u64, expected: bool| {
        let sampler = sampler(Sampling { one_of, limit: None });
        let draw = NonZeroU64::new(draw).expect("not zero");
        assert_eq!(sampler.root_by(|| draw, || 0), expected, "1/{one_of}: {draw}");
    };
    let half = u64::MAX / 2;
    check(2, 1, true);
    check(2, half, true);
    check(2, half + 1, false);
    check(2, u64::MAX, false);
    check(3, u64::MAX / 3, true);
    check(3, u64::MAX / 3 + 1, false);
    check(u64::MAX, 1, true);
    check(u64::MAX, 2, false);
}

/// A ratio of 1 in N chooses a share of 1/N of a million random numbers, within four standard
/// deviations.
#[test]
fn one_of_so_many_is_chosen() {
    const DRAWS: u32 = 1_000_000;
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for one_of in [2, 3, 7, 100, 1000, 10_000] {
        let sampler = sampler(Sampling { one_of, limit: None });
        let mut draw = || NonZeroU64::new(random.next()).expect("never zero");
        let chosen = (0..DRAWS).filter(|_| sampler.root_by(&mut draw, || 0)).count() as f64;
        let share = 1.0 / one_of as f64;
        let expected = f64::from(DRAWS) * share;
        let allowed = 4.0 * (expected * (1.0 - share)).sqrt();
        assert!((chosen - expected).abs() < allowed, "1/{one_of}: {chosen} of {DRAWS}");
    }
}

/// The random numbers that the sampler generates also choose the configured share of requests,
/// within seven standard deviations.
#[test]
fn made_draws_are_chosen() {
    let sampler = sampler(Sampling { one_of: 10, limit: None });
    let chosen = (0..100_000).filter(|_| sampler.root(|| 0)).count();
    // Seven standard deviations.
    assert!(chosen.abs_diff(10_000) < 665, "{chosen} of 100000");
}

/// Checks the decisions at the given times in milliseconds. `expected` has one letter for each
/// time: `x` if the root span is sampled.
#[track_caller]
fn check_times(limit: Limit, times_ms: &[u64], expected: &str) {
    let sampler = limited(limit);
    let found: String = times_ms
        .iter()
        .map(|time| if sampler.root(|| time * 1_000_000) { 'x' } else { '.' })
        .collect();
    assert_eq!(found, expected, "{times_ms:?}");
}

#[test]
fn limits_hold() {
    check_times(TEN, &[1000, 1000, 1000, 1000], "xx..");
    check_times(TEN, &[1000, 1000, 1099, 1100, 1100, 1200], "xx.x.x");
    // A full bucket has no more than a burst, however long it has been filled.
    check_times(TEN, &[0, 0, 0, 9000, 9000, 9000], "xx.xx.");
    check_times(TEN, &[0, 0, 150, 150, 200, 200], "xxx.x.");
    check_times(Limit { burst: 1, ..TEN }, &[0, 0, 99, 100, 199, 200], "x..x.x");
    // A burst of 0 counts as 1, because it would forbid everything.
    check_times(Limit { burst: 0, ..TEN }, &[0, 0, 99, 100], "x..x");
    check_times(Limit { per_second: 0, burst: 5 }, &[0, 1, 5000, 99_000], "....");
    // Times of different threads may be slightly out of order.
    check_times(TEN, &[1000, 1000, 900, 1099, 1100, 1050], "xx..x.");
    // A clock that steps back far counts as another clock.
    check_times(TEN, &[900_000, 900_000, 840_000, 5, 5, 5], "xx.xx.");
}

/// Intervals that are no whole number of nanoseconds are rounded up.
#[test]
fn intervals_are_rounded_up() {
    let check = |per_second: u32, interval_ns: u64| {
        let sampler = limited(Limit { per_second, burst: 1 });
        assert!(sampler.root(|| 5));
        assert!(!sampler.root(|| 5 + interval_ns - 1), "{per_second}/s");
        assert!(sampler.root(|| 5 + interval_ns), "{per_second}/s");
    };
    check(1, SECOND_NS);
    check(3, 333_333_334);
    check(1000, 1_000_000);
    check(999_999_999, 2);
    check(1_000_000_000, 1);
    check(u32::MAX, 1);
}

/// At most the rate plus a burst is sampled in any second, even if the rate does not divide a
/// second. At least half of the rate is sampled in the long run.
#[test]
fn limits_hold_in_any_second() {
    for limit in [
        Limit::per_second(1),
        Limit::per_second(3),
        Limit::per_second(50),
        Limit { per_second: 7, burst: 30 },
        Limit { per_second: 999, burst: 1 },
    ] {
        let sampler = limited(limit);
        let mut random = Random::new(limit.per_second.into());
        let mut now = 5 * SECOND_NS;
        let mut followed = Vec::new();
        while now < 25 * SECOND_NS {
            // Sparse times in every third second, dense times in the others.
            let sparse = (now / SECOND_NS).is_multiple_of(3);
            let step = if sparse { 50_000_000 } else { 200_000 };
            now += random.next() % step;
            if sampler.root(|| now) {
                followed.push(now);
            }
        }
        for (index, start) in followed.iter().enumerate() {
            let within = followed[index..].iter().take_while(|time| **time < start + SECOND_NS);
            let count = within.count();
            let allowed = (limit.per_second + limit.burst) as usize;
            assert!(count <= allowed, "{limit:?}: {count} in the second from {start} on");
        }
        let allowed = 20 * limit.per_second as usize + limit.burst as usize;
        assert!((1..=allowed).contains(&followed.len()), "{limit:?}: {} in all", followed.len());
        // Two seconds in three have dense times.
        assert!(followed.len() * 2 >= allowed - limit.burst as usize, "{limit:?}: too few");
    }
}

/// A limit holds for all threads together. Threads that start far more requests than allowed sample
/// at most the limit, and at least 90 % of it.
#[test]
fn limits_hold_between_threads() {
    const THREADS: u64 = 4;
    const STEP_NS: u64 = 1000;
    const STEPS: u64 = 400_000;
    for limit in [Limit { per_second: 1000, burst: 7 }, Limit { per_second: 100_000, burst: 1 }] {
        let sampler = limited(limit);
        let clock = AtomicU64::new(SECOND_NS);
        let work = || {
            let now = || clock.fetch_add(STEP_NS, Relaxed);
            (0..STEPS / THREADS).filter(|_| sampler.root(now)).count() as u64
        };
        let followed: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
        });
        // Duration from the first time to the last.
        let duration_ns = (STEPS - 1) * STEP_NS;
        let interval_ns = SECOND_NS / u64::from(limit.per_second);
        let allowed = u64::from(limit.burst) + duration_ns / interval_ns;
        assert!(followed <= allowed, "{limit:?}: {followed}, allowed {allowed}");
        // A thread that is interrupted between reading the clock and taking a token may waste the
        // token, but only as long as no other thread takes it.
        assert!(followed * 100 >= allowed * 90, "{limit:?}: {followed}, allowed {allowed}");
    }
}

/// Threads that empty a token bucket together get exactly its number of tokens.
#[test]
fn tokens_are_taken_once() {
    const TOKENS: u32 = 10_000_000;
    let sampler = limited(Limit { per_second: 1, burst: TOKENS });
    let start = Barrier::new(4);
    let work = || {
        start.wait();
        (0..2 * TOKENS).take_while(|_| sampler.root(|| SECOND_NS)).count()
    };
    let taken: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).sum()
    });
    assert_eq!(taken, TOKENS as usize);
}

/// Rules can change at run time; setting the same rules again gives no new burst.
#[test]
fn rules_change() {
    let sampler = limited(TEN);
    let roots = |time_ms: u64| (0..10).filter(|_| sampler.root(|| time_ms * 1_000_000)).count();
    assert_eq!(roots(1000), 2);
    sampler.set(Sampling { one_of: 1, limit: Some(TEN) });
    assert_eq!(roots(1000), 0);
    sampler.set(Sampling { one_of: 1, limit: Some(Limit { burst: 3, ..TEN }) });
    assert_eq!(roots(1000), 3);
    sampler.set(Sampling::ALL);
    assert_eq!(roots(1000), 10);
    sampler.set(Sampling::NONE);
    assert_eq!(roots(1000), 0);
    sampler.set(Sampling { one_of: 1, limit: Some(TEN) });
    assert_eq!(roots(1000), 2);
}

/// A received decision is kept. The sampler decides only about a request without a decision.
#[test]
fn children_follow() {
    let check = |rules: Sampling, incoming: Option<Incoming>, expected: Decision| {
        assert_eq!(sampler(rules).decide(incoming.as_ref(), || 0), expected, "{incoming:?}");
    };
    for decision in [Decision::No, Decision::Yes, Decision::Debug] {
        for rules in [Sampling::ALL, Sampling::NONE] {
            check(rules, Some(Incoming::Decision(decision)), decision);
            check(rules, Some(Incoming::Context(SpanContext::root(decision))), decision);
        }
    }
    let deferred = Decision::Deferred;
    for incoming in [
        None,
        Some(Incoming::Decision(deferred)),
        Some(Incoming::Context(SpanContext::root(deferred))),
    ] {
        check(Sampling::ALL, incoming, Decision::Yes);
        check(Sampling::NONE, incoming, Decision::No);
    }
}
