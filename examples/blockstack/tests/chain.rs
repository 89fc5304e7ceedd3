//! Tests of the chain as processes: the chain keeps its data when any process ends, and survives
//! clients that violate the protocol.

mod support;

use blkkin_blockstack::{Address, Load};
use blkkin_sys::testing::{Signal, signal};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;
use support::{Chain, Client, FUA, Random, TRIM, WRITE, WRITE_ZEROES, connect, eventually, runs};

#[test]
fn many_requests_at_once() {
    let mut chain = Chain::start("load", |_| {});
    let mut load = Load::new(chain.nbd(), Duration::from_millis(1500));
    (load.mix, load.flush_every) = (50, 100);
    let report = load.run().unwrap();
    assert!(report.is_right() && report.errors == 0, "{report}");
    assert!(report.verified > 100 && report.flushes > 0, "{report}");
    chain.stop();
    chain.check_copies();
}

/// A chain over TCP with syncing stores serves a load at a fixed rate, without errors.
#[test]
fn over_tcp() {
    let mut chain = Chain::start("tcp", |options| {
        (options.tcp, options.sync) = (true, true);
        options.nbd = Some("127.0.0.1:0".parse().unwrap());
    });
    assert!(matches!(chain.nbd(), Address::Net(address) if !address.ends_with(":0")));
    let mut load = Load::new(chain.nbd(), Duration::from_millis(1000));
    (load.depth, load.rate, load.block) = (4, Some(100.0), 64 << 10);
    let report = load.run().unwrap();
    assert!(report.is_right() && report.errors == 0, "{report}");
    let count = report.read_count() + report.write_count();
    assert!((80..=110).contains(&count), "{report}");
    chain.stop();
}

/// A read of any range returns the last write, across object boundaries too, and after all roles
/// were stopped or killed.
#[test]
fn any_range() {
    // Small files, so that the journal starts new ones.
    let mut chain = Chain::start("ranges", |options| options.journal_size = 1 << 20);
    let size = 16 << 20;
    let mut model = vec![0; size];
    let mut random = Random::new(7);
    for round in 0..3 {
        let mut client = chain.client();
        assert_eq!(client.size, 64 << 20);
        for _ in 0..150 {
            let length = match random.below(4u32) {
                0 => random.below(6usize << 20),
                1 => random.below(70_000),
                _ => random.below(5000),
            };
            let offset = match random.chance(30) {
                // An offset near an object boundary.
                true => (random.below(4usize) * (4 << 20)).saturating_sub(random.below(4096)),
                false => random.below(size),
            };
            let length = length.min(size - offset);
            let range = offset..offset + length;
            let (at, count) = (offset as u64, length as u32);
            match random.below(5u32) {
                0 | 1 => {
                    let byte = random.next() as u8;
                    let bytes: Vec<u8> = (0..length).map(|at| at as u8 ^ byte).collect();
                    let fua = if random.chance(10) { FUA } else { 0 };
                    assert_eq!(client.ask(WRITE | fua, at, count, &bytes), 0);
                    model[range].copy_from_slice(&bytes);
                }
                2 => {
                    let command = random.one_of(&[TRIM, WRITE_ZEROES]);
                    assert_eq!(client.ask(command, at, count, &[]), 0);
                    model[range].fill(0);
                }
                3 if random.chance(20) => client.flush(),
                _ => assert!(client.read_at(at, count) == model[range], "{at}+{count}"),
            }
        }
        client.flush();
        if round == 1 {
            // Kill all roles at once, as far as possible.
            for name in ["store.1", "store.2", "mapper", "composer", "nbd"] {
                chain.stack().kill(name).unwrap();
            }
            chain.stack = None;
        } else {
            chain.stop();
            chain.check_copies();
        }
        chain.start_again();
        assert!(chain.client().read_at(0, size as u32) == model, "after round {round}");
    }
}

/// While one store is down, reads succeed and writes fail. After its restart, no acknowledged write
/// is lost and both copies are equal again.
#[test]
fn a_store_is_killed() {
    let mut chain = Chain::start("killed", |_| {});
    for name in ["store.1", "store.2"] {
        let mut load = Load::new(chain.nbd(), Duration::from_millis(2500));
        (load.mix, load.flush_every, load.allow_errors) = (50, 500, true);
        load.region = Some(8 << 20);
        let journal = chain.scratch.0.join(name.replace('.', "")).join("journal");
        let report = std::thread::scope(|scope| {
            let running = scope.spawn(move || load.run());
            eventually("there are writes", || size_of(&journal) > 1 << 20);
            chain.stack().kill(name).unwrap();
            let mut client = chain.client();
            eventually("it is missed", || client.ask(WRITE, 0, 512, &[1; 512]) == 5);
            for _ in 0..100 {
                client.read_at(4096, 4096);
            }
            chain.stack().restart(name).unwrap();
            running.join().unwrap().unwrap()
        });
        assert!(report.is_right(), "{report}");
        assert!(report.errors > 0 && report.write_count() > 100, "{report}");
        let mut client = chain.client();
        eventually("it is used again", || client.ask(WRITE, 0, 512, &[2; 512]) == 0);
    }
    chain.stop();
    chain.check_copies();
}

/// Returns the total size of a directory's files.
fn size_of(directory: &Path) -> u64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

/// With both stores down, reads and flushes fail instead of waiting. Reads succeed again with one
/// store, flushes with both.
#[test]
fn all_stores_are_gone() {
    let mut chain = Chain::start("gone", |_| {});
    let mut client = chain.client();
    client.write_at(0, &[3; 4096]);
    chain.stack().kill("store.1").unwrap();
    chain.stack().kill("store.2").unwrap();
    eventually("it is missed", || client.ask(0, 0, 0, &[]) == 0 && client.ask(3, 0, 0, &[]) == 5);
    assert_eq!(client.ask(0, 0, 4096, &[]), 5);
    chain.stack().restart("store.2").unwrap();
    eventually("one is there", || {
        client.ask(0, 0, 512, &[]) == 0 && {
            // The data follows the reply.
            client.skip(512);
            true
        }
    });
    chain.stack().restart("store.1").unwrap();
    eventually("both are there", || client.ask(3, 0, 0, &[]) == 0);
    assert_eq!(client.read_at(0, 4096), [3; 4096]);
}

#[test]
fn what_is_out_of_bounds() {
    let mut chain = Chain::start("bounds", |_| {});
    let address = chain.nbd();
    let mut client = Client::new(&address, "small");
    assert_eq!(client.size, 1 << 20);
    let end = 1 << 20;
    client.write_at(end - 512, &[9; 512]);
    assert_eq!(client.ask(WRITE, end - 511, 512, &[9; 512]), 28);
    assert_eq!(client.ask(0, end, 1, &[]), 22);
    assert_eq!(client.ask(0, u64::MAX, u32::MAX, &[]), 75);
    assert_eq!(client.ask(TRIM, 0, u32::MAX, &[]), 28);
    assert_eq!(client.ask(77, 0, 0, &[]), 22);
    assert_eq!(client.read_at(end - 512, 512), [9; 512]);
    // Another volume has separate blocks.
    assert_eq!(chain.client().read_at(end - 512, 512), [0; 512]);
}

/// Clients that violate the protocol, stay idle or read no replies do not affect another client.
#[test]
fn hostile_clients() {
    let mut chain = Chain::start("hostile", |_| {});
    let address = chain.nbd();
    let mut good = chain.client();
    good.write_at(0, &[5; 4096]);
    let greet = |bytes: &[u8]| {
        let mut stream = connect(&address);
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        let _ = stream.write_all(bytes);
        stream
    };
    let is_dropped = |bytes: &[u8]| {
        let mut rest = Vec::new();
        // The server may also reset the connection.
        let _ = greet(bytes).read_to_end(&mut rest);
    };
    let begun = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk";
    let with = |more: &[u8]| [&begun[..], more].concat();
    is_dropped(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    is_dropped(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\xff\xff\xff\xff");
    is_dropped(b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04none");
    is_dropped(&with(&[0xff; 4096]));
    // A write of 4 GiB.
    let mut write = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 1];
    write.extend_from_slice(&[0; 16]);
    write.extend_from_slice(&[0xff; 4]);
    is_dropped(&with(&write));
    // More connections than the server has slots, idle or with an incomplete handshake.
    let idle: Vec<_> = (0..100)
        .map(|at| {
            let mut stream = connect(&address);
            let _ = stream.write_all(&begun[..at % begun.len()]);
            stream
        })
        .collect();
    assert_eq!(good.read_at(0, 4096), [5; 4096]);
    drop(idle);
    // A client that sends requests and never reads replies.
    let mut request = vec![0x25, 0x60, 0x95, 0x13, 0, 0, 0, 0];
    request.extend_from_slice(&[0; 16]);
    request.extend_from_slice(&(32u32 << 20).to_be_bytes());
    let deaf = greet(&with(&request.repeat(1000)));
    for _ in 0..20 {
        assert_eq!(good.read_at(0, 4096), [5; 4096]);
    }
    drop(deaf);
    // A slot is free again.
    eventually("another one is let in", || {
        let mut stream = connect(&address);
        stream.read_exact(&mut [0; 18]).is_ok()
    });
}

/// The processes of all roles end when `blockstack all` receives SIGTERM, SIGINT or SIGKILL.
#[test]
fn nothing_is_left_running() {
    for cause in [Signal::TERM, Signal::INT, Signal::KILL] {
        let scratch = blkkin_sys::testing::Scratch::new("bs-all");
        let mut all = Command::new(env!("CARGO_BIN_EXE_blockstack"))
            .args(["all", "--dir"])
            .arg(&scratch.0)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ids = Vec::new();
        for line in BufReader::new(all.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if line.starts_with("ready: nbd+unix:///disk?socket=") {
                break;
            }
            let words: Vec<&str> = line.split_whitespace().collect();
            ids.push(words[2].parse::<u32>().unwrap());
        }
        assert_eq!(ids.len(), 5);
        assert!(ids.iter().all(|id| runs(*id)));
        signal(all.id(), cause);
        let status = all.wait().unwrap();
        assert_eq!(status.success(), cause != Signal::KILL, "{status}");
        eventually("all have ended", || !ids.iter().any(|id| runs(*id)));
    }
}
