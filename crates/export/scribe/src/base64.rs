//! Lenient base64 decoder for spans from existing senders: with line breaks, blanks and other
//! characters, with or without padding. The `base64` crate decodes clean text directly; other text
//! is cleaned first.

use ::base64::Engine;
use ::base64::alphabet::STANDARD;
use ::base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::fmt;

const ENGINE: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Error for a text that ends with a single character of six bits, or continues after its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incomplete;

impl fmt::Display for Incomplete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the base64 text is cut, or goes on behind its end")
    }
}

impl std::error::Error for Incomplete {}

/// Appends the decoded bytes to `out`, which is unchanged after an error.
pub fn decode(text: &[u8], out: &mut Vec<u8>) -> Result<(), Incomplete> {
    let start = out.len();
    // A trailing line break is frequent.
    let text = text.trim_ascii();
    if ENGINE.decode_vec(text, out).is_ok() {
        return Ok(());
    }
    out.truncate(start);
    let done = clean(text).and_then(|text| ENGINE.decode_vec(text, out).map_err(|_| Incomplete));
    if done.is_err() {
        out.truncate(start);
    }
    done
}

/// Appends `bytes` as one line of base64, with padding.
pub fn encode(bytes: &[u8], out: &mut String) {
    ENGINE.encode_string(bytes, out);
}

/// Removes padding and characters that are not part of the alphabet. Fails if text follows the
/// padding.
fn clean(text: &[u8]) -> Result<Vec<u8>, Incomplete> {
    let means = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    let end = text.iter().position(|byte| *byte == b'=').unwrap_or(text.len());
    let (before, behind) = text.split_at(end);
    if behind.iter().any(means) {
        return Err(Incomplete);
    }
    Ok(before.iter().copied().filter(means).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_lenient() {
        let check = |text: &str, expected: Result<&str, Incomplete>| {
            let mut out = b"kept".to_vec();
            let result = decode(text.as_bytes(), &mut out).map(|()| &out[4..]);
            assert_eq!(result, expected.map(str::as_bytes), "{text:?}");
            assert_eq!(&out[..4], b"kept");
            assert!(result.is_ok() || out.len() == 4);
        };
        check("", Ok(""));
        check("aGVsbG8=", Ok("hello"));
        check("aGVsbG8", Ok("hello"));
        check("aGVs\r\nbG8=\r\n", Ok("hello"));
        check("  aG V\tsb\nG8", Ok("hello"));
        check("aG*Vs-bG8_=", Ok("hello"));
        check("aGVsbG8= \n", Ok("hello"));
        check("aGVsbG8=\n==", Ok("hello"));
        // Unused bits at the end may be nonzero.
        check("aGVsbG9=", Ok("hello"));
        check("a", Err(Incomplete));
        check("aGVsb", Err(Incomplete));
        check("aGVsbG8=aGVsbG8=", Err(Incomplete));
        check("=", Ok(""));
        check("*", Ok(""));
    }

    #[test]
    fn encoded_bytes_are_decoded() {
        for size in 0..100_u8 {
            let bytes: Vec<u8> = (0..size).map(|at| at.wrapping_mul(37)).collect();
            let (mut text, mut read) = (String::new(), Vec::new());
            encode(&bytes, &mut text);
            assert_eq!(decode(text.as_bytes(), &mut read), Ok(()));
            assert_eq!(read, bytes);
        }
    }
}
