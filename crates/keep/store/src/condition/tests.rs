//! Tests of filters on spans: the spans that they match, agreement with the filter language's own
//! evaluation, hints, and error messages.

use super::field::{Field, KINDS};
use super::*;
use blkkin_filter::{Filter, Integer, Labels, Value, Values};
use blkkin_model::{AnnotationRef, EndpointRef, Origin, SpanId, Status, TagRef, TraceId};
use blkkin_sys::testing::Random;

fn span<'a>() -> SpanRef<'a> {
    let trace = TraceId::from_number(1).expect("not 0");
    SpanRef::new(trace, SpanId::from_number(1).expect("not 0"))
}

fn tag<'a>(key: &'a str, value: ValueRef<'a>) -> TagRef<'a> {
    TagRef { key, value, origin: Origin::Span }
}

fn service(service: &str) -> EndpointRef<'_> {
    EndpointRef { service, ..EndpointRef::NONE }
}

/// Returns the letters of those sample spans that match a filter.
fn matching(text: &str) -> String {
    let condition = match Condition::parse(text) {
        Ok(condition) => condition,
        Err(error) => panic!("{}", error.render(false)),
    };
    let child = SpanId::from_number(9);
    let annotations = [
        AnnotationRef { time_ns: 1, value: "" },
        AnnotationRef { time_ns: 2, value: "Sent 5" },
        AnnotationRef { time_ns: 3, value: "done" },
    ];
    let write = [
        tag("cached", ValueRef::Bool(true)),
        tag("http.method", ValueRef::Str("GET")),
        tag("offset", ValueRef::Int(4096)),
        tag("ratio", ValueRef::Double(0.5)),
        tag("raw", ValueRef::Bytes(b"ab\xff")),
        tag("tag.x", ValueRef::Str("deep")),
    ];
    let read = [
        tag("empty", ValueRef::Str("")),
        tag("error", ValueRef::Str("timeout")),
        tag("http.method", ValueRef::Str("get")),
        tag("name", ValueRef::Str("other")),
        tag("offset", ValueRef::Str("512")),
        tag("ratio", ValueRef::Str("1.5e0")),
    ];
    let odd = [
        tag("offset", ValueRef::Str("many")),
        TagRef { key: "ratio", value: ValueRef::Int(1), origin: Origin::Resource },
        tag("ratio", ValueRef::Double(f64::NAN)),
        tag("word", ValueRef::Str("nan")),
        tag("word2", ValueRef::Str("infinity")),
    ];
    let spans = [
        ('a', span()),
        (
            'b',
            SpanRef {
                local: service("OSD.1"),
                remote: service("disk"),
                name: "Write",
                kind: Kind::Server,
                status: Status::Ok,
                trace_id: TraceId::from_number(0xab << 64 | 0x1234).expect("an id"),
                parent_id: child,
                duration_ns: Some(5_000_000),
                start_ns: Some(1000),
                tags: &write,
                ..span()
            },
        ),
        (
            'c',
            SpanRef {
                local: service("qemu"),
                name: "read",
                kind: Kind::Client,
                duration_ns: Some(5_000_001),
                start_ns: Some(0),
                annotations: &annotations,
                tags: &read,
                ..span()
            },
        ),
        (
            'd',
            SpanRef {
                local: service("osd.10"),
                kind: Kind::Internal,
                parent_id: child,
                duration_ns: Some(0),
                start_ns: Some(u64::MAX),
                status: Status::Error,
                tags: &odd,
                ..span()
            },
        ),
    ];
    spans.iter().filter(|(_, span)| condition.holds(span)).map(|(letter, _)| *letter).collect()
}

#[test]
fn filters_find_spans() {
    let check = |text: &str, expected: &str| assert_eq!(matching(text), expected, "{text}");
    // Comparisons of texts ignore case, and `!=` does not match an absent text.
    check(r#"service == "osd.1""#, "b");
    check(r#""OSD.1" == service"#, "b");
    check(r#"service == "Osd.*""#, "bd");
    check(r#"service != "OSD.1""#, "cd");
    check(r#"!(service == "osd.1")"#, "acd");
    check(r#"service != "o*""#, "c");
    check("has(service)", "bcd");
    check("!has(service)", "a");
    check(r#"service == """#, "");
    check(r#"service != """#, "bcd");
    check(r#"service == "*""#, "bcd");
    check(r#"remote == "DISK" && remote_service == "disk""#, "b");
    check(r#"name == "w*" || $event.name == "READ""#, "bc");
    check(r#"name == "\xff""#, "");
    check(r#"name != "\xff""#, "bc");
    check(r#"name == "wr\*te""#, "");
    // Kinds are written as a word or in quotes.
    check("kind == server", "b");
    check("CLIENT == kind", "c");
    check(r#"kind == "internal""#, "d");
    check("kind != server", "cd");
    check(r#"kind == "*er""#, "b");
    check(r#"kind != "*n*""#, "b");
    check("has(kind)", "bcd");
    // Durations and times are numbers of nanoseconds, or have units.
    check("duration > 5ms", "c");
    check("duration >= 5ms", "bc");
    check("5ms < duration", "c");
    check("duration < 5ms", "d");
    check("duration <= 5000000.5", "bd");
    check("duration > 5000000.5", "c");
    check("duration == 5000000.5", "");
    check("duration != 5000000.5", "bcd");
    check("duration == 0.005e9", "b");
    check("duration != 5ms", "cd");
    check("duration == -1 || duration < 0", "");
    check("duration > -1 && duration != -1 && duration < 1e300", "bcd");
    check("duration > 18446744073709551615", "");
    check("has(duration)", "bcd");
    check("duration", "bc");
    check("!duration", "ad");
    check("start == 18446744073709551615", "d");
    check("time >= 1us && $event.time < 1s", "b");
    check("start", "bd");
    // Boolean fields.
    check("error", "cd");
    check("!error", "ab");
    check("has(error) && root", "c");
    check("root", "ac");
    check("!has(root)", "bd");
    // `==` holds if any annotation equals the text, and `!=` if none does.
    check(r#"annotation == "Sent *""#, "c");
    check(r#"annotation == "sent*""#, "");
    check(r#"annotation == "done""#, "c");
    check(r#"annotation != "done""#, "");
    check(r#"annotation != "gone""#, "c");
    check("has(annotation)", "c");
    // Tags, as text and as numbers.
    check(r#"http.method == "GET""#, "b");
    check(r#"tag.http.method == "get""#, "c");
    check(r#"http.method != "GET""#, "c");
    check(r#"tag.name == "other""#, "c");
    check(r#"tag.tag.x == "deep""#, "b");
    check(r#"tag.error == "time*""#, "c");
    check("offset >= 512", "bc");
    check("offset > 512", "b");
    check("4096 == offset", "b");
    check("offset < 4096", "c");
    check("offset <= 4096.0", "bc");
    check("offset != 4096", "c");
    check(r#"offset == "4096""#, "b");
    check(r#"offset == "4*""#, "b");
    check(r#"offset != "4096""#, "cd");
    check("offset", "bc");
    check("ratio == 0.5", "b");
    check("ratio > 1", "c");
    check(r#"ratio == "0.5""#, "b");
    check("ratio < 1e300", "bc");
    check("has(ratio)", "bcd");
    check("word != 5 || word2 > 5", "");
    check(r#"cached == "true""#, "b");
    check(r#"raw == "ab*""#, "b");
    check("has(empty)", "c");
    check(r#"empty == "" || empty != """#, "");
    check("has(nothing) || nothing == 0 || nothing != 0", "");
    check(r#"tag."http.method" == "GET" && tag.http."method" == "GET""#, "b");
    check(r#"has(tag."a-b/c.0")"#, "");
    // `any` compares all texts, ignoring case.
    check(r#"any == "OSD.1""#, "b");
    check(r#"any == "timeOUT""#, "c");
    check(r#"any == "sent *""#, "c");
    check(r#"any == "*40*""#, "b");
    check(r#"has(any) && any != "osd*""#, "c");
    // The status is set by the sender. If it is unset, a tag `error` counts as the status `error`.
    check("status == error", "cd");
    check(r#""OK" == status"#, "b");
    check("status == unset", "a");
    check("status != ok", "acd");
    check("has(status)", "bcd");
    // An id of 64 bits matches the lower half of an id of 128 bits.
    check(r#"trace_id == "00000000000000ab0000000000001234""#, "b");
    check(r#"trace_id == "1234""#, "b");
    check(r#"trace_id == "ac0000000000001234""#, "");
    check(r#"trace_id != "1234""#, "acd");
    check(r#"tag["http.method"] == "GET""#, "b");
    // Combinations of conditions.
    check(r#"service == "osd*" && (duration < 1ms || kind == server) && !error"#, "b");
}

#[test]
fn events_and_links_are_found_by_their_attributes() {
    let annotations = [
        AnnotationRef { time_ns: 1, value: "flushed" },
        AnnotationRef {
            time_ns: 2,
            value: r#""exception": {"exception.type":"IOError","retries":3,"k8s.io/name":"x"}"#,
        },
        AnnotationRef { time_ns: 3, value: r#""retry": {"retries":"4","last":true}"# },
    ];
    let link =
        "000000000000000000000000000000ab|00000000000000a1||{\"reason\":\"retry\",\"n\":2}|0";
    let tags = [tag("event", ValueRef::Str("own")), tag("otlp.link.0", ValueRef::Str(link))];
    let span = SpanRef { annotations: &annotations, tags: &tags, ..span() };
    let check = |text: &str, expected: bool| {
        let condition = Condition::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(condition.holds(&span), expected, "{text}");
    };
    check(r#"event == "exception""#, true);
    check(r#"event == "flush*""#, true);
    check(r#"event == "timeout""#, false);
    check(r#"event != "flushed""#, false);
    check("has(event)", true);
    check(r#"event.exception.type == "IO*""#, true);
    check(r#"event["exception.type"] == "IOError""#, true);
    check(r#"event["k8s.io/name"] == "x""#, true);
    check("event.retries == 3", true);
    check("event.retries >= 4", true);
    check("event.retries > 4", false);
    check("event.retries > 3", true);
    check("event.retries < 4", true);
    check("event.retries < 3", false);
    check("event.retries", true);
    check("has(event.last) && !has(event.first)", true);
    check(r#"event.last == "true""#, true);
    check(r#"tag.event == "own""#, true);
    check("has(link)", true);
    check(r#"link == "ab""#, true);
    check(r#"link == "000000000000000000000000000000ab""#, true);
    check(r#"link == "ac""#, false);
    check(r#"link.reason == "retry" && link.n < 3"#, true);
    check("has(link.other)", false);
    let error = Condition::parse("link == 5").expect_err("refused").to_string();
    assert_eq!(error, "column 9: an id is text (put it in quotes; it is hexadecimal)");
    let error = Condition::parse("event > 5").expect_err("refused").to_string();
    assert!(error.contains("`event` is text"), "{error}");
}

#[test]
fn a_mistyped_field_is_doubted() {
    let check = |text: &str, expected: &[&str]| assert_eq!(filter_hints(text), expected, "{text}");
    check(
        r#"serviec == "nbd" && Statsu == ok"#,
        &[
            "`serviec` is taken for a tag; did you mean `service`?",
            "`Statsu` is taken for a tag; did you mean `status`?",
        ],
    );
    check(r#"service == "nbd" && offset > 5 && tag.serviec == "x" && kind == server"#, &[]);
    check("serviec ==", &[]);
    check(
        r#"event.name == "x""#,
        &["`event.name` is an attribute of an event; the tag of that name is `tag.event.name`"],
    );
    check("status == Error || kind == Server", &[]);
}

#[test]
fn durations_of_requests_stand_beside_conditions() {
    let check = |text: &str, expected: &str, condition: &str| {
        let (rest, durations) = Condition::parse_with_durations(text).expect(text);
        let expected_rest = match condition {
            "" => Condition::All(Vec::new()),
            text => Condition::parse(text).expect(text),
        };
        assert_eq!((format!("{durations:?}").as_str(), rest), (expected, expected_rest), "{text}");
    };
    const MAX: u64 = u64::MAX;
    check("error", &format!("0..={MAX}"), "error");
    check("trace.duration >= 1s", &format!("1000000000..={MAX}"), "");
    check("5us > trace.duration", "0..=4999", "");
    check("trace.duration == 3", "3..=3", "");
    check("trace.duration == 1.5", "1..=0", "");
    check("error && (trace.duration > 4 && root) && trace.duration <= 9", "5..=9", "error && root");
    let check = |text: &str, expected: &str| {
        let error = Condition::parse_with_durations(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    };
    const HINT: &str = "`trace.duration` is not the duration of a span (in a search, compare it with a number, beside `&&`; a span's is `duration`)";
    check("error || trace.duration > 5", &format!("column 10: {HINT}"));
    check("!has(trace.duration)", &format!("column 2: {HINT}"));
    check(
        "trace.duration != 5",
        "column 1: `trace.duration` cannot be compared by `!=` (use `<`, `<=`, `>`, `>=` or `==`)",
    );
    let error = Condition::parse("trace.duration > 5").expect_err("refused").to_string();
    assert_eq!(error, format!("column 1: {HINT}"));
}

#[test]
fn what_spans_cannot_be_asked_is_refused() {
    let check = |text: &str, expected: &str| {
        let error = Condition::parse(text).expect_err(text).to_string();
        assert_eq!(error, expected, "{text}");
    };
    const CALCULATED: &str = "compare one field with a number or with text";
    check("", "column 1: the filter is empty");
    check(
        "error || duration * 2 > 5",
        &format!("column 10: spans cannot be calculated with ({CALCULATED})"),
    );
    check("5 < -offset", &format!("column 5: spans cannot be calculated with ({CALCULATED})"));
    check("flags & 4", &format!("column 1: bits of spans cannot be asked for ({CALCULATED})"));
    check("~flags == 4", &format!("column 1: bits of spans cannot be asked for ({CALCULATED})"));
    check(
        "(error) == (offset > 5)",
        "column 1: `error` is true or false, and compares with nothing (write `error` or `!error`; the tag of that name is `tag.error`)",
    );
    check(
        "offset == (root && error)",
        &format!("column 11: a condition cannot be compared ({CALCULATED})"),
    );
    check(
        "error == 1",
        "column 1: `error` is true or false, and compares with nothing (write `error` or `!error`; the tag of that name is `tag.error`)",
    );
    check(
        "cached == true",
        "column 1: two fields cannot be compared (if one of them is text, put it in quotes)",
    );
    check(
        "service",
        "column 1: `service` is text, which is neither true nor false (compare it, as in `service == \"open*\"`, or ask for it by `has(service)`)",
    );
    check(
        "name == 5",
        "column 9: `name` is text, and compares with no number (put the text in quotes)",
    );
    check(
        r#"duration > "5ms""#,
        "column 12: `duration` is a number, and compares with no text (times are numbers of nanoseconds, or have a unit, as in `5ms`)",
    );
    check(
        r#"x < "abc""#,
        "column 1: text cannot be compared by `<` (use `==` or `!=`; a number is written without quotes)",
    );
    check("kind == servr", "column 9: unknown kind of span (did you mean `server`?)");
    check(
        r#"kind == "x""#,
        "column 9: unknown kind of span (there are internal, client, server, producer, consumer)",
    );
    check(
        "kind == a.b",
        "column 9: unknown kind of span (there are internal, client, server, producer, consumer)",
    );
    check("status == eror", "column 11: unknown status (did you mean `error`?)");
    check(
        "status == 200",
        "column 11: a status is error, ok, unset (the tag of that name is `tag.status`)",
    );
    check("trace_id == 5", "column 13: an id is text (put it in quotes; it is hexadecimal)");
    check(
        r#"trace_id == "xyz""#,
        "column 13: this is no id of a trace (an id is 1 to 32 hexadecimal digits, not all of them 0)",
    );
    check("kind < server", "column 8: kinds cannot be compared by `<` (use `==` or `!=`)");
    check(
        "severity == warning",
        "column 13: spans have no severity (compare the tag with a number, or with text in quotes)",
    );
    check(
        "$ctx.vpid == 1",
        "column 1: spans have no `$ctx.vpid` (what is known of a span are its fields and its tags, `tag.KEY`)",
    );
    check(
        "$event.cpu == 1",
        "column 1: spans have no `$event.cpu` (what is known of a span are its fields and its tags, `tag.KEY`)",
    );
    check("has(tag)", "column 5: a tag without its key (write `tag.KEY`)");
    check("a[1] == 5", "column 1: tags have no elements (compare all of its text)");
    check("1", "column 1: a number alone asks nothing of a span (compare a field with it)");
    check(
        "1 == 1",
        "column 1: this comparison asks nothing of a span (compare a field with a number or with text)",
    );
    assert!(Condition::parse(&"!".repeat(1000)).is_err());
    assert!(Condition::parse(&format!("{}a", "a||".repeat(1 << 14))).is_ok());
}

/// Values of a span's fields, from which the filter language's own evaluator computes the expected
/// result. Texts are in lower case if their comparison ignores case.
struct Asked<'a> {
    values: Vec<Answer<'a>>,
}

#[derive(Debug)]
enum Answer<'a> {
    Value(Value<'a>),
    Text(String),
    /// Several texts, optionally with a number. `==` holds if any of the texts passes, and `!=` if
    /// none does.
    Labels(Option<i64>, Texts),
}

#[derive(Debug)]
struct Texts(Vec<String>);

impl Labels for Texts {
    fn any(&self, _: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        self.0.iter().any(|text| test(text.as_bytes()))
    }
}

impl Values for Asked<'_> {
    fn value(&self, operand: usize) -> Value<'_> {
        match &self.values[operand] {
            Answer::Value(value) => *value,
            Answer::Text(text) => Value::Str(text.as_bytes()),
            Answer::Labels(number, texts) => {
                Value::Enum(Integer::Signed(number.unwrap_or_default()), texts)
            }
        }
    }
}

/// Returns an answer with all nonempty texts, or the absent value if all texts are empty.
fn one_of<'a>(texts: impl Iterator<Item = String>) -> Answer<'a> {
    let texts: Vec<String> = texts.filter(|text| !text.is_empty()).collect();
    match texts.is_empty() {
        true => Answer::Value(Value::Absent),
        false => Answer::Labels(None, Texts(texts)),
    }
}

fn answer<'a>(field: &Field, span: &SpanRef<'a>) -> Answer<'a> {
    let or_absent = |is_there: bool, value: Value<'a>| {
        Answer::Value(if is_there { value } else { Value::Absent })
    };
    let number = |number: Option<u64>| Answer::Value(number.map_or(Value::Absent, Value::Uint));
    let lower = |text: &str| match text {
        "" => Answer::Value(Value::Absent),
        text => Answer::Text(text.to_ascii_lowercase()),
    };
    match field {
        Field::Text(TextField::Service) => lower(span.local.service),
        Field::Text(TextField::RemoteService) => lower(span.remote.service),
        Field::Text(TextField::Name) => lower(span.name),
        Field::Kind => {
            let word = KINDS.iter().find(|(_, kind)| *kind == span.kind);
            lower(word.map_or("", |(word, _)| word))
        }
        Field::Duration => number(span.duration_ns),
        Field::Start => number(span.start_ns),
        Field::Error => or_absent(span.is_error(), Value::Uint(1)),
        Field::Status | Field::TraceId | Field::Event | Field::EventAttribute(_) => {
            unreachable!("no filter of this test has them")
        }
        Field::Link | Field::LinkAttribute(_) => unreachable!("nor these"),
        Field::Root => or_absent(span.parent_id.is_none(), Value::Uint(1)),
        Field::Annotation => one_of(span.annotations.iter().map(|it| it.value.to_owned())),
        Field::AnyText => {
            let own = [span.local.service, span.remote.service, span.name].map(str::to_owned);
            let noted = span.annotations.iter().map(|it| it.value.to_owned());
            let tags = span.tags.iter().map(|it| text_of(it.value).into_owned());
            one_of(own.into_iter().chain(noted).chain(tags).map(|text| text.to_ascii_lowercase()))
        }
        Field::TraceDuration => Answer::Value(Value::Absent),
        Field::Tag(key) => match span.tag(key) {
            None => Answer::Value(Value::Absent),
            Some(ValueRef::Str("")) => Answer::Value(Value::Present),
            Some(ValueRef::Double(number)) => Answer::Value(Value::Float(number)),
            Some(ValueRef::Int(number)) => {
                Answer::Labels(Some(number), Texts(vec![number.to_string()]))
            }
            Some(ValueRef::Str(text)) => match text.parse() {
                Ok(number) => Answer::Labels(Some(number), Texts(vec![text.to_owned()])),
                Err(_) => Answer::Text(text.to_owned()),
            },
            Some(ValueRef::Bool(flag)) => Answer::Text(flag.to_string()),
            Some(ValueRef::Bytes(bytes)) => {
                Answer::Text(String::from_utf8_lossy(bytes).into_owned())
            }
        },
    }
}

const TEXTS: [&str; 7] = ["", "osd.1", "osd.2", "Qemu", "a", "ab", "5"];

/// Generates a random filter on fields that [`answer`] supports. Tags that may be text are compared
/// with texts and integers, but not with fractions: the language's own evaluation has no value that
/// is both a text and a fraction.
fn filter(random: &mut Random, depth: usize) -> String {
    if depth > 0 && random.chance(60) {
        let one = filter(random, depth - 1);
        let other = filter(random, depth - 1);
        return match random.below(3) {
            0 => format!("!({one})"),
            1 => format!("({one}) && ({other})"),
            _ => format!("({one}) || ({other})"),
        };
    }
    let all = ["==", "!=", "<", "<=", ">", ">="];
    let equality = random.one_of(&all[..2]);
    let text = |random: &mut Random| {
        let text = random.one_of(&["", "osd.*", "*", "*.1", "a*b", "osd.1", "qemu", "a", "5", "6"]);
        format!("\"{text}\"")
    };
    let integer = |random: &mut Random| random.one_of(&["0", "5", "6", "-5", "10ns"]).to_owned();
    let any = ["0", "5", "-5", "5.5", "4.999", "5.0", "-0.5", "1e300", "18446744073709551615"];
    let op = random.one_of(&all);
    let (left, op, right) = match random.below(9) {
        0 | 1 => {
            let name = random.one_of(&["service", "remote", "remote_service", "name"]);
            (name, equality, text(random))
        }
        2 => {
            let word = random.one_of(&KINDS.map(|(word, _)| word));
            ("kind", equality, random.one_of(&[format!("\"{word}\""), "\"*er\"".to_owned()]))
        }
        3 => (random.one_of(&["duration", "start", "time"]), op, random.one_of(&any).to_owned()),
        4 => (random.one_of(&["annotation", "any"]), equality, text(random)),
        5 => (random.one_of(&["mixed", "tag.mixed", "a.b"]), equality, text(random)),
        6 => (random.one_of(&["mixed", "tag.mixed", "a.b"]), op, integer(random)),
        7 => ("ratio", op, random.one_of(&any).to_owned()),
        _ => {
            let alone = ["error", "root", "duration", "start", "mixed", "ratio"];
            let fields = ["service", "kind", "annotation", "duration", "mixed", "a.b", "error"];
            return match random.chance(50) {
                true => random.one_of(&alone).to_owned(),
                false => format!("has({})", random.one_of(&fields)),
            };
        }
    };
    let reversed = random.chance(20);
    if reversed { format!("{right} {op} {left}") } else { format!("{left} {op} {right}") }
}

/// A compiled condition selects the same spans as the filter language's own evaluation.
#[test]
fn conditions_agree_with_the_language() {
    let mut random = Random::new(20_261_122);
    let mut matched = 0;
    for _ in 0..3000 {
        let text = filter(&mut random, 3);
        let filter = Filter::parse(&text).unwrap_or_else(|error| panic!("{}", error.render(false)));
        let fields: Vec<Field> = filter
            .operands()
            .iter()
            .map(|operand| Field::of(&filter, operand).expect("a field"))
            .collect();
        let condition =
            Condition::parse(&text).unwrap_or_else(|error| panic!("{}", error.render(false)));
        for _ in 0..10 {
            let values = [
                ValueRef::Str(random.one_of(&TEXTS)),
                ValueRef::Int(random.below(8u64) as i64 - 4),
                ValueRef::Int(5),
                ValueRef::Bool(true),
                ValueRef::Bytes(b"a\xffb"),
            ];
            let mut tags = vec![];
            for key in ["a.b", "mixed"] {
                if random.chance(70) {
                    tags.push(tag(key, random.one_of(&values)));
                }
            }
            if random.chance(70) {
                let ratio = random.one_of(&[0.0, 5.0, 5.5, -5.0, -0.0, 1e300, f64::INFINITY]);
                tags.push(tag("ratio", ValueRef::Double(ratio)));
            }
            let mut annotations: Vec<AnnotationRef<'_>> = (0..random.below(3))
                .map(|time_ns| AnnotationRef { time_ns, value: random.one_of(&TEXTS) })
                .collect();
            annotations.sort();
            let number = |random: &mut Random| {
                random.one_of(&[None, Some(0), Some(4), Some(5), Some(6), Some(u64::MAX)])
            };
            let kinds = KINDS.map(|(_, kind)| kind);
            let span = SpanRef {
                parent_id: SpanId::from_number(random.below(2)),
                local: service(random.one_of(&TEXTS)),
                remote: service(random.one_of(&TEXTS)),
                name: random.one_of(&TEXTS),
                kind: if random.chance(20) { Kind::Unspecified } else { random.one_of(&kinds) },
                status: random.one_of(&[Status::Unset, Status::Error]),
                duration_ns: number(&mut random),
                start_ns: number(&mut random),
                annotations: &annotations,
                tags: &tags,
                ..span()
            };
            let values = fields.iter().map(|field| answer(field, &span)).collect();
            let expected = filter.eval(&Asked { values });
            assert_eq!(condition.holds(&span), expected, "{text}\n{condition:?}\n{span:?}");
            matched += usize::from(expected);
        }
    }
    assert!((5000..25_000).contains(&matched), "too few differ to show anything: {matched}");
}
