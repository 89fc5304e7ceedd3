//! Strings in quotes. Most need no escapes, which is found out sixteen bytes at a time while they
//! are copied.

use blkkin_reader::Text;
use wide::u8x16;

/// Bytes that are looked at together.
const LANE: usize = 16;

/// Appends `bytes[start..end]` and a closing quote, if no byte needs an escape; otherwise appends
/// nothing.
///
/// `special` marks the bytes that need a closer look; it may be asked about others than these.
#[inline(always)]
pub(crate) fn append_plain(
    out: &mut Text,
    bytes: &[u8],
    (start, end): (usize, usize),
    special: impl Fn(u8x16) -> u8x16,
) -> bool {
    let length = end - start;
    match bytes.get(start..).and_then(|rest| rest.first_chunk()) {
        Some(lane) if length <= LANE => append_lane(out, *lane, length, special),
        _ => append_any(out, &bytes[start..end], special),
    }
}

#[inline(always)]
fn append_lane(
    out: &mut Text,
    lane: [u8; LANE],
    length: usize,
    special: impl Fn(u8x16) -> u8x16,
) -> bool {
    let marks = special(u8x16::new(lane)).to_bitmask();
    let plain = marks & !(u32::MAX << length) == 0;
    if plain {
        out.push_some(lane, length);
        out.push(b'"');
    }
    plain
}

/// A string of any length, or one with too little behind it.
#[inline(never)]
fn append_any(out: &mut Text, value: &[u8], special: impl Fn(u8x16) -> u8x16) -> bool {
    let (lanes, rest) = value.as_chunks();
    let is_plain = |lane: &[u8; LANE]| special(u8x16::new(*lane)).to_bitmask() == 0;
    if !lanes.iter().all(is_plain) {
        return false;
    }
    let before = out.len();
    for lane in lanes {
        out.push_all(lane);
    }
    let mut lane = [0; LANE];
    lane[..rest.len()].copy_from_slice(rest);
    let plain = append_lane(out, lane, rest.len(), special);
    if !plain {
        out.truncate(before);
    }
    plain
}

/// Whether one of the bytes is a control character (below 0x20).
#[inline(always)]
pub(crate) fn is_control(bytes: u8x16) -> u8x16 {
    bytes.min(u8x16::splat(0x1f)).simd_eq(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_what_is_plain_and_nothing_else() {
        for (length, behind) in (0..=100).flat_map(|length| [(length, 0), (length, 40)]) {
            // What is around the string needs escapes, and must not matter.
            let mut bytes = vec![0x1f];
            bytes.extend((0..length).map(|i| b'a' + (i % 26) as u8));
            bytes.extend(vec![0x1f; behind]);
            let range = (1, 1 + length);
            let mut out = Text::with_room(1000);
            out.push(b'x');
            assert!(append_plain(&mut out, &bytes, range, is_control), "{length}");
            assert_eq!(*out, [b"x", &bytes[1..1 + length], b"\""].concat(), "{length}");
            for at in 1..=length {
                let mut bytes = bytes.clone();
                bytes[at] = 0x1f;
                out.truncate(1);
                assert!(!append_plain(&mut out, &bytes, range, is_control), "{length} {at}");
                assert_eq!(*out, *b"x");
            }
        }
    }
}
