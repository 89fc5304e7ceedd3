//! Strings in quotes. Most need no escapes, which is found out sixteen bytes at a time while they
//! are copied.

use blkkin_reader::Text;
use wide::u8x16;

/// Bytes that are looked at together.
pub(crate) const LANE: usize = 16;

/// `bytes[start..end]` and what is behind it, if it is of up to [`LANE`] bytes of which none needs
/// an escape, and there is enough behind it.
///
/// `special` marks the bytes that need a closer look; it may be asked about others than these.
#[inline(always)]
pub(crate) fn short_plain(
    bytes: &[u8],
    start: usize,
    end: usize,
    special: impl Fn(u8x16) -> u8x16,
) -> Option<[u8; LANE]> {
    let length = end - start;
    let lane = bytes.get(start..start.wrapping_add(LANE))?.as_array()?;
    let is_plain = length <= LANE && marks(*lane, length, special) == 0;
    is_plain.then_some(*lane)
}

/// The marks of the first `length` bytes.
#[inline(always)]
fn marks(lane: [u8; LANE], length: usize, special: impl Fn(u8x16) -> u8x16) -> u32 {
    special(u8x16::new(lane)).to_bitmask() & !(u32::MAX << length)
}

/// Appends `value` and a closing quote, if no byte needs an escape; otherwise appends nothing.
#[inline(never)]
pub(crate) fn append_plain(
    out: &mut Text,
    value: &[u8],
    special: impl Fn(u8x16) -> u8x16,
) -> bool {
    let (lanes, rest) = value.as_chunks();
    let mut last = [0; LANE];
    last[..rest.len()].copy_from_slice(rest);
    let is_plain = |lane: &[u8; LANE]| marks(*lane, LANE, &special) == 0;
    let plain = lanes.iter().all(is_plain) && marks(last, rest.len(), &special) == 0;
    if plain {
        for lane in lanes {
            out.push_all(lane);
        }
        out.push_some(last, rest.len());
        out.push(b'"');
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
            let end = 1 + length;
            let mut out = Text::with_room(1000);
            out.push(b'x');
            assert!(append_plain(&mut out, &bytes[1..end], is_control), "{length}");
            assert_eq!(*out, [b"x", &bytes[1..end], b"\""].concat(), "{length}");
            let short = short_plain(&bytes, 1, end, is_control);
            assert_eq!(short.is_some(), length <= LANE && length + behind >= LANE);
            if let Some(lane) = short {
                assert_eq!(lane[..length], bytes[1..end]);
            }
            for at in 1..=length {
                let mut bytes = bytes.clone();
                bytes[at] = 0x1f;
                out.truncate(1);
                assert!(!append_plain(&mut out, &bytes[1..end], is_control), "{length} {at}");
                assert_eq!(*out, *b"x");
                assert_eq!(short_plain(&bytes, 1, end, is_control), None, "{length} {at}");
            }
        }
    }
}
