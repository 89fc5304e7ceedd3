//! Property tests of the context formats. A written context survives the round-trip, except for
//! values that the format cannot express. A parsed context survives writing and parsing again. No
//! input makes the readers panic.

use super::context;
use crate::context::{Decision, Incoming, SpanContext, b3, packed, w3c};
use blkkin_sys::testing::Random;

const DECISIONS: [Decision; 4] = [Decision::Deferred, Decision::No, Decision::Yes, Decision::Debug];

/// Returns a random context, whose trace id has 128 or 64 bits. The ids often have many leading
/// zeros.
fn some_context(random: &mut Random) -> SpanContext {
    let number = |random: &mut Random| random.next() >> random.below(64);
    let high = if random.below(2) == 0 { 0 } else { number(random) };
    let trace_id = u128::from(high) << 64 | u128::from(number(random).max(1));
    let span_id = number(random).max(1);
    let parent = if random.below(3) == 0 { 0 } else { number(random) };
    let random_trace_id = random.below(2) == 0;
    let decision = DECISIONS[random.below(4)];
    SpanContext { random_trace_id, ..context(trace_id, span_id, parent, decision) }
}

#[test]
fn written_is_read_again() {
    let mut random = Random::new(0x9e37_79b9_7f4a_7c15);
    for _ in 0..20_000 {
        let context = some_context(&mut random);
        let plain = SpanContext { random_trace_id: false, ..context };
        let followed = context.decision.is_followed();

        let decision = if followed { Decision::Yes } else { Decision::No };
        let expected = SpanContext { parent_span_id: None, decision, ..context };
        assert_eq!(w3c::read(w3c::write(&context).as_bytes()), Ok(expected));

        let deferred = context.decision == Decision::Deferred;
        let parent_span_id = plain.parent_span_id.filter(|_| !deferred);
        let expected = Incoming::Context(SpanContext { parent_span_id, ..plain });
        assert_eq!(b3::read(b3::write(&context).as_bytes()), Ok(expected));

        let written = b3::write_parts(&context);
        let mut headers = b3::Headers::default();
        for (name, value) in written.headers() {
            headers.add(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(headers.read(), Ok(Some(Incoming::Context(plain))));

        let narrow = super::TraceId::from_number(context.trace_id.low().into());
        let expected = narrow.filter(|_| followed).map(|trace_id| SpanContext {
            trace_id,
            decision: Decision::Yes,
            ..plain
        });
        assert_eq!(packed::read(&packed::write(&context)), Ok(expected));
    }
}

/// Checks the properties that hold for any input: a parsed context survives the round-trip, and
/// errors have an offset within the input. Returns true if a format accepts the input.
fn survives(input: &[u8]) -> bool {
    let w3c = w3c::read(input);
    if let Ok(context) = w3c {
        assert_eq!(w3c::read(w3c::write(&context).as_bytes()), Ok(context));
    }
    let b3 = b3::read(input);
    if let Ok(Incoming::Context(context)) = b3 {
        assert_eq!(b3::read(b3::write(&context).as_bytes()), b3);
    }
    let packed = packed::read(input);
    if let Ok(Some(context)) = packed {
        assert_eq!(packed::write(&context), input);
    }
    let offsets = [w3c.err(), b3.err(), packed.err()].map(|error| error.map(|error| error.offset));
    for offset in offsets.into_iter().flatten() {
        assert!(offset <= input.len(), "offset {offset} in {input:?}");
    }
    w3c.is_ok() || b3.is_ok() || packed.is_ok()
}

#[test]
fn random_input_is_survived() {
    let mut random = Random::new(0x2545_f491_4f6c_dd1d);
    let mut read = 0;
    for _ in 0..40_000 {
        let size = random.below(80);
        let letters: &[u8] =
            [b"0123456789abcdef-".as_slice(), b"01d-", b"\0\xff -aA"][random.below(3)];
        let input: Vec<u8> = match random.below(2) {
            0 => (0..size).map(|_| random.next() as u8).collect(),
            _ => (0..size).map(|_| letters[random.below(letters.len())]).collect(),
        };
        read += usize::from(survives(&input));
    }
    assert!(read > 100, "only {read} could be read");
}

/// No reader panics on a valid header or packed context with one to three mutations: bytes
/// replaced, removed, inserted or swapped.
#[test]
fn mutated_headers_are_survived() {
    let mut random = Random::new(0xd1b5_4a32_d192_ed03);
    let (mut read, mut refused) = (0, 0);
    for _ in 0..40_000 {
        let context = some_context(&mut random);
        let mut input = match random.below(3) {
            0 => w3c::write(&context).as_bytes().to_vec(),
            1 => b3::write(&context).as_bytes().to_vec(),
            _ => packed::write(&context).to_vec(),
        };
        for _ in 0..=random.below(3) {
            let place = random.below(input.len());
            let byte = [b'-', b'0', b'f', b'F', b' ', random.next() as u8][random.below(6)];
            match random.below(4) {
                0 => input[place] = byte,
                1 => drop(input.remove(place)),
                2 => input.insert(place, byte),
                _ => input.swap(0, place),
            }
        }
        let ok = survives(&input);
        read += usize::from(ok);
        refused += usize::from(!ok);
    }
    assert!(read > 1000 && refused > 1000, "{read} could be read, {refused} not");
}
