//! Tests of the bytes of LTTng's headers, of fields that depend on headers, and of values that do
//! not fit their class.

use super::*;

const METADATA: &str = "/* CTF 1.8 */
typealias integer { size = 8; align = 8; } := u8;
typealias integer { size = 16; align = 8; } := u16;
typealias integer { size = 32; align = 8; } := u32;
typealias integer { size = 64; align = 8; } := u64;
trace { major = 1; minor = 8; uuid = \"10111213-1415-1617-1819-1a1b1c1d1e1f\"; byte_order = le;
  packet.header := struct { u32 magic; u8 uuid[16]; u32 stream_id; u64 stream_instance_id; }; };
clock { name = mono; freq = 1000000000; offset = 1795165182000000000; };
typealias integer { size = 32; align = 8; map = clock.mono.value; } := ts32;
typealias integer { size = 64; align = 8; map = clock.mono.value; } := ts64;
stream { id = 0;
  event.header := struct {
    enum : u16 { small = 0 ... 65534, big = 65535 } id;
    variant <id> { struct { ts32 timestamp; } small; struct { u32 id; ts64 timestamp; } big; } v;
  } align(8);
  packet.context := struct { ts64 timestamp_begin; ts64 timestamp_end; u64 content_size;
    u64 packet_size; u64 packet_seq_num; u64 events_discarded; u32 cpu_id; };
};
event { name = \"demo:hello\"; id = 1; stream_id = 0; loglevel = 6;
  fields := struct { u64 _n; string _who; }; };
";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes a packet with the packet context `context`, and an event with the payload `fields` at each
/// of `times`.
fn packet(
    encoder: &Arc<Encoder>,
    source: &Decoder,
    context: Vec<Value>,
    fields: Vec<Value>,
    times: &[u64],
) -> Vec<u8> {
    let (context, fields) = (Value::Struct(context), Value::Struct(fields));
    let root = source.scope_node(0, None, Scope::PacketContext).unwrap();
    let head = encoder.head(0, 2, |writer| context.visit(source.nodes(), root, writer).unwrap());
    let mut writer = PacketWriter::new(encoder.clone());
    writer.begin(&head, 1_000_000_000);
    let root = source.scope_node(0, Some(0), Scope::Payload).unwrap();
    for &time in times {
        let fill =
            |writer: &mut FieldWriter<'_>| fields.visit(source.nodes(), root, writer).is_ok();
        assert_eq!(writer.event(0, time, fill), Ok(true));
    }
    // A discarded event leaves no bytes.
    assert_eq!(writer.event(0, 7_000_000_000, |_| false), Ok(false));
    let end = times.last().copied().unwrap_or(1_000_000_000);
    let end = PacketEnd { begin: 1_000_000_000, end, seq: 5, discarded: 6 };
    writer.finish(end).unwrap().to_vec()
}

#[test]
fn lttng_headers_to_the_byte() {
    let source = decoder(tsdl::parse(METADATA).unwrap());
    for lowered in [lower_unchanged(&source), lower_to_ctf1(&source), lower_to_ctf2(&source)] {
        let encoder = Arc::new(Encoder::new(lowered.unwrap()).unwrap());
        let packet = |times: &[u64]| {
            let fields = vec![Value::Unsigned(42), Value::String(b"bob".to_vec())];
            packet(&encoder, &source, vec![Value::Unsigned(3)], fields, times)
        };
        let bytes = packet(&[1_000_000_500]);
        assert_eq!(
            hex(&bytes),
            "c11ffcc1101112131415161718191a1b1c1d1e1f000000000200000000000000\
             00ca9a3b00000000f4cb9a3b0000000030030000000000003003000000000000\
             0500000000000000060000000000000003000000\
             0100f4cb9a3b2a00000000000000626f6200"
        );
        // An event more than 32 bits after the previous one, or earlier than it, gets the extended
        // header.
        let far = [1_000_000_500, 6_000_000_000, 5_999_999_999];
        let bytes = packet(&far);
        let text = decoded(&source, std::slice::from_ref(&bytes));
        assert_eq!(bytes.len(), 84 + 18 + 2 * 26);
        assert!(text.contains("at 5999999999 Payload(u42 \"bob\" )"), "{text}");
    }
}

#[test]
fn what_depends_on_a_header_gets_a_field_of_its_own() {
    let metadata = METADATA
        .replace("string _who", "u8 _bytes[trace.packet.header.stream_instance_id]")
        .replace("u32 cpu_id", "u32 cpu_id; u32 flags[trace.packet.header.stream_id]");
    let source = decoder(tsdl::parse(&metadata).unwrap());
    let encoder = Arc::new(Encoder::new(lower_unchanged(&source).unwrap()).unwrap());
    let context = vec![Value::Unsigned(3), Value::Array(vec![])];
    let array = Value::Array(vec![Value::Unsigned(8), Value::Unsigned(9)]);
    let fields = vec![Value::Unsigned(42), array];
    let bytes = packet(&encoder, &source, context, fields, &[1_000_000_500]);
    for through in [through_ctf1, through_ctf2] {
        let (target, written) = through(&source, std::slice::from_ref(&bytes));
        let text = decoded(&target, &written);
        assert!(text.contains("PacketContext(u3 u0 [])"), "{text}");
        assert!(text.contains("Payload(u42 u2 [u8 u9 ])"), "{text}");
    }
}

#[test]
fn values_that_do_not_fit_are_refused() {
    let source = decoder(tsdl::parse(METADATA).unwrap());
    let root = source.scope_node(0, Some(0), Scope::Payload).unwrap();
    let check = |value: Value, expected: &str| {
        let error = value.visit(source.nodes(), root, &mut ValueCollector::default()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    let misfit = "the value does not go with the class of field";
    check(Value::Struct(vec![]), &format!("{misfit} `n`"));
    check(Value::Struct(vec![Value::Unsigned(1)]), &format!("{misfit} `who`"));
    check(Value::Struct(vec![Value::Float(1.0)]), &format!("{misfit} `n`"));
    check(Value::Unsigned(1), "the value does not go with the field's class");
}
