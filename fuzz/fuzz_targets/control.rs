//! Fuzzes the decoder of messages between programs, commands and the agent. The decoder survives
//! any stream, its result does not depend on how the stream is split, and each message round-trips
//! unchanged.
//!
//! The first byte selects the check: a whole connection as the agent, a program or a command
//! decodes it, or a stream of one message type. For a stream, the low 6 bits of the second byte are
//! the chunk size in bytes (0 for a single chunk), and the high 2 bits the number of descriptors
//! with the first chunk.
#![no_main]

use blkkin_control::{
    Answer, DecodeError, Decoder, FromApplication, Messages, Opening, Received, Reply, Request,
    Role, ToApplication, Version, encode,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((&[who, cut], stream)) = input.split_first_chunk::<2>() else { return };
    match who % 8 {
        0 => check_agent_side(stream),
        1 => check_client_side::<ToApplication>(stream),
        2 => check_client_side::<Reply>(stream),
        3 => check_stream::<FromApplication>(stream, cut),
        4 => check_stream::<ToApplication>(stream, cut),
        5 => check_stream::<Request>(stream, cut),
        6 => check_stream::<Reply>(stream, cut),
        _ => check_stream::<Opening>(stream, cut),
    }
});

/// Decodes a whole connection as the agent does.
fn check_agent_side(stream: &[u8]) {
    let mut decoder: Decoder<Opening, ()> = Decoder::new();
    decoder.feed(stream, []);
    let Ok(Some(Received::Message { message: Opening::Hello(hello), .. })) = decoder.take() else {
        return;
    };
    match hello.role {
        Role::Application { .. } | Role::Kernel => {
            check_after_opening::<_, FromApplication>(decoder)
        }
        Role::Command => check_after_opening::<_, Request>(decoder),
    }
}

/// Decodes a whole connection as a program or command does.
fn check_client_side<M: Messages>(stream: &[u8]) {
    let mut decoder: Decoder<Answer, ()> = Decoder::new();
    decoder.feed(stream, []);
    if let Ok(Some(_)) = decoder.take() {
        check_after_opening::<_, M>(decoder);
    }
}

/// Decodes the messages that follow the opening of a connection.
fn check_after_opening<M: Messages, N: Messages>(decoder: Decoder<M, ()>) {
    let newer = decoder.peer() > Some(Version::OURS);
    let mut decoder: Decoder<N, ()> = decoder.followed_by();
    let mut all = Vec::new();
    let _ = decode_all(&mut decoder, &mut all);
    for received in all {
        match received {
            Received::Message { message, .. } => {
                encode(&message, &mut Vec::new()).expect("what came can be sent");
            }
            Received::Unknown { .. } => assert!(newer),
        }
    }
}

/// Decodes a stream in chunks and as a whole, and encodes the messages again.
fn check_stream<M: Messages>(stream: &[u8], cut: u8) {
    let piece_size = match cut & 0x3f {
        0 => usize::MAX,
        size => size.into(),
    };
    let mut descriptors = vec![(); usize::from(cut >> 6)];
    let (mut decoder, mut all, mut end) = (Decoder::<M, ()>::new(), Vec::new(), Ok(()));
    for piece in stream.chunks(piece_size) {
        decoder.feed(piece, std::mem::take(&mut descriptors));
        end = decode_all(&mut decoder, &mut all);
    }
    if cut >> 6 == 0 {
        let (mut decoder, mut whole) = (Decoder::<M, ()>::new(), Vec::new());
        decoder.feed(stream, []);
        assert_eq!(decode_all(&mut decoder, &mut whole), end);
        assert_eq!(whole, all);
    }
    let mut again = Vec::new();
    for received in &all {
        // Only a peer of a newer version may send unknown messages, which cannot be encoded here.
        let Received::Message { message, descriptors } = received else { return };
        assert_eq!(descriptors.len(), message.kind().descriptors());
        encode(message, &mut again).expect("what came can be sent");
    }
    assert!(stream.starts_with(&again) || decoder.peer() > Some(Version::OURS));
    if let Err(error) = end {
        assert!(error.offset <= stream.len() as u64, "{error}");
    }
}

/// Decodes messages until no complete message is left. Checks that an error is permanent.
fn decode_all<M: Messages>(
    decoder: &mut Decoder<M, ()>,
    all: &mut Vec<Received<M, ()>>,
) -> Result<(), DecodeError> {
    loop {
        match decoder.take() {
            Ok(Some(received)) => all.push(received),
            Ok(None) => return Ok(()),
            Err(error) => {
                assert_eq!(decoder.take(), Err(error));
                assert!(!error.to_string().is_empty());
                return Err(error);
            }
        }
    }
}
