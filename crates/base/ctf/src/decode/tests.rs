//! Tests of decoding: fields of each class from hand-written bytes, on and off byte boundaries; the
//! rules of packets and clocks; skipping of events; and random and invalid bytes.

mod fields;
mod hostile;
mod packets;
mod skip;

use super::*;
use crate::metadata;
use crate::schema::Scope;
use std::fmt::Write;
use std::sync::Arc;

/// A visitor that records visits as text, except the start and end of the payload's scope.
#[derive(Default)]
struct Recorder(String);

impl Recorder {
    fn say(&mut self, node: &Node, value: impl std::fmt::Display) {
        if !self.0.is_empty() && !self.0.ends_with([' ', '{', '[', '(', '<']) {
            self.0.push(' ');
        }
        match &node.name {
            Some(name) => write!(self.0, "{name}={value}"),
            None => write!(self.0, "{value}"),
        }
        .expect("a string takes all");
    }
}

impl Visitor for Recorder {
    fn restart(&mut self) {
        self.0.clear();
    }
    fn begin_scope(&mut self, scope: Scope, node: &Node) {
        // The payload's scope is not recorded, because most tests have no other scope.
        if scope != Scope::Payload {
            self.say(node, format_args!("{}{{", scope.ctf2_name()));
        }
    }
    fn end_scope(&mut self, scope: Scope) {
        if scope != Scope::Payload {
            self.0.push('}');
        }
    }
    fn begin_struct(&mut self, node: &Node) {
        self.say(node, "{");
    }
    fn end_struct(&mut self, _: &Node) {
        self.0.push('}');
    }
    fn begin_array(&mut self, node: &Node, length: u64) {
        self.say(node, format_args!("{length}["));
    }
    fn end_array(&mut self, _: &Node) {
        self.0.push(']');
    }
    fn begin_optional(&mut self, node: &Node, present: bool) {
        self.say(node, if present { "(" } else { "none(" });
    }
    fn end_optional(&mut self, _: &Node) {
        self.0.push(')');
    }
    fn begin_variant(&mut self, node: &Node, option: usize) {
        self.say(node, format_args!("{option}<"));
    }
    fn end_variant(&mut self, _: &Node) {
        self.0.push('>');
    }
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.say(node, value);
    }
    fn signed(&mut self, node: &Node, value: i64) {
        self.say(node, format_args!("{value:+}"));
    }
    fn float(&mut self, node: &Node, value: f64) {
        self.say(node, value);
    }
    fn string(&mut self, node: &Node, value: &[u8]) {
        self.say(node, format_args!("\"{}\"", value.escape_ascii()));
    }
    fn blob(&mut self, node: &Node, value: &[u8]) {
        self.say(node, format_args!("{value:02x?}"));
    }
}

fn decoder(metadata: &str) -> Decoder {
    let schema =
        metadata::parse(metadata.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{metadata}"));
    Decoder::new(Arc::new(schema)).unwrap_or_else(|error| panic!("{error}\n{metadata}"))
}

/// Converts hexadecimal digits, with spaces, to bytes.
fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("hexadecimal digits")
    };
    digits.chunks(2).map(byte).collect()
}

/// Decodes the event at `position` and returns its text and end, or the reason for the failure.
fn event(
    decoder: &Decoder,
    view: View<'_>,
    position: u64,
    machine: &mut Machine,
) -> Result<(String, u64), Stop> {
    let mut recorder = Recorder::default();
    let mut end = position;
    let class = decoder.event_header(0, view, &mut end, machine)?;
    let clock = machine.clock;
    let mut skipped_end = end;
    let body = end;
    decoder.event_body(0, class, view, &mut end, machine, &mut recorder)?;
    // A visitor that ignores values must reach the same end.
    machine.clock = clock;
    let skipped = decoder.event_body(0, class, view, &mut skipped_end, machine, &mut NullVisitor);
    assert_eq!((skipped, skipped_end), (Ok(()), end), "from {body} without values");
    Ok((recorder.0, end))
}
