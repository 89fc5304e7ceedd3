//! Unpacks gzip, deflate and Zstandard, within limits. Start at [`unpack`].
//!
//! A small message can unpack to one of any size. So not more than [`DIRECT_BYTES`] are unpacked before it is known how
//! many there will be: what has more is counted first, without being kept, and unpacked again into memory of that size.
//! Zstandard's decoder has a window of its own beside that, of 8 MiB at most, which is what senders over HTTP keep to
//! (RFC 9659).

use crate::body::{Buffers, Message};
use crate::trouble::Trouble;
use flate2::bufread::MultiGzDecoder;
use flate2::{Decompress, FlushDecompress, Status};
use std::io::{self, Read};

/// So many bytes are unpacked at once.
const DIRECT_BYTES: usize = 4 << 20;

/// The largest window of Zstandard's, as a power of two.
const WINDOW_LOG_MAX: u32 = 23;

/// How a message is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Packing {
    None,
    Gzip,
    Deflate,
    Zstd,
}

/// The names of all packings, as HTTP and gRPC have them in lists.
pub(crate) const KNOWN: &str = "identity,gzip,deflate,zstd";

impl Packing {
    /// The packing of this name, as it is in `Content-Encoding`, in any case.
    pub(crate) fn of(name: &str) -> Option<Packing> {
        match name.trim().to_ascii_lowercase().as_str() {
            "" | "identity" => Some(Packing::None),
            "gzip" | "x-gzip" => Some(Packing::Gzip),
            "deflate" => Some(Packing::Deflate),
            "zstd" => Some(Packing::Zstd),
            _ => None,
        }
    }
}

/// Unpacks a message, which may have so many bytes then.
pub(crate) fn unpack(
    packing: Packing,
    packed: Message,
    limit: usize,
    buffers: &Buffers,
) -> Result<Message, Trouble> {
    let unpacked = match packing {
        Packing::None => return Ok(packed),
        Packing::Gzip => read(&packed, limit, buffers, |packed| Ok(MultiGzDecoder::new(packed))),
        Packing::Deflate => read(&packed, limit, buffers, |packed| Ok(Inflate::new(packed))),
        Packing::Zstd => read(&packed, limit, buffers, |packed| {
            if packed.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut decoder = zstd::stream::read::Decoder::with_buffer(packed)?;
            decoder.window_log_max(WINDOW_LOG_MAX)?;
            Ok(decoder)
        }),
    };
    unpacked.map_err(|failure| match failure {
        Failure::Packed(error) => bad(packing, &error),
        Failure::Trouble(trouble) => trouble,
    })
}

/// Why a message is not unpacked.
enum Failure {
    /// It is not packed as it should be.
    Packed(io::Error),
    Trouble(Trouble),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Failure {
        Failure::Packed(error)
    }
}

impl From<Trouble> for Failure {
    fn from(trouble: Trouble) -> Failure {
        Failure::Trouble(trouble)
    }
}

/// Unpacks deflate. Unlike the library's own, it does not take an early end for the end.
struct Inflate<'p> {
    packed: &'p [u8],
    state: Decompress,
    is_ended: bool,
}

impl<'p> Inflate<'p> {
    fn new(packed: &'p [u8]) -> Inflate<'p> {
        // HTTP means zlib by deflate, and some senders leave out what zlib puts around it. RFC 1950: the first two bytes
        // name the method and are a multiple of 31.
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
    // Packed text has about an eighth of its size.
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
        return Err(Trouble::TooLarge(limit).into());
    }
    if more == 0 {
        return Ok(buffer.into_message());
    }
    let len = direct + more as usize;
    buffer.bytes().clear();
    // One more, so that the end is seen without growing.
    buffer.reserve_exact(len + 1)?;
    let mut decoder = decoder_of(packed)?.take(len as u64);
    decoder.read_to_end(buffer.bytes())?;
    Ok(buffer.into_message())
}

fn bad(packing: Packing, error: &io::Error) -> Trouble {
    let what = match packing {
        Packing::None | Packing::Gzip => "gunzip",
        Packing::Deflate => "inflate",
        Packing::Zstd => "decompress",
    };
    Trouble::Bad(format!("Cannot {what} spans: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    type Pack = fn(&[u8]) -> Vec<u8>;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn zlib(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn deflate(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
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

    const ALL: [(Packing, Pack, &str); 4] = [
        (Packing::Gzip, gzip, "Cannot gunzip spans"),
        (Packing::Deflate, zlib, "Cannot inflate spans"),
        (Packing::Deflate, deflate, "Cannot inflate spans"),
        (Packing::Zstd, zstd, "Cannot decompress spans"),
    ];

    #[track_caller]
    fn check(packing: Packing, packed: &[u8], limit: usize, expected: Result<&[u8], &str>) {
        let buffers = Buffers::new(64 << 20);
        let free = buffers.budget().free();
        let message = Message::of(Bytes::copy_from_slice(packed), &buffers);
        let found = unpack(packing, message, limit, &buffers);
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
        for (packing, pack, _) in ALL {
            for len in
                [0, 1, 1000, 100_000, DIRECT_BYTES - 1, DIRECT_BYTES, DIRECT_BYTES + 1, 30 << 20]
            {
                let packed = pack(&text[..len]);
                check(packing, &packed, 64 << 20, Ok(&text[..len]));
                check(packing, &packed, len, Ok(&text[..len]));
                if len > 0 {
                    check(packing, &packed, len - 1, Err("larger than"));
                }
            }
        }
        for (packing, pack) in [(Packing::Gzip, gzip as Pack), (Packing::Zstd, zstd)] {
            check(packing, &[pack(b"one"), pack(b"two")].concat(), 100, Ok(b"onetwo"));
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (packing, pack, expected) in ALL {
            let packed = pack(b"some spans");
            check(packing, b"", 100, Err(expected));
            check(packing, b"[]", 100, Err(expected));
            for len in 1..packed.len() {
                check(packing, &packed[..len], 100, Err(expected));
            }
        }
        // Where a checksum is behind it.
        for (packing, pack, bytes) in [
            (Packing::Gzip, gzip as Pack, 8),
            (Packing::Deflate, zlib, 4),
            (Packing::Zstd, zstd, 4),
        ] {
            let packed = pack(b"some spans");
            for at in packed.len() - bytes..packed.len() {
                let mut packed = packed.clone();
                packed[at] ^= 1;
                check(packing, &packed, 100, Err("spans: "));
            }
        }
    }

    #[test]
    fn bombs_take_little_memory() {
        for (packing, pack, _) in ALL {
            let bomb = pack(&vec![0; 256 << 20]);
            let buffers = Buffers::new(3 * DIRECT_BYTES);
            let message = Message::of(bomb.into(), &buffers);
            let found = unpack(packing, message, 64 << 20, &buffers).map(|message| message.len());
            assert_eq!(found, Err(Trouble::TooLarge(64 << 20)), "{packing:?}");
        }
    }

    #[test]
    fn large_windows_are_refused() {
        let text: Vec<u8> = (0..6_000_000u32).flat_map(u32::to_le_bytes).collect();
        check(Packing::Zstd, &zstd_with(&text, 24), 64 << 20, Err("Cannot decompress spans"));
        check(Packing::Zstd, &zstd_with(&text, 23), 64 << 20, Ok(&text));
    }

    #[test]
    fn names_of_packings() {
        for name in KNOWN.split(',') {
            assert!(Packing::of(name).is_some(), "{name}");
        }
        assert_eq!(Packing::of(" GZip "), Some(Packing::Gzip));
        assert_eq!(Packing::of("gzip, gzip"), None, "packed twice");
        assert_eq!(Packing::of("snappy"), None);
    }
}
