//! Content of quoted strings, with escapes. Most strings need no escapes, which is checked for
//! sixteen bytes at a time.

use blkkin_reader::Text;
use wide::u8x16;

/// Number of bytes that are checked together.
pub(crate) const LANE: usize = 16;

/// Escape rules of an output format.
pub(crate) trait EscapeRules {
    /// Returns a mask of the bytes that need an escape or a closer check. NUL is always in the
    /// mask.
    fn special(bytes: u8x16) -> u8x16;
    /// Appends a string in which [`EscapeRules::special`] marks a byte, with the needed escapes.
    fn append_escaped(out: &mut Text, value: &[u8]);
}

/// Returns the number of bytes before the first byte that [`EscapeRules::special`] marks; [`LANE`]
/// if no byte is marked.
#[inline(always)]
pub(crate) fn plain_length<Q: EscapeRules>(lane: [u8; LANE]) -> usize {
    (Q::special(u8x16::new(lane)).to_bitmask() | 1 << LANE).trailing_zeros() as usize
}

/// Appends a string without the quotes.
pub(crate) fn append<Q: EscapeRules>(out: &mut Text, value: &[u8]) {
    let (lanes, rest) = value.as_chunks();
    let mut last = [b'a'; LANE];
    last[..rest.len()].copy_from_slice(rest);
    let is_plain = |lane: &[u8; LANE]| plain_length::<Q>(*lane) == LANE;
    if lanes.iter().all(is_plain) && is_plain(&last) {
        for lane in lanes {
            out.push_all(lane);
        }
        out.push_some(last, rest.len());
    } else {
        Q::append_escaped(out, value);
    }
}

/// Returns a mask of the control characters (below 0x20).
#[inline(always)]
pub(crate) fn control(bytes: u8x16) -> u8x16 {
    bytes.min(u8x16::splat(0x1f)).simd_eq(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Dots;

    impl EscapeRules for Dots {
        fn special(bytes: u8x16) -> u8x16 {
            control(bytes)
        }

        fn append_escaped(out: &mut Text, value: &[u8]) {
            for &byte in value {
                out.push(if byte < 0x20 { b'.' } else { byte });
            }
        }
    }

    #[test]
    fn escapes_where_it_must() {
        for length in 0..=100 {
            let value: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
            assert_eq!(*Text::from_print(|out| append::<Dots>(out, &value)), value, "{length}");
            for at in 0..length {
                let mut escaped = value.clone();
                escaped[at] = b'.';
                let mut value = value.clone();
                value[at] = 0x1f;
                assert_eq!(
                    *Text::from_print(|out| append::<Dots>(out, &value)),
                    escaped,
                    "{length} {at}"
                );
                if let Some(lane) = value.first_chunk() {
                    assert_eq!(plain_length::<Dots>(*lane), at.min(LANE));
                }
            }
        }
    }
}
