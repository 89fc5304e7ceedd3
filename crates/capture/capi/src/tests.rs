//! What reaches the tracer, and which headers are understood. What C sees of the rest is shown by
//! the programs of `tests`.

use crate::blkin::*;
use crate::emit::{self, What};
use crate::headers::{format_b3, format_traceparent, parse_b3, parse_traceparent};
use crate::layout::*;
use crate::own::*;
use crate::record::{Said, WARNING, annotation};
use std::mem::MaybeUninit;
use std::ptr::null;
use std::sync::atomic::Ordering;

fn endpoint() -> Endpoint {
    Endpoint { ip: c"10.0.0.7".as_ptr(), port: 50_000, name: c"osd.3".as_ptr() }
}

const INFO: TraceInfo = TraceInfo { trace_id: -1, span_id: 2, parent_span_id: 3 };

/// The words of C come through as they are, each in its place.
#[test]
fn annotations_are_what_was_said() {
    let endpoint = endpoint();
    let trace = Trace { name: c"write".as_ptr(), info: INFO, endpoint: &raw const endpoint };
    let key = c"key".as_ptr();
    let cases = [
        (Said::Event(c"".as_ptr()), What::Event(c"")),
        (Said::String { key, val: c"val".as_ptr() }, What::String { key: c"key", val: c"val" }),
        (Said::Integer { key, val: i64::MIN }, What::Integer { key: c"key", val: i64::MIN }),
    ];
    for (said, what) in cases {
        // SAFETY: all strings are literals.
        let got = unsafe { annotation(&trace, &endpoint, 14, said) };
        let expected = emit::Annotation {
            level: 14,
            name: c"write",
            info: INFO,
            service: c"osd.3",
            ip: c"10.0.0.7",
            port: 50_000,
            what,
        };
        assert_eq!(got, expected);
    }
}

/// What is complete is emitted once, if somebody listens at its level; the rest never.
#[test]
fn levels_decide_what_is_emitted() {
    let endpoint = endpoint();
    let trace = Trace { name: c"write".as_ptr(), info: INFO, endpoint: &raw const endpoint };
    let unnamed = Trace { name: null(), ..trace };
    let nowhere = Trace { endpoint: null(), ..trace };
    let (trace, unnamed, nowhere) = (&raw const trace, &raw const unnamed, &raw const nowhere);
    let (key, val) = (c"key".as_ptr(), c"val".as_ptr());
    // Only what a timestamp needs is set.
    let mut moment = MaybeUninit::<Annotation>::uninit();
    // SAFETY: the annotation is writable, and the string a literal.
    let made = unsafe { blkin_init_timestamp_annotation(moment.as_mut_ptr(), val, null()) };
    assert_eq!(made, OK);

    let check = |levels: i32, level: u32, expected: u64| {
        emit::ENABLED_LEVELS.store(levels, Ordering::Relaxed);
        let before = emit::emitted();
        // SAFETY: pointers are NULL, or to what lives on the stack and to literals.
        let results = unsafe {
            [
                blkkin_event(trace, null(), level, val),
                blkkin_keyval_string(trace, null(), level, key, val),
                blkkin_keyval_integer(trace, null(), level, key, 1),
                blkkin_event(unnamed, null(), level, val),
                blkkin_event(nowhere, null(), level, val),
                blkkin_keyval_string(trace, null(), level, key, null()),
            ]
        };
        let ok = if level < 15 { OK } else { INVALID };
        assert_eq!(results, [ok, ok, ok, INVALID, INVALID, INVALID], "level {level}");
        assert_eq!(emit::emitted() - before, expected, "level {level} of {levels:#x}");

        let before = emit::emitted();
        // SAFETY: as above.
        assert_eq!(unsafe { blkin_record(trace, moment.as_ptr()) }, OK);
        assert_eq!(emit::emitted() - before, u64::from(levels & (1 << WARNING) != 0));
    };
    for level in 0..15 {
        check(0, level, 0);
        check(0x7fff, level, 3);
        check(1 << level, level, 3);
        check(0x7fff & !(1 << level), level, 0);
    }
    for level in [15, 31, 32, 33, 64, u32::MAX] {
        check(-1, level, 0);
    }
    emit::ENABLED_LEVELS.store(0, Ordering::Relaxed);
}

/// Ids need not be aligned, as they may lie in a message.
#[test]
fn ids_lie_anywhere() {
    let mut message = [0_u64; 4];
    let ids = message.as_mut_ptr().cast::<u8>().wrapping_add(1).cast::<TraceInfo>();
    let endpoint = endpoint();
    let mut child = MaybeUninit::<Trace>::uninit();
    // SAFETY: 24 bytes from the second of 32 on are inside; the rest is on the stack.
    unsafe {
        blkin_init_trace_info(ids);
        let root = ids.read_unaligned();
        assert_eq!(blkin_init_child_info(child.as_mut_ptr(), ids, &raw const endpoint, null()), OK);
        let child = child.assume_init();
        assert_eq!(child.info.parent_span_id, root.span_id);
        assert_eq!(blkin_get_trace_info(&raw const child, ids), OK);
        assert_eq!(ids.read_unaligned(), child.info);
    }
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

/// Which traceparents are valid, by the rules of W3C.
#[test]
fn traceparents() {
    let check = |text: &str, expected: Option<u32>| {
        let got = parse_traceparent(text.as_bytes());
        assert_eq!(got.map(|context| context.flags), expected, "{text:?}");
        if let Some(context) = got {
            assert_eq!(context.trace_id_high, 0x4bf9_2f35_77b3_4da6, "{text:?}");
            assert_eq!(context.info.trace_id.cast_unsigned(), 0xa3ce_929d_0e0e_4736, "{text:?}");
            assert_eq!(context.info.span_id, 0x00f0_67aa_0ba9_02b7, "{text:?}");
            assert_eq!(context.info.parent_span_id, 0, "{text:?}");
            let written = format_traceparent(&context).expect("valid ids");
            let flags = context.flags;
            assert_eq!(written.bytes(), format!("00-{TRACE}-{SPAN}-0{flags}").as_bytes());
        }
    };
    check(&format!("00-{TRACE}-{SPAN}-00"), Some(0));
    check(&format!("00-{TRACE}-{SPAN}-01"), Some(SAMPLED));
    check(&format!("00-{TRACE}-{SPAN}-ff"), Some(SAMPLED | RANDOM));
    check(&format!("00-{TRACE}-{SPAN}-fe"), Some(RANDOM));
    check(&format!("\t 00-{TRACE}-{SPAN}-01 \t"), Some(SAMPLED));
    check(&format!("01-{TRACE}-{SPAN}-01"), Some(SAMPLED));
    check(&format!("fe-{TRACE}-{SPAN}-01-"), Some(SAMPLED));
    check(&format!("fe-{TRACE}-{SPAN}-01-what-ever"), Some(SAMPLED));
    for broken in [
        String::new(),
        " ".to_owned(),
        "00".to_owned(),
        format!("00-{TRACE}-{SPAN}"),
        format!("00-{TRACE}-{SPAN}-"),
        format!("00-{TRACE}-{SPAN}-1"),
        format!("00-{TRACE}-{SPAN}-001"),
        format!("00-{TRACE}-{SPAN}-01-"),
        format!("00-{TRACE}-{SPAN}-01-more"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("0-{TRACE}-{SPAN}-01"),
        format!("01-{TRACE}-{SPAN}-01more"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
        format!("00-{TRACE}-{SPAN}-0A"),
        format!("0x-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", "0".repeat(32)),
        format!("00-{TRACE}-{}-01", "0".repeat(16)),
        format!("00-{}-{SPAN}-01", &TRACE[1..]),
        format!("00-{TRACE}0-{SPAN}-01"),
        format!("00-{TRACE}-{}-01", &SPAN[1..]),
        format!("00_{TRACE}_{SPAN}_01"),
        format!("00-{TRACE}-{SPAN}-01\n"),
        format!("00-{TRACE}-{SPAN}-01\0"),
    ] {
        check(&broken, None);
    }
}

/// Which single b3 headers are valid; all of them are written as they came.
#[test]
fn b3() {
    let check = |text: &str, expected: Option<u32>| {
        let got = parse_b3(text.as_bytes());
        assert_eq!(got.map(|context| context.flags), expected, "{text:?}");
        if let Some(context) = got {
            let written = format_b3(&context).expect("valid ids");
            assert_eq!(String::from_utf8_lossy(written.bytes()), text);
        }
    };
    let low = &TRACE[16..];
    check("0", Some(0));
    check("1", Some(SAMPLED));
    check("d", Some(SAMPLED | DEBUG_TRACE));
    for trace in [TRACE, low] {
        check(&format!("{trace}-{SPAN}"), Some(SAMPLED | DEFERRED));
        check(&format!("{trace}-{SPAN}-0"), Some(0));
        check(&format!("{trace}-{SPAN}-1"), Some(SAMPLED));
        check(&format!("{trace}-{SPAN}-d-{low}"), Some(SAMPLED | DEBUG_TRACE));
        check(&format!("{trace}-{SPAN}-0-{low}"), Some(0));
    }
    for broken in [
        String::new(),
        "-".to_owned(),
        "2".to_owned(),
        "D".to_owned(),
        "true".to_owned(),
        low.to_owned(),
        format!("{low}-"),
        format!("-{SPAN}"),
        format!("{low}-{SPAN}-"),
        format!("{low}-{SPAN}-2"),
        format!("{low}-{SPAN}-{low}"),
        format!("{low}-{SPAN}-1-"),
        format!("{low}-{SPAN}-1-{TRACE}"),
        format!("{low}-{SPAN}-1-{low}-"),
        format!("{}-{SPAN}-1", &low[1..]),
        format!("0{low}-{SPAN}-1"),
        format!("{}-{SPAN}-1", "0".repeat(16)),
        format!("{}-{SPAN}-1", "0".repeat(32)),
        format!("{low}-{}-1", "0".repeat(16)),
        format!("{}-{SPAN}-1", low.to_uppercase()),
        format!("{low}-{SPAN}-1\n"),
    ] {
        check(&broken, None);
    }
    // Spaces around it, and a parent of 0, which is none, are not written again.
    assert_eq!(parse_b3(b" \t0\t "), Some(Context::default()));
    let root = parse_b3(format!("{low}-{SPAN}-1-{}", "0".repeat(16)).as_bytes());
    assert_eq!(root, parse_b3(format!("{low}-{SPAN}-1").as_bytes()));
}

/// Contexts without one of the ids have no header; bits that are unknown do no harm.
#[test]
fn contexts_without_ids_are_not_written() {
    let context = |trace_id, trace_id_high, span_id, flags| {
        let info = TraceInfo { trace_id, span_id, parent_span_id: 0 };
        Context { info, trace_id_high, flags }
    };
    let check = |context: Context, traceparent: bool, b3: bool| {
        assert_eq!(format_traceparent(&context).is_some(), traceparent, "{context:?}");
        assert_eq!(format_b3(&context).is_some(), b3, "{context:?}");
    };
    check(context(1, 0, 1, 0), true, true);
    check(context(0, 1, 1, u32::MAX), true, true);
    check(context(-1, -1, -1, !SAMPLED), true, true);
    check(context(0, 0, 1, SAMPLED), false, false);
    check(context(1, 0, 0, SAMPLED), false, false);
    check(context(0, 0, 0, SAMPLED), false, true);
    check(context(0, 0, 0, SAMPLED | DEFERRED), false, false);
}

/// No bytes make the parsers panic; what they take, they take again when it was written.
#[test]
fn random_headers() {
    let mut random = 1_u64;
    let mut next = move |below: usize| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 33) as usize % below
    };
    let bytes = b"-0123456789abcdefgD \t\0\xff";
    let valid = [
        format!("00-{TRACE}-{SPAN}-01").into_bytes(),
        format!("{TRACE}-{SPAN}-1-{SPAN}").into_bytes(),
    ];
    let mut taken = 0;
    for _ in 0..200_000 {
        let mut text = valid[next(2)].clone();
        for _ in 0..next(3) {
            let at = next(text.len());
            match next(3) {
                0 => text[at] = bytes[next(bytes.len())],
                1 => text.insert(at, bytes[next(bytes.len())]),
                _ => text.truncate(at + 1),
            }
        }
        if let Some(context) = parse_traceparent(&text) {
            let written = format_traceparent(&context).expect("valid ids");
            assert_eq!(parse_traceparent(written.bytes()), Some(context));
            taken += 1;
        }
        if let Some(context) = parse_b3(&text) {
            let written = format_b3(&context).expect("valid ids");
            assert_eq!(parse_b3(written.bytes()), Some(context));
            taken += 1;
        }
    }
    assert!(taken > 50_000, "{taken}");
}
