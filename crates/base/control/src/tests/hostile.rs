//! Streams with random or malicious damage. Decoding does not panic, and the decoder's memory is
//! bounded by the received bytes. An error states its position, unless the peer has another
//! protocol or major version. The result does not depend on how the stream is split into pieces.

use super::{Random, decode, frame};
use crate::message::{HEADER_SIZE, Messages};
use crate::{
    Answer, Decoder, FromApplication, Opening, Received, Reply, Request, ToApplication, Version,
};

/// Encodes a stream of random messages, then changes, removes, doubles or inserts some of its
/// bytes.
fn damaged<M: Messages>(random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(6) {
        let kind = M::KINDS[random.below(M::KINDS.len())];
        bytes.extend(frame(&M::make(kind, random)));
    }
    for _ in 0..1 + random.below(3) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] ^= 1 << random.below(8),
            2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            3 => drop(bytes.drain(at..(at + 1 + random.below(8)).min(bytes.len()))),
            4 => bytes.insert(at, random.next() as u8),
            _ => bytes.extend_from_within(at..(at + 20).min(bytes.len())),
        }
        if bytes.is_empty() {
            bytes.push(0);
        }
    }
    bytes
}

/// Decoded messages of a stream; final result of the decoder; true if the sender has a newer
/// version.
type Outcome<M> = (Vec<Received<M, usize>>, Result<(), String>, bool);

/// Decodes a stream in pieces. Each call of `size` returns the size of the next piece in bytes.
fn in_pieces<M: Messages>(bytes: &[u8], mut size: impl FnMut() -> usize) -> Outcome<M> {
    let mut decoder: Decoder<M, usize> = Decoder::new();
    let (mut all, mut rest) = (Vec::new(), bytes);
    while !rest.is_empty() {
        let (piece, later) = rest.split_at(size().min(rest.len()));
        let (arrived, end) = decode(&mut decoder, piece, vec![]);
        all.extend(arrived);
        if end.is_err() {
            // No message follows an error, and the error persists.
            assert_eq!(decode(&mut decoder, later, vec![1]), (vec![], end.clone()));
            return (all, end, decoder.peer() > Some(Version::OURS));
        }
        rest = later;
    }
    (all, Ok(()), decoder.peer() > Some(Version::OURS))
}

#[test]
fn damaged_streams_are_survived() {
    fn check<M: Messages>() -> [usize; 2] {
        let mut random = Random::new(4);
        let mut ends = [0, 0];
        for _ in 0..3000 {
            let bytes = damaged::<M>(&mut random);
            let whole = in_pieces::<M>(&bytes, || usize::MAX);
            assert_eq!(in_pieces(&bytes, || 1 + random.below(40)), whole);
            let (all, end, newer) = whole;
            let mut again = Vec::new();
            for received in &all {
                match received {
                    Received::Message { message, .. } => again.extend(frame(message)),
                    Received::Unknown { .. } => assert!(newer),
                }
            }
            // Re-encoding yields the same bytes, since each value has one encoding.
            assert!(newer || bytes.starts_with(&again));
            if let Err(error) = &end {
                let place = error.strip_prefix("byte ").and_then(|rest| rest.split_once(':'));
                let offset: Option<usize> = place.and_then(|(offset, _)| offset.parse().ok());
                match offset {
                    Some(offset) => {
                        assert!(offset <= bytes.len() && (newer || offset >= again.len()))
                    }
                    None => assert!(error.starts_with("the other side"), "{error}"),
                }
            }
            ends[usize::from(end.is_err())] += 1;
        }
        ends
    }
    for [fine, errors] in [
        check::<Opening>(),
        check::<Answer>(),
        check::<FromApplication>(),
        check::<ToApplication>(),
        check::<Request>(),
        check::<Reply>(),
    ] {
        // Both valid and invalid streams occurred.
        assert!(fine > 100 && errors > 500, "{fine} {errors}");
    }
}

#[test]
fn noise_is_survived() {
    let mut random = Random::new(5);
    for _ in 0..3000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        let (messages, end, _) = in_pieces::<Opening>(&bytes, || 7);
        assert!(messages.is_empty());
        assert!(end.is_err() || bytes.len() < HEADER_SIZE);
    }
}

/// The decoder allocates memory only for received bytes, not for the size that a header announces.
#[test]
fn nothing_is_allocated_for_what_is_said() {
    let mut decoder: Decoder<Reply, usize> = Decoder::new();
    let mut header = (1u32 << 20).to_le_bytes().to_vec();
    header.extend(0x0405u16.to_le_bytes());
    assert_eq!(decode(&mut decoder, &header, vec![]), (vec![], Ok(())));
    assert!(decoder.room() < 100, "{}", decoder.room());
    for _ in 0..1000 {
        assert_eq!(decode(&mut decoder, &[0; 100], vec![]), (vec![], Ok(())));
    }
    assert!(decoder.room() <= 2 * 100_006, "{}", decoder.room());
}

/// The decoder frees a large buffer in the first feed after all messages in it have been decoded.
#[test]
fn room_is_given_back() {
    let mut decoder: Decoder<Request, usize> = Decoder::new();
    let large = Request::SetSampling(Some("1/5".into()));
    let mut bytes = Vec::new();
    while bytes.len() < 1 << 20 {
        bytes.extend(frame(&large));
    }
    let (all, end) = decode(&mut decoder, &bytes, vec![]);
    assert_eq!((all.len(), end), (bytes.len() / frame(&large).len(), Ok(())));
    assert_eq!(decode(&mut decoder, &bytes[..1], vec![]), (vec![], Ok(())));
    assert!(decoder.room() < 100, "{}", decoder.room());
}
