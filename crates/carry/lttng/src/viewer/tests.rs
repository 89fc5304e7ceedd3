//! Messages of real peers, decoded and encoded again; hostile counts and values.

use super::*;
use crate::PacketIndex;
use blkkin_ctf::clock_offsets::{Measurement, Measurements};
use blkkin_ctf::schema::Uuid;

fn check_request(bytes: &[u8], request: Request) {
    assert_eq!(Request::decode(bytes), Ok(Some((request, bytes.len()))));
    for size in 0..bytes.len() {
        assert_eq!(Request::decode(&bytes[..size]), Ok(None), "{size}");
    }
    let mut out = Vec::new();
    request.encode(&mut out);
    assert_eq!(out, bytes, "{request:?}");
}

fn check_reply(kind: RequestKind, reply: &Reply) -> Vec<u8> {
    let mut out = Vec::new();
    reply.encode(&mut out);
    assert_eq!(Reply::decode(kind, &out), Ok(Some((reply.clone(), out.len()))));
    for size in 0..out.len() {
        assert_eq!(Reply::decode(kind, &out[..size]), Ok(None), "{size}");
    }
    out
}

#[test]
fn requests_of_babeltrace2_decode() {
    let header =
        |size: u8, number: u8| [&[0; 7][..], &[size], &[0, 0, 0, number], &[0; 4]].concat();
    let connect = [header(20, 1), vec![0xff; 8], [0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 1].to_vec()];
    check_request(&connect.concat(), Request::Connect { major: 2, minor: 4, kind: 1 });
    check_request(&header(0, 2), Request::ListSessions { with_ended: false });
    check_request(&header(0, 8), Request::CreateViewerSession);
    let id = |id: u8| [0, 0, 0, 0, 0, 0, 0, id];
    let attach = [header(20, 3), id(2).to_vec(), id(0).to_vec(), vec![0, 0, 0, 2]];
    check_request(&attach.concat(), Request::Attach { session: 2, seek: Some(Seek::Last) });
    check_request(&[&header(8, 4)[..], &id(5)].concat(), Request::NextIndex { stream: 5 });
    check_request(&[&header(8, 6)[..], &id(6)].concat(), Request::Metadata { stream: 6 });
    check_request(&[&header(8, 7)[..], &id(7)].concat(), Request::NewStreams { session: 7 });
    check_request(&[&header(8, 9)[..], &id(7)].concat(), Request::Detach { session: 7 });
    let packet =
        [header(20, 5), id(5).to_vec(), vec![0, 0, 0, 0, 0, 0, 0x10, 0], vec![0, 0, 16, 0]];
    check_request(&packet.concat(), Request::Packet { stream: 5, offset: 0x1000, size: 0x1000 });
    check_request(&header(0, 99), Request::Unknown(99));
    let mut out = Vec::new();
    Request::Await { room: 1 << 20, count: 7, timeout_ms: 9 }.encode(&mut out);
    check_request(&out, Request::Await { room: 1 << 20, count: 7, timeout_ms: 9 });
    out.clear();
    Request::ListSessions { with_ended: true }.encode(&mut out);
    check_request(&out, Request::ListSessions { with_ended: true });
    out.clear();
    Request::Clocks { session: 7, known: 1 << 40 }.encode(&mut out);
    check_request(&out, Request::Clocks { session: 7, known: 1 << 40 });
}

#[test]
fn requests_with_other_sizes_are_refused() {
    let mut out = Vec::new();
    Request::NextIndex { stream: 5 }.encode(&mut out);
    for size in [0, 7, 9, 20, 21, 255] {
        out[7] = size;
        out.resize(16 + usize::from(size), 0);
        assert!(Request::decode(&out).is_err(), "{size}");
    }
}

#[test]
fn replies_encode_as_they_decode() {
    use RequestKind as Kind;
    let stream = Stream {
        id: 5,
        trace: 2,
        is_metadata: false,
        path: "ust/uid/0/64-bit".to_owned(),
        name: "ch0_1".to_owned(),
    };
    let metadata = Stream { is_metadata: true, name: "metadata".to_owned(), ..stream.clone() };
    let streams = vec![stream, metadata];
    let out = check_reply(
        Kind::Connect,
        &Reply::Connected { connection: 1, major: 2, minor: 13, abilities: 0 },
    );
    assert_eq!(out.len(), 20);
    let session = Session {
        id: 2,
        live_timer_us: 1_000_000,
        clients: 0,
        streams: 3,
        host: "node1".to_owned(),
        name: "lv1".to_owned(),
    };
    let out = check_reply(Kind::ListSessions, &Reply::Sessions(vec![session]));
    assert_eq!(out.len(), 4 + 339);
    check_reply(Kind::ListSessions, &Reply::Sessions(vec![]));
    let attached = Reply::Attached { status: AttachStatus::Ok, streams: streams.clone() };
    assert_eq!(check_reply(Kind::Attach, &attached).len(), 8 + 2 * 4371);
    let attached = Reply::Attached { status: AttachStatus::NotLive, streams: vec![] };
    assert_eq!(check_reply(Kind::Attach, &attached).len(), 8);
    check_reply(Kind::NewStreams, &Reply::NewStreams { status: NewStreamsStatus::Ok, streams });
    let index = PacketIndex {
        packet_bits: 0x8000,
        content_bits: 0x7e0,
        begin: 0x0135_a93b_3ca2,
        end: 0x0135_e47d_0291,
        discarded: 0,
        class: 0,
    };
    let flags = flags::NEW_STREAM;
    let out = check_reply(
        Kind::NextIndex,
        &Reply::Index { offset: 0x1000, index, status: IndexStatus::Ok, flags },
    );
    assert_eq!(out.len(), 64);
    assert_eq!(out[56..], [0, 0, 0, 1, 0, 0, 0, 2]);
    let bytes = b"packet".to_vec();
    let out = check_reply(
        Kind::Packet,
        &Reply::Packet { status: PacketStatus::Ok, flags: 0, bytes: bytes.clone() },
    );
    assert_eq!(out[..12], [0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0, 0]);
    let out = check_reply(Kind::Metadata, &Reply::Metadata { status: MetadataStatus::Ok, bytes });
    assert_eq!(out[..12], [0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 1]);
    check_reply(Kind::CreateViewerSession, &Reply::Status(1));
    check_reply(Kind::Detach, &Reply::Status(2));
    check_reply(Kind::Await, &Reply::News(News::default()));
    let (status, flags, bytes) = (IndexStatus::Ok, flags::NEW_METADATA, b"packet".to_vec());
    let one = StreamNews { stream: 5, offset: 4096, index, status, flags, bytes };
    let empty = StreamNews { bytes: vec![], ..one.clone() };
    let sessions = vec![
        SessionNews { session: 2, complete_ns: u64::MAX, has_streams: false, has_clocks: false },
        SessionNews { session: 3, complete_ns: 0, has_streams: true, has_clocks: true },
    ];
    check_reply(
        Kind::Await,
        &Reply::News(News { is_last: true, sessions, streams: vec![one, empty] }),
    );
    let one = Measurement { monotonic_ns: 1, tsc: 2, reference_ns: 3, error_ns: 4 };
    for list in [vec![], vec![one, one]] {
        let measurements = Measurements { boot: Uuid(*b"0123456789abcdef"), list };
        check_reply(Kind::Clocks, &Reply::Clocks { first: 9, measurements });
    }
}

#[test]
fn hostile_replies_are_refused() {
    for (kind, bytes) in [
        (RequestKind::ListSessions, &[0xff, 0xff, 0xff, 0xff][..]),
        (RequestKind::Attach, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff]),
        (RequestKind::Attach, &[0, 0, 0, 9]),
        (RequestKind::Metadata, &[0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
        (RequestKind::Await, &[0, 0, 0, 1, 0, 1, 0, 1]),
        (RequestKind::Await, &[0, 0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]),
        (RequestKind::Clocks, &[&[0; 24][..], &[0, 0, 0x10, 1]].concat()),
        (RequestKind::Packet, &[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0]),
    ] {
        assert!(Reply::decode(kind, bytes).is_err(), "{kind:?}");
    }
}

/// A host's name that is too long for the layout is cut off, not refused: one session must not hide
/// the others.
#[test]
fn long_names_are_cut_off() {
    let session = Session { host: "é".repeat(40), name: "n".repeat(300), ..Session::default() };
    let mut out = Vec::new();
    Reply::Sessions(vec![session]).encode(&mut out);
    let Ok(Some((Reply::Sessions(read), size))) = Reply::decode(RequestKind::ListSessions, &out)
    else {
        panic!("sessions");
    };
    assert_eq!((size, read[0].host.chars().count(), read[0].name.len()), (343, 31, 254));
}
