//! A channel with rings and their readers. `blkkin-ctf` decodes the channel's packets, with
//! metadata generated from the registry's types.
#![allow(dead_code, reason = "each test uses a part")]

use blkkin_ctf::decode::{Decoder, Node, View, Visitor};
use blkkin_ctf::metadata;
use blkkin_ctf::schema::Scope;
use blkkin_ring::{Cells, Clock, HEADER_SIZE, Reader, Shape, TakeOutcome, Writer, packet};
use blkkin_sys::SharedMemory;
use blkkin_trace::registry::{self, EventRule, Levels};
use blkkin_trace::{EventType, Kind, Level, channels};
use std::fmt::{Display, Write};
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Lock by which tests run one at a time, because the tracer's state belongs to the process.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Channel {
    pub(crate) number: usize,
    cells: Cells,
    shape: Shape,
    readers: Vec<Reader>,
}

/// An event as the CTF decoder reads it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct DecodedEvent {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) time: u64,
    /// Names and values of the payload's fields.
    pub(crate) fields: Vec<(String, String)>,
}

impl DecodedEvent {
    pub(crate) fn field(&self, name: &str) -> &str {
        let found = self.fields.iter().find(|(other, _)| other == name);
        found.map_or_else(|| panic!("no {name} in {self:?}"), |(_, value)| value)
    }

    pub(crate) fn number(&self, name: &str) -> u64 {
        self.field(name).parse::<i128>().unwrap() as u64
    }

    /// Returns the values of the named fields.
    pub(crate) fn fields<const N: usize>(&self, names: [&str; N]) -> [&str; N] {
        names.map(|name| self.field(name))
    }
}

impl Channel {
    pub(crate) fn new(number: usize) -> Channel {
        Channel::with(number, 8192, Channel::clock())
    }

    pub(crate) fn with(number: usize, subbuffer_size: usize, clock: Clock) -> Channel {
        let (shape, cells, writer) = Channel::rings(subbuffer_size, clock);
        channels::attach(number, writer).unwrap();
        let readers = (0..shape.rings).map(|ring| Reader::new(&shape, ring, clock)).collect();
        Channel { number, cells, shape, readers }
    }

    fn rings(subbuffer_size: usize, clock: Clock) -> (Shape, Cells, Box<Writer>) {
        let shape = Shape { rings: 65, subbuffer_size, ..Shape::default() };
        let (file, cells) = Cells::create(c"test", &shape).unwrap();
        let theirs = Cells::new(SharedMemory::map(file.as_fd()).unwrap());
        (shape, cells, Box::new(Writer::new(theirs, clock).unwrap()))
    }

    /// Returns the writer of other rings, which are attached to no channel.
    pub(crate) fn unattached(subbuffer_size: usize) -> Box<Writer> {
        Channel::rings(subbuffer_size, Channel::clock()).2
    }

    /// Returns a channel that records all events whose names match the pattern `names`.
    pub(crate) fn wanting(names: &str) -> Channel {
        let channel = Channel::with(0, 1 << 16, Channel::clock());
        registry::set_rules(0, &[all(names)]);
        channel
    }

    fn clock() -> Clock {
        if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic }
    }

    /// Consumes the packets recorded so far.
    fn packets(&mut self) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for reader in &mut self.readers {
            let mut bytes = Vec::new();
            while let TakeOutcome::Packet(_) =
                reader.take(&self.cells, &self.shape, true, &mut bytes)
            {
                packets.push(std::mem::take(&mut bytes));
            }
        }
        packets
    }

    /// Consumes the events recorded so far. Returns their types, and the bytes of their fields.
    pub(crate) fn take(&mut self) -> Vec<(&'static EventType, Vec<u8>)> {
        let mut events = Vec::new();
        for bytes in self.packets() {
            let mut rest = &bytes[packet::SIZE..];
            while let [first, second, ..] = *rest {
                let id = u16::from_le_bytes([first, second]);
                let event = registry::type_of(id).unwrap();
                let size = event.fields().fold(HEADER_SIZE, |at, (_, kind)| match kind {
                    Kind::String => at + rest[at..].iter().position(|byte| *byte == 0).unwrap() + 1,
                    Kind::Sequence(of) => {
                        let count = u32::from_le_bytes(*rest[at..].first_chunk().unwrap());
                        at + 4 + of.bytes() * count as usize
                    }
                    kind => at + kind.size().unwrap(),
                });
                events.push((event, rest[HEADER_SIZE..size].to_vec()));
                rest = &rest[size..];
            }
        }
        events
    }

    pub(crate) fn names(&mut self) -> Vec<&'static str> {
        self.take().iter().map(|(event, _)| event.name()).collect()
    }

    /// Consumes the events recorded so far, and returns them decoded, in order of time.
    pub(crate) fn decoded(&mut self) -> Vec<DecodedEvent> {
        let types: Vec<_> = registry::types().collect();
        let text = metadata_of(&types);
        let schema =
            metadata::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let decoder = Decoder::new(Arc::new(schema)).unwrap();
        let mut found = Vec::new();
        for bytes in self.packets() {
            let view = View::new(&bytes, 0, u64::MAX);
            let mut machine = decoder.machine();
            let packet = decoder.packet(view, &mut machine).unwrap();
            let (mut at, end) = (packet.first_event, packet.content_bits.unwrap());
            while at < end {
                let class =
                    decoder.event_header(packet.stream, view, &mut at, &mut machine).unwrap();
                let mut fields = Fields::default();
                let stream = packet.stream;
                decoder
                    .event_body(stream, class, view, &mut at, &mut machine, &mut fields)
                    .unwrap();
                let event = types[class as usize];
                let (name, level) = (event.name(), event.level());
                found.push(DecodedEvent { name, level, time: machine.clock, fields: fields.0 });
            }
        }
        found.sort_by_key(|event| event.time);
        found
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        registry::set_rules(self.number, &[]);
        assert!(channels::detach(self.number, Duration::from_secs(10)).unwrap().is_some());
    }
}

pub(crate) fn rule(names: &str, except: &[&str], levels: Levels) -> EventRule {
    let excluded = except.iter().map(|&names| names.to_owned()).collect();
    EventRule { excluded, levels, ..EventRule::for_names([names]) }
}

pub(crate) fn all(names: &str) -> EventRule {
    EventRule::for_names([names])
}

/// Visitor that collects names and values of payload fields.
#[derive(Default)]
struct Fields(Vec<(String, String)>);

impl Fields {
    fn note(&mut self, node: &Node, value: impl Display) {
        self.0.push((node.name.as_deref().unwrap_or_default().to_owned(), value.to_string()));
    }
}

impl Visitor for Fields {
    fn restart(&mut self) {
        self.0.clear();
    }
    fn begin_scope(&mut self, scope: Scope, _: &Node) {
        assert_eq!(scope, Scope::Payload);
    }
    fn unsigned(&mut self, node: &Node, value: u64) {
        self.note(node, value);
    }
    fn signed(&mut self, node: &Node, value: i64) {
        self.note(node, value);
    }
    fn float(&mut self, node: &Node, value: f64) {
        self.note(node, value);
    }
    fn string(&mut self, node: &Node, value: &[u8]) {
        self.note(node, std::str::from_utf8(value).unwrap());
    }
}

/// Returns TSDL metadata that describes these event types.
fn metadata_of(types: &[&EventType]) -> String {
    let mut text = String::from(
        "/* CTF 1.8 */
        typealias integer { size = 8; align = 8; signed = false; } := u8;
        typealias integer { size = 16; align = 8; signed = false; } := u16;
        typealias integer { size = 32; align = 8; signed = false; } := u32;
        typealias integer { size = 64; align = 8; signed = false; } := u64;
        typealias integer { size = 8; align = 8; signed = true; } := i8;
        typealias integer { size = 16; align = 8; signed = true; } := i16;
        typealias integer { size = 32; align = 8; signed = true; } := i32;
        typealias integer { size = 64; align = 8; signed = true; } := i64;
        typealias floating_point { exp_dig = 8; mant_dig = 24; align = 8; } := f32;
        typealias floating_point { exp_dig = 11; mant_dig = 53; align = 8; } := f64;
        trace {
            major = 1; minor = 8; byte_order = le;
            uuid = \"00000000-0000-0000-0000-000000000000\";
            packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; };
        };
        clock { name = ticks; freq = 1000000000; };
        typealias integer { size = 64; align = 8; signed = false; map = clock.ticks.value; } := time;
        stream {
            id = 0;
            packet.context := struct {
                time timestamp_begin; time timestamp_end; u64 content_size; u64 packet_size;
                u64 packet_seq_num; u64 events_discarded; u32 cpu_id;
            };
            event.header := struct { u16 id; time timestamp; };
        };\n",
    );
    for (id, event) in types.iter().enumerate() {
        let level = event.level().number();
        let name = event.name();
        write!(text, "event {{ name = \"{name}\"; id = {id}; stream_id = 0; loglevel = {level};")
            .unwrap();
        text.push_str(" fields := struct {");
        for (name, kind) in event.fields() {
            let kind = match kind {
                Kind::Bool => "u8".to_owned(),
                Kind::String => "string".to_owned(),
                kind => format!("{kind:?}").to_lowercase(),
            };
            write!(text, " {kind} _{name};").unwrap();
        }
        text.push_str(" }; };\n");
    }
    text
}
