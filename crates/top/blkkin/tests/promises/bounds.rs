//! Promise D6: memory and disk usage stay within their limits under any load, whether or not the
//! data is read. The tested processes run in control groups, if available, with little more memory
//! than the limits.

use super::*;
use blkkin_scribe::{Batch, Client, ClientOptions, Entry, ResultCode};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use support::process::{Running as Process, until};
use support::server::{Server, http, on_free_ports};
use support::{Scratch, blkkin, bytes_below};

/// Memory limit of a server, in bytes; it does not depend on the size of the store.
const SERVER_BYTES: u64 = 512 << 20;

/// Memory limit of a forwarding daemon, in bytes.
const FORWARDER_BYTES: u64 = 96 << 20;

/// Process whose memory must stay within `bytes`. It runs in a control group with a limit a fifth
/// above `bytes`, if available.
struct Confined {
    group: Option<Group>,
    pid: u32,
    bytes: u64,
}

impl Confined {
    fn new(test: &str, pid: u32, bytes: u64) -> Confined {
        let groups = ["memory", "unified", "."].into_iter().filter_map(Group::new);
        let limit = bytes / 5 * 6;
        let set = |group: &Group| {
            let is_limited =
                group.set("memory.limit_in_bytes", limit) || group.set("memory.max", limit);
            is_limited && group.set("cgroup.procs", pid)
        };
        let group = groups.into_iter().find(set);
        if group.is_none() {
            skip(
                test,
                "no control group that limits memory; what it takes is looked at all the same",
            );
        }
        Confined { group, pid, bytes }
    }

    /// Checks that the peak memory is within the limit, and that the process was not killed for
    /// lack of memory. Returns the peak in bytes.
    #[track_caller]
    fn check(&self) -> u64 {
        let peak = status_of(self.pid, "VmHWM");
        let peak = peak.trim_end_matches(" kB").parse::<u64>().expect("a number") << 10;
        assert!(peak <= self.bytes, "{} MiB of {}", peak >> 20, self.bytes >> 20);
        let said = |file: &str| {
            let path = self.group.as_ref().map(|group| group.0.join(file));
            path.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default()
        };
        let events = said("memory.oom_control") + &said("memory.events");
        let killed = events.lines().find_map(|line| line.strip_prefix("oom_kill "));
        assert_eq!(killed.unwrap_or("0"), "0");
        peak
    }
}

/// Generator of random hexadecimal text.
struct Noise(u64);

impl Noise {
    fn add(&mut self, words: usize, to: &mut String) {
        for _ in 0..words {
            self.0 = self.0.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            write!(to, "{:016x}", self.0 ^ self.0 >> 29).expect("room");
        }
    }
}

/// Returns a batch of 200 spans with random ids and a tag of random text, in Zipkin's JSON.
fn spans(noise: &mut Noise) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_us = now.expect("a time").as_micros();
    let mut json = String::from("[");
    for number in 0..200 {
        json += if number == 0 { "{\"traceId\":\"" } else { ",{\"traceId\":\"" };
        noise.add(1, &mut json);
        json += "\",\"id\":\"";
        noise.add(1, &mut json);
        write!(
            json,
            "\",\"name\":\"write\",\"timestamp\":{now_us},\"duration\":7,\"tags\":{{\"text\":\""
        )
        .expect("room");
        noise.add(64, &mut json);
        json += "\"}}";
    }
    json + "]"
}

#[test]
fn d6_a_server_that_is_sent_more_than_it_may_keep() {
    let seconds = env_number("TEST_SECONDS", 12);
    let (kept, journal) = (48 << 20, 1 << 30);
    let scratch = Scratch::new("bounds-server");
    let mut command = blkkin(&scratch.0);
    on_free_ports(&mut command).args(["--data", "data", "--keep-bytes", &kept.to_string()]);
    let server = Server::start(&mut command);
    let confined = Confined::new("d6_server", server.child.id(), SERVER_BYTES);
    let (ends, taken, refused) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let begun = Instant::now();
    let mut disk = 0;
    std::thread::scope(|scope| {
        for sender in 0..4 {
            let (ends, taken, refused) = (&ends, &taken, &refused);
            let web = server.web;
            scope.spawn(move || {
                let mut noise = Noise(sender << 32 | u64::from(std::process::id()));
                while !ends.load(Relaxed) {
                    let batch = spans(&mut noise);
                    let headers = "content-type: application/json\r\n";
                    let reply = http(web, "POST", "/api/v2/spans", headers, batch.as_bytes());
                    match reply.map(|reply| reply.status) {
                        Some(202) => taken.fetch_add(200, Relaxed),
                        Some(503) => refused.fetch_add(200, Relaxed),
                        other => panic!("{other:?}"),
                    };
                }
            });
        }
        while begun.elapsed().as_secs() < seconds {
            disk = disk.max(bytes_below(&scratch.0.join("data")));
            let reply = http(server.web, "GET", "/api/v2/traces?limit=10", "", b"");
            // Queries may time out under this load.
            let status = reply.map(|reply| reply.status);
            assert!(matches!(status, Some(200 | 500 | 503 | 504)), "{status:?}");
            std::thread::sleep(Duration::from_millis(200));
        }
        ends.store(true, Relaxed);
    });
    let peak = confined.check();
    let (taken, refused) = (taken.into_inner(), refused.into_inner());
    assert!(taken > 0);
    assert!(disk <= kept + journal, "{} MiB on disk", disk >> 20);
    let metrics = http(server.web, "GET", "/metrics", "", b"").expect("an answer").body;
    let counted = metrics.lines().find_map(|line| {
        line.strip_prefix("zipkin_collector_spans_total{transport=\"http\"} ")?.parse::<u64>().ok()
    });
    assert_eq!(counted, Some(taken), "{metrics}");
    server.end();
    figure(
        "D6",
        &format!(
            "a server took {taken} spans in {seconds} s and turned {refused} away: at most {} MiB of memory, {} MiB on disk",
            peak >> 20,
            disk >> 20
        ),
    );
}

#[test]
fn d6_what_nobody_takes_waits_within_its_quota() {
    let seconds = env_number("TEST_SECONDS", 12);
    let quota = 16 << 20;
    let scratch = Scratch::new("bounds-scribe");
    // The destination listens and never accepts.
    let dead = TcpListener::bind("127.0.0.1:0").expect("a port");
    let sink = dead.local_addr().expect("an address").to_string();
    let start = |arguments: &[&str]| {
        let mut process = Process::start(blkkin(&scratch.0).arg("scribe").args(arguments));
        loop {
            let line = process.error();
            if let Some((_, address)) = line.split_once("listening on ") {
                let address = address.split(';').next().expect("an address").to_owned();
                return (process, address);
            }
        }
    };
    let to = format!("scribe://{sink}");
    let quota_said = quota.to_string();
    let arguments = ["--listen", "127.0.0.1:0", "--dir", "spool", "--to", &to];
    let (daemon, address) = start(&[&arguments[..], &["--quota", &quota_said]].concat());
    let confined = Confined::new("d6_scribe", daemon.id(), FORWARDER_BYTES);
    let begun = Instant::now();
    let (mut disk, mut later) = (0, 0u64);
    let (mut client, mut batch) = (connect(&address), Batch::default());
    let (mut noise, mut text) = (Noise(1), String::new());
    let mut acknowledged = BTreeSet::new();
    let mut number = 0u64;
    while begun.elapsed().as_secs() < seconds {
        batch.clear();
        for number in number..number + 100 {
            text.clear();
            write!(text, "{number} ").expect("room");
            noise.add(64, &mut text);
            batch.push(Entry { category: b"c", message: text.as_bytes() });
        }
        match client.log(&mut batch).expect("an answer") {
            ResultCode::Ok => acknowledged.extend(number..number + 100),
            _ => later += 100,
        }
        number += 100;
        disk = disk.max(bytes_below(&scratch.0.join("spool")));
    }
    let peak = confined.check();
    assert!(!acknowledged.is_empty() && later > 0, "{} {later}", acknowledged.len());
    // Other files, such as positions, are small.
    assert!(disk <= quota + (1 << 20), "{} KiB on disk", disk >> 10);
    // A real server replaces the destination and accepts all messages, so the quota has space
    // again.
    drop(dead);
    let (_sink, _) = start(&["--listen", &sink, "--dir", "last", "--to", "out"]);
    let arrived = || -> BTreeSet<u64> {
        let files = fs::read_dir(scratch.0.join("out/c")).into_iter().flatten().flatten();
        let texts = files.map(|file| fs::read_to_string(file.path()).unwrap_or_default());
        let numbers = |text: String| -> Vec<u64> {
            text.lines().filter_map(|line| line.split_once(' ')?.0.parse().ok()).collect()
        };
        texts.flat_map(numbers).collect()
    };
    eventually("all have come", || (arrived() == acknowledged).then_some(()));
    batch.clear();
    batch.push(Entry { category: b"c", message: b"last" });
    until("there is room", || client.log(&mut batch).expect("an answer") == ResultCode::Ok);
    figure(
        "D6",
        &format!(
            "nobody took messages for {seconds} s: {} of {number} waited and came at last, {later} were told to come later; at most {} MiB of memory, {} KiB on disk",
            acknowledged.len(),
            peak >> 20,
            disk >> 10
        ),
    );
}

fn connect(address: &str) -> Client {
    Client::connect(address, ClientOptions::default()).expect("a connection")
}
