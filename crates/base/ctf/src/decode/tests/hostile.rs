//! Tests with random and invalid bytes, and with random schemas: nothing panics, excessive lengths
//! are rejected, and a view of a part of the packet gives the same event or is incomplete.

use super::*;
use crate::ctf2::tests::random;
use blkkin_sys::testing::Random;

#[test]
fn random_bytes_do_no_harm() {
    let (mut events, mut refused, mut schemas) = (0, 0, 0);
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let schema = random::schema(&mut random);
        if schema.streams.first().is_none_or(|stream| stream.events.is_empty()) {
            continue;
        }
        let Ok(decoder) = Decoder::new(Arc::new(schema)) else { continue };
        schemas += 1;
        for _ in 0..20 {
            let length = random.below(200);
            // Small numbers are more likely to be meaningful than large ones.
            let end = [4, 16, 256][random.below(3)];
            let bytes: Vec<u8> = (0..length).map(|_| random.below(end) as u8).collect();
            let _ = decoder.packet(View::whole(&bytes), &mut decoder.machine());
            let mut machine = decoder.machine();
            let mut position = 0;
            for _ in 0..20 {
                let before = machine.clone();
                let result = event(&decoder, View::whole(&bytes), position, &mut machine);
                let cut = random.below(bytes.len() + 1);
                check_shorter_view(&decoder, &bytes[..cut], position, &before, &result);
                check_later_view(&decoder, &bytes, position, &before, &result);
                let Ok((_, end)) = result else {
                    refused += 1;
                    break;
                };
                events += 1;
                if end == position {
                    break;
                }
                position = end;
            }
        }
    }
    assert!(schemas >= 200, "{schemas} schemas");
    assert!(events > 1000 && refused > 1000, "{events} events, {refused} refused");
}

/// Decodes an event again from `bytes`, a prefix of the bytes that gave the expected result. The
/// result must be the expected one, or that the event is incomplete.
fn check_shorter_view(
    decoder: &Decoder,
    bytes: &[u8],
    position: u64,
    machine: &Machine,
    expected: &Result<(String, u64), Stop>,
) {
    let length = bytes.len();
    if length as u64 * 8 >= position {
        let got = event(decoder, View::whole(bytes), position, &mut machine.clone());
        assert!(
            got == Err(Stop::Incomplete) || got == *expected,
            "cut at {length}: {got:?}, {expected:?}"
        );
    }
}

/// Decodes an event again from a view that starts at the event, and compares the results.
fn check_later_view(
    decoder: &Decoder,
    bytes: &[u8],
    position: u64,
    machine: &Machine,
    expected: &Result<(String, u64), Stop>,
) {
    let base = position / 8;
    if base > bytes.len() as u64 {
        // Padding at the end may extend beyond the bytes.
        return;
    }
    let view = View::new(&bytes[base as usize..], base, u64::MAX);
    let got = event(decoder, view, position % 8, &mut machine.clone());
    let got = got.map(|(text, end)| (text, end + base * 8));
    assert_eq!(got, *expected, "from byte {base}");
}

#[test]
fn claims_beyond_the_view_cost_nothing() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        typealias integer { size = 64; align = 8; } := u64;
        typealias integer { size = 8; align = 8; encoding = UTF8; } := utf8;
        stream { event.header := struct { utf8 h[1]; integer { size = 8; align = 8; } id; }; };
        event { name = a; id = 0; fields := struct { u64 n; u64 a[n]; }; };
        event { name = b; id = 1; fields := struct { u64 n; utf8 a[n]; }; };
        event { name = c; id = 2; fields := struct { u64 n; struct { } a[n]; }; };
        event { name = d; id = 3; fields := struct { u64 n; struct { u64 x[0]; } a[n][n]; }; };
        event { name = e; id = 4; fields := struct { u64 a[0xffffffffffffffff]; }; };";
    let decoder = decoder(metadata);
    for id in 0..5 {
        for claim in [1 << 20, 1 << 40, 1 << 61, u64::MAX / 8 + 1, u64::MAX] {
            let mut bytes = vec![b'h', id];
            bytes.extend(claim.to_le_bytes());
            let result = event(&decoder, View::whole(&bytes), 0, &mut decoder.machine());
            let is_empty_elements =
                |error: &DecodeError| error.kind == DecodeErrorKind::EmptyElements;
            match result {
                Err(Stop::Incomplete) => assert!(matches!(id, 0 | 1 | 4), "event {id}, {claim}"),
                Err(Stop::Invalid(error)) => {
                    assert!(is_empty_elements(&error), "event {id}: {error}")
                }
                Ok(_) => panic!("event {id} with {claim} elements"),
            }
        }
    }
}

/// Padding may extend beyond the end of the bytes, and an empty string may follow the padding.
#[test]
fn empty_text_behind_the_end() {
    let metadata = "/* CTF 1.8 */ trace { major = 1; minor = 8; byte_order = le; };
        typealias integer { size = 8; align = 8; } := u8;
        typealias integer { size = 8; align = 8; encoding = UTF8; } := utf8;
        stream { }; event { fields := struct { u8 n; struct { utf8 t[n]; } align(64) s; }; };";
    let decoder = decoder(metadata);
    let result = event(&decoder, View::whole(&[0]), 0, &mut decoder.machine());
    assert_eq!(result, Ok(("n=0 s={t=\"\"}".to_owned(), 64)));
}
