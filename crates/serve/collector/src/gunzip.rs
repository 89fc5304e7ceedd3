//! Unpacks gzip, within limits. Start at [`gunzip`].
//!
//! A small message can unpack to one of any size. So not more than [`DIRECT_BYTES`] are unpacked before it is known how
//! many there will be: what has more is counted first, without being kept, and unpacked again into memory of that size.

use crate::body::{Buffers, Message};
use crate::trouble::Trouble;
use flate2::bufread::MultiGzDecoder;
use std::io::{self, Read};

/// So many bytes are unpacked at once.
const DIRECT_BYTES: usize = 4 << 20;

/// Unpacks a message, which may have so many bytes then.
pub(crate) fn gunzip(packed: &[u8], limit: usize, buffers: &Buffers) -> Result<Message, Trouble> {
    let mut buffer = buffers.take()?;
    let mut decoder = MultiGzDecoder::new(packed);
    let direct = DIRECT_BYTES.min(limit);
    // Packed text has about an eighth of its size.
    buffer.reserve(packed.len().saturating_mul(8).min(direct))?;
    while buffer.bytes().len() < direct {
        let len = buffer.bytes().len();
        buffer.reserve((len + 1).min(direct))?;
        let room = buffer.bytes().capacity().min(direct) - len;
        let bytes = (&mut decoder).take(room as u64).read_to_end(buffer.bytes()).map_err(bad)?;
        if bytes < room {
            return Ok(buffer.into_message());
        }
    }
    let rest = (limit - direct) as u64;
    let more = io::copy(&mut decoder.take(rest + 1), &mut io::sink()).map_err(bad)?;
    if more > rest {
        return Err(Trouble::TooLarge(limit));
    }
    if more == 0 {
        return Ok(buffer.into_message());
    }
    let len = direct + more as usize;
    buffer.bytes().clear();
    // One more, so that the end is seen without growing.
    buffer.reserve_exact(len + 1)?;
    let mut decoder = MultiGzDecoder::new(packed).take(len as u64);
    decoder.read_to_end(buffer.bytes()).map_err(bad)?;
    Ok(buffer.into_message())
}

fn bad(error: io::Error) -> Trouble {
    Trouble::Bad(format!("Cannot gunzip spans: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("to memory");
        encoder.finish().expect("to memory")
    }

    fn check(packed: &[u8], limit: usize, expected: Result<&[u8], &str>) {
        let buffers = Buffers::new(64 << 20);
        let free = buffers.budget().free();
        let found = gunzip(packed, limit, &buffers);
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
        for len in [0, 1, 1000, 100_000, DIRECT_BYTES - 1, DIRECT_BYTES, DIRECT_BYTES + 1, 30 << 20]
        {
            check(&pack(&text[..len]), 64 << 20, Ok(&text[..len]));
            check(&pack(&text[..len]), len, Ok(&text[..len]));
            if len > 0 {
                check(&pack(&text[..len]), len - 1, Err("larger than"));
            }
        }
        let two = [pack(b"one"), pack(b"two")].concat();
        check(&two, 100, Ok(b"onetwo"));
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let packed = pack(b"some spans");
        check(b"", 100, Err("Cannot gunzip spans"));
        check(b"[]", 100, Err("Cannot gunzip spans"));
        for len in 1..packed.len() {
            check(&packed[..len], 100, Err("Cannot gunzip spans"));
        }
        for at in packed.len() - 8..packed.len() {
            let mut packed = packed.clone();
            packed[at] ^= 1;
            check(&packed, 100, Err("Cannot gunzip spans"));
        }
    }

    #[test]
    fn bombs_take_little_memory() {
        let bomb = pack(&vec![0; 256 << 20]);
        let buffers = Buffers::new(2 * DIRECT_BYTES);
        let found = gunzip(&bomb, 64 << 20, &buffers).map(|message| message.len());
        assert_eq!(found, Err(Trouble::TooLarge(64 << 20)));
    }
}
