//! Tests of messages and streams of all kinds. The definition of each message type includes a
//! generator of random values, which draws from `Random`.

mod golden;
mod hostile;
mod refusals;
mod streams;

pub(crate) use blkkin_sys::testing::Random;

use crate::message::Messages;
use crate::{Decoder, Fault, Received, encode};

/// Encodes a message as a frame.
fn frame<M: Messages>(message: &M) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(message, &mut bytes).expect("a message within limits");
    bytes
}

/// Returns `count` distinct descriptors, as plain numbers.
fn descriptors(count: usize) -> Vec<usize> {
    (0..count).collect()
}

/// Wraps a message as the decoder returns it, with the number of descriptors that its kind
/// requires.
fn received<M: Messages>(message: M) -> Received<M, usize> {
    let descriptors = descriptors(message.kind().descriptors());
    Received::Message { message, descriptors }
}

/// Encodes an invalid message and returns the error. Checks that nothing was appended to the
/// buffer.
fn unfit<M: Messages>(message: &M) -> Fault {
    let mut bytes = b"before".to_vec();
    let fault = encode(message, &mut bytes).expect_err("a message beyond limits");
    assert_eq!(bytes, b"before");
    fault
}

/// Feeds bytes and descriptors to a decoder. Returns all decoded messages, and the text of the
/// decoder's error, if any.
fn decode<M: Messages>(
    decoder: &mut Decoder<M, usize>,
    bytes: &[u8],
    descriptors: Vec<usize>,
) -> (Vec<Received<M, usize>>, Result<(), String>) {
    decoder.feed(bytes, descriptors);
    let mut all = Vec::new();
    loop {
        match decoder.take() {
            Ok(Some(received)) => all.push(received),
            Ok(None) => return (all, Ok(())),
            Err(error) => return (all, Err(error.to_string())),
        }
    }
}
