//! Tests of export over Scribe: each span is a message of the category, batches are sent again
//! after TRY_LATER or a failed connection, and compression is refused.

use crate::accounts::{finish, numbers, options, push};
use blkkin_deliver::{Error, Exporter, Options};
use blkkin_scribe::{Entries, Handler, ResultCode, Server, ServerOptions, base64};
use blkkin_wire::Format;
use std::sync::Mutex;
use std::time::Duration;

/// A handler that accepts every second call, and answers the others with TRY_LATER.
#[derive(Default)]
struct Half {
    calls: Mutex<Vec<Vec<u64>>>,
}

impl Handler for Half {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        let mut spans = Vec::new();
        for entry in entries.iter() {
            assert_eq!(entry.category, b"web");
            let mut bytes = Vec::new();
            base64::decode(entry.message, &mut bytes).expect("base64");
            spans.extend(numbers(Format::ZipkinThriftSpan, &bytes));
        }
        let mut calls = self.calls.lock().expect("no panic");
        calls.push(spans);
        if calls.len().is_multiple_of(2) { ResultCode::Ok } else { ResultCode::TryLater }
    }
}

#[test]
fn spans_arrive() {
    let scratch = tempfile::tempdir().expect("a folder");
    let server = Server::bind("127.0.0.1:0", ServerOptions::default()).expect("a port");
    let running = server.start(Half::default()).expect("a server");
    let url = format!("scribe://{}/web", running.address());
    let queue = Some(scratch.path().to_owned());
    let exporter = Exporter::open(Options { queue, ..options(&url) }).expect("an exporter");
    for batch in 0..3 {
        (0..10).for_each(|number| push(&exporter, batch * 10 + number));
        exporter.flush().expect("room");
    }
    let counters = finish(exporter);
    assert_eq!((counters.delivered, counters.retries), (30, 3));
    let calls = running.handler().calls.lock().expect("no panic").clone();
    let batch = |number: u64| (number * 10..number * 10 + 10).collect::<Vec<_>>();
    assert_eq!(calls, [batch(0), batch(0), batch(1), batch(1), batch(2), batch(2)]);
}

#[test]
fn a_server_that_is_not_there_is_waited_for() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    drop(listener);
    let exporter =
        Exporter::open(options(&format!("scribe://{address}/web"))).expect("an exporter");
    (0..10).for_each(|number| push(&exporter, number));
    assert!(!exporter.wait_until_empty(Duration::from_millis(20)));
    let running = Server::bind(address, ServerOptions::default()).expect("the port");
    let running = running.start(Half::default()).expect("a server");
    assert_eq!(finish(exporter).delivered, 10);
    drop(running);
}

#[test]
fn what_scribe_does_not_know_is_refused() {
    let options = options("scribe://127.0.0.1");
    let error = Exporter::open(Options { gzip: true, ..options }).map(drop).expect_err("an error");
    assert!(matches!(error, Error::Options(_)), "{error}");
}
