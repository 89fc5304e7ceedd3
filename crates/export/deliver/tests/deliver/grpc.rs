//! Tests of the exporter's reaction to answers of gRPC destinations.

use crate::accounts::{finish, options, push};
use crate::server::{Reply, Server, ServerOptions};
use blkkin_deliver::{Cause, Counters, Exporter, Options};
use blkkin_wire::Format;
use std::time::{Duration, Instant};

/// `google.rpc.Status`: code 14, with a `RetryInfo` of one second.
const RETRY_INFO: &str = "CA4aMAoodHlwZS5nb29nbGVhcGlzLmNvbS9nb29nbGUucnBjLlJldHJ5SW5mbxIECgIIAQ";

fn trailers(list: &[(&'static str, &str)]) -> Reply {
    Reply::Trailers(
        Vec::new(),
        list.iter().map(|(name, value)| (*name, (*value).to_owned())).collect(),
    )
}

fn ok(body: &[u8]) -> Reply {
    let mut framed = vec![0, 0, 0, 0, body.len() as u8];
    framed.extend_from_slice(body);
    Reply::Trailers(framed, vec![("grpc-status", "0".to_owned())])
}

/// Sends two batches of ten spans. The server answers the first requests with `replies`, and later
/// requests with the status OK.
fn send(gzip: bool, replies: Vec<Reply>) -> (Server, Counters) {
    let how = ServerOptions { is_http2: true, tls: None };
    let server =
        Server::start(how, move |count, _| replies.get(count).cloned().unwrap_or_else(|| ok(b"")));
    let url = format!("otlp://{}", server.address);
    let exporter = Exporter::open(Options { gzip, ..options(&url) }).expect("an exporter");
    for batch in 0..2 {
        (0..10).for_each(|number| push(&exporter, batch * 10 + number));
        exporter.flush().expect("room");
    }
    let counters = finish(exporter);
    (server, counters)
}

#[test]
fn spans_arrive() {
    for gzip in [false, true] {
        let (server, counters) = send(gzip, Vec::new());
        assert_eq!(server.numbers(Format::OtlpProto), (0..20).collect::<Vec<_>>());
        assert_eq!(counters.delivered, 20);
        let asked = &server.asked()[0];
        assert_eq!(asked.uri.path(), "/opentelemetry.proto.collector.trace.v1.TraceService/Export");
        assert_eq!(
            asked.uri.authority().map(|it| it.as_str()),
            Some(server.address.to_string().as_str())
        );
        assert_eq!(asked.header("te"), Some("trailers"));
    }
}

#[test]
fn what_fails_for_now_is_sent_again() {
    let rejected = ok(b"\x0a\x07\x08\x02\x12\x03old");
    let unavailable = trailers(&[("grpc-status", "14"), ("grpc-message", "busy")]);
    let in_head = Reply::Answer(200, vec![("grpc-status", "14".to_owned())], Vec::new());
    let proxy = Reply::status(503);
    let replies = vec![unavailable, in_head, proxy, Reply::Reset, trailers(&[]), rejected];
    let (server, counters) = send(false, replies);
    let batches: Vec<_> =
        server.asked().iter().map(|it| it.numbers(Format::OtlpProto)[0]).collect();
    assert_eq!(batches, [0, 0, 0, 0, 0, 0, 10]);
    assert_eq!((counters.delivered, counters.dropped(Cause::Rejected)), (18, 2));
}

#[test]
fn the_destination_says_when_to_try_again() {
    for status in ["14", "8"] {
        let reply = trailers(&[("grpc-status", status), ("grpc-status-details-bin", RETRY_INFO)]);
        let start = Instant::now();
        let (_, counters) = send(false, vec![reply]);
        assert!(start.elapsed() >= Duration::from_secs(1));
        assert_eq!((counters.delivered, counters.retries), (20, 1));
    }
}

#[test]
fn a_batch_that_nobody_wants_is_not_sent_again() {
    // RESOURCE_EXHAUSTED without a delay means that the batch is too large.
    for status in ["3", "8", "13"] {
        let (server, counters) = send(false, vec![trailers(&[("grpc-status", status)])]);
        assert_eq!(server.asked().len(), 2, "{status}");
        assert_eq!((counters.delivered, counters.dropped(Cause::Refused)), (10, 10), "{status}");
    }
}
