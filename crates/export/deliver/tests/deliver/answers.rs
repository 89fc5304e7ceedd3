//! Tests of the exporter's reaction to answers of HTTP destinations.

use crate::accounts::{PATIENCE, finish, of_format, options, push};
use crate::server::{Reply, Server};
use blkkin_deliver::{Cause, Exporter, Headers, Options};
use blkkin_wire::Format;
use std::time::{Duration, Instant};

/// Sends three batches of ten spans. The server answers the first requests with `replies`, and
/// later requests with status 202.
fn send(
    options: impl FnOnce(&Server) -> Options,
    replies: &[Reply],
) -> (Server, blkkin_deliver::Counters, Option<String>) {
    let replies = replies.to_vec();
    let server = Server::new(move |count, _| match replies.get(count) {
        Some(reply) => reply.clone(),
        None => Reply::status(202),
    });
    let exporter = Exporter::open(options(&server)).expect("an exporter");
    for batch in 0..3 {
        (0..10).for_each(|number| push(&exporter, batch * 10 + number));
        exporter.flush().expect("room");
    }
    assert!(exporter.wait_until_empty(PATIENCE), "{:?}", exporter.trouble());
    let trouble = exporter.trouble();
    (server, finish(exporter), trouble)
}

#[test]
fn each_format_arrives() {
    for (path, format, content_type) in [
        ("/api/v2/spans", Format::ZipkinJson, "application/json"),
        ("/api/v2/spans", Format::ZipkinProto, "application/x-protobuf"),
        ("/api/v1/spans", Format::ZipkinV1Json, "application/json"),
        ("/api/v1/spans", Format::ZipkinThrift, "application/x-thrift"),
        ("/v1/traces", Format::OtlpProto, "application/x-protobuf"),
        ("/v1/traces", Format::OtlpJson, "application/json"),
    ] {
        for gzip in [false, true] {
            let (server, counters, trouble) =
                send(|server| Options { gzip, ..of_format(&server.url(path), Some(format)) }, &[]);
            assert_eq!(server.numbers(format), (0..30).collect::<Vec<_>>(), "{format:?}");
            assert_eq!((counters.pushed, counters.delivered, counters.batches), (30, 30, 3));
            let is_zipkin = !path.starts_with("/v1");
            for asked in server.asked() {
                assert_eq!(asked.uri.path(), path);
                assert_eq!(asked.header("content-type"), Some(content_type));
                assert_eq!(asked.header("content-encoding"), gzip.then_some("gzip"));
                assert_eq!(asked.header("b3"), is_zipkin.then_some("0"));
                assert_eq!(asked.header("host"), Some(server.address.to_string().as_str()));
            }
            assert_eq!(trouble, None);
        }
    }
}

/// Checks that a batch is sent again, before the next batch, after each of two consecutive answers
/// `reply`.
#[track_caller]
fn check_later(reply: Reply) {
    let replies = [Reply::status(202), reply.clone(), reply.clone()];
    let (server, counters, trouble) =
        send(|server| options(&server.url("/api/v2/spans")), &replies);
    let arrived: Vec<Vec<u64>> =
        server.asked().iter().map(|asked| asked.numbers(Format::ZipkinJson)).collect();
    let batch = |number: u64| (number * 10..number * 10 + 10).collect::<Vec<_>>();
    // The same batch is sent again, in order.
    assert_eq!(arrived, [batch(0), batch(1), batch(1), batch(1), batch(2)], "{reply:?}");
    assert_eq!((counters.delivered, counters.dropped_total()), (30, 0), "{reply:?}");
    assert_eq!(trouble, None);
}

#[test]
fn what_fails_for_now_is_sent_again() {
    for status in [429, 502, 503, 504, 408, 401, 404, 500] {
        check_later(Reply::status(status));
    }
    let retry_after = |value: &str| {
        check_later(Reply::Answer(503, vec![("retry-after", value.to_owned())], b"busy".to_vec()));
    };
    retry_after("0");
    retry_after("nonsense");
    retry_after("Sun, 06 Nov 1994 08:49:37 GMT");
    // Over HTTP/1, a reset of an idle connection is retried at once, with the same result.
    check_later(Reply::Reset);
}

#[test]
fn the_destination_says_when_to_try_again() {
    let replies = [Reply::Answer(429, vec![("retry-after", "1".to_owned())], Vec::new())];
    let start = Instant::now();
    let (_, counters, _) = send(|server| options(&server.url("/api/v2/spans")), &replies);
    assert!(start.elapsed() >= Duration::from_secs(1));
    assert_eq!((counters.delivered, counters.retries), (30, 1));
    // An unreasonable delay is limited.
    let replies = [Reply::Answer(503, vec![("retry-after", u64::MAX.to_string())], Vec::new())];
    let pause_asked_max = Duration::from_millis(5);
    let (_, counters, _) = send(
        |server| Options { pause_asked_max, ..options(&server.url("/api/v2/spans")) },
        &replies,
    );
    assert_eq!((counters.delivered, counters.retries), (30, 1));
}

#[test]
fn a_batch_that_nobody_wants_is_put_aside() {
    for (status, reason) in [(400, "400 Bad Request: no\n"), (413, "413 Payload Too Large: no\n")] {
        let scratch = tempfile::tempdir().expect("a folder");
        let queue = Some(scratch.path().to_owned());
        let replies = [Reply::status(202), Reply::Answer(status, Vec::new(), b"no".to_vec())];
        let (server, counters, trouble) =
            send(|server| Options { queue, ..options(&server.url("/api/v2/spans")) }, &replies);
        assert_eq!(server.numbers(Format::ZipkinJson), (0..30).collect::<Vec<_>>());
        assert_eq!((counters.delivered, counters.dropped(Cause::Refused)), (20, 10));
        assert_eq!((counters.refused_stored, counters.refused_not_stored), (1, 0));
        assert_eq!(trouble, None, "what came later went well");
        let mut files: Vec<_> = std::fs::read_dir(scratch.path().join("refused"))
            .expect("a folder")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        files.sort();
        let [text, body] = files.as_slice() else { panic!("{files:?}") };
        assert_eq!(std::fs::read_to_string(text).expect("text"), reason);
        let body = std::fs::read(body).expect("a batch");
        assert_eq!(
            crate::accounts::numbers(Format::ZipkinJson, &body),
            (10..20).collect::<Vec<_>>()
        );
    }
}

#[test]
fn a_batch_that_always_fails_is_put_aside_at_last() {
    let replies = [Reply::status(500), Reply::status(500), Reply::status(500)];
    let (server, counters, _) = send(
        |server| Options { attempts_max: 3, ..options(&server.url("/api/v2/spans")) },
        &replies,
    );
    assert_eq!(server.asked().len(), 5);
    assert_eq!((counters.delivered, counters.dropped(Cause::Refused)), (20, 10));
    assert_eq!((counters.refused_stored, counters.refused_not_stored), (0, 1));
}

#[test]
fn partial_success_is_counted() {
    let json = vec![("content-type", "application/json".to_owned())];
    let partial = |count: &str| {
        let body =
            format!(r#"{{"partialSuccess":{{"rejectedSpans":"{count}","errorMessage":"old"}}}}"#);
        Reply::Answer(200, json.clone(), body.into_bytes())
    };
    let ok = Reply::status(200);
    let odd = Reply::Answer(200, Vec::new(), b"<html>".to_vec());
    let to = |server: &Server| of_format(&server.url("/v1/traces"), Some(Format::OtlpJson));
    let (_, counters, trouble) = send(to, &[odd, ok.clone(), partial("3")]);
    assert_eq!((counters.delivered, counters.dropped(Cause::Rejected)), (27, 3));
    assert_eq!(
        (counters.answers_malformed, trouble.as_deref()),
        (1, Some("3 spans were rejected: old"))
    );
    // The number of rejected spans is limited to the size of the batch.
    let (_, counters, _) = send(to, &[ok.clone(), ok, partial("9223372036854775807")]);
    assert_eq!((counters.delivered, counters.dropped(Cause::Rejected)), (20, 10));
}

#[test]
fn a_slow_answer_is_not_waited_for() {
    let answer_timeout = Duration::from_millis(300);
    let (server, counters, _) = send(
        |server| Options { answer_timeout, ..options(&server.url("/api/v2/spans")) },
        &[Reply::Silence(PATIENCE)],
    );
    assert_eq!((server.asked().len(), counters.delivered, counters.retries), (4, 30, 1));
}

#[test]
fn an_answer_that_does_not_end_is_cut() {
    let endless = Reply::Answer(400, Vec::new(), vec![b'x'; 3 << 20]);
    let (_, counters, _) = send(|server| options(&server.url("/api/v2/spans")), &[endless]);
    assert_eq!((counters.delivered, counters.dropped(Cause::Refused)), (20, 10));
}

#[test]
fn secrets_are_sent_and_never_shown() {
    let scratch = tempfile::tempdir().expect("a folder");
    let headers =
        Headers::parse("Authorization: Bearer sesame-open\nX-Team: storage").expect("headers");
    let echo = Reply::Answer(400, Vec::new(), b"bad key Bearer sesame-open".to_vec());
    let server = Server::new(move |_, _| echo.clone());
    let queue = Some(scratch.path().to_owned());
    let options =
        Options { queue, headers, ..options(&server.url("/api/v2/spans?key=sesame-query")) };
    let shown = format!("{options:?} {}", options.destination);
    assert!(!shown.contains("sesame"), "{shown}");
    let exporter = Exporter::open(options).expect("an exporter");
    push(&exporter, 0);
    assert!(exporter.wait_until_empty(PATIENCE));
    let trouble = exporter.trouble().expect("a reason");
    assert!(trouble.contains("bad key") && !trouble.contains("sesame"), "{trouble}");
    finish(exporter);
    let asked = &server.asked()[0];
    assert_eq!(asked.header("authorization"), Some("Bearer sesame-open"));
    assert_eq!(
        (asked.header("x-team"), asked.uri.query()),
        (Some("storage"), Some("key=sesame-query"))
    );
    for entry in std::fs::read_dir(scratch.path().join("refused")).expect("a folder") {
        let bytes = std::fs::read(entry.expect("an entry").path()).expect("a file");
        assert!(!String::from_utf8_lossy(&bytes).contains("sesame"));
    }
}

#[test]
fn what_waited_too_long_is_given_up() {
    let server = Server::new(|_, _| Reply::status(503));
    let age_max = Duration::from_millis(50);
    let exporter = Exporter::open(Options { age_max, ..options(&server.url("/api/v2/spans")) });
    let exporter = exporter.expect("an exporter");
    (0..10).for_each(|number| push(&exporter, number));
    let counters = finish(exporter);
    assert_eq!(counters.dropped(Cause::TooOld), 10);
}

#[test]
fn batches_go_by_themselves_when_they_are_old_enough() {
    let server = Server::new(|_, _| Reply::status(202));
    let batch_age = Duration::from_millis(10);
    let exporter = Exporter::open(Options { batch_age, ..options(&server.url("/api/v2/spans")) });
    let exporter = exporter.expect("an exporter");
    for number in 0..3 {
        push(&exporter, number);
        let start = Instant::now();
        while exporter.counters().delivered <= number {
            assert!(start.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
        // Time for the sender to become idle.
        std::thread::sleep(Duration::from_millis(20));
    }
}
