//! Strings in quotes. Most need no escapes, which is found out sixteen bytes at a time while they
//! are copied.

use crate::number::append_short;
use wide::u8x16;

/// Appends `value` and a closing quote, if it is short and needs no escape; otherwise appends
/// nothing.
///
/// `special` tells for sixteen bytes whether one of them needs a closer look; it may be asked
/// about bytes twice.
#[inline(always)]
pub(crate) fn append_plain(
    out: &mut Vec<u8>,
    value: &[u8],
    special: impl Fn(u8x16) -> bool,
) -> bool {
    let length = value.len();
    // Two pieces that overlap cover any length of up to sixteen; put together they are one write.
    let (first, last, step) = match length {
        8..16 => match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last), 8),
            _ => return false,
        },
        4..8 => match (value.first_chunk::<4>(), value.last_chunk::<4>()) {
            (Some(first), Some(last)) => {
                (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into(), 4)
            }
            _ => return false,
        },
        0..4 => return append_tiny(out, value, special),
        _ => return append_longer(out, value, special),
    };
    // Half a word without bytes is filled with some that are surely plain.
    let filling = if step == 8 { 0 } else { u64::from_ne_bytes([b'a'; 8]) << 32 };
    let mut lane = [0; 16];
    lane[..8].copy_from_slice(&(first | filling).to_le_bytes());
    lane[8..].copy_from_slice(&(last | filling).to_le_bytes());
    if special(u8x16::new(lane)) {
        return false;
    }
    let rest = u128::from(last) | u128::from(b'"') << (8 * step);
    let whole = u128::from(first) | rest << (8 * (length - step));
    append_short(out, whole.to_le_bytes(), length + 1);
    true
}

fn append_tiny(out: &mut Vec<u8>, value: &[u8], special: impl Fn(u8x16) -> bool) -> bool {
    let mut lane = [b'a'; 16];
    for (byte, value) in lane.iter_mut().zip(value) {
        *byte = *value;
    }
    if special(u8x16::new(lane)) {
        return false;
    }
    lane[value.len()] = b'"';
    append_short(out, lane, value.len() + 1);
    true
}

fn append_longer(out: &mut Vec<u8>, value: &[u8], special: impl Fn(u8x16) -> bool) -> bool {
    let (lanes, _) = value.as_chunks::<16>();
    let Some(last) = value.last_chunk::<16>() else { return false };
    let is_plain = |lane: &[u8; 16]| !special(u8x16::new(*lane));
    let plain = lanes.iter().all(is_plain) && is_plain(last);
    if plain {
        out.extend_from_slice(value);
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
        let special = |bytes: u8x16| is_control(bytes).any();
        for length in 0..=100 {
            let value: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
            let mut out = b"x".to_vec();
            assert!(append_plain(&mut out, &value, special), "{length}");
            assert_eq!(out, [b"x", &value[..], b"\""].concat(), "{length}");
            for at in 0..length {
                let mut value = value.clone();
                value[at] = 0x1f;
                let mut out = b"x".to_vec();
                assert!(!append_plain(&mut out, &value, special), "{length} {at}");
                assert_eq!(out, b"x");
            }
        }
    }
}
