//! Tests of handshakes with correct and incorrect clients.

use super::*;

fn volumes() -> Vec<Volume> {
    ["disk=1G", "other=4096"].map(|text| text.parse().unwrap()).into()
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION.to_be_bytes().to_vec();
    bytes.extend_from_slice(&number.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// Encodes the data of the options INFO and GO.
fn wanted(name: &str, infos: &[u16]) -> Vec<u8> {
    let mut bytes = (name.len() as u32).to_be_bytes().to_vec();
    bytes.extend_from_slice(name.as_bytes());
    bytes.extend_from_slice(&(infos.len() as u16).to_be_bytes());
    bytes.extend(infos.iter().flat_map(|info| info.to_be_bytes()));
    bytes
}

/// Returns a handshake that has received the client's flags.
fn begun(flags: u32) -> Handshake {
    let mut handshake = Handshake::default();
    assert_eq!(
        handshake.step(&flags.to_be_bytes(), &volumes(), &mut Vec::new()),
        Step::Consumed(4)
    );
    handshake
}

/// Returns the types and data of the replies to an option.
fn replies(mut bytes: &[u8], option: u32) -> Vec<(u32, Vec<u8>)> {
    let mut replies = Vec::new();
    while !bytes.is_empty() {
        let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
        assert_eq!(bytes[..8], REPLY.to_be_bytes());
        assert_eq!(word(8), option);
        let end = 20 + word(16) as usize;
        replies.push((word(12), bytes[20..end].to_vec()));
        bytes = &bytes[end..];
    }
    replies
}

/// Checks the result of one option and the types of its replies, and that each proper prefix of the
/// option is incomplete. Returns the replies.
#[track_caller]
fn check(number: u32, data: &[u8], expected: Step, kinds: &[u32]) -> Vec<(u32, Vec<u8>)> {
    let bytes = option(number, data);
    let mut output = Vec::new();
    assert_eq!(begun(3).step(&bytes, &volumes(), &mut output), expected);
    let replies = replies(&output, number);
    assert_eq!(replies.iter().map(|reply| reply.0).collect::<Vec<_>>(), kinds);
    for short in 0..bytes.len() {
        let mut output = Vec::new();
        let step = begun(3).step(&bytes[..short], &volumes(), &mut output);
        assert!(matches!(step, Step::Short(needed) if needed > short), "{short}");
        assert!(output.is_empty());
    }
    replies
}

#[test]
fn greeting() {
    let mut output = Vec::new();
    greet(&mut output);
    assert_eq!(output, b"NBDMAGICIHAVEOPT\0\x03");
}

#[test]
fn volumes_are_listed() {
    let got = check(LIST, b"", Step::Consumed(16), &[SERVER, SERVER, ACK]);
    assert_eq!(got[0].1, b"\0\0\0\x04disk");
    check(LIST, b"x", Step::Consumed(17), &[INVALID]);
}

#[test]
fn a_volume_is_chosen() {
    let data = wanted("other", &[INFO_BLOCK_SIZE, INFO_NAME, 77]);
    let whole = 16 + data.len();
    let kinds = [REPLY_INFO, REPLY_INFO, REPLY_INFO, ACK];
    let got = check(GO, &data, Step::Ready(whole, 1), &kinds);
    assert_eq!(got[0].1, [0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 1, 0x6d]);
    assert_eq!(got[1].1, b"\0\x01other");
    assert_eq!(got[2].1, [0, 3, 0, 0, 0, 1, 0, 0, 0x10, 0, 2, 0, 0, 0]);
    check(INFO, &data, Step::Consumed(whole), &kinds);
    check(GO, &wanted("", &[]), Step::Ready(22, 0), &[REPLY_INFO, ACK]);
    check(GO, &wanted("none", &[]), Step::Consumed(26), &[UNKNOWN]);
}

#[test]
fn the_old_way_to_choose() {
    for (flags, size) in [(3, 10), (1, 134)] {
        let mut output = Vec::new();
        let step = begun(flags).step(&option(EXPORT_NAME, b"disk"), &volumes(), &mut output);
        assert_eq!((step, output.len()), (Step::Ready(20, 0), size));
        assert_eq!(output[..10], [0, 0, 0, 0, 0x40, 0, 0, 0, 1, 0x6d]);
    }
    let mut output = Vec::new();
    let unknown = option(EXPORT_NAME, b"none");
    assert_eq!(begun(3).step(&unknown, &volumes(), &mut output), Step::End);
    assert!(output.is_empty());
}

#[test]
fn others_are_refused() {
    check(ABORT, b"", Step::End, &[ACK]);
    // STARTTLS, structured replies, metadata contexts, extended headers, and unknown options.
    for number in [5, 8, 9, 10, 11, 0, u32::MAX] {
        check(number, b"whatever", Step::Consumed(24), &[UNSUPPORTED]);
    }
}

#[test]
fn hostile_clients() {
    let end = |input: &[u8], mut handshake: Handshake| {
        assert_eq!(handshake.step(input, &volumes(), &mut Vec::new()), Step::End);
    };
    end(&0u32.to_be_bytes(), Handshake::default());
    end(&7u32.to_be_bytes(), Handshake::default());
    end(b"GET / HTTP/1.1\r\n\r\n", begun(3));
    // An option with too much data is refused before the data arrives.
    let mut long = option(GO, b"");
    long[12..16].copy_from_slice(&u32::MAX.to_be_bytes());
    end(&long, begun(3));
    // Lengths that exceed the data, or fall short of it.
    for data in
        [&b""[..], b"\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x04disk\0\x01", b"\0\0\0\0\0\0x"]
    {
        check(GO, data, Step::Consumed(16 + data.len()), &[INVALID]);
    }
    // The number of options is limited.
    let mut handshake = begun(3);
    let mut output = Vec::new();
    let list = option(LIST, b"");
    let steps =
        (0..1000).take_while(|_| handshake.step(&list, &volumes(), &mut output) != Step::End);
    assert_eq!(steps.count(), 256);
}

/// An option with one changed byte is processed without exceeding the input, ends the handshake, or
/// makes it wait for a bounded number of bytes.
#[test]
fn damaged_options() {
    let bytes = option(GO, &wanted("disk", &[3]));
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            match begun(3).step(&damaged, &volumes(), &mut Vec::new()) {
                Step::Short(size) => assert!(size <= 16 + DATA_MAX as usize),
                Step::Consumed(size) | Step::Ready(size, _) => assert!(size <= bytes.len()),
                Step::End => {}
            }
        }
    }
}
