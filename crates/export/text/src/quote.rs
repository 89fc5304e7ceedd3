//! Strings in quotes. Most need no escapes, which is found out sixteen bytes at a time while they
//! are copied.

use wide::u8x16;

/// Appends `value`, if it is short and needs no escape; otherwise appends nothing.
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
    if length > 64 {
        return false;
    }
    if length >= 16 {
        let (lanes, _) = value.as_chunks::<16>();
        let last: [u8; 16] = match value.last_chunk() {
            Some(last) => *last,
            None => return false,
        };
        let plain = lanes.iter().all(|lane| !special(u8x16::new(*lane)));
        if !plain || special(u8x16::new(last)) {
            return false;
        }
        let start = out.len();
        for lane in lanes {
            out.extend_from_slice(lane);
        }
        out.truncate(start + length - 16);
        out.extend_from_slice(&last);
        return true;
    }
    // Two pieces that overlap cover any length.
    let (first, last, step) = if length >= 8 {
        let (Some(first), Some(last)) = (value.first_chunk::<8>(), value.last_chunk::<8>()) else {
            return false;
        };
        (u64::from_le_bytes(*first), u64::from_le_bytes(*last), 8)
    } else if length >= 4 {
        let (Some(first), Some(last)) = (value.first_chunk::<4>(), value.last_chunk::<4>()) else {
            return false;
        };
        (u32::from_le_bytes(*first).into(), u32::from_le_bytes(*last).into(), 4)
    } else {
        return append_tiny(out, value, special);
    };
    let plain_filling = u64::from_ne_bytes([b'a'; 8]);
    let filling = if step == 8 { 0 } else { plain_filling << 32 };
    let mut lane = [0; 16];
    lane[..8].copy_from_slice(&(first | filling).to_le_bytes());
    lane[8..].copy_from_slice(&(last | filling).to_le_bytes());
    if special(u8x16::new(lane)) {
        return false;
    }
    let start = out.len();
    out.extend_from_slice(&first.to_le_bytes());
    out.truncate(start + length - step);
    out.extend_from_slice(&last.to_le_bytes());
    out.truncate(start + length);
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
    out.extend_from_slice(value);
    true
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
        for length in 0..=65 {
            let value: Vec<u8> = (0..length).map(|i| b'a' + (i % 26) as u8).collect();
            let mut out = b"x".to_vec();
            assert_eq!(append_plain(&mut out, &value, special), length <= 64, "{length}");
            if length <= 64 {
                assert_eq!(out[1..], value, "{length}");
            }
            for at in 0..length.min(64) {
                let mut value = value.clone();
                value[at] = 0x1f;
                let mut out = b"x".to_vec();
                assert!(!append_plain(&mut out, &value, special), "{length} {at}");
                assert_eq!(out, b"x");
            }
        }
    }
}
