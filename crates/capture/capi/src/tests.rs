//! Tests that annotations reach the tracer, and that headers are parsed. The programs in `tests`
//! test the same functions from C.

use crate::blkin::*;
use crate::emit;
use crate::extensions::*;
use crate::headers::{format_b3, format_traceparent, parse_b3, parse_traceparent};
use crate::layout::*;
use crate::record::WARNING;
use blkkin_ring::{Cells, Clock, HEADER_SIZE, Reader, Shape, TakeOutcome, Writer, packet};
use blkkin_sys::SharedMemory;
use blkkin_trace::registry::{self, EventRule, Levels};
use blkkin_trace::{Decision, Kind, Level, SpanContext, SpanId, TraceId, channels};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::ptr::null;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

fn endpoint() -> Endpoint {
    Endpoint { ip: c"10.0.0.7".as_ptr(), port: 50_000, name: c"osd.3".as_ptr() }
}

const INFO: TraceInfo = TraceInfo { trace_id: -1, span_id: 2, parent_span_id: 3 };

/// Lock by which tests run one at a time, because the tracer's state belongs to the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// A channel of the tracer that a test records into.
struct Channel {
    cells: Cells,
    shape: Shape,
    readers: Vec<Reader>,
    _guard: MutexGuard<'static, ()>,
}

impl Channel {
    fn new() -> Channel {
        let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
        let shape = Shape { rings: 65, ..Shape::default() };
        let (file, cells) = Cells::create(c"test", &shape).unwrap();
        let theirs = Cells::new(SharedMemory::map(file.as_fd()).unwrap());
        let writer = Writer::new(theirs, Clock::Monotonic).unwrap();
        channels::attach(0, Box::new(writer)).unwrap();
        let reader = |ring| Reader::new(&shape, ring, Clock::Monotonic);
        let readers = (0..shape.rings).map(reader).collect();
        // SAFETY: has no arguments.
        assert_eq!(unsafe { blkin_init() }, OK);
        Channel { cells, shape, readers, _guard: guard }
    }

    fn wants(levels: i32) {
        let exactly = |level| Levels::Exactly { level };
        let rule =
            |level| EventRule { levels: exactly(level), ..EventRule::for_names(["zipkin:*"]) };
        let wanted = (0..15).filter(|level| levels >> level & 1 != 0);
        let rules: Vec<_> = wanted.filter_map(Level::from_number).map(rule).collect();
        registry::set_rules(0, &rules);
        assert_eq!(emit::ENABLED_LEVELS.load(Ordering::Relaxed), levels & 0x7fff);
    }

    /// Consumes the recorded events, and returns each event's name, level and encoded fields.
    fn take(&mut self) -> Vec<(&'static str, Level, Vec<u8>)> {
        let mut events = Vec::new();
        for reader in &mut self.readers {
            let mut bytes = Vec::new();
            while let TakeOutcome::Packet(_) =
                reader.take(&self.cells, &self.shape, true, &mut bytes)
            {
                let mut rest = &bytes[packet::SIZE..];
                while let [first, second, ..] = *rest {
                    let id = u16::from_le_bytes([first, second]);
                    let event = registry::type_of(id).unwrap();
                    let size = event.fields().fold(HEADER_SIZE, |at, (_, kind)| match kind {
                        Kind::String => {
                            at + rest[at..].iter().position(|byte| *byte == 0).unwrap() + 1
                        }
                        Kind::I32 => at + 4,
                        Kind::I64 => at + 8,
                        other => panic!("{other:?} in an annotation"),
                    });
                    events.push((event.name(), event.level(), rest[HEADER_SIZE..size].to_vec()));
                    rest = &rest[size..];
                }
                bytes.clear();
            }
        }
        events
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        registry::set_rules(0, &[]);
        let _ = channels::detach(0, Duration::from_secs(10));
    }
}

/// Function that records an annotation of a trace by a C function. It may ignore the key or the
/// value.
type RecordAnnotation = fn(*const Trace, *const c_char, *const c_char) -> i32;

/// C strings are recorded unchanged, each in its field.
#[test]
fn annotations_are_what_was_said() {
    let mut channel = Channel::new();
    Channel::wants(1 << 14);
    let endpoint = endpoint();
    let trace = Trace { name: c"write".as_ptr(), info: INFO, endpoint: &raw const endpoint };
    let trace = &raw const trace;
    let (key, val) = (c"key".as_ptr(), c"val".as_ptr());
    let said: [(&str, RecordAnnotation, &[u8]); 3] = [
        // SAFETY: pointers are NULL, or to variables on the stack and to literals.
        ("timestamp", |trace, _, val| unsafe { blkkin_event(trace, null(), 14, val) }, b"val\0"),
        (
            "keyval_string",
            // SAFETY: as above.
            |trace, key, val| unsafe { blkkin_keyval_string(trace, null(), 14, key, val) },
            b"key\0val\0",
        ),
        (
            "keyval_integer",
            // SAFETY: as above.
            |trace, key, _| unsafe { blkkin_keyval_integer(trace, null(), 14, key, i64::MIN) },
            b"key\0\0\0\0\0\0\0\0\x80",
        ),
    ];
    for (name, say, last_fields) in said {
        assert_eq!(say(trace, key, val), OK);
        let ids = [[0xff; 8], 2u64.to_le_bytes(), 3u64.to_le_bytes()].concat();
        let port = 50_000u32.to_le_bytes();
        let expected = [b"write\0osd.3\0", &port[..], b"10.0.0.7\0", &ids, last_fields].concat();
        let name: &str = &format!("zipkin:{name}");
        let found = channel.take();
        let [(found_name, level, fields)] = &found[..] else { panic!("{name}: {found:?}") };
        assert_eq!((*found_name, *level), (name, Level::Debug));
        assert_eq!(*fields, expected, "{name}");
    }
}

/// C and Rust record the same bytes, with the same event types.
#[test]
fn c_and_rust_record_the_same() {
    let mut channel = Channel::new();
    Channel::wants(0x7fff);
    let strings = [c"", c"a", c"fifteen letters", c"sixteen letters.", c"17 letters, or so"];
    for (index, string) in strings.into_iter().enumerate() {
        let text = string.to_str().unwrap();
        let port = u16::try_from(index * 15_000).unwrap();
        let endpoint = Endpoint { ip: string.as_ptr(), port: port.into(), name: c"osd.3".as_ptr() };
        let at = blkkin_trace::Endpoint::new("osd.3", text, port);
        let trace = Trace { name: string.as_ptr(), info: INFO, endpoint: &raw const endpoint };
        let trace = &raw const trace;
        let context = SpanContext {
            trace_id: TraceId::from_number(u64::MAX.into()).unwrap(),
            span_id: SpanId::from_number(2).unwrap(),
            parent_span_id: SpanId::from_number(3),
            decision: Decision::Yes,
            random_trace_id: false,
        };
        let same = blkkin_trace::Trace::with_context(text, &at, &context);
        for number in 0..15u32 {
            let level = Level::from_number(number.into()).unwrap();
            let text = string.as_ptr();
            // SAFETY: pointers are NULL, or to variables on the stack and to literals.
            let results = unsafe {
                [
                    blkkin_event(trace, null(), number, text),
                    blkkin_keyval_string(trace, null(), number, text, text),
                    blkkin_keyval_integer(trace, null(), number, text, i64::MIN),
                ]
            };
            assert_eq!(results, [OK; 3]);
            let types = registry::types().count();
            let text = string.to_str().unwrap();
            same.event_at(level, text);
            same.keyval_at(level, text, text);
            same.keyval_at(level, text, i64::MIN);
            assert_eq!(registry::types().count(), types, "no types of its own");
            let found = channel.take();
            let [c, rust] = found.as_chunks::<3>().0 else { panic!("{found:?}") };
            assert_eq!(c, rust);
            assert!(c.iter().all(|(_, found_level, _)| *found_level == level));
        }
    }
}

/// The upper half of a trace id is recorded when a sampled context is received or created, unless
/// that half is 0.
#[test]
fn upper_halves_of_trace_ids_are_recorded() {
    let mut channel = Channel::new();
    registry::set_rules(0, &[EventRule::for_names(["*"])]);
    let halves = |context: &Context| {
        let expected = [context.info.trace_id, context.trace_id_high].map(i64::to_le_bytes);
        vec![("blkkin:wide_trace_id", Level::Warning, expected.concat())]
    };
    let mut context = Context::default();
    let place = &raw mut context;
    // SAFETY: the context is writable.
    assert_eq!(unsafe { blkkin_context_init(place) }, OK);
    assert_eq!(channel.take(), halves(&context));
    let mut check = |parse: Parse, text: &str, is_recorded: bool| {
        let mut context = Context::default();
        // SAFETY: the text has this many bytes, and the context is writable.
        let result = unsafe { parse(text.as_ptr().cast(), text.len(), &raw mut context) };
        assert_eq!(result, OK, "{text}");
        let expected = if is_recorded { halves(&context) } else { Vec::new() };
        assert_eq!(channel.take(), expected, "{text}");
    };
    check(blkkin_traceparent_parse, &format!("00-{TRACE}-{SPAN}-01"), true);
    check(blkkin_traceparent_parse, &format!("00-{TRACE}-{SPAN}-00"), false);
    check(blkkin_traceparent_parse, &format!("00-{}{SPAN}-{SPAN}-01", "0".repeat(16)), false);
    check(blkkin_b3_parse, &format!("{TRACE}-{SPAN}-1"), true);
    check(blkkin_b3_parse, &format!("{TRACE}-{SPAN}"), true);
    check(blkkin_b3_parse, &format!("{SPAN}-{SPAN}-1"), false);
    check(blkkin_b3_parse, "1", false);
}

type Parse = unsafe extern "C" fn(*const c_char, usize, *mut Context) -> i32;

/// A complete annotation is recorded exactly once if its level is enabled, and never if it is not.
#[test]
fn levels_decide_what_is_emitted() {
    let mut channel = Channel::new();
    let endpoint = endpoint();
    let trace = Trace { name: c"write".as_ptr(), info: INFO, endpoint: &raw const endpoint };
    let unnamed = Trace { name: null(), ..trace };
    let nowhere = Trace { endpoint: null(), ..trace };
    let (trace, unnamed, nowhere) = (&raw const trace, &raw const unnamed, &raw const nowhere);
    let (key, val) = (c"key".as_ptr(), c"val".as_ptr());
    // Only the fields that a timestamp needs are set.
    let mut moment = MaybeUninit::<Annotation>::uninit();
    // SAFETY: the annotation is writable, and the string a literal.
    let made = unsafe { blkin_init_timestamp_annotation(moment.as_mut_ptr(), val, null()) };
    assert_eq!(made, OK);

    let mut check = |levels: i32, level: u32, expected: usize| {
        Channel::wants(levels);
        // SAFETY: pointers are NULL, or to variables on the stack and to literals.
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
        assert_eq!(channel.take().len(), expected, "level {level} of {levels:#x}");

        // SAFETY: as above.
        assert_eq!(unsafe { blkin_record(trace, moment.as_ptr()) }, OK);
        let is_wanted = levels & (1 << WARNING) != 0;
        assert_eq!(channel.take().len(), usize::from(is_wanted), "{levels:#x}");
    };
    for level in 0..15 {
        check(0, level, 0);
        check(0x7fff, level, 3);
        check(1 << level, level, 3);
        check(0x7fff & !(1 << level), level, 0);
    }
    for level in [15, 31, 32, 33, 64, u32::MAX] {
        check(0x7fff, level, 0);
    }
}

/// Ids need not be aligned: in a message they may be at any address.
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

/// Traceparent headers are accepted or refused by W3C's rules.
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
            assert_eq!(written.as_bytes(), format!("00-{TRACE}-{SPAN}-0{flags}").as_bytes());
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

/// Valid b3 headers round-trip unchanged, except that spaces, tabs and a parent id of 0 are
/// dropped. Invalid headers are refused.
#[test]
fn b3() {
    let check = |text: &str, expected: Option<u32>| {
        let got = parse_b3(text.as_bytes());
        assert_eq!(got.map(|context| context.flags), expected, "{text:?}");
        if let Some(context) = got {
            let written = format_b3(&context).expect("valid ids");
            assert_eq!(String::from_utf8_lossy(written.as_bytes()), text);
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
    // Spaces, and a parent of 0, are accepted but not formatted.
    assert_eq!(parse_b3(b" \t0\t "), Some(Context::default()));
    let root = parse_b3(format!("{low}-{SPAN}-1-{}", "0".repeat(16)).as_bytes());
    assert_eq!(root, parse_b3(format!("{low}-{SPAN}-1").as_bytes()));
}

/// No header is written for a context that lacks its trace id or its span id, with one exception:
/// if it lacks both and the decision is not deferred, the b3 header has the decision alone. Unknown
/// flags are ignored.
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

/// The parsers do not panic on randomly changed headers, and the context of an accepted header
/// round-trips through its format.
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
            assert_eq!(parse_traceparent(written.as_bytes()), Some(context));
            taken += 1;
        }
        if let Some(context) = parse_b3(&text) {
            let written = format_b3(&context).expect("valid ids");
            assert_eq!(parse_b3(written.as_bytes()), Some(context));
            taken += 1;
        }
    }
    assert!(taken > 50_000, "{taken}");
}
