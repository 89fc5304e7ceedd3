//! Metadata designed to need much memory for its size, in TSDL and JSON. It has very many items of
//! one kind, one very long item, or names of large types that are used often.

use std::fmt::Write;

/// Metadata made of a head, any number of generated pieces, and a tail.
pub struct Hostile {
    pub name: &'static str,
    head: String,
    piece: Box<dyn Fn(usize) -> String>,
    tail: &'static str,
}

impl Hostile {
    fn new(
        name: &'static str,
        head: impl Into<String>,
        tail: &'static str,
        piece: impl Fn(usize) -> String + 'static,
    ) -> Hostile {
        Hostile { name, head: head.into(), piece: Box::new(piece), tail }
    }

    /// Returns the head, pieces until the text has at least `filled` bytes, the tail, and blanks up
    /// to `size` bytes. The size matters, as the limits on the number of items depend on it.
    pub fn text(&self, size: usize, filled: usize) -> String {
        let mut text = self.head.clone();
        for number in 0.. {
            if text.len() >= filled {
                break;
            }
            text.push_str(&(self.piece)(number));
        }
        text.push_str(self.tail);
        let blanks = size.saturating_sub(text.len());
        text.extend(std::iter::repeat_n(' ', blanks));
        text
    }
}

/// Returns a short identifier for this number. Identifiers are distinct, and none is a keyword.
fn name(mut number: usize) -> String {
    let mut name = "_".to_owned();
    loop {
        name.push(char::from(b'a' + (number % 26) as u8));
        number /= 26;
        if number == 0 {
            return name;
        }
    }
}

fn names(count: usize, piece: impl Fn(&str) -> String) -> String {
    (0..count).map(|number| piece(&name(number))).collect()
}

const TRACE: &str = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
    typealias integer { size = 8; align = 8; } := u;
    typealias integer { size = 32; align = 8; } := u32;\n";
const STREAM: &str = "stream { event.header := struct { u32 id; }; };\n";
const FIELDS: &str = "event { fields := struct { u n; ";
const END: &str = "}; };";

/// Returns cases of hostile metadata in TSDL.
pub fn tsdl(size: usize) -> Vec<Hostile> {
    let fields = || format!("{TRACE}{FIELDS}");
    let events = || format!("{TRACE}{STREAM}");
    let labels = names(2000, |name| format!("{name},"));
    let options = names(200, |name| format!("u {name};"));
    let tags = names(200, |name| format!("{name},"));
    let long_name = "n".repeat(size / 32);
    let context = |members: String| {
        format!(
            "{TRACE}stream {{ event.header := struct {{ u32 id; }};
             event.context := struct {{ {members} }}; }};\n"
        )
    };
    let doubled = (1..40).fold("struct s0 { u a; };".to_owned(), |mut text, level| {
        let below = level - 1;
        let _ = write!(text, "struct s{level} {{ struct s{below} a; struct s{below} b; }};");
        text
    });
    vec![
        Hostile::new("events", events(), "", |n| format!("event{{id={n};}};")),
        Hostile::new("fields", fields(), END, |n| format!("u {};", name(n))),
        Hostile::new("events-of-fields", events(), "", |n| {
            format!("event{{id={n};fields:=struct{{u a;u b;u c;u d;u e;u f;u g;u h;}};}};")
        }),
        Hostile::new("structures", fields(), END, |n| format!("struct{{u a;}}{};", name(n))),
        Hostile::new("arrays-of-arrays", fields(), END, |n| {
            format!("u {}[1][1][1][1][1][1][1][1];", name(n))
        }),
        Hostile::new("unaligned", fields(), END, |n| {
            format!("string {};integer{{size=64;align=64;}} {0}0;", name(n))
        }),
        Hostile::new("labels", format!("{}enum:u32{{", fields()), "z}e;};};", |n| name(n) + ","),
        Hostile::new("ranges", format!("{}enum:u32{{", fields()), "a}e;};};", |_| "a,".to_owned()),
        Hostile::new(
            "labels-by-name",
            format!("{TRACE} typealias enum : u32 {{ {labels} }} := labels;{FIELDS}"),
            END,
            |n| format!("labels {};", name(n)),
        ),
        Hostile::new("lengths", fields(), END, |n| format!("u {}[n];", name(n))),
        Hostile::new("own-lengths", fields(), END, |n| {
            let name = name(n);
            format!("u {name};u {name}0[{name}];")
        }),
        Hostile::new("lengths-by-path", fields(), END, |n| {
            format!("u {}[event.fields.n];", name(n))
        }),
        Hostile::new(
            "options-by-name",
            format!("{TRACE} variant v {{ {options} }};{FIELDS} enum : u32 {{ {tags} }} t;"),
            END,
            |n| format!("variant v <t> {};", name(n)),
        ),
        Hostile::new(
            "ranges-of-options",
            format!("{}enum : u32 {{ {} }} t;", fields(), "a,".repeat(size / 64)),
            END,
            |n| format!("variant <t> {{ u a; }} {};", name(n)),
        ),
        Hostile::new("streams", TRACE, "", |n| format!("stream{{id={n};}};")),
        Hostile::new("clocks", TRACE, "", |n| format!("clock{{name={};}};", name(n))),
        Hostile::new("env", format!("{TRACE}env {{"), "};", |n| format!("{}=1;", name(n))),
        Hostile::new("env-blocks", TRACE, "", |n| format!("env{{{}=1;}};", name(n))),
        Hostile::new("typedefs", TRACE, "", |n| format!("typedef u {};", name(n))),
        Hostile::new("aliases", TRACE, "", |n| format!("typealias u := {};", name(n))),
        Hostile::new("attributes", format!("{TRACE}event {{"), "};", |_| "a=1;".to_owned()),
        Hostile::new("type-attributes", format!("{}integer{{size=8;", fields()), "}a;};};", |_| {
            "a=1;".to_owned()
        }),
        Hostile::new("escaped-names", fields(), END, |n| format!("u \\u0061{};", name(n))),
        Hostile::new(
            "common-fields",
            context(names(size / 128, |name| format!("u {name};"))),
            "",
            |n| format!("event{{id={n};}};"),
        ),
        Hostile::new(
            "common-variants",
            context(format!(
                "enum : u32 {{ {} }} t; variant <t> {{ u a; }} v;",
                "a,".repeat(size / 512)
            )),
            "",
            |n| format!("event{{id={n};}};"),
        ),
        Hostile::new(
            "long-names",
            format!("{TRACE} struct long {{ u {long_name}; }};{FIELDS}"),
            END,
            |n| format!("struct long {};", name(n)),
        ),
        Hostile::new("doubled", format!("{TRACE}{doubled}{FIELDS} struct s39 s;"), END, |n| {
            format!("u {};", name(n))
        }),
        Hostile::new("comments", TRACE, "", |_| "/* nothing */".to_owned()),
        Hostile::new("string", format!("{TRACE}event {{ name = \"\\n"), "\"; };", |_| {
            "x".repeat(1000)
        }),
        Hostile::new("word", format!("{}u \\u0061", fields()), "; }; };", |_| "x".repeat(1000)),
        Hostile::new("path", format!("{}u a[a", fields()), "]; }; };", |_| ".b".repeat(500)),
    ]
}

const PREAMBLE: &str = "\u{1e}{\"type\":\"preamble\",\"version\":2}\n";
const U: &str =
    r#"{"type":"fixed-length-unsigned-integer","length":8,"byte-order":"little-endian"}"#;

fn fragment(fragment_type: &str, rest: &str) -> String {
    format!("\u{1e}{{\"type\":\"{fragment_type}\"{rest}")
}

fn alias(name: &str, class: &str) -> String {
    let rest = format!(r#","name":"{name}","field-class":{class}}}"#);
    fragment("field-class-alias", &rest)
}

fn structure(members: &str) -> String {
    format!(r#"{{"type":"structure","member-classes":[{members}"#)
}

/// Returns cases of hostile metadata in the JSON of CTF 2.
pub fn ctf2(size: usize) -> Vec<Hostile> {
    let start = format!("{PREAMBLE}{}", alias("u", U));
    let stream = fragment("data-stream-class", "}");
    let payload = fragment("event-record-class", r#","payload-field-class":"#);
    let fields = |before: &str| format!("{start}{before}{stream}{payload}{}", structure(""));
    const END: &str = r#"{"name":"end","field-class":"u"}]}}"#;
    let of_trace = |key: &str| format!("{start}{}", fragment("trace-class", key));
    let member = |class: &'static str| {
        move |n: usize| format!(r#"{{"name":"{}","field-class":{class}}},"#, name(n))
    };
    let labelled = |labels: &str| U.replace('}', &format!(r#","mappings":{{{labels}"#));
    let labels = names(2000, |name| format!(r#""{name}":[[1,1]],"#)) + r#""z":[[1,1]]}}"#;
    let u = r#"{"name":"a","field-class":"u"}"#;
    let one = structure(u) + "]}";
    let doubled = (1..26).fold(alias("s0", U), |text, level| {
        let members =
            ["a", "b"].map(|name| format!(r#"{{"name":"{name}","field-class":"s{}"}}"#, level - 1));
        text + &alias(&format!("s{level}"), &(structure(&members.join(",")) + "]}"))
    });
    let common = names(size / 128, |name| format!(r#"{{"name":"{name}","field-class":"u"}},"#));
    let common = format!(r#","event-record-common-context-field-class":{}"#, structure(&common));
    let common = fragment("data-stream-class", &(common + END));
    let long = structure(&u.replace('a', &"n".repeat(size / 32))) + "]}";
    vec![
        Hostile::new("json-numbers", of_trace(r#","attributes":["#), "0]}", |_| "0,".to_owned()),
        Hostile::new("json-strings", of_trace(r#","attributes":["#), "0]}", |_| {
            r#""\n","#.to_owned()
        }),
        Hostile::new("json-arrays", of_trace(r#","attributes":["#), "0]}", |_| "[],".to_owned()),
        Hostile::new("json-arrays-in-arrays", of_trace(r#","attributes":["#), "0]}", |_| {
            "[".repeat(99) + &"]".repeat(99) + ","
        }),
        Hostile::new("json-pairs", of_trace(r#","attributes":["#), "0]}", |_| "[0,0],".to_owned()),
        Hostile::new("json-objects", of_trace(r#","attributes":["#), "0]}", |_| {
            r#"{"":0},"#.to_owned()
        }),
        Hostile::new("json-properties", of_trace(r#","attributes":{"#), r#""z":0}}"#, |n| {
            format!(r#""{}":0,"#, name(n))
        }),
        Hostile::new("env", of_trace(r#","environment":{"#), r#""z":0}}"#, |n| {
            format!(r#""{}":0,"#, name(n))
        }),
        Hostile::new("fields", fields(""), END, member(r#""u""#)),
        Hostile::new("structures", fields(&alias("s", &one)), END, member(r#""s""#)),
        Hostile::new("labels-by-name", fields(&alias("e", &labelled(&labels))), END, {
            member(r#""e""#)
        }),
        Hostile::new(
            "labels",
            format!(r#"{}{{"name":"e","field-class":{}"#, fields(""), labelled("")),
            r#""z":[[1,1]]}}}]}}"#,
            |n| format!(r#""{}":[[1,1]],"#, name(n)),
        ),
        Hostile::new(
            "ranges",
            format!(r#"{}{{"name":"e","field-class":{}"#, fields(""), labelled(r#""a":["#)),
            "[1,1]]}}}]}}",
            |_| "[1,1],".to_owned(),
        ),
        Hostile::new(
            "options",
            format!(
                r#"{}{u},{{"name":"v","field-class":{{"type":"variant","selector-field-location":{{"path":["a"]}},"options":["#,
                fields("")
            ),
            r#"{"selector-field-ranges":[[-1,-1]],"field-class":"u"}]}}]}}"#,
            |n| format!(r#"{{"selector-field-ranges":[[{n},{n}]],"field-class":"u"}},"#),
        ),
        Hostile::new("lengths", format!("{}{u},", fields("")), END, {
            member(r#"{"type":"dynamic-length-blob","length-field-location":{"path":["a"]}}"#)
        }),
        Hostile::new("events", format!("{start}{stream}"), "", |n| {
            fragment("event-record-class", &format!(r#","id":{n}}}"#))
        }),
        Hostile::new("events-by-name", format!("{start}{}{stream}", alias("s", &one)), "", |n| {
            fragment("event-record-class", &format!(r#","id":{n},"payload-field-class":"s"}}"#))
        }),
        Hostile::new("common-fields", format!("{start}{common}"), "", |n| {
            fragment("event-record-class", &format!(r#","id":{n}}}"#))
        }),
        Hostile::new("streams", PREAMBLE, "", |n| {
            fragment("data-stream-class", &format!(r#","id":{n}}}"#))
        }),
        Hostile::new("clocks", PREAMBLE, "", |n| {
            fragment("clock-class", &format!(r#","id":"{}"}}"#, name(n)))
        }),
        Hostile::new("aliases", PREAMBLE, "", |n| alias(&name(n), r#"{"type":"structure"}"#)),
        Hostile::new("long-names", fields(&alias("l", &long)), END, member(r#""l""#)),
        Hostile::new("doubled", fields(&doubled), END, member(r#""s25""#)),
        Hostile::new("string", of_trace(r#","name":"\n"#), "\"}", |_| "x".repeat(1000)),
    ]
}

/// Returns metadata like that of LTTng's user-space tracer for programs with this number of
/// tracepoints.
pub fn many_tracepoints(count: usize) -> String {
    let int = "integer { size = 32; align = 8; signed = 1; encoding = none; base = 10; }";
    let mut text = format!(
        "{TRACE}clock {{ name = \"monotonic\"; freq = 1000000000; offset = 1; }};
         typealias integer {{ size = 64; align = 8; map = clock.monotonic.value; }} := time;
         stream {{
            id = 0;
            event.header := struct {{ u32 id; time timestamp; }};
            event.context := struct {{
                {int} _vpid;
                {int} _vtid;
                integer {{ size = 64; align = 8; base = 10; }} _perf_thread_cycles;
                integer {{ size = 64; align = 8; base = 10; }} _perf_thread_instructions;
                integer {{ size = 8; align = 8; encoding = UTF8; base = 10; }} _procname[17];
            }};
         }};\n"
    );
    for id in 0..count {
        let _ = write!(
            text,
            "event {{\n\tname = \"provider_{}:some_tracepoint_{id}\";\n\tid = {id};\n\
             \tstream_id = 0;\n\tloglevel = 13;\n\n\tfields := struct {{\n\
             \t\tinteger {{ size = 64; align = 8; signed = 0; encoding = none; base = 16; }} _object;\n\
             \t\t{int} _result;\n\
             \t\tstring _message;\n\
             \t\tinteger {{ size = 64; align = 8; signed = 0; encoding = none; base = 10; }} __text_length;\n\
             \t\tinteger {{ size = 8; align = 8; signed = 1; encoding = UTF8; base = 10; }} _text[ __text_length ];\n\
             \t\t{int} _number_{id};\n\
             \t\tenum : {int} {{\n\t\t\t\"RED\" = 0,\n\t\t\t\"GREEN\" = 1 ... 5,\n\t\t\t\"BLUE\",\n\t\t}} _color;\n\
             \t\tfloating_point {{ exp_dig = 8; mant_dig = 24; align = 8; }} _share;\n\
             \t}};\n}};\n\n",
            id % 50
        );
    }
    text
}
