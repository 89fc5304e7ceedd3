//! Tests with a first connection that is cut after 0, 5, 10, … bytes, in either direction. All
//! spans arrive nevertheless, and each is counted.

use crate::accounts::{finish, options, push};
use crate::server::{Reply, Server, ServerOptions};
use blkkin_deliver::Exporter;
use blkkin_wire::Format;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A proxy that cuts the first connection after a number of bytes in either direction.
struct Cutter {
    address: SocketAddr,
    /// Bytes that the first connection transferred from client to server; `back` counts the other
    /// direction.
    there: Arc<AtomicU64>,
    back: Arc<AtomicU64>,
}

impl Cutter {
    fn new(to: SocketAddr, there_max: u64, back_max: u64) -> Cutter {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let (there, back) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let counts = (Arc::clone(&there), Arc::clone(&back));
        std::thread::spawn(move || {
            for (index, client) in listener.incoming().take(4).enumerate() {
                let Ok(client) = client else { return };
                let Ok(server) = TcpStream::connect(to) else { return };
                let (there_max, back_max) =
                    if index == 0 { (there_max, back_max) } else { (u64::MAX, u64::MAX) };
                let counts = (index == 0).then(|| (Arc::clone(&counts.0), Arc::clone(&counts.1)));
                let (there, back) = counts.unzip();
                pass(&client, &server, there_max, there);
                pass(&server, &client, back_max, back);
            }
        });
        Cutter { address, there, back }
    }
}

/// Starts a thread that forwards up to `bytes_max` bytes, adds their number to `count`, and then
/// closes both connections.
fn pass(from: &TcpStream, to: &TcpStream, bytes_max: u64, count: Option<Arc<AtomicU64>>) {
    let (mut from, mut to) =
        (from.try_clone().expect("a socket"), to.try_clone().expect("a socket"));
    std::thread::spawn(move || {
        let (mut left, mut memory) = (bytes_max, [0; 4096]);
        while left > 0 {
            let room = left.min(memory.len() as u64) as usize;
            let Ok(size @ 1..) = from.read(&mut memory[..room]) else { break };
            left -= size as u64;
            if let Some(count) = &count {
                count.fetch_add(size as u64, Ordering::Relaxed);
            }
            if to.write_all(&memory[..size]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
    });
}

/// Sends two batches through a proxy that cuts the first connection, and checks that both are
/// delivered. Returns the number of bytes that the first connection transferred in each direction.
#[track_caller]
fn check(scheme: &str, there_max: u64, back_max: u64) -> (u64, u64) {
    let is_http2 = scheme == "otlp";
    let server = Server::start(ServerOptions { is_http2, tls: None }, move |_, _| match is_http2 {
        true => Reply::Trailers(vec![0; 5], vec![("grpc-status", "0".to_owned())]),
        false => Reply::status(202),
    });
    let cutter = Cutter::new(server.address, there_max, back_max);
    let path = if is_http2 { "" } else { "/api/v2/spans" };
    let exporter = Exporter::open(options(&format!("{scheme}://{}{path}", cutter.address)));
    let exporter = exporter.expect("an exporter");
    for number in 0..2 {
        push(&exporter, number);
        exporter.flush().expect("room");
    }
    let counters = finish(exporter);
    assert_eq!((counters.delivered, counters.dropped_total()), (2, 0), "{there_max} {back_max}");
    let format = if is_http2 { Format::OtlpProto } else { Format::ZipkinJson };
    let mut numbers = server.numbers(format);
    // Sorted, and with duplicates if an answer was lost.
    assert!(numbers.is_sorted(), "{numbers:?}");
    numbers.dedup();
    assert_eq!(numbers, [0, 1], "{there_max} {back_max}");
    (cutter.there.load(Ordering::Relaxed), cutter.back.load(Ordering::Relaxed))
}

fn sweep(scheme: &str, step: usize) {
    let (there, back) = check(scheme, u64::MAX, u64::MAX);
    assert!(there > 400 && back > 80, "{there} {back}");
    for cut in (0..there).step_by(step) {
        check(scheme, cut, u64::MAX);
    }
    for cut in (0..back).step_by(step) {
        check(scheme, u64::MAX, cut);
    }
}

#[test]
fn http_is_cut_anywhere() {
    sweep("http", 5);
}

#[test]
fn grpc_is_cut_anywhere() {
    sweep("otlp", 5);
}
