//! Decoding of strings in the encodings of traces.

use crate::schema::Encoding;
use std::borrow::Cow;

impl Encoding {
    /// Decodes `bytes` in this encoding, ASCII as UTF-8. Invalid sequences become U+FFFD; an
    /// incomplete code unit at the end is ignored.
    pub fn decode(self, bytes: &[u8]) -> Cow<'_, str> {
        let utf16 = |unit: fn([u8; 2]) -> u16| {
            let units = bytes.as_chunks().0.iter().map(|&bytes| unit(bytes));
            char::decode_utf16(units).map(|c| c.unwrap_or('\u{fffd}')).collect::<String>().into()
        };
        let utf32 = |unit: fn([u8; 4]) -> u32| {
            let units = bytes.as_chunks().0.iter().map(|&bytes| unit(bytes));
            units.map(|c| char::from_u32(c).unwrap_or('\u{fffd}')).collect::<String>().into()
        };
        match self {
            Encoding::Utf8 | Encoding::Ascii => String::from_utf8_lossy(bytes),
            Encoding::Utf16Be => utf16(u16::from_be_bytes),
            Encoding::Utf16Le => utf16(u16::from_le_bytes),
            Encoding::Utf32Be => utf32(u32::from_be_bytes),
            Encoding::Utf32Le => utf32(u32::from_le_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_each_encoding() {
        let check = |encoding: Encoding, bytes: &[u8], expected| {
            assert_eq!(encoding.decode(bytes), expected);
        };
        check(Encoding::Utf8, b"a\xc3\xa9\xff", "aé\u{fffd}");
        check(Encoding::Utf16Be, &[0, b'a', 0xd8, 0x3d, 0xde, 0], "a😀");
        check(Encoding::Utf16Le, &[b'a', 0, 0x00, 0xd8], "a\u{fffd}");
        check(Encoding::Utf32Be, &[0, 1, 0xf6, 0], "😀");
        check(Encoding::Utf32Le, &[b'a', 0, 0, 0, 0, 0, 0, 0xff], "a\u{fffd}");
    }
}
