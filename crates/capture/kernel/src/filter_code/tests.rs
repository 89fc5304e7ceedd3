//! Filters in the kernel give the results of `Filter::eval`, and those that cannot run there are
//! refused.

use crate::error::Error;
use crate::testing::{EventProbe, RandomFilters, RecordedEvent, permitted_probes};
use blkkin_filter::{Filter, Value, Values};
use blkkin_sys::testing::Random;
use std::time::{Duration, Instant};

fn parse(text: &str) -> Filter {
    match Filter::parse(text) {
        Ok(filter) => filter,
        Err(error) => panic!("{}", error.render(false)),
    }
}

/// The kernel accepts all random filters, except those that are refused, and each gives the same
/// result as the evaluator on the event that the kernel has recorded.
#[test]
fn random_filters_agree_with_the_evaluator() {
    const FILTERS: usize = 1500;
    const EVENTS: usize = 5;
    let Some(mut probes) = permitted_probes("random_filters_agree_with_the_evaluator") else {
        return;
    };
    let seed = std::env::var("BLKKIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(11);
    let mut random = Random::new(seed);
    let (mut passed, mut refused, mut cases) = (0, 0, 0);
    let begin = Instant::now();
    for round in 0..FILTERS {
        if begin.elapsed() > Duration::from_secs(60) {
            break;
        }
        let index = round % probes.len();
        let (probe, context) = &mut probes[index];
        let text = RandomFilters::new(probe.event_type()).text(&mut random);
        // Some texts are no filters: they compare a text with a number.
        let Ok(filter) = Filter::parse(&text) else { continue };
        let kernel = match probe.filter(&filter) {
            Ok(kernel) => kernel,
            Err(Error::Filter { .. }) => {
                refused += 1;
                continue;
            }
            Err(Error::Load { log, error, .. }) => panic!("{text}\n{error}\n{log}"),
            Err(error) => panic!("{text}\n{error}"),
        };
        for _ in 0..EVENTS {
            let mut event = context(&mut random);
            let packet = probe.record(&mut event.bytes).unwrap();
            let recorded = RecordedEvent::new(probe.event_type(), filter.operands(), &packet);
            let expected = filter.eval(&recorded);
            let found = kernel.passes(&mut event.bytes).unwrap();
            let values: Vec<Value<'_>> =
                (0..filter.operands().len()).map(|operand| recorded.value(operand)).collect();
            assert_eq!(found, expected, "{text}\n{values:?}");
            passed += usize::from(found);
            cases += 1;
        }
    }
    assert!(cases > 1000, "{cases} cases are too few");
    assert!(passed > cases / 10 && passed < cases * 9 / 10, "{passed} of {cases} pass");
    assert!(refused < FILTERS / 4, "{refused} are refused");
}

/// Filters with results that are known, on a call with chosen arguments.
#[test]
fn filters_of_a_call() {
    let Some(probes) = permitted_probes("filters_of_a_call") else { return };
    let (probe, _) = &probes[1];
    let path = b"/etc/passwd\0".to_vec();
    let address = [2, 0, 1, 187, 127, 0, 0, 1].to_vec();
    let pointer = |bytes: &Vec<u8>| bytes.as_ptr().expose_provenance() as u64;
    // The arguments are filename, fd, count, mode, uservaddr, addrlen; then result and duration.
    let words = [pointer(&path), u64::MAX, 150, 0o644, pointer(&address), 8, -2_i64 as u64, 500];
    let mut context: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut check = |text: &str, expected: bool| {
        let filter = probe.filter(&parse(text)).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(filter.passes(&mut context).unwrap(), expected, "{text}");
    };
    for text in [
        "fd == -1 && count > 100 && ret < 0",
        "filename == \"/etc/passwd\"",
        "filename == \"/etc/*\" && filename == \"*wd\" && filename == \"*c/p*\"",
        "filename == \"/*t*p*s*d\"",
        "filename != \"/etc/passwd*x\"",
        "filename > \"/etc/passw\" && filename < \"/etc/passwe\" && filename <= \"/etc/passwd\"",
        "uservaddr[0] == 2 && uservaddr[3] == 187 && !has(uservaddr[8]) && has(uservaddr)",
        "ret == -2 && -ret == 2 && duration == 500ns",
        "count / 7 == 21 && ret / 2 == -1 && ret % 2 == 0 && -7 / 2 == -3 && -7 % 2 == -1",
        "!(count / (fd + 1) == 0) && !(count / (fd + 1) != 0)",
        "name == \"syscall:call\" && severity == info && severity == \"inf*\"",
        &format!("pid == {} && cpu >= 0", std::process::id()),
        "procname == \"*\" && has(procname) && procname != \"\"",
        "!has(nothing) && !(nothing != 1)",
        "count < -1 || fd < count",
    ] {
        check(text, true);
        check(&format!("!({text})"), false);
    }
}

/// An error states the part of the filter that cannot run in the kernel.
#[test]
fn what_cannot_run_is_refused_with_its_position() {
    let Some(probes) = permitted_probes("what_cannot_run_is_refused_with_its_position") else {
        return;
    };
    let refused = |probe: &EventProbe, text: &str, part: &str| {
        let Err(Error::Filter { error, .. }) = probe.filter(&parse(text)) else {
            panic!("{text:.100} is accepted")
        };
        assert_eq!(&text[error.span.start..error.span.end], part, "{error}");
    };
    let (record, call) = (&probes[0].0, &probes[1].0);
    refused(call, "count > 1 && fd < 1.5", "1.5");
    refused(call, "count > 1 && $event.time > 5", "$event.time");
    refused(call, "$env.host == \"a\"", "$env.host");
    let texts = "comm == text && other == procname && bytes[0] == 1";
    refused(record, texts, "bytes[0]");
    let long = vec!["filename == \"*a*\""; 2000].join(" || ");
    refused(call, &long, &long);
    let distinct: Vec<String> = (0..300).map(|n| format!("filename == \"*a{n}*\"")).collect();
    let distinct = distinct.join(" || ");
    refused(call, &distinct, &distinct);
}

/// The largest filters are accepted by the verifier, which follows all paths through them.
#[test]
fn large_filters_are_accepted() {
    let Some(probes) = permitted_probes("large_filters_are_accepted") else { return };
    let (record, call) = (&probes[0].0, &probes[1].0);
    let check = |probe: &EventProbe, text: &str| {
        let filter = probe.filter(&parse(text));
        filter.unwrap_or_else(|error| panic!("{text:.100}: {error}"));
    };
    let chain = |count: usize, term: &dyn Fn(usize) -> String, operator: &str| {
        (0..count).map(term).collect::<Vec<_>>().join(operator)
    };
    check(call, &chain(600, &|n| format!("count == {n}"), " || "));
    check(call, &chain(600, &|n| format!("count != {n}"), " && "));
    check(call, &chain(50, &|n| format!("(count == {n})"), " + "));
    check(call, &chain(60, &|n| format!("count / (fd - {n}) < -5"), " && "));
    check(call, &chain(50, &|n| format!("filename == \"*a{n}*b*\""), " || "));
    check(record, &chain(40, &|n| format!("text < other && comm != \"{n}\""), " || "));
    check(call, &format!("filename == \"*{}*\"", "a".repeat(4000)));
    check(call, &format!("filename < \"{}\"", "a".repeat(4000)));
}
