//! Spans for all compared servers: realistic requests ([`generated`]), and odd requests ([`odd`]).

use blkkin_model::Span;
use blkkin_store::testing::requests::{Options, Requests};
use blkkin_wire::{Decoder, Encoder, Format, Limits};
use std::collections::BTreeSet;

/// Start of the first request, in microseconds since 1970: the 1st of November 2026.
pub(crate) const BEGIN_US: u64 = 1_793_491_200_000_000;

/// Microseconds from one generated request to the next.
pub(crate) const GAP_US: u64 = 10_000_000;

pub(crate) const REQUESTS: u64 = 400;

/// Start of the first odd request, in microseconds since 1970: a day after the first generated
/// request. Each odd request has its own minute.
pub(crate) const ODD_US: u64 = BEGIN_US + 86_400_000_000;

/// Start of the requests with intended differences, in microseconds since 1970.
pub(crate) const LATE_US: u64 = ODD_US + 86_400_000_000;

pub(crate) const MINUTE_US: u64 = 60_000_000;

/// Batch of spans in one of Zipkin's formats.
pub(crate) struct Batch {
    pub(crate) format: Format,
    pub(crate) body: Vec<u8>,
}

/// Returns batches of requests in each format. Requests do not overlap, so all servers sort them
/// equally.
pub(crate) fn generated() -> Vec<Batch> {
    let batch = |first: u64| {
        let format = match first / 50 % 4 {
            0 => Format::ZipkinJson,
            1 => Format::ZipkinProto,
            2 => Format::ZipkinV1Json,
            _ => Format::ZipkinThrift,
        };
        let mut body = Vec::new();
        let mut encoder = Encoder::new(format, &mut body);
        for number in first..first + 50 {
            let start_ns = (BEGIN_US + number * GAP_US) * 1000;
            let (shared, wide) = (number % 3 != 0, number % 2 == 0);
            let options = Options { seed: number, start_ns, shared, wide, ..Options::default() };
            assert!(Requests::new(options).next(&mut encoder).is_continue());
        }
        encoder.finish();
        Batch { format, body }
    };
    (0..REQUESTS).step_by(50).map(batch).collect()
}

/// Odd requests, separated by blank lines. `@3` stands for the time 3 microseconds after the
/// request's start.
const ODD: &str = r#"
{"traceId":"000000000000000a00000000000000b6","id":"1","name":"wide","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"halves"}}
{"traceId":"00000000000000b6","id":"2","name":"narrow","timestamp":@50,"duration":100,"localEndpoint":{"serviceName":"halves"}}
{"traceId":"b00000000000000000000000000000b6","id":"3","name":"other","timestamp":@70,"duration":200,"localEndpoint":{"serviceName":"halves"}}

{"traceId":"a1","id":"1","name":"publish","kind":"PRODUCER","timestamp":@0,"duration":10,"localEndpoint":{"serviceName":"Shop"},"remoteEndpoint":{"serviceName":"Kafka"}}
{"traceId":"a1","parentId":"1","id":"2","name":"consume","kind":"CONSUMER","timestamp":@30,"duration":5,"localEndpoint":{"serviceName":"store"},"remoteEndpoint":{"serviceName":"kafka"}}

{"traceId":"a2","id":"1","name":"timeless","localEndpoint":{"serviceName":"store"},"duration":7}
{"traceId":"a2","id":"2","parentId":"1","name":"timeless too","kind":"CLIENT","localEndpoint":{"serviceName":"store"},"remoteEndpoint":{"serviceName":"db"}}

{"traceId":"a3","id":"1","name":"late","localEndpoint":{"serviceName":"store"},"tags":{"of":"root"}}
{"traceId":"a3","id":"2","parentId":"1","name":"early","timestamp":@5,"duration":0,"localEndpoint":{"serviceName":"store"}}
{"traceId":"a3","id":"3","parentId":"1","timestamp":@2,"localEndpoint":{"serviceName":"store"}}
{"traceId":"a3","id":"4","parentId":"1","name":"","timestamp":@900,"duration":1,"localEndpoint":{"serviceName":""}}

{"traceId":"a4","id":"1","name":"LOUD Name","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"LOUD"},"remoteEndpoint":{"serviceName":"Remote LOUD"},"tags":{"Key":"Value","loud":"LOUD"},"annotations":[{"timestamp":@3,"value":"LOUD"},{"timestamp":@1,"value":"quiet"},{"timestamp":@3,"value":"LOUD"}]}

{"traceId":"a5","id":"1","name":"ÄRGER","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"MÜNZE"},"tags":{"größe":"ÜBER \"9\" \\ \n \u0001 \u2028 <b>&amp;</b> \ud83d\ude00"}}

{"traceId":"a7","id":"1","name":"get","kind":"CLIENT","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"a"},"tags":{"error":""}}
{"traceId":"a7","id":"1","shared":true,"name":"get","kind":"SERVER","timestamp":@10,"duration":80,"localEndpoint":{"serviceName":"b"},"tags":{"error":"500"}}
{"traceId":"a7","parentId":"1","id":"2","name":"select","kind":"CLIENT","timestamp":@20,"duration":8,"localEndpoint":{"serviceName":"b"},"remoteEndpoint":{"serviceName":"db"},"tags":{"error":"false"}}
{"traceId":"a7","parentId":"1","id":"3","name":"warn","timestamp":@20,"duration":8,"localEndpoint":{"serviceName":"b"},"annotations":[{"timestamp":@21,"value":"error"}]}

{"traceId":"a8","id":"1","name":"get","kind":"SERVER","timestamp":@0,"duration":100,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"browser"}}
{"traceId":"a8","parentId":"1","id":"2","name":"send","kind":"PRODUCER","timestamp":@2,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"queue"}}
{"traceId":"a8","parentId":"1","id":"3","name":"self","kind":"CLIENT","timestamp":@2,"localEndpoint":{"serviceName":"front"},"remoteEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"3","id":"4","name":"self","kind":"SERVER","timestamp":@3,"localEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"4","id":"5","name":"inner","timestamp":@4,"localEndpoint":{"serviceName":"front"}}
{"traceId":"a8","parentId":"5","id":"6","name":"deep","timestamp":@5,"kind":"SERVER","localEndpoint":{"serviceName":"deep"}}
{"traceId":"a8","parentId":"6","id":"7","name":"no kind","timestamp":@5,"localEndpoint":{"serviceName":"deeper"},"remoteEndpoint":{"serviceName":"deepest"}}

{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"twice"}}
{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"twice"}}
{"traceId":"a9","id":"1","name":"twice","timestamp":@0,"duration":2,"localEndpoint":{"serviceName":"twice"}}

{"traceId":"aa","id":"1","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"ends","ipv4":"127.0.0.1","ipv6":"::1","port":80},"remoteEndpoint":{"ipv4":"1.2.3.4"}}
{"traceId":"aa","id":"2","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"ends","ipv6":"2001:DB8::C001","port":0},"remoteEndpoint":{"port":9}}
{"traceId":"aa","id":"3","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv4":"::ffff:1.2.3.4"},"remoteEndpoint":{"serviceName":"","ipv6":"::ffff:1.2.3.4"}}
{"traceId":"aa","id":"4","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{},"remoteEndpoint":{"serviceName":"ends","ipv4":"no address","port":65535}}
{"traceId":"aa","id":"5","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv6":"2001:0db8:0000:0000:0001:0000:0000:0001"},"remoteEndpoint":{"ipv6":"::1.2.3.4"}}
{"traceId":"aa","id":"6","name":"ends","timestamp":@0,"duration":1,"localEndpoint":{"ipv6":"1:0:0:2:0:0:0:3"},"remoteEndpoint":{"ipv6":"fe80::1:0:0:1"}}

{"traceId":"ab","id":"1","shared":true,"debug":true,"kind":"SERVER","name":"flags","timestamp":@0,"duration":1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"2","parentId":"2","shared":false,"debug":false,"kind":"CLIENT","name":"own parent","timestamp":@1,"duration":1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"3","parentId":"0000000000000000","name":"no parent","timestamp":@1,"localEndpoint":{"serviceName":"flags"}}
{"traceId":"ab","id":"4","parentId":null,"name":"unknown","timestamp":@1,"unknown":{"a":[1,{"b":null}]},"localEndpoint":{"serviceName":"flags","unknown":1},"remoteEndpoint":null,"tags":{},"annotations":[],"kind":null,"duration":null}

{"traceId":"ac","parentId":"99","id":"1","name":"orphan","kind":"SERVER","timestamp":@8,"duration":1,"localEndpoint":{"serviceName":"orphan"},"remoteEndpoint":{"serviceName":"lost"}}
{"traceId":"ac","parentId":"98","id":"2","name":"orphan","kind":"CLIENT","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"orphan"},"remoteEndpoint":{"serviceName":"found"}}
{"traceId":"ac","parentId":"4","id":"3","name":"circle","kind":"CLIENT","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"round"}}
{"traceId":"ac","parentId":"3","id":"4","name":"circle","kind":"SERVER","timestamp":@4,"duration":1,"localEndpoint":{"serviceName":"about"}}

{"traceId":"ad","id":"1","name":"root","timestamp":@999,"duration":1,"localEndpoint":{"serviceName":"roots"}}
{"traceId":"ad","id":"2","name":"root","timestamp":@500,"duration":2,"localEndpoint":{"serviceName":"roots"},"tags":{"key":"first"}}
{"traceId":"ad","id":"3","parentId":"1","name":"child","timestamp":@1,"duration":5,"localEndpoint":{"serviceName":"roots"},"tags":{"key":"first","key":"second"}}

{"traceId":"ae","id":"1","name":"zero","timestamp":0,"duration":0,"localEndpoint":{"serviceName":"zero"}}

{"traceId":"af","id":"ffffffffffffffff","name":"all","timestamp":@0,"duration":9223372036854775,"localEndpoint":{"serviceName":"all"},"tags":{"":"empty key","empty value":""},"annotations":[{"timestamp":@7,"value":""}]}
"#;

/// Requests for which the answers of Zipkin's server and ours differ on purpose.
pub(crate) const LATE: &str = r#"
{"traceId":"d1","id":"1","name":"long","timestamp":@0,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d1","id":"2","parentId":"1","name":"end","timestamp":@5000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d2","id":"1","name":"short","timestamp":@1000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d3","id":"2","name":"root","timestamp":@30000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d3","id":"1","name":"root","timestamp":@20000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"f00000000000000000000000000000d4","id":"1","name":"half","timestamp":@42000000,"localEndpoint":{"serviceName":"late"}}
{"traceId":"d4","id":"1","name":"half","timestamp":@43000000,"localEndpoint":{"serviceName":"late"}}
"#;

pub(crate) fn odd() -> Vec<Batch> {
    let start_us = |number: usize| ODD_US + number as u64 * MINUTE_US;
    ODD.split("\n\n").enumerate().map(|(number, spans)| at(start_us(number), spans)).collect()
}

/// Returns a batch of spans in which each `@` time is replaced by an absolute time.
pub(crate) fn at(start_us: u64, spans: &str) -> Batch {
    let spans = spans.lines().filter(|line| line.starts_with('{')).map(|line| {
        let mut parts = line.split('@');
        let mut span = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let digits = part.bytes().take_while(u8::is_ascii_digit).count();
            let offset: u64 = part[..digits].parse().expect("a number");
            span += &format!("{}{}", start_us + offset, &part[digits..]);
        }
        span
    });
    let body = format!("[{}]", spans.collect::<Vec<_>>().join(",")).into_bytes();
    Batch { format: Format::ZipkinJson, body }
}

/// Returns the trace ids of a batch's spans, in Zipkin's form.
pub(crate) fn ids(batch: &Batch) -> BTreeSet<String> {
    let mut spans: Vec<Span> = Vec::new();
    let outcome = Decoder::new(Limits::default()).decode(batch.format, &batch.body, &mut spans);
    assert!(outcome.is_good(), "{outcome:?}");
    spans.iter().map(|span| span.trace_id.to_string()).collect()
}
