//! Tests that encoded events decode to the same values. Random schemas and values pass through both
//! versions of CTF, with their metadata as text.

mod headers;
mod random;
mod text_visitor;

use super::*;
use crate::decode::{Decoder, Machine, View};
use crate::schema::Schema;
use crate::{ctf2, tsdl};
use blkkin_sys::testing::Random;
use random::Trace;
use text_visitor::TextVisitor;

/// Decodes the headers, contexts and events of packets to text.
fn decoded(decoder: &Decoder, packets: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for bytes in packets {
        let mut machine = decoder.machine();
        let header = decoder.packet(View::whole(bytes), &mut machine).unwrap();
        assert_eq!(header.total_bits, Some(bytes.len() as u64 * 8));
        let times = (header.begin, header.end, header.seq, header.discarded);
        text.push_str(&format!("stream {} {:?} {times:?}", header.stream, header.instance));
        let mut shown = TextVisitor::default();
        let clock = machine.clock;
        let view = View::whole(bytes);
        decoder.packet_context(header.stream, view, &mut machine, &mut shown).unwrap();
        machine.clock = clock;
        text.push_str(&shown.text);
        events(decoder, bytes, &mut machine, |decoder, bytes, at, machine, stream, class| {
            let mut shown = TextVisitor::default();
            let view = content(bytes, header.content_bits);
            decoder.event_body(stream, class, view, at, machine, &mut shown).unwrap();
            let time = machine.clock;
            text.push_str(&format!("\n event {class} at {time}{}", shown.text));
        });
        text.push('\n');
    }
    text
}

fn content(bytes: &[u8], bits: Option<u64>) -> View<'_> {
    View::new(bytes, 0, bits.unwrap_or(u64::MAX))
}

fn events(
    decoder: &Decoder,
    bytes: &[u8],
    machine: &mut Machine,
    mut each: impl FnMut(&Decoder, &[u8], &mut u64, &mut Machine, usize, u32),
) {
    let header = decoder.packet(View::whole(bytes), machine).unwrap();
    let view = content(bytes, header.content_bits);
    let mut at = header.first_event;
    while at < view.end_bits() {
        let class = decoder.event_header(header.stream, view, &mut at, machine).unwrap();
        each(decoder, bytes, &mut at, machine, header.stream, class);
    }
}

/// Decodes packets, and encodes their contents again by a lowered schema.
fn encoded_again(decoder: &Decoder, packets: &[Vec<u8>], lowered: LoweredSchema) -> Vec<Vec<u8>> {
    let encoder = Arc::new(Encoder::new(lowered).unwrap());
    let mut written = Vec::new();
    for bytes in packets {
        let mut machine = decoder.machine();
        let header = decoder.packet(View::whole(bytes), &mut machine).unwrap();
        let instance = header.instance.unwrap_or(0);
        let head = encoder.head(header.stream, instance, |writer| {
            let view = View::whole(bytes);
            decoder.packet_context(header.stream, view, &mut machine, writer).unwrap();
        });
        let mut packet = PacketWriter::new(encoder.clone());
        packet.begin(&head, header.begin.unwrap_or(0));
        events(decoder, bytes, &mut machine, |decoder, bytes, at, machine, stream, class| {
            let view = content(bytes, header.content_bits);
            let time = machine.clock;
            let done = packet.event(class as usize, time, |writer| {
                decoder.event_body(stream, class, view, at, machine, writer).unwrap();
                true
            });
            assert_eq!(done, Ok(true));
        });
        let end = PacketEnd {
            begin: header.begin.unwrap_or(0),
            end: header.end.unwrap_or(0),
            seq: header.seq.unwrap_or(0),
            discarded: header.discarded.unwrap_or(0),
        };
        written.push(packet.finish(end).unwrap().to_vec());
    }
    written
}

fn decoder(schema: Schema) -> Decoder {
    Decoder::new(Arc::new(schema)).unwrap()
}

fn through_ctf1(from: &Decoder, packets: &[Vec<u8>]) -> (Decoder, Vec<Vec<u8>>) {
    let lowered = lower_to_ctf1(from).unwrap();
    let text =
        tsdl::write(&lowered.schema).unwrap_or_else(|e| panic!("{e}\n{:#?}", lowered.schema));
    let written = encoded_again(from, packets, lowered);
    (decoder(tsdl::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))), written)
}

fn through_ctf2(from: &Decoder, packets: &[Vec<u8>]) -> (Decoder, Vec<Vec<u8>>) {
    let lowered = lower_to_ctf2(from).unwrap();
    let text = ctf2::write(&lowered.schema);
    let written = encoded_again(from, packets, lowered);
    (decoder(ctf2::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))), written)
}

fn without_absent(text: &str) -> String {
    text.replace("<{}>", "<>")
}

/// Checks that packets with blank contexts are valid.
fn blank_contexts_decode(source: &Decoder) {
    let encoder = Arc::new(Encoder::new(lower_unchanged(source).unwrap()).unwrap());
    for stream in 0..source.schema().streams.len() {
        let mut writer = PacketWriter::new(encoder.clone());
        writer.begin(&encoder.head_blank(stream, 1), 5);
        let end = PacketEnd { begin: 5, end: 6, seq: 7, discarded: 8 };
        let bytes = writer.finish(end).unwrap();
        let packet = source.packet(View::whole(bytes), &mut source.machine()).unwrap();
        assert_eq!((packet.stream, packet.discarded), (stream, Some(8)));
        assert_eq!(packet.content_bits, Some(packet.first_event));
    }
}

/// Random events decode to the same values after encoding, and after conversion to CTF 1.8 and CTF
/// 2.
#[test]
fn random_traces_survive_both_versions() {
    for seed in 0..600 {
        let mut random = Random::new(seed);
        let trace = Trace::new(&mut random);
        let source = decoder(trace.schema.clone());
        let (packets, expected) = trace.packets(&mut random, &source);
        let equal = |what: &str, text: String| {
            let lines = without_absent(&expected);
            let found = without_absent(&text);
            let first = lines.lines().zip(found.lines()).find(|(one, other)| one != other);
            assert!(lines == found, "seed {seed}, {what}: {first:#?}");
        };
        equal("as it is", decoded(&source, &packets));
        blank_contexts_decode(&source);
        let reread = decoder(ctf2::parse(&ctf2::write(&trace.schema)).unwrap());
        equal("with metadata in JSON", decoded(&reread, &packets));
        let (old, old_packets) = through_ctf1(&source, &packets);
        equal("in CTF 1.8", decoded(&old, &old_packets));
        let (new, new_packets) = through_ctf2(&source, &packets);
        equal("in CTF 2", decoded(&new, &new_packets));
        let (new, new_packets) = through_ctf2(&old, &old_packets);
        equal("in CTF 2 from CTF 1.8", decoded(&new, &new_packets));
        let (old, old_packets) = through_ctf1(&new, &new_packets);
        equal("in CTF 1.8 again", decoded(&old, &old_packets));
    }
}
