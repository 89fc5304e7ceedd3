//! Formats and transports of spans, and their encodings of ids and times. Start at [`Format`].

use crate::base64;
use blkkin_model::{Span, SpanRefBuffer};
use blkkin_wire::Encoder;
use std::ops::Range;

/// A format of spans, with the transport by which it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    ZipkinJson,
    ZipkinProto,
    OtlpHttp,
    OtlpGrpc,
    Scribe,
}

/// Encoding of an id or a time, with a fixed size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberEncoding {
    /// The number as 16 hexadecimal digits.
    Hex,
    /// The number as 8 bytes, big-endian.
    Big,
    /// Nanoseconds as 16 decimal digits of microseconds.
    DecimalMicros,
    /// Nanoseconds as 8 bytes of microseconds, big-endian.
    BigMicros,
    /// Nanoseconds as 8 bytes of microseconds, little-endian.
    LittleMicros,
    /// The number as 8 bytes, little-endian.
    Little,
}

/// An encoded batch of spans, ready to be sent.
pub(crate) struct EncodedBatch {
    /// Bytes of the batch with the headers of the transport; for gRPC, with the prefix of the
    /// message only.
    pub(crate) bytes: Vec<u8>,
    /// All Scribe messages before base64; empty in other formats.
    pub(crate) unpacked: Vec<u8>,
    pub(crate) messages: Vec<Message>,
}

/// Range of a Scribe message in `unpacked`, and offset of its base64 text in `bytes`.
pub(crate) type Message = (Range<usize>, usize);

impl Format {
    pub(crate) const ALL: [Format; 5] = [
        Format::ZipkinJson,
        Format::ZipkinProto,
        Format::OtlpHttp,
        Format::OtlpGrpc,
        Format::Scribe,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Format::ZipkinJson => "json",
            Format::ZipkinProto => "proto3",
            Format::OtlpHttp => "otlp-http",
            Format::OtlpGrpc => "otlp-grpc",
            Format::Scribe => "scribe",
        }
    }

    pub(crate) fn of(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }

    pub(crate) fn id_form(self) -> NumberEncoding {
        match self {
            Format::ZipkinJson => NumberEncoding::Hex,
            _ => NumberEncoding::Big,
        }
    }

    pub(crate) fn time_form(self) -> NumberEncoding {
        match self {
            Format::ZipkinJson => NumberEncoding::DecimalMicros,
            Format::ZipkinProto => NumberEncoding::LittleMicros,
            Format::OtlpHttp | Format::OtlpGrpc => NumberEncoding::Little,
            Format::Scribe => NumberEncoding::BigMicros,
        }
    }

    /// Encodes a batch of spans for the server at `host`, including the headers of the transport.
    pub(crate) fn encode(self, spans: &[&Span], host: &str) -> EncodedBatch {
        let held: Vec<SpanRefBuffer<'_>> = spans.iter().map(|span| span.ref_buffer()).collect();
        let encode = |format, held: &[SpanRefBuffer<'_>]| {
            let mut body = Vec::new();
            let mut encoder = Encoder::new(format, &mut body);
            held.iter().for_each(|held| encoder.span(&held.as_ref()));
            encoder.finish();
            body
        };
        let plain = |bytes| EncodedBatch { bytes, unpacked: Vec::new(), messages: Vec::new() };
        let post =
            |path, kind, body: Vec<u8>| plain([post(path, kind, host, body.len()), body].concat());
        match self {
            Format::ZipkinJson => {
                let body = encode(blkkin_wire::Format::ZipkinJson, &held);
                post("/api/v2/spans", "application/json", body)
            }
            Format::ZipkinProto => {
                let body = encode(blkkin_wire::Format::ZipkinProto, &held);
                post("/api/v2/spans", "application/x-protobuf", body)
            }
            Format::OtlpHttp => {
                let body = encode(blkkin_wire::Format::OtlpProto, &held);
                post("/v1/traces", "application/x-protobuf", body)
            }
            Format::OtlpGrpc => {
                let body = encode(blkkin_wire::Format::OtlpProto, &held);
                let len = u32::try_from(body.len()).expect("a batch is small").to_be_bytes();
                plain([&[0][..], &len, &body].concat())
            }
            Format::Scribe => {
                let one = |held| {
                    encode(blkkin_wire::Format::ZipkinThriftSpan, std::slice::from_ref(held))
                };
                log_call(held.iter().map(one))
            }
        }
    }
}

fn post(path: &str, kind: &str, host: &str, len: usize) -> Vec<u8> {
    format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: {kind}\r\nContent-Length: {len}\r\n\r\n"
    )
    .into_bytes()
}

/// Scribe category of all messages.
const CATEGORY: &[u8] = b"zipkin";

/// Encodes Scribe's call `Log` with one message for each span: framed, in thrift's strict binary
/// protocol.
fn log_call(messages: impl ExactSizeIterator<Item = Vec<u8>>) -> EncodedBatch {
    let sized = |bytes: &mut Vec<u8>, text: &[u8]| {
        bytes.extend_from_slice(&(text.len() as u32).to_be_bytes());
        bytes.extend_from_slice(text);
    };
    // First the length of the frame, which is set at the end. Then the header of a call of version
    // 1: its name and its sequence number.
    let mut bytes = vec![0, 0, 0, 0, 0x80, 1, 0, 1];
    sized(&mut bytes, b"Log");
    bytes.extend_from_slice(&[0, 0, 0, 0]);
    // Argument 1: a list of structures.
    bytes.extend_from_slice(&[15, 0, 1, 12]);
    bytes.extend_from_slice(&(messages.len() as u32).to_be_bytes());
    let (mut unpacked, mut places) = (Vec::new(), Vec::new());
    for message in messages {
        let text = base64::text(&message);
        // Field 1: the category. Field 2: the message.
        bytes.extend_from_slice(&[11, 0, 1]);
        sized(&mut bytes, CATEGORY);
        bytes.extend_from_slice(&[11, 0, 2]);
        sized(&mut bytes, &text);
        let start = unpacked.len();
        unpacked.extend_from_slice(&message);
        places.push((start..unpacked.len(), bytes.len() - text.len()));
        bytes.push(0);
    }
    bytes.push(0);
    let len = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&len.to_be_bytes());
    EncodedBatch { bytes, unpacked, messages: places }
}

impl NumberEncoding {
    /// Returns the size of an encoded number in bytes.
    pub(crate) fn len(self) -> usize {
        match self {
            NumberEncoding::Hex | NumberEncoding::DecimalMicros => 16,
            NumberEncoding::Big
            | NumberEncoding::BigMicros
            | NumberEncoding::LittleMicros
            | NumberEncoding::Little => 8,
        }
    }

    /// Writes the encoding of `value` to `bytes` at the offset `at`. Returns its size in bytes.
    pub(crate) fn write(self, value: u64, bytes: &mut [u8], at: usize) -> usize {
        let len = self.len();
        let out = &mut bytes[at..at + len];
        match self {
            NumberEncoding::Hex => hex(value, out),
            NumberEncoding::DecimalMicros => decimal(value / 1000, out),
            NumberEncoding::Big => out.copy_from_slice(&value.to_be_bytes()),
            NumberEncoding::BigMicros => out.copy_from_slice(&(value / 1000).to_be_bytes()),
            NumberEncoding::LittleMicros => out.copy_from_slice(&(value / 1000).to_le_bytes()),
            NumberEncoding::Little => out.copy_from_slice(&value.to_le_bytes()),
        }
        len
    }
}

/// Writes 16 hexadecimal digits, eight at once: each byte of a 64-bit word is a digit. Digits above
/// 9 are shifted to the letters.
fn hex(value: u64, out: &mut [u8]) {
    for (out, half) in out.chunks_exact_mut(8).zip([value >> 32, value & 0xffff_ffff]) {
        let mut digits = (half | half << 16) & 0x0000_ffff_0000_ffff;
        digits = (digits | digits << 8) & 0x00ff_00ff_00ff_00ff;
        digits = (digits | digits << 4) & 0x0f0f_0f0f_0f0f_0f0f;
        let letters = (digits + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
        let text = digits + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'0' - 10);
        out.copy_from_slice(&text.to_be_bytes());
    }
}

fn decimal(mut value: u64, out: &mut [u8]) {
    for pair in out.rchunks_exact_mut(2) {
        let two = (value % 100) as u8;
        pair[0] = b'0' + two / 10;
        pair[1] = b'0' + two % 10;
        value /= 100;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_each_form() {
        let check = |form: NumberEncoding, value, expected: &[u8]| {
            let mut bytes = [b'.'; 18];
            assert_eq!(form.write(value, &mut bytes, 1), expected.len());
            assert_eq!((&bytes[1..=expected.len()], bytes[0]), (expected, b'.'), "{form:?}");
            assert_eq!(bytes[expected.len() + 1], b'.');
        };
        check(NumberEncoding::Hex, 0x0123_4567_89ab_cdef, b"0123456789abcdef");
        check(NumberEncoding::Hex, 0xffff_9999_aaaa_0000, b"ffff9999aaaa0000");
        check(NumberEncoding::DecimalMicros, 1_700_000_000_123_456_000, b"1700000000123456");
        check(NumberEncoding::Big, 258, &[0, 0, 0, 0, 0, 0, 1, 2]);
        check(NumberEncoding::BigMicros, 258_000, &[0, 0, 0, 0, 0, 0, 1, 2]);
        check(NumberEncoding::LittleMicros, 258_000, &[2, 1, 0, 0, 0, 0, 0, 0]);
        check(NumberEncoding::Little, 258, &[2, 1, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn formats_have_names() {
        assert!(Format::ALL.iter().all(|&format| Format::of(format.name()) == Some(format)));
        assert_eq!(Format::of("thrift"), None);
    }

    #[test]
    fn a_call_of_scribe_is_framed() {
        let call = log_call([b"one".to_vec(), b"four".to_vec()].into_iter());
        let len = u32::from_be_bytes([call.bytes[0], call.bytes[1], call.bytes[2], call.bytes[3]]);
        assert_eq!(len as usize, call.bytes.len() - 4);
        assert_eq!(call.unpacked, b"onefour");
        let [(one, to_one), (four, to_four)] = &call.messages[..] else { panic!("two messages") };
        assert_eq!((one.clone(), four.clone()), (0..3, 3..7));
        assert_eq!(&call.bytes[*to_one..to_one + 4], b"b25l");
        assert_eq!(&call.bytes[*to_four..to_four + 8], b"Zm91cg==");
    }
}
