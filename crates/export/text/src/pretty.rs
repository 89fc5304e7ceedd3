//! Events as `babeltrace2` prints them, byte for byte.
//!
//! What a line has in common with others is made once: the text before each field's value by
//! [`Leads`], the words between time and fields by event class, the packet's context by packet.
//! The delta to the event before is only known once the work of all threads is put in order, so
//! a [`Block`] leaves that of its first line open.

use crate::time::{TimeFormat, TimePrinter};
use crate::{number, severity};
use blkkin_ctf::decode::{Node, NodeKind, NodeLabels, Visitor};
use blkkin_ctf::schema::{Base, EnvValue, IntKind, Scope};
use blkkin_reader::{Consumer, Event, Loss, Stream, Trace};
use std::io::{self, Write};

/// What to print; the default is babeltrace2's.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of payload fields.
    pub names_payload: bool,
    /// Names of context fields.
    pub names_context: bool,
    /// Names of the parts before the fields.
    pub names_header: bool,
    /// Names of the scopes.
    pub names_scope: bool,
    /// The trace's name.
    pub trace: bool,
    /// The trace's host.
    pub hostname: bool,
    /// The trace's domain.
    pub domain: bool,
    /// The traced process' name.
    pub procname: bool,
    /// The traced process' id.
    pub vpid: bool,
    /// The event's level.
    pub loglevel: bool,
    /// The event's model URI.
    pub emf: bool,
    /// How to print times.
    pub time: TimeFormat,
    /// Times in UTC.
    pub utc: bool,
    /// The time since the line before.
    pub delta: bool,
    /// Terminal colours.
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

/// Escape sequences, all empty without colour.
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
    unknown: "\x1b[1m\x1b[91m",
    event_name: "\x1b[1m\x1b[95m",
    time: "\x1b[1m\x1b[93m",
    reset: "\x1b[0m",
};

/// Lines that follow each other.
#[derive(Debug, Default)]
pub struct Block {
    text: Vec<u8>,
    /// Where the first timed line's delta goes.
    delta_at: Option<usize>,
    /// Times of the first and last timed line, in nanoseconds or cycles.
    first: u64,
    last: u64,
    losses: Vec<u8>,
}

/// Writes blocks in order.
#[derive(Debug)]
pub struct BlockWriter {
    last: u64,
    cycles: bool,
}

/// No line before.
const UNKNOWN: u64 = u64::MAX;

impl BlockWriter {
    /// For blocks of printers with these options.
    pub fn new(options: &Options) -> BlockWriter {
        BlockWriter { last: UNKNOWN, cycles: options.time == TimeFormat::Cycles }
    }

    /// Writes a block's lines to `out` and its losses to `err`.
    pub fn write(
        &mut self,
        block: &Block,
        out: &mut impl Write,
        err: &mut impl Write,
    ) -> io::Result<()> {
        err.write_all(&block.losses)?;
        match block.delta_at {
            None => out.write_all(&block.text)?,
            Some(at) => {
                let mut delta = Vec::new();
                let since = match self.last {
                    UNKNOWN => UNKNOWN,
                    last => block.first.wrapping_sub(last),
                };
                print_delta(&mut delta, since, self.cycles);
                out.write_all(&block.text[..at])?;
                out.write_all(&delta)?;
                out.write_all(&block.text[at..])?;
            }
        }
        if block.last != UNKNOWN {
            self.last = block.last;
        }
        Ok(())
    }
}

fn print_delta(out: &mut Vec<u8>, since: u64, cycles: bool) {
    match (since, cycles) {
        (UNKNOWN, false) => out.extend_from_slice(b"+?.?????????"),
        (UNKNOWN, true) => out.extend_from_slice(b"+????????????"),
        (since, true) => out.extend_from_slice(format!("+{since:012}").as_bytes()),
        (since, false) => {
            out.push(b'+');
            number::unsigned(out, since / 1_000_000_000);
            out.push(b'.');
            number::nanoseconds(out, (since % 1_000_000_000) as u32);
        }
    }
}

/// Bytes after which a block is handed over.
const BLOCK_SIZE: usize = 256 << 10;

/// Prints events into [`Block`]s.
#[derive(Debug)]
pub struct Printer {
    options: Options,
    colors: Colors,
    time: TimePrinter,
    block: Block,
    started: bool,
    /// By trace id.
    traces: Vec<Option<TraceText>>,
    /// By stream number: number and text of the packet context that was last printed.
    packets: Vec<(u64, Vec<u8>)>,
}

/// What lines of a trace have in common.
#[derive(Debug)]
struct TraceText {
    leads: Leads,
    /// By stream class and event class: the words between time and fields.
    heads: Vec<Vec<Option<Vec<u8>>>>,
}

impl Printer {
    /// A printer for one thread.
    pub fn new(options: Options) -> Printer {
        let colors = if options.color { COLORS } else { Colors::default() };
        let time = TimePrinter::new(options.time, options.utc);
        let mut printer = Printer {
            options,
            colors,
            time,
            block: Block::default(),
            started: false,
            traces: Vec::new(),
            packets: Vec::new(),
        };
        printer.take();
        printer
    }

    #[inline]
    fn print_time(&mut self, ns: i64, cycles: u64) {
        let Options { names_header, delta, .. } = self.options;
        let colors = self.colors;
        let out = &mut self.block.text;
        if names_header {
            named(out, &colors, "timestamp");
        } else {
            out.push(b'[');
        }
        out.extend_from_slice(colors.time.as_bytes());
        self.time.print(out, ns, cycles);
        out.extend_from_slice(colors.reset.as_bytes());
        if !names_header {
            out.extend_from_slice(b"] ");
        }
        let now = if self.time.in_cycles() { cycles } else { ns as u64 };
        if delta {
            if names_header {
                out.extend_from_slice(b", ");
                named(out, &colors, "delta");
            } else {
                out.push(b'(');
            }
            if self.started {
                print_delta(out, now.wrapping_sub(self.block.last), self.time.in_cycles());
            } else {
                self.block.delta_at = Some(out.len());
            }
            if !names_header {
                out.extend_from_slice(b") ");
            }
        }
        if !self.started {
            self.started = true;
            self.block.first = now;
        }
        self.block.last = now;
    }

    /// The words between time and fields.
    fn head(options: &Options, colors: &Colors, event: &Event<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        let trace = &event.trace().schema().trace;
        // After a time with names, and only then, a comma is due.
        let comma = options.names_header && event.time().is_some();
        let mut part_printed = false;
        let mut part = |out: &mut Vec<u8>, name: &str, text: &str, colon: bool| {
            if comma {
                out.extend_from_slice(b", ");
            }
            if options.names_header {
                named(out, colors, name);
            } else if part_printed && colon {
                out.push(b':');
            }
            out.extend_from_slice(text.as_bytes());
            part_printed |= colon;
        };
        if options.trace {
            part(&mut out, "trace", &event.trace().name, false);
            if options.names_header {
                out.extend_from_slice(b", ");
            }
        }
        let env = |key| match trace.env(key) {
            Some(EnvValue::Str(text)) => Some(text.clone()),
            _ => None,
        };
        if let Some(text) = env("hostname").filter(|_| options.hostname) {
            part(&mut out, "trace:hostname", &text, true);
        }
        if let Some(text) = env("domain").filter(|_| options.domain) {
            part(&mut out, "trace:domain", &text, true);
        }
        if let Some(text) = env("procname").filter(|_| options.procname) {
            part(&mut out, "trace:procname", &text, true);
        }
        if let Some(EnvValue::Int(vpid)) = trace.env("vpid").filter(|_| options.vpid) {
            part(&mut out, "trace:vpid", &format!("({vpid})"), true);
        }
        let class = event.class();
        if let Some(name) = severity::trace_name(class.log_level).filter(|_| options.loglevel) {
            let level = class.log_level.unwrap_or(0);
            part(&mut out, "loglevel", &format!("{name} ({level})"), true);
        }
        if let Some(uri) = class.emf_uri.as_ref().filter(|_| options.emf) {
            part(&mut out, "model.emf.uri", uri, true);
        }
        if part_printed && !options.names_header {
            out.push(b' ');
        }
        if comma {
            out.extend_from_slice(b", ");
        }
        if options.names_header {
            named(&mut out, colors, "name");
        }
        let (color, name) = match &class.name {
            Some(name) => (colors.event_name, name.as_str()),
            None => (colors.unknown, "<unknown>"),
        };
        for text in [color, name, colors.reset, if options.names_header { ", " } else { ": " }] {
            out.extend_from_slice(text.as_bytes());
        }
        out
    }
}

fn named(out: &mut Vec<u8>, colors: &Colors, name: &str) {
    for text in [colors.name, name, colors.reset, " = "] {
        out.extend_from_slice(text.as_bytes());
    }
}

impl Consumer for Printer {
    type Output = Block;

    fn event(&mut self, event: &mut Event<'_>) {
        let start = self.block.text.len();
        let before = (self.started, self.block.last, self.block.delta_at, self.block.first);
        if let Some(ns) = event.time() {
            self.print_time(ns, event.cycles());
        }
        let trace = event.trace();
        if self.traces.len() <= trace.id {
            self.traces.resize_with(trace.id + 1, || None);
        }
        let text = self.traces[trace.id].get_or_insert_with(|| TraceText {
            leads: Leads::new(trace.decoder().nodes(), &self.colors),
            heads: trace.schema().streams.iter().map(|s| vec![None; s.events.len()]).collect(),
        });
        let head = &mut text.heads[event.stream().class][event.class_index()];
        let head = head.get_or_insert_with(|| Printer::head(&self.options, &self.colors, event));
        self.block.text.extend_from_slice(head);

        let number = event.stream_number();
        if self.packets.len() <= number {
            self.packets.resize_with(number + 1, Default::default);
        }
        let (packet, context) = &mut self.packets[number];
        if *packet != event.packet_number() {
            *packet = event.packet_number();
            context.clear();
            let mut fields = Fields::new(context, &text.leads, &self.options, &self.colors);
            event.visit_packet_context(&mut fields);
        }
        self.block.text.extend_from_slice(context);

        let mut fields =
            Fields::new(&mut self.block.text, &text.leads, &self.options, &self.colors);
        fields.first_scope = context.is_empty();
        if event.visit(&mut fields) {
            self.block.text.push(b'\n');
        } else {
            self.block.text.truncate(start);
            (self.started, self.block.last, self.block.delta_at, self.block.first) = before;
        }
    }

    fn loss(&mut self, trace: &Trace, stream: &Stream, loss: &Loss) {
        let (on, off) = match self.options.color {
            true => ("\x1b[33m", "\x1b[0m"),
            false => ("", ""),
        };
        let bold = if self.options.color { "\x1b[1m" } else { "" };
        let out = &mut self.block.losses;
        let what = match loss.count {
            Some(1) => format!("Tracer discarded 1 {}", loss.kind),
            Some(count) => format!("Tracer discarded {count} {}s", loss.kind),
            None => format!("Tracer may have discarded {}s", loss.kind),
        };
        let _ = write!(out, "{on}{bold}WARNING{off}{on}: {what} ");
        match (loss.from, loss.to) {
            (Some((from, _)), Some((to, _))) => {
                out.extend_from_slice(b"between [");
                self.time.print_wall(out, from);
                out.extend_from_slice(b"] and [");
                self.time.print_wall(out, to);
                out.extend_from_slice(b"]");
            }
            _ => out.extend_from_slice(b"(unknown time range)"),
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
    }

    fn is_full(&self) -> bool {
        self.block.text.len() >= BLOCK_SIZE
    }

    fn take(&mut self) -> Block {
        self.started = false;
        for (packet, _) in &mut self.packets {
            *packet = 0;
        }
        let next = Block {
            text: Vec::with_capacity(BLOCK_SIZE + (BLOCK_SIZE >> 3)),
            first: UNKNOWN,
            last: UNKNOWN,
            ..Block::default()
        };
        std::mem::replace(&mut self.block, next)
    }
}

/// The text before each field's value, made once for all fields of a trace.
#[derive(Debug)]
struct Leads {
    text: Vec<u8>,
    leads: Vec<Lead>,
}

#[derive(Clone, Copy, Debug)]
enum Lead {
    /// A structure's member: the separator, and then the name.
    Member { start: u32, separator: u8, length: u16 },
    /// An array's element: depends on its index.
    Element,
    /// The content of an optional or variant, or a scope.
    Content,
}

impl Leads {
    fn new(nodes: &[Node], colors: &Colors) -> Leads {
        let mut text = Vec::new();
        let lead = |node: &Node| {
            let Some(parent) = node.parent else { return Lead::Content };
            match nodes[parent as usize].kind {
                NodeKind::Struct => {}
                NodeKind::Array => return Lead::Element,
                _ => return Lead::Content,
            }
            let start = text.len() as u32;
            let separator = if node.first { " " } else { ", " };
            let name = node.name.as_deref().unwrap_or("");
            for part in [separator, colors.field_name, name, colors.reset, " = "] {
                text.extend_from_slice(part.as_bytes());
            }
            let length = text.len() - start as usize;
            match u16::try_from(length) {
                Ok(length) => Lead::Member { start, separator: separator.len() as u8, length },
                // Nobody names a field so; the name is cut rather than the width doubled.
                Err(_) => Lead::Member { start, separator: separator.len() as u8, length: 1 << 15 },
            }
        };
        let leads = nodes.iter().map(lead).collect();
        Leads { text, leads }
    }
}

/// Prints the fields of one event or packet context.
struct Fields<'f> {
    out: &'f mut Vec<u8>,
    start: usize,
    leads: &'f Leads,
    options: &'f Options,
    colors: &'f Colors,
    /// Whether the next scope is the first of the line.
    first_scope: bool,
    names: bool,
    /// Indexes of the next elements of the arrays around.
    indexes: Vec<u64>,
}

impl<'f> Fields<'f> {
    fn new(
        out: &'f mut Vec<u8>,
        leads: &'f Leads,
        options: &'f Options,
        colors: &'f Colors,
    ) -> Fields<'f> {
        let start = out.len();
        let indexes = Vec::new();
        Fields { start, out, leads, options, colors, first_scope: true, names: true, indexes }
    }

    #[inline]
    fn text(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    /// Prints what comes before a field's value.
    #[inline]
    fn lead(&mut self, node: &Node) {
        match self.leads.leads[node.id as usize] {
            Lead::Member { start, separator, length } => {
                let length = if self.names { usize::from(length) } else { separator.into() };
                let start = start as usize;
                self.out.extend_from_slice(&self.leads.text[start..start + length]);
            }
            Lead::Element => self.element(),
            Lead::Content => {}
        }
    }

    fn element(&mut self) {
        let Some(index) = self.indexes.last_mut() else { return };
        let current = *index;
        *index += 1;
        self.text(if current == 0 { " " } else { ", " });
        if self.names {
            self.out.push(b'[');
            number::unsigned(self.out, current);
            self.text("] = ");
        }
    }

    /// Prints an integer whose bits are `raw`, sign-extended.
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

    fn labelled<'l>(&mut self, labels: impl Iterator<Item = &'l str>) {
        self.text("( ");
        let mut none = true;
        for label in labels {
            if !none {
                self.text(", ");
            }
            none = false;
            self.text(self.colors.value);
            print_string(self.out, label.as_bytes());
            self.text(self.colors.reset);
        }
        if none {
            self.text(self.colors.unknown);
            self.text("<unknown>");
            self.text(self.colors.reset);
        }
        self.text(" : container = ");
    }

    #[inline]
    fn any_integer(&mut self, node: &Node, raw: u64, signed: bool) {
        self.lead(node);
        let value = if signed { i128::from(raw as i64) } else { i128::from(raw) };
        match &node.kind {
            NodeKind::Int { kind: IntKind::Bool, .. } => {
                self.text(self.colors.value);
                self.text(if raw == 0 { "false" } else { "true" });
                self.text(self.colors.reset);
            }
            NodeKind::Int { kind: IntKind::BitMap, labels: Some(labels), size, .. } => {
                self.labelled(labels.flags(raw));
                self.integer(raw, false, *size, Base::Hexadecimal);
                self.text(" )");
            }
            NodeKind::Int { kind: IntKind::BitArray | IntKind::BitMap, size, .. } => {
                self.integer(raw, false, *size, Base::Hexadecimal);
            }
            NodeKind::Int { size, base, labels, .. } => {
                self.maybe_labelled(labels.as_ref(), value, |fields| {
                    fields.integer(raw, signed, *size, *base);
                });
            }
            NodeKind::VarInt { base, labels, .. } => {
                self.maybe_labelled(labels.as_ref(), value, |fields| {
                    fields.integer(raw, signed, 64, *base);
                });
            }
            _ => {}
        }
    }

    #[inline]
    fn maybe_labelled(
        &mut self,
        labels: Option<&NodeLabels>,
        value: i128,
        integer: impl FnOnce(&mut Self),
    ) {
        match labels {
            None => integer(self),
            Some(labels) => {
                self.labelled(labels.of(value));
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
    }

    fn begin_scope(&mut self, scope: Scope, _: &Node) {
        if !self.first_scope {
            self.text(", ");
        }
        self.first_scope = false;
        if self.options.names_scope {
            named(self.out, self.colors, scope.tsdl_name());
        }
        self.names = match scope {
            Scope::Payload => self.options.names_payload,
            _ => self.options.names_context,
        };
        self.text("{");
    }

    fn end_scope(&mut self, _: Scope) {
        self.text(" }");
    }

    fn begin_struct(&mut self, node: &Node) {
        self.lead(node);
        self.text("{");
    }

    fn end_struct(&mut self, _: &Node) {
        self.text(" }");
    }

    fn begin_array(&mut self, node: &Node, _: u64) {
        self.lead(node);
        self.text("[");
        self.indexes.push(0);
    }

    fn end_array(&mut self, _: &Node) {
        self.indexes.pop();
        self.text(" ]");
    }

    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.lead(node);
        self.text(if present { "{ " } else { "<none>" });
        self.indexes.push(u64::from(present));
    }

    fn end_optional(&mut self, _: &Node) {
        if self.indexes.pop() == Some(1) {
            self.text(" }");
        }
    }

    fn begin_variant(&mut self, node: &Node, _: usize) {
        self.lead(node);
        self.text("{ ");
    }

    fn end_variant(&mut self, _: &Node) {
        self.text(" }");
    }

    #[inline]
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.any_integer(node, value, false);
    }

    #[inline]
    fn signed(&mut self, node: &Node, value: i64) {
        self.any_integer(node, value as u64, true);
    }

    fn float(&mut self, node: &Node, value: f64) {
        self.lead(node);
        self.text(self.colors.value);
        number::general(self.out, value);
        self.text(self.colors.reset);
    }

    #[inline]
    fn string(&mut self, node: &Node, value: &[u8]) {
        self.lead(node);
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
        self.lead(node);
        self.text(self.colors.value);
        self.text("0x");
        for byte in value {
            let _ = write!(self.out, "{byte:02X}");
        }
        self.text(self.colors.reset);
    }
}

/// Bytes that a printed string cannot hold as they are.
const ESCAPED: [bool; 256] = {
    let mut escaped = [false; 256];
    let mut byte = 0;
    while byte < 0x20 {
        escaped[byte] = true;
        byte += 1;
    }
    escaped[0x7f] = true;
    escaped[b'\\' as usize] = true;
    escaped[b'\'' as usize] = true;
    escaped[b'"' as usize] = true;
    escaped[b'?' as usize] = true;
    escaped
};

/// Prints a string in quotes, with C's escapes.
#[inline]
fn print_string(out: &mut Vec<u8>, value: &[u8]) {
    out.push(b'"');
    if value.iter().any(|&byte| ESCAPED[byte as usize]) {
        print_escaped(out, value);
    } else {
        out.extend_from_slice(value);
    }
    out.push(b'"');
}

#[cold]
fn print_escaped(out: &mut Vec<u8>, value: &[u8]) {
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
            _ if ESCAPED[byte as usize] => {
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
