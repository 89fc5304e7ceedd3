//! Fuzzes the packet decoder. The decoder survives any packet, and its result is the same if it
//! receives only a part of the packet first.
//!
//! The first byte selects a schema and the second the size of the part; the rest is the packet.
#![no_main]

use blkkin_ctf::decode::{Decoder, Machine, Node, NullVisitor, Stop, View, Visitor};
use blkkin_ctf::metadata;
use blkkin_ctf::schema::Scope;
use libfuzzer_sys::fuzz_target;
use std::sync::{Arc, LazyLock};

/// Schemas that together have all field classes, all scopes, and all forms of event headers.
const SCHEMAS: [&str; 4] = [LARGE_HEADER, COMPACT_HEADER, BARE, CTF2];

const LARGE_HEADER: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
typealias integer { size = 8; align = 8; encoding = UTF8; } := utf8;
trace { major = 1; minor = 8; byte_order = le; packet.header := struct { u32 magic; u8 stream_id; u8 stream_instance_id; }; };
clock { name = c; };
typealias integer { size = 32; align = 8; map = clock.c.value; } := t32;
typealias integer { size = 64; align = 8; map = clock.c.value; } := t64;
stream { id = 0;
  packet.context := struct { t64 timestamp_begin; t64 timestamp_end; u16 content_size; u16 packet_size; u8 events_discarded; u8 n; };
  event.header := struct { enum : u16 { compact = 0 ... 65534, extended = 65535 } id;
    variant <id> { struct { t32 timestamp; } compact; struct { u32 id; t64 timestamp; } extended; } v; } align(8);
  event.context := struct { u8 s; utf8 who[stream.packet.context.n]; };
};
event { name = a; id = 0; stream_id = 0; context := struct { u8 x; }; fields := struct {
  u8 n; u32 a[n]; string s; utf8 t[4]; utf8 d[n]; struct { u8 m; u8 b[m]; } list[n]; u8 last[stream.event.context.s]; }; };
event { name = b; id = 1; stream_id = 0; fields := struct {
  enum : u8 { p, q = 2 ... 5, r } tag; variant <tag> { u8 p; string q; struct { u16 x; u8 y[2]; } r; } v; }; };
event { name = c; id = 2; stream_id = 0; fields := struct { u64 n; struct { } nothing[n]; u64 m; u64 many[m]; }; };
event { name = d; id = 3; stream_id = 0; };
"#;

const COMPACT_HEADER: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = le; };
clock { name = c; };
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 27; align = 1; map = clock.c.value; } := t27;
typealias integer { size = 64; align = 8; map = clock.c.value; } := t64;
stream {
  event.header := struct { enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
    variant <id> { struct { t27 timestamp; } compact; struct { u32 id; t64 timestamp; } extended; } v; } align(8);
};
event { name = a; id = 0; fields := struct {
  integer { size = 3; align = 1; } a; integer { size = 13; align = 1; signed = true; } b; integer { size = 64; align = 1; } c;
  integer { size = 16; align = 8; byte_order = be; } d; integer { size = 9; align = 1; byte_order = be; } e;
  string f; floating_point { exp_dig = 8; mant_dig = 24; align = 8; } g; }; };
event { name = b; id = 1; fields := struct { u8 a; integer { size = 32; align = 32; } b; floating_point { exp_dig = 11; mant_dig = 53; align = 1; } c; }; };
event { name = c; id = 30; fields := struct { string a; string b; u32 c; string d; }; };
"#;

const BARE: &str = r#"/* CTF 1.8 */
trace { major = 1; minor = 8; byte_order = be; };
stream { };
event { name = only; fields := struct {
  integer { size = 5; align = 1; } n; integer { size = 3; align = 1; } a[n];
  enum : integer { size = 2; align = 1; signed = true; } { x = -2 ... -1, y } t;
  variant <t> { integer { size = 7; align = 1; } x; struct { string s; } y; } v; }; };
"#;

const CTF2: &str = concat!(
    "\x1e",
    r#"{ "type": "preamble", "version": 2 }"#,
    "\x1e",
    r#"{ "type": "clock-class", "id": "c", "frequency": 1000, "origin": "unix-epoch" }"#,
    "\x1e",
    r#"{ "type": "field-class-alias", "name": "n", "field-class": { "type": "variable-length-unsigned-integer" } }"#,
    "\x1e",
    r#"{ "type": "data-stream-class", "default-clock-class-id": "c",
      "packet-context-field-class": { "type": "structure", "member-classes": [
        { "name": "content", "field-class": { "type": "variable-length-unsigned-integer", "roles": ["packet-content-length"] } },
        { "name": "total", "field-class": { "type": "variable-length-unsigned-integer", "roles": ["packet-total-length"] } } ] },
      "event-record-header-field-class": { "type": "structure", "member-classes": [
        { "name": "id", "field-class": { "type": "fixed-length-unsigned-integer", "length": 4, "byte-order": "little-endian", "roles": ["event-record-class-id"] } },
        { "name": "time", "field-class": { "type": "fixed-length-unsigned-integer", "length": 12, "byte-order": "little-endian", "roles": ["default-clock-timestamp"] } } ] } }"#,
    "\x1e",
    r#"{ "type": "event-record-class", "id": 0, "payload-field-class": { "type": "structure", "member-classes": [
        { "name": "n", "field-class": "n" },
        { "name": "s", "field-class": { "type": "variable-length-signed-integer", "mappings": { "minus": [[-5, -1]] } } },
        { "name": "o", "field-class": { "type": "optional", "selector-field-location": { "path": ["s"] }, "selector-field-ranges": [[-5, -1]], "field-class": "n" } },
        { "name": "v", "field-class": { "type": "variant", "selector-field-location": { "path": ["n"] }, "options": [
          { "selector-field-ranges": [[0, 3]], "field-class": { "type": "null-terminated-string", "encoding": "utf-16le" } },
          { "selector-field-ranges": [[4, 99]], "field-class": { "type": "dynamic-length-blob", "length-field-location": { "path": ["n"] } } } ] } } ] } }"#,
    "\x1e",
    r#"{ "type": "event-record-class", "id": 1, "payload-field-class": { "type": "structure", "member-classes": [
        { "name": "b", "field-class": { "type": "fixed-length-boolean", "length": 1, "byte-order": "little-endian" } },
        { "name": "o", "field-class": { "type": "optional", "selector-field-location": { "path": ["b"] }, "field-class": { "type": "static-length-blob", "length": 3 } } },
        { "name": "m", "field-class": { "type": "fixed-length-bit-map", "length": 12, "byte-order": "big-endian", "flags": { "x": [[0, 3]] } } },
        { "name": "r", "field-class": { "type": "fixed-length-bit-array", "length": 9, "byte-order": "little-endian", "bit-order": "last-to-first" } },
        { "name": "h", "field-class": { "type": "fixed-length-floating-point-number", "length": 16, "alignment": 8, "byte-order": "little-endian" } } ] } }"#,
    "\x1e",
    r#"{ "type": "event-record-class", "id": 2, "payload-field-class": { "type": "structure", "member-classes": [
        { "name": "n", "field-class": "n" },
        { "name": "t", "field-class": { "type": "dynamic-length-string", "length-field-location": { "path": ["n"] }, "encoding": "utf-32be" } },
        { "name": "s", "field-class": { "type": "static-length-string", "length": 5 } },
        { "name": "a", "field-class": { "type": "dynamic-length-array", "length-field-location": { "path": ["n"] }, "minimum-alignment": 16,
          "element-field-class": { "type": "static-length-array", "length": 2, "element-field-class": "n" } } } ] } }"#,
);

static DECODERS: LazyLock<Vec<Decoder>> = LazyLock::new(|| {
    let decoder = |text: &&str| {
        let schema = metadata::parse(text.as_bytes()).expect("sound metadata");
        Decoder::new(Arc::new(schema)).expect("a schema that can be decoded")
    };
    SCHEMAS.iter().map(decoder).collect()
});

/// Maximum number of events that are decoded from one packet.
const EVENTS_MAX: usize = 64;

fuzz_target!(|input: &[u8]| {
    let [which, cut, packet @ ..] = input else { return };
    let decoder = &DECODERS[usize::from(*which) % SCHEMAS.len()];
    let cut = usize::from(*cut).min(packet.len());
    let mut machine = decoder.machine();
    let header = decoder.packet(View::whole(packet), &mut machine);
    let short = decoder.packet(View::whole(&packet[..cut]), &mut decoder.machine());
    assert!(short == Err(Stop::Incomplete) || short == header, "{short:?}, {header:?}");
    let Ok(header) = header else { return };

    let mut context = Digest::default();
    let walked =
        decoder.packet_context(header.stream, View::whole(packet), &mut machine, &mut context);
    assert_eq!(walked, Ok(()), "the packet context, which was read before");
    let end = header.content_bits.unwrap_or(u64::MAX);
    let mut position = header.first_event;
    for _ in 0..EVENTS_MAX {
        let view = View::new(packet, 0, end);
        if position >= view.end_bits() {
            break;
        }
        let before = machine.clone();
        let whole = event(decoder, header.stream, view, position, &mut machine);
        // A view of the first part: the decoder requests more bytes, or returns the same.
        if cut as u64 * 8 >= position {
            let view = View::new(&packet[..cut], 0, end);
            let part = event(decoder, header.stream, view, position, &mut before.clone());
            assert!(part == Err(Stop::Incomplete) || part == whole, "{part:?}, {whole:?}");
        }
        // A view that starts at the event.
        let base = position / 8;
        let view = View::new(&packet[base as usize..], base, end.saturating_sub(base * 8));
        let rest = event(decoder, header.stream, view, position % 8, &mut before.clone());
        let rest = rest.map(|seen| DecodedEvent { end: seen.end + base * 8, ..seen });
        assert_eq!(rest, whole);
        match whole {
            Ok(seen) => position = seen.end,
            Err(_) => break,
        }
    }
});

/// A decoded event, for the comparison of two decodings.
#[derive(Debug, PartialEq, Eq)]
struct DecodedEvent {
    class: u32,
    clock: u64,
    fields: Digest,
    end: u64,
}

fn event(
    decoder: &Decoder,
    stream: usize,
    view: View<'_>,
    position: u64,
    machine: &mut Machine,
) -> Result<DecodedEvent, Stop> {
    let mut end = position;
    let class = decoder.event_header(stream, view, &mut end, machine)?;
    let mut skipped_end = end;
    let mut fields = Digest::default();
    let mut skipping = machine.clone();
    decoder.event_body(stream, class, view, &mut end, machine, &mut fields)?;
    let skipped =
        decoder.event_body(stream, class, view, &mut skipped_end, &mut skipping, &mut NullVisitor);
    assert_eq!((skipped, skipped_end), (Ok(()), end), "without values");
    Ok(DecodedEvent { class, clock: machine.clock, fields, end })
}

/// Visitor that hashes all values.
#[derive(Debug, Default, PartialEq, Eq)]
struct Digest {
    sum: u64,
    depth: i64,
}

impl Digest {
    fn add(&mut self, node: &Node, value: u64) {
        self.sum = self.sum.rotate_left(5).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.sum ^= value ^ u64::from(node.id) << 40;
    }

    fn begin(&mut self, node: &Node, value: u64) {
        self.depth += 1;
        self.add(node, value);
    }

    fn end(&mut self) {
        self.depth -= 1;
        assert!(self.depth >= 0, "more ends than begins");
    }

    fn bytes(&mut self, node: &Node, value: &[u8]) {
        self.add(node, value.len() as u64);
        for &byte in value {
            self.add(node, byte.into());
        }
    }
}

impl Visitor for Digest {
    fn restart(&mut self) {
        *self = Digest::default();
    }
    fn begin_scope(&mut self, scope: Scope, node: &Node) {
        self.begin(node, scope as u64);
    }
    fn end_scope(&mut self, _: Scope) {
        self.end();
    }
    fn begin_struct(&mut self, node: &Node) {
        self.begin(node, 0);
    }
    fn end_struct(&mut self, _: &Node) {
        self.end();
    }
    fn begin_array(&mut self, node: &Node, length: u64) {
        self.begin(node, length);
    }
    fn end_array(&mut self, _: &Node) {
        self.end();
    }
    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.begin(node, present.into());
    }
    fn end_optional(&mut self, _: &Node) {
        self.end();
    }
    fn begin_variant(&mut self, node: &Node, option: usize) {
        self.begin(node, option as u64);
    }
    fn end_variant(&mut self, _: &Node) {
        self.end();
    }
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.add(node, value);
    }
    fn signed(&mut self, node: &Node, value: i64) {
        self.add(node, value as u64);
    }
    fn float(&mut self, node: &Node, value: f64) {
        self.add(node, value.to_bits());
    }
    fn string(&mut self, node: &Node, value: &[u8]) {
        self.bytes(node, value);
    }
    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.bytes(node, value);
    }
}
