//! Tests of the NBD server alone, with a volume in its memory: the server keeps its data, and its
//! memory stays bounded for a client that reads replies late.

mod support;

use blkkin_blockstack::{Address, Load};
use blkkin_sys::testing::Scratch;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use support::{Client, FLUSH, TRIM, WRITE, WRITE_ZEROES, connect};

struct Server {
    child: Child,
    address: Address,
    _scratch: Scratch,
}

impl Server {
    fn start(name: &str) -> Server {
        let scratch = Scratch::new(&format!("bs-{name}"));
        let path = scratch.0.join("nbd.sock");
        let mut child = Command::new(env!("CARGO_BIN_EXE_blockstack"))
            .args(["nbd", "--until-eof", "--memory", "disk=16M", "--listen"])
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line.trim_end(), format!("listening {}", path.display()));
        Server { child, address: Address::Path(path), _scratch: scratch }
    }

    /// Returns the peak memory usage of the server, in KiB.
    fn memory_max(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().unwrap();
    }
}

#[test]
fn it_keeps_what_it_was_given() {
    let server = Server::start("memory");
    let mut load = Load::new(server.address.clone(), Duration::from_millis(500));
    (load.mix, load.flush_every) = (50, 100);
    let report = load.run().unwrap();
    assert!(report.is_right() && report.errors == 0 && report.verified > 100, "{report}");

    let mut client = Client::new(&server.address, "disk");
    assert_eq!(client.size, 16 << 20);
    client.write_at(1000, &[7; 5000]);
    assert_eq!(client.ask(TRIM, 2000, 1000, &[]), 0);
    assert_eq!(client.ask(WRITE_ZEROES, 4000, 1, &[]), 0);
    assert_eq!(client.ask(FLUSH, 0, 0, &[]), 0);
    let bytes = client.read_at(1000, 5000);
    for (at, byte) in (1000..).zip(bytes) {
        let is_zero = (2000..3000).contains(&at) || at == 4000;
        assert_eq!(byte, if is_zero { 0 } else { 7 }, "{at}");
    }
    assert_eq!(client.ask(WRITE, 16 << 20, 1, &[1]), 28);
    assert_eq!(client.ask(0, (16 << 20) - 1, 2, &[]), 22);
}

/// A client sends ten thousand requests at once, and reads a tenth of the replies. The server's
/// memory stays below 160 MiB, although all replies together have 10 GB.
#[test]
fn answers_wait_for_who_reads_them() {
    const COUNT: u64 = 10_000;
    let server = Server::start("flood");
    let mut stream = connect(&server.address);
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).unwrap();
    let mut bytes = b"\0\0\0\x03IHAVEOPT\0\0\0\x01\0\0\0\x04disk".to_vec();
    for cookie in 0..COUNT {
        bytes.extend(0x2560_9513u32.to_be_bytes());
        bytes.extend(0u32.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(0u64.to_be_bytes());
        bytes.extend((1u32 << 20).to_be_bytes());
    }
    let mut writer = stream.try_clone().unwrap();
    let sender = std::thread::spawn(move || writer.write_all(&bytes).unwrap());
    // Time for the server to answer as much as it can before any reply is read.
    std::thread::sleep(Duration::from_millis(300));
    stream.read_exact(&mut [0; 10]).unwrap();
    let mut answer = vec![0; 16 + (1 << 20)];
    for cookie in 0..COUNT / 10 {
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer[..8], [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0]);
        assert_eq!(answer[8..16], cookie.to_be_bytes());
    }
    let memory = server.memory_max();
    assert!(memory < 160 << 10, "{memory} KiB");
    drop(stream);
    sender.join().unwrap();
    // Other clients are served afterwards.
    let mut client = Client::new(&server.address, "disk");
    assert_eq!(client.read_at(0, 512), [0; 512]);
}
