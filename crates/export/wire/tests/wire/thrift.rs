//! Tests of Zipkin v1 as thrift, compared with the thrift crate.

use crate::check::{damaged, good, read, refusal};
use crate::random::Random;
use blkkin_model::{Endpoint, Origin, Span, TraceId, Value};
use blkkin_wire::Format::{ZipkinThrift, ZipkinThriftSpan};
use blkkin_wire::{End, Reason};
use thrift::protocol::{
    TBinaryInputProtocol, TBinaryOutputProtocol, TFieldIdentifier, TInputProtocol, TListIdentifier,
    TOutputProtocol, TStructIdentifier, TType,
};

/// A thrift value: scalar, byte string, structure or list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Thrift {
    Bool(bool),
    I16(i16),
    I32(i32),
    I64(i64),
    Double(f64),
    Bytes(Vec<u8>),
    Struct(Vec<(i16, Thrift)>),
    List(Vec<Thrift>),
}

use Thrift::{Bool, Bytes, Double, I16, I32, I64, List, Struct};

impl Thrift {
    fn kind(&self) -> TType {
        match self {
            Bool(_) => TType::Bool,
            I16(_) => TType::I16,
            I32(_) => TType::I32,
            I64(_) => TType::I64,
            Double(_) => TType::Double,
            Bytes(_) => TType::String,
            Struct(_) => TType::Struct,
            List(_) => TType::List,
        }
    }

    fn write(&self, out: &mut dyn TOutputProtocol) -> thrift::Result<()> {
        match self {
            Bool(value) => out.write_bool(*value),
            I16(value) => out.write_i16(*value),
            I32(value) => out.write_i32(*value),
            I64(value) => out.write_i64(*value),
            Double(value) => out.write_double(*value),
            Bytes(value) => out.write_bytes(value),
            List(items) => {
                let kind = items.first().map_or(TType::Struct, Thrift::kind);
                out.write_list_begin(&TListIdentifier::new(kind, items.len() as i32))?;
                items.iter().try_for_each(|item| item.write(out))?;
                out.write_list_end()
            }
            Struct(fields) => {
                out.write_struct_begin(&TStructIdentifier::new("s"))?;
                for (id, value) in fields {
                    out.write_field_begin(&TFieldIdentifier::new("f", value.kind(), *id))?;
                    value.write(out)?;
                    out.write_field_end()?;
                }
                out.write_field_stop()?;
                out.write_struct_end()
            }
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        self.write(&mut TBinaryOutputProtocol::new(&mut bytes, true)).expect("memory");
        bytes
    }

    /// Returns the size of a structure; `None` if the thrift crate cannot read it.
    fn struct_size(bytes: &[u8]) -> Option<usize> {
        let mut rest = bytes;
        TBinaryInputProtocol::new(&mut rest, true).skip_till_depth(TType::Struct, 31).ok()?;
        Some(bytes.len() - rest.len())
    }
}

fn text(text: &str) -> Thrift {
    Bytes(text.as_bytes().to_vec())
}

fn host(host: &Endpoint) -> Thrift {
    let mut fields = vec![
        (1, I32(host.ipv4.map_or(0, u32::from) as i32)),
        (2, I16(host.port as i16)),
        (3, text(&host.service)),
    ];
    fields.extend(host.ipv6.map(|address| (4, Bytes(address.octets().to_vec()))));
    Struct(fields)
}

fn value(value: &Value) -> (i32, Thrift) {
    match value {
        Value::Bool(flag) => (0, Bytes(vec![u8::from(*flag)])),
        Value::Bytes(bytes) => (1, Bytes(bytes.clone())),
        Value::Int(number) => (4, Bytes(number.to_be_bytes().to_vec())),
        Value::Double(number) => (5, Bytes(number.to_be_bytes().to_vec())),
        Value::Str(text) => (6, Bytes(text.clone().into_bytes())),
    }
}

/// Converts a span to a thrift structure. The span must have no core and address annotations, so
/// that it remains a single span.
pub(crate) fn structure(span: &Span) -> Thrift {
    let id = span.trace_id;
    let here = || host(&span.local);
    let note = |time_ns: u64, what: &str| {
        Struct(vec![(1, I64((time_ns / 1000) as i64)), (2, text(what)), (3, here())])
    };
    let fact = |key: &str, what: &Value| {
        let (kind, what) = value(what);
        Struct(vec![(1, text(key)), (2, what), (3, I32(kind)), (4, here())])
    };
    let notes = span.annotations.iter().map(|it| note(it.time_ns, &it.value)).collect();
    let facts = span.tags.iter().map(|it| fact(&it.key, &it.value)).collect();
    let mut fields = vec![
        (1, I64(id.low() as i64)),
        (3, text(&span.name)),
        (4, I64(span.id.number() as i64)),
        (6, List(notes)),
        (8, List(facts)),
        (9, Bool(span.debug)),
    ];
    fields.extend(span.parent_id.map(|parent| (5, I64(parent.number() as i64))));
    fields.extend(span.start_ns.map(|ns| (10, I64((ns / 1000) as i64))));
    fields.extend(span.duration_ns.map(|ns| (11, I64((ns / 1000) as i64))));
    fields.extend(id.is_wide().then(|| (12, I64(id.high() as i64))));
    Struct(fields)
}

/// Returns the structure as the encoder writes it: with its fields in the order of Zipkin's writer,
/// and without a false flag.
pub(crate) fn in_writers_order(span: Thrift) -> Thrift {
    let Struct(mut fields) = span else { panic!("no structure") };
    fields.retain(|field| *field != (9, Bool(false)));
    fields.sort_by_key(|(id, _)| *id);
    Struct(fields)
}

/// Returns a random span without core and address annotations. A span without annotations and tags
/// has no host either.
fn local_span(random: &mut Random) -> Span {
    let mut tags = random.otlp_span().tags;
    tags.iter_mut().for_each(|tag| tag.origin = Origin::Span);
    let plain = random.zipkin_span();
    let says_nothing = plain.annotations.is_empty() && tags.is_empty();
    Span {
        kind: blkkin_model::Kind::Unspecified,
        shared: false,
        // Zipkin ignores a duration without a start.
        duration_ns: plain.start_ns.and(plain.duration_ns),
        local: if says_nothing { Endpoint::default() } else { plain.local },
        remote: Endpoint::default(),
        tags,
        ..plain
    }
}

fn list(spans: &[Span]) -> Vec<u8> {
    List(spans.iter().map(structure).collect()).bytes()
}

#[test]
fn what_the_crate_writes_is_read() {
    let mut random = Random(5);
    for round in 0..500 {
        let spans: Vec<_> = (0..round % 5).map(|_| local_span(&mut random)).collect();
        assert_eq!(good(ZipkinThrift, &list(&spans)), spans);
        for span in spans {
            assert_eq!(good(ZipkinThriftSpan, &structure(&span).bytes()), [span]);
        }
    }
}

#[test]
fn damaged_bytes_are_understood_where_the_crate_does() {
    let make = |random: &mut Random| structure(&local_span(random)).bytes();
    let (mut understood, mut broken) = (0, 0);
    damaged(ZipkinThriftSpan, 6, make, |batch, _, outcome| {
        let theirs = Thrift::struct_size(batch).is_some();
        match &outcome.end {
            End::Whole => {
                // The crate may refuse this input: it requires booleans of 0 or 1, and lacks some
                // types.
                understood += usize::from(theirs);
            }
            End::Broken(refusal) if refusal.fault.reason == Reason::Expected("a type") => {}
            _ => {
                assert!(!theirs, "{outcome:?}");
                broken += 1;
            }
        }
    });
    assert!(understood > 300 && broken > 300, "{understood} {broken}");
    damaged(
        ZipkinThrift,
        7,
        |random| list(&[local_span(random), local_span(random)]),
        |_, _, _| (),
    );
}

#[test]
fn values_are_taken_by_zipkins_rules() {
    fn check(fields: Vec<(i16, Thrift)>, expected: impl FnOnce(&mut Span)) {
        let plain = vec![(1, I64(1)), (4, I64(2))];
        let mut span = good(ZipkinThriftSpan, &Struct(plain.clone()).bytes()).remove(0);
        expected(&mut span);
        let all = plain.into_iter().chain(fields).collect();
        assert_eq!(good(ZipkinThriftSpan, &Struct(all).bytes()), [span]);
    }
    check(vec![], |span| assert_eq!((span.trace_id.low(), span.id.number()), (1, 2)));
    check(vec![(5, I64(0))], |_| {});
    check(vec![(5, I64(2))], |_| {});
    check(vec![(12, I64(-1))], |span| {
        span.trace_id = TraceId::from_number(u128::MAX << 64 | 1).expect("not 0");
    });
    check(vec![(1, I32(9)), (3, I64(1)), (77, Double(0.5)), (78, List(vec![I16(1)]))], |_| {});
    check(vec![(10, I64(-5)), (11, I64(0))], |_| {});
    check(vec![(3, Bytes(vec![b'a', 0xff]))], |span| span.name = "a\u{fffd}".to_owned());
    check(vec![(6, List(vec![I64(1)])), (8, List(vec![text("x")]))], |_| {});
    // An annotation without time, one without text, and one with Finagle's duration field.
    let note = |fields| List(vec![Struct(fields)]);
    check(vec![(6, note(vec![(2, text("x"))]))], |_| {});
    check(vec![(6, note(vec![(1, I64(1))]))], |_| {});
    check(vec![(6, note(vec![(1, I64(1)), (2, text("x")), (4, I32(5))]))], |span| {
        span.annotations = vec![blkkin_model::Annotation { time_ns: 1000, value: "x".into() }];
    });
    let fact =
        |kind, bytes: &[u8]| note(vec![(1, text("k")), (2, Bytes(bytes.to_vec())), (3, I32(kind))]);
    let tagged = |value| {
        move |span: &mut Span| {
            span.tags = vec![blkkin_model::Tag { key: "k".into(), value, origin: Origin::Span }];
        }
    };
    check(vec![(8, fact(2, &[0xff, 0xfe]))], tagged(Value::Int(-2)));
    check(vec![(8, fact(3, &[0, 0, 1, 0]))], tagged(Value::Int(256)));
    check(vec![(8, fact(3, &[1]))], tagged(Value::Bytes(vec![1])));
    check(vec![(8, fact(9, &[1]))], tagged(Value::Bytes(vec![1])));
    check(vec![(8, fact(6, b"v"))], tagged(Value::Str("v".into())));
    check(vec![(8, note(vec![(1, text("k")), (2, text("v"))]))], tagged(Value::Str("v".into())));
}

#[test]
fn bad_spans_are_refused_alone_and_named() {
    fn check(fields: Vec<(i16, Thrift)>, expected: &str) {
        let plain = || Struct(vec![(1, I64(1)), (4, I64(2))]);
        let all = List(vec![plain(), Struct(fields), plain()]);
        let (spans, outcome) = read(ZipkinThrift, &all.bytes());
        assert_eq!((spans.len(), outcome.refused, &outcome.end), (2, 1, &End::Whole));
        assert_eq!(outcome.refusals[0].to_string(), format!("span 1, {expected}"));
    }
    check(vec![], "byte 28: traceId is missing");
    check(vec![(1, I64(1))], "byte 28: id is missing");
    check(vec![(1, I64(0)), (4, I64(2))], "byte 28: trace_id is 0");
    check(vec![(4, I64(0))], "byte 31: id is 0");
    check(vec![(10, I64(i64::MAX))], "byte 31: timestamp is out of range");
    let deep = (0..40).fold(I64(1), |inner, _| Struct(vec![(1, inner)]));
    assert_eq!(
        refusal(ZipkinThriftSpan, &Struct(vec![(99, deep)]).bytes()),
        "span 0, byte 96: is nested too deep"
    );
    let hosts = (0..40).map(|n| {
        let host = host(&Endpoint { service: n.to_string(), ..Endpoint::default() });
        Struct(vec![(1, I64(1)), (2, text("x")), (3, host)])
    });
    let fields = vec![(1, I64(1)), (4, I64(2)), (6, List(hosts.collect()))];
    check(fields, "byte 28: annotations has more than 32 hosts");
}

#[test]
fn broken_batches_give_what_is_before() {
    fn check(batch: &[u8], given: u64, expected: &str) {
        let (_, outcome) = read(ZipkinThrift, batch);
        let refusal = outcome.first_refusal().map(ToString::to_string);
        assert_eq!((outcome.accepted, refusal.as_deref().unwrap_or("nothing")), (given, expected));
    }
    let plain = Struct(vec![(1, I64(1)), (4, I64(2))]);
    let batch = List(vec![plain.clone(), plain]).bytes();
    check(&batch, 2, "nothing");
    check(&batch[..batch.len() - 1], 1, "span 1, byte 50: ends early");
    check(&batch[..4], 0, "span 0, byte 4: ends early");
    check(&[12, 0xff, 0, 0, 0], 0, "span 0, byte 1: is out of range");
    check(&[12, 0x7f, 0, 0, 0], 0, "span 0, byte 5: ends early");
    check(&[8, 0, 0, 0, 1], 0, "span 0, byte 0: should be a list of structures");
    check(&[12, 0, 0, 0, 0], 0, "nothing");
    // A forged list size of two thousand million bytes is refused.
    check(&[12, 0, 0, 0, 1, 15, 0, 99, 3, 0x7f, 0, 0, 0], 0, "span 0, byte 13: ends early");
}
