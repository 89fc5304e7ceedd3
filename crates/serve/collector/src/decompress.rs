//! Decompression of gzip, deflate and Zstandard, within limits. Start at [`decompress`].
//!
//! A small message can expand to any size. So at most [`DIRECT_BYTES`] are stored before the size
//! is known. If the message is larger, the first pass only counts the remaining bytes, and a second
//! pass decompresses the whole message into memory of that size. Zstandard's decoder also
//! needs a window of at most 8 MiB, which is the limit for senders over HTTP (RFC 9659).

use crate::body::{Buffers, Message};
use crate::rejection::Rejection;
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, Read};

/// Maximum number of decompressed bytes that are stored before the total size is known.
const DIRECT_BYTES: usize = 4 << 20;

/// Maximum window of Zstandard, as the binary logarithm of its size in bytes.
const WINDOW_LOG_MAX: u32 = 23;

/// Compression method of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compression {
    None,
    Gzip,
    Deflate,
    Zstd,
}

/// Names of all supported methods, as HTTP and gRPC list them in headers.
pub(crate) const KNOWN: &str = "identity,gzip,deflate,zstd";

impl Compression {
    /// Returns the method with this name in `Content-Encoding` or `grpc-encoding`, ignoring case.
    /// `None` if it is not supported.
    pub(crate) fn of(name: &str) -> Option<Compression> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Compression::None),
            "gzip" | "x-gzip" => Some(Compression::Gzip),
            "deflate" => Some(Compression::Deflate),
            "zstd" => Some(Compression::Zstd),
            _ => None,
        }
    }
}

/// Decompresses a message. Fails if the result would exceed `limit` bytes.
pub(crate) fn decompress(
    compression: Compression,
    packed: Message,
    limit: usize,
    buffers: &Buffers,
) -> Result<Message, Rejection> {
    let unpacked = match compression {
        Compression::None => return Ok(packed),
        Compression::Gzip => {
            read(&packed, limit, buffers, |packed| Ok(MultiGzDecoder::new(packed)))
        }
        Compression::Deflate => read(&packed, limit, buffers, |packed| Ok(Inflate::new(packed))),
        Compression::Zstd => read(&packed, limit, buffers, |packed| {
            if packed.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Ok(decoder)
        }),
    };
    unpacked.map_err(|failure| match failure {
        Failure::Packed(error) => bad(compression, &error),
        Failure::Rejection(trouble) => trouble,
    })
}

/// Reason why a message cannot be decompressed.
enum Failure {
    /// The compressed data is invalid.
    Packed(io::Error),
    Rejection(Rejection),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Packed(error)
    }
}

impl From<Rejection> for Failure {
    fn from(trouble: Rejection) -> Failure {
        Failure::Rejection(trouble)
    }
}

/// Decoder of deflate that reports a truncated stream as an error, unlike the library's decoder.
struct Inflate<'p> {
    packed: &'p [u8],
    state: Decompress,
    is_ended: bool,
}

impl<'p> Inflate<'p> {
    fn new(packed: &'p [u8]) -> Inflate<'p> {
        // In HTTP, deflate means zlib, but some senders omit zlib's header. By RFC 1950, its first
        // two bytes contain the method and are a multiple of 31.
        let is_zlib = packed.first_chunk::<2>().is_some_and(|&[method, flags]| {
            method & 15 == 8 && u16::from_be_bytes([method, flags]).is_multiple_of(31)
        });
        Inflate { packed, state: Decompress::new(is_zlib), is_ended: false }
    }
}

impl Read for Inflate<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while !self.is_ended && !out.is_empty() {
            let before = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(self.packed, out, FlushDecompress::None)?;
            let used = (self.state.total_in() - before.0) as usize;
            let written = (self.state.total_out() - before.1) as usize;
            self.packed = self.packed.get(used..).unwrap_or_default();
            self.is_ended = status == Status::StreamEnd;
            if written > 0 {
                return Ok(written);
            }
            if used == 0 && !self.is_ended {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

fn read<'p, R: Read>(
    packed: &'p [u8],
    limit: usize,
    buffers: &Buffers,
    decoder_of: fn(&'p [u8]) -> io::Result<R>,
) -> Result<Message, Failure> {
    let mut buffer = buffers.take()?;
    let mut decoder = decoder_of(packed)?;
    let direct = DIRECT_BYTES.min(limit);
    // Estimate: text compresses to about an eighth of its size.
    buffer.reserve(packed.len().saturating_mul(8).min(direct))?;
    while buffer.bytes().len() < direct {
        let len = buffer.bytes().len();
        buffer.reserve((len + 1).min(direct))?;
        let room = buffer.bytes().capacity().min(direct) - len;
        let bytes = (&mut decoder).take(room as u64).read_to_end(buffer.bytes())?;
        if bytes < room {
            return Ok(buffer.into_message());
        }
    }
    let rest = (limit - direct) as u64;
    let more = io::copy(&mut decoder.take(rest + 1), &mut io::sink())?;
    if more > rest {
        return Err(Rejection::TooLarge(limit).into());
    }
    if more == 0 {
        return Ok(buffer.into_message());
    }
    let len = direct + more as usize;
    buffer.bytes().clear();
    // With a spare byte, the end is detected without growing the buffer.
    buffer.reserve_exact(len + 1)?;
    let mut decoder = decoder_of(packed)?.take(len as u64);
    decoder.read_to_end(buffer.bytes())?;
    Ok(buffer.into_message())
}

fn bad(compression: Compression, error: &io::Error) -> Rejection {
    let what = match compression {
        Compression::None | Compression::Gzip => "gunzip",
        Compression::Deflate => "inflate",
        Compression::Zstd => "decompress",
    };
    Rejection::Invalid(format!("Cannot {what} spans: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    type Pack = fn(&[u8]) -> Vec<u8>;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn zstd_with(bytes: &[u8], window_log: u32) -> Vec<u8> {
        let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), 1).expect("an encoder");
        encoder.window_log(window_log).expect("a window");
        encoder.include_checksum(true).expect("a checksum");
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd_with(bytes, WINDOW_LOG_MAX)
    }

    const ALL: [(Compression, Pack, &str); 4] = [
        (Compression::Gzip, gzip, "Cannot gunzip spans"),
        (Compression::Deflate, zlib, "Cannot inflate spans"),
        (Compression::Deflate, deflate, "Cannot inflate spans"),
        (Compression::Zstd, zstd, "Cannot decompress spans"),
    ];

    #[track_caller]
    fn check(compression: Compression, packed: &[u8], limit: usize, expected: Result<&[u8], &str>) {
        let buffers = Buffers::new(64 << 20);
        let free = buffers.budget().free();
        let message = Message::of(Bytes::copy_from_slice(packed), &buffers);
        let found = decompress(compression, message, limit, &buffers);
        match (&found, expected) {
            (Ok(found), Ok(expected)) => assert!(**found == *expected, "{} bytes", found.len()),
            (Err(found), Err(expected)) => assert!(found.to_string().contains(expected), "{found}"),
            _ => panic!("{:?} instead of {:?}", found.map(|m| m.len()), expected.map(<[u8]>::len)),
        }
        drop(found);
        assert_eq!(buffers.budget().free(), free);
    }

    #[test]
    fn what_was_packed_comes_out() {
        let text: Vec<u8> = (0..9_000_000u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for (compression, pack, _) in ALL {
            for len in
                [0, 1, 1000, 100_000, DIRECT_BYTES - 1, DIRECT_BYTES, DIRECT_BYTES + 1, 30 << 20]
            {
                let packed = pack(&text[..len]);
                check(compression, &packed, 64 << 20, Ok(&text[..len]));
                check(compression, &packed, len, Ok(&text[..len]));
                if len > 0 {
                    check(compression, &packed, len - 1, Err("larger than"));
                }
            }
        }
        for (compression, pack) in [(Compression::Gzip, gzip as Pack), (Compression::Zstd, zstd)] {
            check(compression, &[pack(b"one"), pack(b"two")].concat(), 100, Ok(b"onetwo"));
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (compression, pack, expected) in ALL {
            let packed = pack(b"some spans");
            check(compression, b"", 100, Err(expected));
            check(compression, b"[]", 100, Err(expected));
            for len in 1..packed.len() {
                check(compression, &packed[..len], 100, Err(expected));
            }
        }
        // In formats with a checksum at the end, a flipped bit of the checksum is detected.
        for (compression, pack, bytes) in [
            (Compression::Gzip, gzip as Pack, 8),
            (Compression::Deflate, zlib, 4),
            (Compression::Zstd, zstd, 4),
        ] {
            let packed = pack(b"some spans");
            for at in packed.len() - bytes..packed.len() {
                let mut packed = packed.clone();
                packed[at] ^= 1;
                check(compression, &packed, 100, Err("spans: "));
            }
        }
    }

    #[test]
    fn bombs_take_little_memory() {
        for (compression, pack, _) in ALL {
            let bomb = pack(&vec![0; 256 << 20]);
            let buffers = Buffers::new(3 * DIRECT_BYTES);
            let message = Message::of(bomb.into(), &buffers);
            let found =
                decompress(compression, message, 64 << 20, &buffers).map(|message| message.len());
            assert_eq!(found, Err(Rejection::TooLarge(64 << 20)), "{compression:?}");
        }
    }

    #[test]
    fn large_windows_are_refused() {
        let text: Vec<u8> = (0..6_000_000u32).flat_map(u32::to_le_bytes).collect();
        check(Compression::Zstd, &zstd_with(&text, 24), 64 << 20, Err("Cannot decompress spans"));
        check(Compression::Zstd, &zstd_with(&text, 23), 64 << 20, Ok(&text));
    }

    #[test]
    fn names_of_packings() {
        for name in KNOWN.split(',') {
            assert!(Compression::of(name).is_some(), "{name}");
        }
        assert_eq!(Compression::of(" GZip "), Some(Compression::Gzip));
        assert_eq!(Compression::of("gzip, gzip"), None, "packed twice");
        assert_eq!(Compression::of("snappy"), None);
    }
}
