//! Decoder of a recorder's packets, for tests.

use blkkin_control::{EventType, FieldKind, Scalar};
use blkkin_kernel::Recorder;
use blkkin_ring::{TakeOutcome, packet};
use std::collections::BTreeMap;

/// Decoded event.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) time: u64,
    pub(crate) name: String,
    pub(crate) pid: u32,
    pub(crate) fields: BTreeMap<String, Value>,
}

/// Value of a field.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Number(i64),
    Text(String),
    Bytes(Vec<u8>),
}

impl Event {
    /// Returns a field that is an integer.
    pub(crate) fn number(&self, name: &str) -> i64 {
        let Some(Value::Number(number)) = self.fields.get(name) else { panic!("{self:?}: {name}") };
        *number
    }

    /// Returns a field that is a text.
    pub(crate) fn text(&self, name: &str) -> &str {
        let Some(Value::Text(text)) = self.fields.get(name) else { panic!("{self:?}: {name}") };
        text
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (first, rest) = bytes.split_first_chunk::<N>().expect("more bytes");
    *bytes = rest;
    *first
}

/// Returns the bytes of an array.
fn elements(of: Scalar, count: usize, bytes: &mut &[u8]) -> Vec<u8> {
    let size = match of {
        Scalar::Unsigned { width, .. } | Scalar::Signed { width, .. } => width.bytes() * count,
        other => panic!("{other:?}"),
    };
    let (value, rest) = bytes.split_at(size);
    *bytes = rest;
    value.to_vec()
}

fn decode(types: &[EventType], mut bytes: &[u8], events: &mut Vec<Event>) {
    let mut last = 0;
    while !bytes.is_empty() {
        let id = u16::from_le_bytes(take(&mut bytes));
        let time = u64::from_le_bytes(take(&mut bytes));
        assert!(time >= last, "times of a ring ascend");
        last = time;
        let pid = u32::from_le_bytes(take(&mut bytes));
        let _tid: [u8; 4] = take(&mut bytes);
        let kind = &types[usize::from(id)];
        let fields = kind.fields.iter().map(|field| {
            let value = match field.kind {
                FieldKind::Unsigned { width, .. }
                | FieldKind::Signed { width, .. }
                | FieldKind::Enum { width, .. } => Value::Number(match width.bytes() {
                    1 => i8::from_le_bytes(take(&mut bytes)).into(),
                    2 => i16::from_le_bytes(take(&mut bytes)).into(),
                    4 => i32::from_le_bytes(take(&mut bytes)).into(),
                    _ => i64::from_le_bytes(take(&mut bytes)),
                }),
                FieldKind::String => {
                    let size = bytes.iter().position(|byte| *byte == 0).expect("a NUL");
                    let text = String::from_utf8_lossy(&bytes[..size]).into_owned();
                    bytes = &bytes[size + 1..];
                    Value::Text(text)
                }
                FieldKind::Bytes => {
                    let size = u32::from_le_bytes(take(&mut bytes)) as usize;
                    let (value, rest) = bytes.split_at(size);
                    bytes = rest;
                    Value::Bytes(value.to_vec())
                }
                FieldKind::Array { of, count } => {
                    Value::Bytes(elements(of, count as usize, &mut bytes))
                }
                FieldKind::Sequence { of } => {
                    let count = u32::from_le_bytes(take(&mut bytes)) as usize;
                    Value::Bytes(elements(of, count, &mut bytes))
                }
                ref other => panic!("{other:?}"),
            };
            (field.name.clone(), value)
        });
        events.push(Event { time, name: kind.name.clone(), pid, fields: fields.collect() });
    }
}

/// Consumes all packets.
pub(crate) fn packets(recorder: &mut Recorder) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for ring in 0..recorder.ring_count() {
        loop {
            let mut packet = Vec::new();
            match recorder.take(ring, &mut packet) {
                TakeOutcome::Packet(_) => packets.push(packet),
                TakeOutcome::Empty => break,
                other => panic!("{other:?}"),
            }
        }
    }
    packets
}

/// Decodes the events of packets, in order of time.
pub(crate) fn decode_all(types: &[EventType], packets: &[Vec<u8>]) -> Vec<Event> {
    let mut events = Vec::new();
    packets.iter().for_each(|one| decode(types, &one[packet::SIZE..], &mut events));
    events.sort_by_key(|event| event.time);
    events
}

/// Consumes all events, and returns them in order of time.
pub(crate) fn drain(recorder: &mut Recorder) -> Vec<Event> {
    let types = recorder.event_types().to_vec();
    decode_all(&types, &packets(recorder))
}
