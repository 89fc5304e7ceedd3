//! Tests of the conversion of v1 spans, as tables: a v1 span on one line, and one line for each
//! resulting span.

use super::*;
use crate::limits::Limits;
use blkkin_model::{AnnotationRef, Kind, Origin, SpanId, SpanRef, TagRef, TraceId, ValueRef};

/// Checks one conversion. In `input`, `10+5` are the span's own start and duration, `3:cs@web` an
/// annotation of a host, and `key=value@web` a binary annotation. The value `!` is true, `?` false.
fn check(input: &str, expected: &[&str]) {
    let mut span = V1Span::new(V1Lists::default());
    span.trace_id = TraceId::from_number(1);
    span.id = SpanId::from_number(2);
    for word in input.split_whitespace() {
        add(&mut span, word);
    }
    span.convert(&Limits::default(), 0).expect("few hosts");
    let found: Vec<String> = (0..span.lists.host_spans.len())
        .map(|host_span| show(&span.host_span(host_span, Lists::default()).finish(0).expect("ids")))
        .collect();
    assert_eq!(found, expected, "{input}");
}

fn add<'b>(span: &mut V1Span<'b>, word: &'b str) {
    let limits = Limits::default();
    let (what, host) = word.split_once('@').unwrap_or((word, ""));
    let (service, port) = host.split_once('/').unwrap_or((host, "0"));
    let port = port.parse().expect("a port");
    let host = EndpointRef { service, port, ..EndpointRef::NONE };
    if let Some((key, value)) = what.split_once('=') {
        let value = match value {
            "!" => ValueRef::Bool(true),
            "?" => ValueRef::Bool(false),
            text => ValueRef::Str(text),
        };
        span.tag(TagRef { key, value, origin: Origin::Span }, host, &limits, 0).expect("few");
    } else if let Some((time, value)) = what.split_once(':') {
        let note = AnnotationRef { time_ns: time.parse().expect("a time"), value };
        span.annotate(note, host, &limits, 0).expect("few");
    } else {
        let (start, duration) = what.split_once('+').expect("a begin and a length");
        (span.start_ns, span.duration_ns) = (start.parse().ok(), duration.parse().ok());
    }
}

fn show(span: &SpanRef<'_>) -> String {
    let kind = match span.kind {
        Kind::Unspecified => "-".to_owned(),
        kind => format!("{kind:?}"),
    };
    let host = |host: EndpointRef<'_>| match host.port {
        0 => host.service.to_owned(),
        port => format!("{}/{port}", host.service),
    };
    let mut words = vec![kind, host(span.local)];
    if !span.remote.is_none() {
        words.push(format!(">{}", host(span.remote)));
    }
    let time = |time: Option<u64>| time.map_or_else(String::new, |it| it.to_string());
    words.push(format!("{}+{}", time(span.start_ns), time(span.duration_ns)));
    if span.shared {
        words.push("shared".to_owned());
    }
    words.extend(span.annotations.iter().map(|it| format!("{}:{}", it.time_ns, it.value)));
    words.extend(span.tags.iter().map(|it| match it.value {
        ValueRef::Str(text) => format!("{}={text}", it.key),
        other => format!("{}={other:?}", it.key),
    }));
    words.join(" ")
}

#[test]
fn calls_are_taken_apart() {
    check("1:cs@web 2:sr@app 3:ss@app 4:cr@web", &["Client web 1+3", "Server app 2+1 shared"]);
    check(
        "10+9 1:cs@web 2:sr@app 3:ss@app 4:cr@web 3:x@app 2:y@web",
        &["Client web 10+9 2:y", "Server app 2+1 shared 3:x"],
    );
    check("1:cs@web 4:cr@web", &["Client web 1+3"]);
    check("7+2 1:cs@web 4:cr@web", &["Client web 7+2"]);
    check("2:sr@app 3:ss@app", &["Server app 2+1 shared"]);
    check("2+1 2:sr@app 3:ss@app", &["Server app 2+1"]);
    check("2+ 2:sr@app 3:ss@app", &["Server app 2+1 shared"]);
    // One-way call.
    check("1:cs@web 2:sr@app", &["Client web 1+", "Server app 2+ shared"]);
    // Only the span's own times contain the start.
    check("1+3 4:cr@web 2:sr@app", &["Server app 2+ shared", "Client web 1+3"]);
    check("2+1 3:ss@app", &["Server app 2+1"]);
    // Call within one service.
    check(
        "1:cs@app/1 2:sr@app/2 3:ss@app/2 4:cr@app/1",
        &["Client app/1 1+3", "Server app/2 2+1 shared"],
    );
    // An end before its start gives no duration.
    check("4:cs@web 1:cr@web", &["Client web 4+"]);
}

#[test]
fn parts_of_calls_are_kept() {
    check("1:cs@web", &["Client web 1+"]);
    check("4:cr@web", &["Client web + 4:cr"]);
    check("3:ss@app", &["Server app + 3:ss"]);
    check("2:sr@app", &["Server app 2+ shared"]);
    check("9+1 2:sr@app", &["Server app 9+1"]);
    check("9+1 4:cr@web", &["Client web 9+1 4:cr"]);
    // A core annotation without a host is kept as an annotation.
    check("1:cs 4:cr@web", &["Client web + 1:cs 4:cr"]);
    check("1:cs 4:cr", &["-  + 1:cs 4:cr"]);
    check("1+2 3:csf@web 4:CS@web", &["- web 1+2 3:csf 4:CS"]);
    check("5+6", &["-  5+6"]);
    check("", &["-  +"]);
}

#[test]
fn messages_are_taken_apart() {
    check("1:ms@a 2:mr@b", &["Producer a 1+", "Consumer b 2+ shared"]);
    check("1:ms@a 2:ws@a 5:wr@b 7:mr@b", &["Producer a 1+1", "Consumer b 5+2 shared"]);
    check("1:ms@a/1 2:mr@a/2", &["Producer a/1 1+", "Consumer a/2 2+ shared"]);
    check("1:ms@a 3:ws@a", &["Producer a 1+2"]);
    check("1:ms@a", &["Producer a 1+"]);
    check("5:wr@b 7:mr@b", &["Consumer b 5+2"]);
    check("7:mr@b", &["Consumer b 7+"]);
    check("5:wr@b 6:ws@b", &["- b + 5:wr 6:ws"]);
    check("1:ms@a ma=!@broker", &["Producer a >broker 1+"]);
    check("1:ms@a 2:mr@b ma=!@broker", &["Producer a >broker 1+", "Consumer b >broker 2+ shared"]);
}

#[test]
fn addresses_become_endpoints() {
    check("1:cs@web 4:cr@web sa=!@db", &["Client web >db 1+3"]);
    check("4:cr@web sa=!@db", &["Client web >db + 4:cr"]);
    check("2:sr@app 3:ss@app ca=!@web", &["Server app >web 2+1 shared"]);
    check("2:sr@app 3:ss@app ca=!@app/9", &["Server app >/9 2+1 shared"]);
    check("2:sr@app 3:ss@app ca=!@app", &["Server app 2+1 shared"]);
    // Within one service, the address belongs to the server.
    check("1:cs@app/1 2:sr@app/2 ca=!@web", &["Client app/1 1+", "Server app/2 >web 2+ shared"]);
    check("sa=1@db", &["-  >db +"]);
    check("ca=!@web k=v@app", &["Server app >web + k=v"]);
    check("ca=!@web sa=!@db", &["- web >db +"]);
    check("sa=! ca=x", &["-  + ca=x sa=Bool(true)"]);
    check("sa=?@db", &["- db + sa=Bool(false)"]);
}

#[test]
fn tags_go_to_their_hosts() {
    check("lc=@app", &["- app +"]);
    check("lc=osd@app", &["- app + lc=osd"]);
    check("b=1@app a=2 c=3@web b=4@app", &["- app + a=2 b=4", "- web + c=3"]);
    check("1:x@a 2:y@b 3:z@a", &["- a + 1:x 3:z", "- b + 2:y"]);
}

#[test]
fn hosts_are_limited() {
    let names: Vec<String> = (0..33).map(|n| format!("1:x@host{n}")).collect();
    let check = |count: usize, expected: &str| {
        let mut span = V1Span::new(V1Lists::default());
        names[..count].iter().for_each(|word| add(&mut span, word));
        let found = span.convert(&Limits::default(), 7).err().map(|fault| fault.to_string());
        assert_eq!(found.as_deref().unwrap_or("nothing"), expected);
    };
    check(32, "nothing");
    check(33, "byte 7: annotations has more than 32 hosts");
}
