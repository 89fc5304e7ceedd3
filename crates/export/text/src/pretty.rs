//! Events as `babeltrace2` prints them, byte for byte.
//!
//! Text that lines share is formatted once: `Styles` has the text before each field's value, and
//! `LineText` the text between time and fields, for each event class and packet. Nearly all event
//! classes have only decimal integers and strings; a compiled `Program` prints their fields.

use crate::class;
use crate::number;
use crate::program::{AffixPrinter, Program};
use crate::quote::{self, EscapeRules};
use crate::time::{TIME_SIZE, TimeFormat, TimePrinter};
use blkkin_ctf::decode::{Node, NodeKind, NodeLabels, Visitor};
use blkkin_ctf::schema::{Base, EnvValue, IntKind, Scope};
use blkkin_reader::{Event, LinePrinter, Loss, Piece, Stream, Target, Text, Trace};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use wide::u8x16;

/// Parts of a line that are printed, and their format; the defaults are those of babeltrace2.
#[derive(Clone, Debug)]
pub struct Options {
    /// Set to print the names of payload fields.
    pub names_payload: bool,
    /// Set to print the names of context fields.
    pub names_context: bool,
    /// Set to print the names of the parts before the fields, such as the time.
    pub names_header: bool,
    /// Set to print the names of the scopes.
    pub names_scope: bool,
    /// Set to print the trace's name.
    pub trace: bool,
    /// Set to print the host that the trace was recorded on.
    pub hostname: bool,
    /// Set to print the trace's domain, such as `ust` or `kernel`.
    pub domain: bool,
    /// Set to print the name of the traced process.
    pub procname: bool,
    /// Set to print the id of the traced process.
    pub vpid: bool,
    /// Set to print the log level of each event.
    pub loglevel: bool,
    /// Set to print the model URI of each event.
    pub emf: bool,
    /// Format in which times are printed.
    pub time: TimeFormat,
    /// Set to print times in UTC instead of the local time zone.
    pub utc: bool,
    /// Set to print the time since the previous line.
    pub delta: bool,
    /// Set to use terminal colours.
    pub color: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            names_payload: true,
            names_context: true,
            names_header: false,
            names_scope: false,
            trace: false,
            hostname: true,
            domain: false,
            procname: true,
            vpid: true,
            loglevel: false,
            emf: false,
            time: TimeFormat::default(),
            utc: false,
            delta: true,
            color: false,
        }
    }
}

/// Terminal escape sequences, all empty without colour.
#[derive(Clone, Copy, Debug, Default)]
struct Colors {
    name: &'static str,
    field_name: &'static str,
    value: &'static str,
    unknown: &'static str,
    event_name: &'static str,
    time: &'static str,
    reset: &'static str,
}

const COLORS: Colors = Colors {
    name: "\x1b[1m",
    field_name: "\x1b[36m",
    value: "\x1b[1m",
    unknown: "\x1b[1m\x1b[1m\x1b[31m",
    event_name: "\x1b[1m\x1b[1m\x1b[35m",
    time: "\x1b[1m\x1b[1m\x1b[33m",
    reset: "\x1b[0m",
};

/// Printer of events as lines of text.
#[derive(Debug)]
pub struct Printer {
    options: Options,
    colors: Colors,
    time: TimePrinter,
    /// Set if lines have the default start: time and delta without names and colour.
    has_default_start: bool,
    /// Text that the lines of each trace share, by trace id.
    traces: Vec<Option<TraceText>>,
    /// Text that the lines of each stream share, by stream number.
    streams: Vec<StreamText>,
}

/// Text that the lines of one trace share: styles, and text for each event class.
#[derive(Debug)]
struct TraceText {
    styles: Styles,
    /// Text of event classes, indexed by stream class and event class.
    classes: Vec<Vec<Option<ClassText>>>,
}

/// Text that the lines of one event class share.
#[derive(Debug)]
struct ClassText {
    /// Text between time and fields, without the parts that depend on the packet.
    head: Text,
    program: Option<Arc<Program>>,
    /// Set if the compiled program prints fields, which need a comma after a packet context.
    comma_before_fields: bool,
}

/// Text that a stream's lines share within one packet.
#[derive(Debug, Default)]
struct StreamText {
    /// Trace id of the packet. Packet numbers are unique only within a stream, and a stream of
    /// another trace may get this stream's number while traces are followed.
    trace: usize,
    packet: u64,
    packet_context: Text,
    /// Line texts, by event class. Most streams alternate between several classes.
    lines: Vec<LineText>,
    /// Number of bytes added to `lines` since it was last cleared. The text that is added directly
    /// after the clearing does not count.
    lines_size: usize,
}

/// Maximum of [`StreamText::lines_size`], in bytes; a larger sum clears the line texts. Packet
/// contexts may have megabytes, and a stream thousands of event classes.
const LINES_SIZE_MAX: usize = 256 << 10;

/// Text between time and fields, for one stream, packet and event class.
#[derive(Debug, Default)]
struct LineText {
    /// Trace and packet for which the text is valid; `None` if there is no text yet.
    valid_for: Option<(usize, u64)>,
    text: Piece,
    program: Option<Arc<Program>>,
}

impl ClassText {
    fn new(event: &Event<'_>, styles: &Styles, options: &Options, colors: &Colors) -> ClassText {
        let decoder = event.trace().decoder();
        let fields = decoder.plain_fields(event.stream().class, event.class_index());
        let program = fields.and_then(|fields| {
            Text::default()
                .append(|text| {
                    let mut words = Fields::new(text, styles, options, colors);
                    Program::new(fields, decoder.nodes(), &mut words)
                })
                .flatten()
        });
        ClassText {
            head: Text::from_print(|out| Printer::head(out, options, colors, event)),
            comma_before_fields: program.is_some() && fields.is_some_and(|f| !f.is_empty()),
            program: program.map(Arc::new),
        }
    }
}

impl Printer {
    /// Creates a printer for a single thread.
    pub fn new(options: Options) -> Printer {
        let colors = if options.color { COLORS } else { Colors::default() };
        let time = TimePrinter::new(options.time, options.utc);
        let has_default_start = options.delta && !options.names_header && !options.color;
        let (traces, streams) = (Vec::new(), Vec::new());
        Printer { options, colors, time, has_default_start, traces, streams }
    }

    /// Formats the text that lines of the event's class and stream share within its packet.
    #[inline(never)]
    fn prepare_line(&mut self, number: usize, event: &mut Event<'_>) {
        let trace = event.trace();
        let trace_text =
            class::entry(&mut self.traces, trace.id).get_or_insert_with(|| TraceText {
                styles: Styles::new(trace.decoder().nodes(), &self.options, &self.colors),
                classes: class::by_class(trace.schema()),
            });
        let stream = class::entry(&mut self.streams, number);
        let styles = &trace_text.styles;
        let packet = (trace.id, event.packet_number());
        if (stream.trace, stream.packet) != packet {
            (stream.trace, stream.packet) = packet;
            let context = &mut stream.packet_context;
            context.clear();
            context.append(|context| {
                let mut fields = Fields::new(context, styles, &self.options, &self.colors);
                event.visit_packet_context(&mut fields);
            });
        }
        let number = event.class_index();
        let class = trace_text.classes[event.stream().class][number]
            .get_or_insert_with(|| ClassText::new(event, styles, &self.options, &self.colors));
        stream.lines_size += class.head.len() + stream.packet_context.len();
        if stream.lines_size > LINES_SIZE_MAX {
            stream.lines.clear();
            stream.lines_size = 0;
        }
        let line = class::entry(&mut stream.lines, number);
        line.valid_for = Some(packet);
        line.program = class.program.clone();
        let has_comma = class.comma_before_fields && !stream.packet_context.is_empty();
        let comma: &[u8] = if has_comma { b", " } else { b"" };
        line.text.set([&class.head[..], &stream.packet_context, comma]);
    }

    #[inline(never)]
    fn put_long_delta(&self, place: &mut [u8], since: Option<u64>) -> bool {
        if place.is_empty() {
            return true;
        }
        let text = long_delta(since, self.time.in_cycles());
        let fits = text.len() == place.len();
        if fits {
            place.copy_from_slice(text.as_bytes());
        }
        fits
    }

    /// Prints the time and, if the options select the delta, a placeholder for it. Returns the
    /// range of the placeholder in the line; empty without a delta.
    #[inline]
    fn print_time(&mut self, out: &mut Text, ns: i64, cycles: u64) -> Range<u16> {
        let Options { names_header, delta, .. } = self.options;
        if self.has_default_start {
            const WORDS: &[u8; DELTA_SIZE + 5] = b"] (+0.000000000) ";
            let mut time_end = 0;
            out.push_with(|place: &mut [u8; 1 + TIME_SIZE + WORDS.len()]| {
                place[0] = b'[';
                time_end = self.time.put(place, 1, ns, cycles);
                place[time_end..time_end + WORDS.len()].copy_from_slice(WORDS);
                time_end + WORDS.len()
            });
            let delta = time_end as u16 + 3;
            return delta..delta + DELTA_SIZE as u16;
        }
        let start = out.len();
        let colors = self.colors;
        if names_header {
            push_name(out, &colors, "timestamp");
        } else {
            out.push(b'[');
        }
        out.extend_from_slice(colors.time.as_bytes());
        self.time.print(out, ns, cycles);
        out.extend_from_slice(colors.reset.as_bytes());
        if !names_header {
            out.push_all(b"] ");
        }
        if !delta {
            return 0..0;
        }
        if names_header {
            out.push_all(b", ");
            push_name(out, &colors, "delta");
        } else {
            out.push(b'(');
        }
        // The range is relative to the line's start, which equals the time's start.
        let delta_start = (out.len() - start) as u16;
        out.push_all(b"+0.000000000");
        let delta = delta_start..(out.len() - start) as u16;
        if !names_header {
            out.push_all(b") ");
        }
        delta
    }

    /// Prints the text between time and packet context: the selected parts and the event's name.
    fn head(out: &mut Text, options: &Options, colors: &Colors, event: &Event<'_>) {
        let trace = &event.trace().schema().trace;
        // A comma follows only a time with names.
        let comma = options.names_header && event.time().is_some();
        let mut has_part = false;
        let mut part = |out: &mut Text, name: &str, text: &str, colon: bool| {
            if comma {
                out.push_all(b", ");
            }
            if options.names_header {
                push_name(out, colors, name);
            } else if has_part && colon {
                out.push(b':');
            }
            out.extend_from_slice(text.as_bytes());
            has_part |= colon;
        };
        if options.trace {
            part(out, "trace", &event.trace().name, false);
            if options.names_header {
                out.push_all(b", ");
            }
        }
        for (key, is_wanted) in [
            ("hostname", options.hostname),
            ("domain", options.domain),
            ("procname", options.procname),
        ] {
            if let Some(text) = trace.env_str(key).filter(|_| is_wanted) {
                part(out, &format!("trace:{key}"), text, true);
            }
        }
        if let Some(EnvValue::Int(vpid)) = trace.env("vpid").filter(|_| options.vpid) {
            part(out, "trace:vpid", &format!("({vpid})"), true);
        }
        let class = event.class();
        let level = class::severity(class.log_level);
        if let Some(level) = level.filter(|_| options.loglevel) {
            let text = format!("{} ({})", level.name(), level.number());
            part(out, "loglevel", &text, true);
        }
        if let Some(uri) = class.emf_uri.as_ref().filter(|_| options.emf) {
            part(out, "model.emf.uri", uri, true);
        }
        if has_part && !options.names_header {
            out.push(b' ');
        }
        if comma {
            out.push_all(b", ");
        }
        if options.names_header {
            push_name(out, colors, "name");
        }
        let (color, name) = match &class.name {
            Some(name) => (colors.event_name, name.as_str()),
            None => (colors.unknown, "<unknown>"),
        };
        for text in [color, name, colors.reset, if options.names_header { ", " } else { ": " }] {
            out.extend_from_slice(text.as_bytes());
        }
    }
}

fn push_name(out: &mut Text, colors: &Colors, name: &str) {
    for text in [colors.name, name, colors.reset, " = "] {
        out.extend_from_slice(text.as_bytes());
    }
}

/// Length of a delta below a second, in bytes: sign, digit, point, nanoseconds.
const DELTA_SIZE: usize = 12;

/// Formats a delta of any form: unknown, in cycles, or in seconds with nanoseconds.
fn long_delta(since: Option<u64>, in_cycles: bool) -> String {
    match since {
        None if in_cycles => "+????????????".to_owned(),
        None => "+?.?????????".to_owned(),
        Some(since) if in_cycles => format!("+{since:012}"),
        Some(since) => format!("+{}.{:09}", since / NS, since % NS),
    }
}

const NS: u64 = 1_000_000_000;

impl LinePrinter for Printer {
    #[inline]
    fn now(&self, event: &Event<'_>) -> Option<u64> {
        let ns = event.time()?;
        Some(if self.time.in_cycles() { event.cycles() } else { ns as u64 })
    }

    fn event(&mut self, out: &mut Text, event: &mut Event<'_>) -> Option<Range<u16>> {
        let delta = match event.time() {
            Some(ns) => self.print_time(out, ns, event.cycles()),
            None => 0..0,
        };
        let (number, class) = (event.stream_number(), event.class_index());
        let packet = Some((event.trace().id, event.packet_number()));
        let is_prepared = |stream: &StreamText| {
            stream.lines.get(class).is_some_and(|line| line.valid_for == packet)
        };
        if !self.streams.get(number).is_some_and(is_prepared) {
            self.prepare_line(number, event);
        }
        let stream = &self.streams[number];
        let line = &stream.lines[class];
        out.push_piece(&line.text);
        let start = out.len();
        let whole = match &line.program {
            Some(program) => event.read_plain(|bytes| {
                out.truncate(start);
                program.print::<CEscapes>(out, bytes)
            }),
            None => {
                let Some(Some(trace)) = self.traces.get(event.trace().id) else { return None };
                let styles = &trace.styles;
                let mut fields = Fields::new(out, styles, &self.options, &self.colors);
                fields.has_scope_before = !stream.packet_context.is_empty();
                event.visit(&mut fields)
            }
        };
        if !whole {
            return None;
        }
        out.push(b'\n');
        Some(delta)
    }

    fn loss(&mut self, out: &mut Text, trace: &Trace, stream: &Stream, loss: &Loss) -> Target {
        let (on, off) = match self.options.color {
            true => ("\x1b[33m", "\x1b[0m"),
            false => ("", ""),
        };
        let bold = if self.options.color { "\x1b[1m" } else { "" };
        let what = match loss.count {
            Some(1) => format!("Tracer discarded 1 {}", loss.kind),
            Some(count) => format!("Tracer discarded {count} {}s", loss.kind),
            None => format!("Tracer may have discarded {}s", loss.kind),
        };
        let _ = write!(out, "{on}{bold}WARNING{off}{on}: {what} ");
        match (loss.from, loss.to) {
            (Some((from, _)), Some((to, _))) => {
                out.push_all(b"between [");
                self.time.print_wall(out, from);
                out.push_all(b"] and [");
                self.time.print_wall(out, to);
                out.push_all(b"]");
            }
            _ => out.push_all(b"(unknown time range)"),
        }
        let uuid = match trace.schema().trace.uuid {
            Some(uuid) => format!("UUID: {uuid}"),
            None => "no UUID".to_owned(),
        };
        let id = match stream.instance {
            Some(id) => format!("stream ID: {id}"),
            None => "no stream ID".to_owned(),
        };
        let _ = writeln!(
            out,
            " in trace \"{}\" ({uuid}) within stream \"{}\" (stream class ID: {}, {id}).{off}",
            trace.name, stream.name, stream.class_id
        );
        Target::Messages
    }

    #[inline]
    fn put_delta(&self, place: &mut [u8], now: u64, last: Option<u64>) -> bool {
        let since = last.map(|last| now.wrapping_sub(last));
        match (since, <&mut [u8; DELTA_SIZE]>::try_from(&mut *place)) {
            (Some(since), Ok(place)) if since < NS && !self.time.in_cycles() => {
                place[..3].copy_from_slice(b"+0.");
                number::put_nanoseconds(place, 3, since as u32);
                true
            }
            _ => self.put_long_delta(place, since),
        }
    }

    fn delta(&self, out: &mut Text, now: u64, last: Option<u64>) {
        let since = last.map(|last| now.wrapping_sub(last));
        out.extend_from_slice(long_delta(since, self.time.in_cycles()).as_bytes());
    }
}

/// Text before each field's value, by the node id of the field.
#[derive(Debug)]
struct Styles(Vec<Style>);

#[derive(Debug)]
enum Style {
    /// Member of a structure, with the separator and name that precede its value.
    Member(Piece),
    /// Element of an array. The text before it depends on its index.
    Element { with_index: bool },
    /// Content of an optional or variant, or a scope.
    Content,
}

impl Styles {
    fn new(nodes: &[Node], options: &Options, colors: &Colors) -> Styles {
        let style = |node: &Node| {
            let with_names = match node.scope {
                Scope::Payload => options.names_payload,
                _ => options.names_context,
            };
            match node.parent.map(|parent| &nodes[parent as usize].kind) {
                Some(NodeKind::Struct) => Style::member(node, with_names, colors),
                Some(NodeKind::Array) => Style::Element { with_index: with_names },
                _ => Style::Content,
            }
        };
        Styles(nodes.iter().map(style).collect())
    }
}

impl Style {
    fn member(node: &Node, with_name: bool, colors: &Colors) -> Style {
        let mut text = if node.first { " " } else { ", " }.to_owned();
        if with_name {
            let name = node.name.as_deref().unwrap_or("");
            text.extend([colors.field_name, name, colors.reset, " = "]);
        }
        Style::Member(Piece::new(text.as_bytes()))
    }
}

/// Visitor that prints the fields of an event or packet context.
struct Fields<'f> {
    out: &'f mut Text,
    start: usize,
    styles: &'f Styles,
    options: &'f Options,
    colors: &'f Colors,
    /// Set if a scope of the line was printed before this visit, so that a comma is needed.
    has_scope_before: bool,
    /// True before the first scope of this visit is printed.
    first_scope: bool,
    /// Indexes of the next elements of the enclosing arrays; for an optional, 1 if it is present,
    /// else 0.
    indexes: Vec<u64>,
}

impl<'f> Fields<'f> {
    fn new(
        out: &'f mut Text,
        styles: &'f Styles,
        options: &'f Options,
        colors: &'f Colors,
    ) -> Fields<'f> {
        let start = out.len();
        let indexes = Vec::new();
        Fields {
            start,
            out,
            styles,
            options,
            colors,
            has_scope_before: false,
            first_scope: true,
            indexes,
        }
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Prints the text before a field's value.
    #[inline]
    fn push_prefix(&mut self, node: &Node) {
        match &self.styles.0[node.id as usize] {
            Style::Member(text) => self.out.push_piece(text),
            Style::Element { with_index } => self.element(*with_index),
            Style::Content => {}
        }
    }

    fn element(&mut self, with_names: bool) {
        let Some(index) = self.indexes.last_mut() else { return };
        let current = *index;
        *index += 1;
        self.text(if current == 0 { " " } else { ", " });
        if with_names {
            self.out.push(b'[');
            number::unsigned(self.out, current);
            self.text("] = ");
        }
    }

    /// Prints an integer, given its bits `raw`, which are sign-extended if it is signed.
    #[inline]
    fn integer(&mut self, raw: u64, signed: bool, size: u32, base: Base) {
        self.text(self.colors.value);
        match base {
            Base::Decimal if signed => number::signed(self.out, raw as i64),
            Base::Decimal => number::unsigned(self.out, raw),
            Base::Hexadecimal => {
                self.text("0x");
                let digits = size.next_multiple_of(4);
                number::hexadecimal(self.out, low_bits(raw, digits));
            }
            Base::Octal => {
                self.out.push(b'0');
                let digits = if signed { size.next_multiple_of(3) } else { 64 };
                number::octal(self.out, low_bits(raw, digits));
            }
            Base::Binary => {
                self.text("0b");
                for bit in (0..size).rev() {
                    self.out.push(b'0' + (raw >> bit & 1) as u8);
                }
            }
        }
        self.text(self.colors.reset);
    }

    fn quote_if_string(&mut self, node: &Node) {
        if matches!(node.kind, NodeKind::String(_)) {
            self.out.push(b'"');
        }
    }

    /// Prints the labels of the bits that are set.
    fn flags<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        let mut before = " { ";
        for label in labels {
            self.text(before);
            before = ", ";
            self.text(self.colors.value);
            print_string(self.out, label.as_bytes());
            self.text(self.colors.reset);
        }
        if before == ", " {
            self.text(" }");
        }
    }

    fn push_labels<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        self.text("( ");
        let mut is_empty = true;
        for label in labels {
            if !is_empty {
                self.text(", ");
            }
            is_empty = false;
            self.text(self.colors.value);
            print_string(self.out, label.as_bytes());
            self.text(self.colors.reset);
        }
        if is_empty {
            self.text(self.colors.unknown);
            self.text("<unknown>");
            self.text(self.colors.reset);
        }
        self.text(" : container = ");
    }

    fn integer_field(&mut self, node: &Node, raw: u64, signed: bool) {
        self.push_prefix(node);
        let value = if signed { i128::from(raw as i64) } else { i128::from(raw) };
        match &node.kind {
            NodeKind::Int { kind: IntKind::Bool, .. } => {
                self.text(self.colors.value);
                self.text(if raw == 0 { "false" } else { "true" });
                self.text(self.colors.reset);
            }
            NodeKind::Int { kind: IntKind::BitMap, labels: Some(labels), size, .. } => {
                self.integer(raw, false, *size, Base::Hexadecimal);
                self.flags(labels.flags(raw));
            }
            NodeKind::Int { kind: IntKind::BitArray | IntKind::BitMap, size, .. } => {
                self.integer(raw, false, *size, Base::Hexadecimal);
            }
            NodeKind::Int { size, base, labels, .. } => {
                self.with_labels(labels.as_ref(), value, |fields| {
                    fields.integer(raw, signed, *size, *base);
                });
            }
            NodeKind::VarInt { base, labels, .. } => {
                self.with_labels(labels.as_ref(), value, |fields| {
                    fields.integer(raw, signed, 64, *base);
                });
            }
            _ => {}
        }
    }

    #[inline]
    fn with_labels(
        &mut self,
        labels: Option<&NodeLabels>,
        value: i128,
        integer: impl FnOnce(&mut Self),
    ) {
        match labels {
            None => integer(self),
            Some(labels) => {
                self.push_labels(labels.of(value));
                integer(self);
                self.text(" )");
            }
        }
    }
}

fn low_bits(value: u64, count: u32) -> u64 {
    if count >= 64 { value } else { value & ((1 << count) - 1) }
}

impl Visitor for Fields<'_> {
    fn restart(&mut self) {
        self.out.truncate(self.start);
        self.indexes.clear();
        self.first_scope = true;
    }

    #[inline]
    fn begin_scope(&mut self, scope: Scope, _: &Node) {
        if self.has_scope_before || !self.first_scope {
            self.out.push_all(b", ");
        }
        self.first_scope = false;
        if self.options.names_scope {
            push_name(self.out, self.colors, scope.tsdl_name());
        }
        self.out.push(b'{');
    }

    #[inline]
    fn end_scope(&mut self, _: Scope) {
        self.out.push_all(b" }");
    }

    fn begin_struct(&mut self, node: &Node) {
        self.push_prefix(node);
        self.text("{");
    }

    fn end_struct(&mut self, _: &Node) {
        self.text(" }");
    }

    fn begin_array(&mut self, node: &Node, _: u64) {
        self.push_prefix(node);
        self.text("[");
        self.indexes.push(0);
    }

    fn end_array(&mut self, _: &Node) {
        self.indexes.pop();
        self.text(" ]");
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.push_prefix(node);
        self.text(if present { "{ " } else { "<none>" });
        self.indexes.push(u64::from(present));
    }

    fn end_optional(&mut self, _: &Node) {
        if self.indexes.pop() == Some(1) {
            self.text(" }");
        }
    }

    fn begin_variant(&mut self, node: &Node, _: usize) {
        self.push_prefix(node);
        self.text("{ ");
    }

    fn end_variant(&mut self, _: &Node) {
        self.text(" }");
    }

    fn unsigned(&mut self, node: &Node, value: u64) {
        self.integer_field(node, value, false);
    }

    fn signed(&mut self, node: &Node, value: i64) {
        self.integer_field(node, value as u64, true);
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.push_prefix(node);
        self.text(self.colors.value);
        number::general(self.out, value);
        self.text(self.colors.reset);
    }

    fn string(&mut self, node: &Node, value: &[u8]) {
        self.push_prefix(node);
        self.text(self.colors.value);
        match &node.kind {
            NodeKind::String(encoding) if encoding.unit_size() > 1 => {
                print_string(self.out, encoding.decode(value).as_bytes());
            }
            _ => print_string(self.out, value),
        }
        self.text(self.colors.reset);
    }

    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.push_prefix(node);
        self.text(self.colors.value);
        self.text("{");
        for byte in value {
            let _ = write!(self.out, " {byte:02x}");
        }
        self.text(" }");
        self.text(self.colors.reset);
    }
}

impl AffixPrinter for Fields<'_> {
    fn prefix(&mut self, node: &Node) {
        self.push_prefix(node);
        self.text(self.colors.value);
        self.quote_if_string(node);
    }

    fn suffix(&mut self, node: &Node) {
        self.quote_if_string(node);
        self.text(self.colors.reset);
    }

    fn output(&self) -> &[u8] {
        self.out
    }
}

/// Prints a string in quotes, with escapes as in C.
fn print_string(out: &mut Text, value: &[u8]) {
    out.push(b'"');
    quote::append::<CEscapes>(out, value);
    out.push(b'"');
}

/// Escape rules of babeltrace2: those of C, and `\e` for ESC.
struct CEscapes;

impl EscapeRules for CEscapes {
    #[inline(always)]
    fn special(bytes: u8x16) -> u8x16 {
        let is = |byte| bytes.simd_eq(u8x16::splat(byte));
        let quotes = is(b'"') | is(b'\'') | is(b'\\') | is(b'?');
        quote::control(bytes) | quotes | is(0x7f)
    }

    fn append_escaped(out: &mut Text, value: &[u8]) {
        print_escaped(out, value);
    }
}

fn print_escaped(out: &mut Text, value: &[u8]) {
    for &byte in value {
        let letter = match byte {
            b'\\' | b'\'' | b'"' | b'?' => byte,
            0x00 => b'0',
            0x07 => b'a',
            0x08 => b'b',
            0x1b => b'e',
            0x0c => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            0x0b => b'v',
            0..0x20 | 0x7f => {
                let _ = write!(out, "\\x{byte:02x}");
                continue;
            }
            _ => {
                out.push(byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', letter]);
    }
}
