//! Events as JSON, one object per line, each with its `type`.
//!
//! The first line, `begin`, names the traces; if traces are followed, each reopening repeats it.
//! Lines of type `event` and `loss` follow in order of time, and the last line, `end`, has the
//! totals. The text of each key is formatted once. Values are written straight into the buffer,
//! since a tree of values for each event would cost several times as much as the remaining work.
//! Integers are written in full, also beyond 2^53; numbers that JSON lacks are strings.

use crate::class;
use crate::number;
use crate::program::{AffixPrinter, Program};
use crate::quote::{self, EscapeRules};
use blkkin_ctf::decode::{Node, NodeKind, NodeLabels, Visitor};
use blkkin_ctf::schema::{EnvValue, IntKind, Scope};
use blkkin_reader::{Event, LinePrinter, Loss, Piece, Stats, Stream, Target, Text, Trace};
use std::io::Write;
use std::ops::Range;
use wide::u8x16;

/// Version of the schema of the lines; incremented by changes that may break consumers.
pub const SCHEMA: &str = "blkkin.view.v1";

/// Printer of events as JSON lines.
#[derive(Debug, Default)]
pub struct JsonPrinter {
    /// Text that the lines of each trace share, by trace id.
    traces: Vec<Option<TraceText>>,
    /// Text of each stream's last packet context, by stream number. Each text is stored with its
    /// trace id and packet number.
    packets: Vec<((usize, u64), Text)>,
}

/// Text that the lines of one trace share: keys, and text for each event class.
#[derive(Debug)]
struct TraceText {
    keys: Keys,
    /// Text of event classes, indexed by stream class and event class.
    classes: Vec<Vec<Option<ClassText>>>,
}

/// Text that the lines of one event class share.
#[derive(Debug)]
struct ClassText {
    /// Text after the stream's number, up to and including the event's name.
    head: Piece,
    program: Option<Program>,
}

impl LinePrinter for JsonPrinter {
    fn now(&self, _: &Event<'_>) -> Option<u64> {
        None
    }

    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>> {
        let trace = event.trace();
        let text = class::entry(&mut self.traces, trace.id).get_or_insert_with(|| TraceText {
            keys: Keys::new(trace.decoder().nodes()),
            classes: class::by_class(trace.schema()),
        });
        out.push_all(b"{\"type\":\"event\"");
        if let Some(time) = event.time() {
            out.push_all(b",\"time\":");
            number::signed(out, time);
            out.push_all(b",\"cycles\":");
            number::unsigned(out, event.cycles());
        }
        out.push_all(b",\"stream\":");
        number::unsigned(out, event.stream_number() as u64);
        let (stream_class, class) = (event.stream().class, event.class_index());
        let class = text.classes[stream_class][class]
            .get_or_insert_with(|| ClassText::new(event, &text.keys));
        out.push_piece(&class.head);

        let number = event.stream_number();
        let (packet, context) = class::entry(&mut self.packets, number);
        if *packet != (trace.id, event.packet_number()) {
            *packet = (trace.id, event.packet_number());
            context.clear();
            context.append(|context| {
                event.visit_packet_context(&mut Fields::new(context, &text.keys));
            });
        }
        out.extend_from_slice(context);
        let start = out.len();
        let whole = match &class.program {
            Some(program) => event.read_plain(|bytes| {
                out.truncate(start);
                program.print::<JsonEscapes>(out, bytes)
            }),
            None => event.visit(&mut Fields::new(out, &text.keys)),
        };
        if !whole {
            return None;
        }
        out.push_all(b"}\n");
        Some(0..0)
    }

    fn loss(&mut self, out: &mut Text, trace: &Trace, stream: &Stream, loss: &Loss) -> Target {
        let _ = write!(out, "{{\"type\":\"loss\",\"kind\":\"{}s\",\"count\":", loss.kind);
        match loss.count {
            Some(count) => number::unsigned(out, count),
            None => out.push_all(b"null"),
        }
        for (key, time) in [("from", loss.from), ("to", loss.to)] {
            if let Some((ns, _)) = time {
                let _ = write!(out, ",\"{key}\":{ns}");
            }
        }
        let _ = write!(out, ",\"trace\":{},\"stream_class\":{}", trace.id, stream.class_id);
        if let Some(id) = stream.instance {
            let _ = write!(out, ",\"stream_id\":{id}");
        }
        out.push_all(b",\"file\":");
        string(out, stream.name.as_bytes());
        out.push_all(b"}\n");
        Target::Output
    }

    fn put_delta(&self, _: &mut [u8], _: u64, _: Option<u64>) -> bool {
        true
    }

    fn delta(&self, _: &mut Text, _: u64, _: Option<u64>) {}
}

/// Returns a line of type `begin`, which describes the traces.
pub fn begin<'t>(traces: impl Iterator<Item = &'t Trace> + Clone) -> Text {
    Text::from_print(|out| print_begin(out, traces.clone()))
}

fn print_begin<'t>(out: &mut Text, traces: impl Iterator<Item = &'t Trace>) {
    let _ = write!(out, "{{\"type\":\"begin\",\"schema\":\"{SCHEMA}\",\"traces\":[");
    let mut stream_number = 0;
    list(out, traces, |out, trace| {
        let _ = write!(out, "{{\"trace\":{},\"path\":", trace.id);
        string(out, trace.path.display().to_string().as_bytes());
        out.push_all(b",\"name\":");
        string(out, trace.name.as_bytes());
        if let Some(uuid) = trace.schema().trace.uuid {
            let _ = write!(out, ",\"uuid\":\"{uuid}\"");
        }
        out.push_all(b",\"env\":{");
        list(out, &trace.schema().trace.env, |out, (key, value)| {
            string(out, key.as_bytes());
            out.push(b':');
            match value {
                EnvValue::Int(value) => number::signed(out, *value),
                EnvValue::Str(value) => string(out, value.as_bytes()),
            }
        });
        out.push_all(b"},\"streams\":[");
        list(out, &trace.streams, |out, stream| {
            let class = stream.class_id;
            let _ = write!(out, "{{\"stream\":{stream_number},\"stream_class\":{class}");
            if let Some(id) = stream.instance {
                let _ = write!(out, ",\"stream_id\":{id}");
            }
            out.push_all(b",\"file\":");
            string(out, stream.name.as_bytes());
            out.push(b'}');
            stream_number += 1;
        });
        out.push_all(b"]}");
    });
    out.push_all(b"]}\n");
}

/// Returns the last line, with the totals.
pub fn end(stats: &Stats) -> Text {
    Text::from_print(|out| print_end(out, stats))
}

fn print_end(out: &mut Text, stats: &Stats) {
    let Stats { events, events_lost, events_lost_unknown, .. } = stats;
    let Stats { packets_lost, packets_lost_unknown, .. } = stats;
    let _ = write!(
        out,
        "{{\"type\":\"end\",\"events\":{events},\"events_lost\":{events_lost},\
         \"events_lost_unknown\":{events_lost_unknown},\"packets_lost\":{packets_lost},\
         \"packets_lost_unknown\":{packets_lost_unknown},\"problems\":["
    );
    list(out, &stats.problems, |out, problem| {
        out.push_all(b"{\"file\":");
        string(out, problem.path.display().to_string().as_bytes());
        if let Some(offset) = problem.offset {
            let _ = write!(out, ",\"offset\":{offset}");
        }
        out.push_all(b",\"message\":");
        string(out, problem.to_string().as_bytes());
        if problem.is_warning() {
            out.push_all(b",\"warning\":true");
        }
        out.push(b'}');
    });
    out.push_all(b"]}\n");
}

impl ClassText {
    fn new(event: &Event<'_>, keys: &Keys) -> ClassText {
        let decoder = event.trace().decoder();
        let fields = decoder.plain_fields(event.stream().class, event.class_index());
        let program = fields.and_then(|fields| {
            Text::default()
                .append(|text| Program::new(fields, decoder.nodes(), &mut Fields::new(text, keys)))
                .flatten()
        });
        ClassText { head: Piece::new(&Text::from_print(|out| print_head(out, event))), program }
    }
}

fn print_head(out: &mut Text, event: &Event<'_>) {
    let _ = write!(out, ",\"trace\":{}", event.trace().id);
    let class = event.class();
    if let Some(level) = class.log_level {
        out.push_all(b",\"severity\":");
        match class::severity(Some(level)) {
            Some(severity) => string(out, severity.word().as_bytes()),
            None => number::signed(out, level),
        }
    }
    out.push_all(b",\"name\":");
    match &class.name {
        Some(name) => string(out, name.as_bytes()),
        None => out.push_all(b"null"),
    }
}

/// Comma and key before the value of each structure member, by node id; empty for other fields.
#[derive(Debug)]
struct Keys(Vec<Piece>);

impl Keys {
    fn new(nodes: &[Node]) -> Keys {
        let key = |node: &Node| {
            let in_struct = node
                .parent
                .is_some_and(|parent| matches!(nodes[parent as usize].kind, NodeKind::Struct));
            let Some(name) = node.name.as_deref().filter(|_| in_struct) else {
                return Piece::default();
            };
            Piece::new(&Text::from_print(|text| {
                if !node.first {
                    text.push(b',');
                }
                string(text, name.as_bytes());
                text.push(b':');
            }))
        };
        Keys(nodes.iter().map(key).collect())
    }
}

/// Visitor that prints the fields of an event or packet context.
struct Fields<'f> {
    out: &'f mut Text,
    keys: &'f Keys,
    start: usize,
    /// For each enclosing array, optional or variant, outermost first: true if it already has an
    /// element.
    arrays: Vec<bool>,
}

impl<'f> Fields<'f> {
    fn new(out: &'f mut Text, keys: &'f Keys) -> Fields<'f> {
        Fields { start: out.len(), out, keys, arrays: Vec::new() }
    }

    #[inline]
    fn key(&mut self, node: &Node) {
        let key = &self.keys.0[node.id as usize];
        if key.is_empty() {
            self.element();
        } else {
            self.out.push_piece(key);
        }
    }

    fn element(&mut self) {
        if let Some(has_element) = self.arrays.last_mut()
            && std::mem::replace(has_element, true)
        {
            self.out.push(b',');
        }
    }

    #[inline]
    fn integer(&mut self, node: &Node, raw: u64, signed: bool) {
        self.key(node);
        let value = if signed { i128::from(raw as i64) } else { i128::from(raw) };
        match &node.kind {
            NodeKind::Int { kind: IntKind::Bool, .. } => {
                self.out.extend_from_slice(if raw == 0 { b"false" } else { b"true" });
            }
            NodeKind::Int { kind: IntKind::BitMap, labels: Some(labels), .. } => {
                self.push_labels(raw, signed, labels.flags(raw));
            }
            NodeKind::Int { labels: Some(labels), .. }
            | NodeKind::VarInt { labels: Some(labels), .. } => {
                self.push_labels(raw, signed, NodeLabels::of(labels, value));
            }
            _ => self.number(raw, signed),
        }
    }

    #[inline]
    fn number(&mut self, raw: u64, signed: bool) {
        match signed {
            true => number::signed(self.out, raw as i64),
            false => number::unsigned(self.out, raw),
        }
    }

    fn quote_if_string(&mut self, node: &Node) {
        if matches!(node.kind, NodeKind::String(_)) {
            self.out.push(b'"');
        }
    }

    fn push_labels<'l>(&mut self, raw: u64, signed: bool, labels: impl Iterator<Item = &'l str>) {
        self.out.push_all(b"{\"value\":");
        self.number(raw, signed);
        self.out.push_all(b",\"labels\":[");
        list(self.out, labels, |out, label| string(out, label.as_bytes()));
        self.out.push_all(b"]}");
    }
}

impl Visitor for Fields<'_> {
    fn restart(&mut self) {
        self.out.truncate(self.start);
        self.arrays.clear();
    }

    fn begin_scope(&mut self, scope: Scope, _: &Node) {
        let key: &[u8] = match scope {
            Scope::PacketContext => b",\"packet\":{",
            Scope::CommonContext => b",\"context\":{",
            Scope::SpecificContext => b",\"event_context\":{",
            _ => b",\"fields\":{",
        };
        self.out.extend_from_slice(key);
    }

    fn end_scope(&mut self, _: Scope) {
        self.out.push(b'}');
    }

    fn begin_struct(&mut self, node: &Node) {
        self.key(node);
        self.out.push(b'{');
    }

    fn end_struct(&mut self, _: &Node) {
        self.out.push(b'}');
    }

    fn begin_array(&mut self, node: &Node, _: u64) {
        self.key(node);
        self.out.push(b'[');
        self.arrays.push(false);
    }

    fn end_array(&mut self, _: &Node) {
        self.arrays.pop();
        self.out.push(b']');
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.key(node);
        if !present {
            self.out.push_all(b"null");
        }
        self.arrays.push(false);
    }

    fn end_optional(&mut self, _: &Node) {
        self.arrays.pop();
    }

    fn begin_variant(&mut self, node: &Node, _: usize) {
        self.key(node);
        self.arrays.push(false);
    }

    fn end_variant(&mut self, _: &Node) {
        self.arrays.pop();
    }

    #[inline]
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.integer(node, value, false);
    }

    #[inline]
    fn signed(&mut self, node: &Node, value: i64) {
        self.integer(node, value as u64, true);
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.key(node);
        let _ = match value {
            value if value.is_nan() => self.out.write_all(b"\"NaN\""),
            f64::INFINITY => self.out.write_all(b"\"Infinity\""),
            f64::NEG_INFINITY => self.out.write_all(b"\"-Infinity\""),
            value => write!(self.out, "{value:?}"),
        };
    }

    fn string(&mut self, node: &Node, value: &[u8]) {
        self.key(node);
        match &node.kind {
            NodeKind::String(encoding) if encoding.unit_size() > 1 => {
                string(self.out, encoding.decode(value).as_bytes());
            }
            _ => string(self.out, value),
        }
    }

    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.key(node);
        self.out.push(b'"');
        for byte in value {
            let _ = write!(self.out, "{byte:02x}");
        }
        self.out.push(b'"');
    }
}

impl AffixPrinter for Fields<'_> {
    fn prefix(&mut self, node: &Node) {
        self.key(node);
        self.quote_if_string(node);
    }

    fn suffix(&mut self, node: &Node) {
        self.quote_if_string(node);
    }

    fn output(&self) -> &[u8] {
        self.out
    }
}

/// Appends items, separated by commas.
fn list<T>(
    out: &mut Text,
    items: impl IntoIterator<Item = T>,
    mut print: impl FnMut(&mut Text, T),
) {
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        print(out, item);
    }
}

/// Appends a string in quotes, with JSON's escapes.
fn string(out: &mut Text, value: &[u8]) {
    out.push(b'"');
    quote::append::<JsonEscapes>(out, value);
    out.push(b'"');
}

struct JsonEscapes;

impl EscapeRules for JsonEscapes {
    /// Returns a mask of quotes, backslashes and control characters. Bytes beyond ASCII are also in
    /// the mask, because they may be invalid UTF-8.
    #[inline(always)]
    fn special(bytes: u8x16) -> u8x16 {
        let is = |byte| bytes.simd_eq(u8x16::splat(byte));
        let beyond_ascii = bytes.max(u8x16::splat(0x80)).simd_eq(bytes);
        quote::control(bytes) | is(b'"') | is(b'\\') | beyond_ascii
    }

    fn append_escaped(out: &mut Text, value: &[u8]) {
        escaped(out, value);
    }
}

fn escaped(out: &mut Text, value: &[u8]) {
    for chunk in value.utf8_chunks() {
        for &byte in chunk.valid().as_bytes() {
            match byte {
                b'"' => out.push_all(b"\\\""),
                b'\\' => out.push_all(b"\\\\"),
                b'\n' => out.push_all(b"\\n"),
                b'\r' => out.push_all(b"\\r"),
                b'\t' => out.push_all(b"\\t"),
                0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
                _ => out.push(byte),
            }
        }
        if !chunk.invalid().is_empty() {
            out.extend_from_slice("\u{fffd}".as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
        let check = |value: &[u8], expected: &str| {
            let out = Text::from_print(|out| string(out, value));
            assert_eq!(std::str::from_utf8(&out).unwrap(), expected);
        };
        check(b"plain", r#""plain""#);
        check(b"a\"b\\c\n\x01", r#""a\"b\\c\n\u0001""#);
        check("é\u{1f600}".as_bytes(), "\"é\u{1f600}\"");
        check(b"\xffx", "\"\u{fffd}x\"");
    }
}
