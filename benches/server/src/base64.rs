//! Base64 encoder that can write into existing memory, so that a part of a message can be replaced.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Returns the base64 text of `bytes`.
pub(crate) fn text(bytes: &[u8]) -> Vec<u8> {
    let mut text = vec![0; bytes.len().div_ceil(3) * 4];
    encode(bytes, &mut text);
    text
}

/// Writes the base64 text of `bytes` to the start of `out`. `out` must have four bytes for each
/// group of up to three bytes.
pub(crate) fn encode(bytes: &[u8], out: &mut [u8]) {
    for (group, out) in bytes.chunks(3).zip(out.chunks_exact_mut(4)) {
        let byte = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for (index, out) in out.iter_mut().enumerate() {
            *out = match index <= group.len() {
                true => DIGITS[(bits >> (18 - 6 * index) & 63) as usize],
                false => b'=',
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::text;

    #[test]
    fn texts_are_those_of_the_standard() {
        let texts: [(&[u8], &[u8]); 5] = [
            (b"", b""),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"fooba", b"Zm9vYmE="),
        ];
        for (bytes, expected) in texts {
            assert_eq!(text(bytes), expected);
        }
    }
}
