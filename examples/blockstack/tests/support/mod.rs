//! Support for the tests: a chain of processes, and a client that sends one request at a time.

#![allow(dead_code, unreachable_pub, missing_docs)]

use blkkin_blockstack::{Address, Options, Stack};
use blkkin_sys::testing::Scratch;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

#[allow(unused_imports, reason = "not each test needs all of it")]
pub use blkkin_sys::testing::{Random, is_installed, skip};

pub const READ: u32 = 0;
pub const WRITE: u32 = 1;
pub const FLUSH: u32 = 3;
pub const TRIM: u32 = 4;
pub const WRITE_ZEROES: u32 = 6;
/// Flag of an NBD command that requests a durable write (force unit access).
pub const FUA: u32 = 1 << 16;

/// A chain in a scratch directory, which ends on drop.
pub struct Chain {
    pub stack: Option<Stack>,
    pub scratch: Scratch,
    options: Options,
}

impl Chain {
    pub fn start(name: &str, change: impl FnOnce(&mut Options)) -> Chain {
        let scratch = Scratch::new(&format!("bs-{name}"));
        let program = vec![env!("CARGO_BIN_EXE_blockstack").into()];
        let mut options = Options::new(&scratch.0, program);
        options.volumes = vec!["disk=64M".parse().unwrap(), "small=1M".parse().unwrap()];
        change(&mut options);
        let stack = Some(Stack::start(options.clone()).unwrap());
        Chain { stack, scratch, options }
    }

    pub fn stack(&mut self) -> &mut Stack {
        self.stack.as_mut().expect("it runs")
    }

    pub fn nbd(&mut self) -> Address {
        self.stack().nbd().expect("an address").clone()
    }

    pub fn client(&mut self) -> Client {
        Client::new(&self.nbd(), "disk")
    }

    pub fn stop(&mut self) {
        let stack = self.stack.take().expect("it runs");
        let ids: Vec<u32> = stack.roles().iter().map(|role| role.id()).collect();
        stack.stop().unwrap();
        for id in ids {
            assert!(!runs(id), "{id} is still there");
        }
    }

    pub fn start_again(&mut self) {
        self.stack = Some(Stack::start(self.options.clone()).unwrap());
    }

    /// Checks that both stores have equal objects.
    #[track_caller]
    pub fn check_copies(&self) {
        let list = |store: &str| {
            let directory = self.scratch.0.join(store).join("objects");
            let mut names: Vec<_> = std::fs::read_dir(&directory)
                .unwrap()
                .map(|entry| entry.unwrap().file_name())
                .collect();
            names.sort();
            (directory, names)
        };
        let ((first, names), (second, other_names)) = (list("store1"), list("store2"));
        assert_eq!(names, other_names);
        for name in names {
            let read = |directory: &std::path::Path| std::fs::read(directory.join(&name)).unwrap();
            assert!(read(&first) == read(&second), "copies of {name:?} differ");
        }
    }
}

pub fn runs(id: u32) -> bool {
    // A zombie counts as ended.
    let status = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    let state = status.rsplit_once(") ").map(|(_, rest)| rest.as_bytes()[0]);
    state.is_some_and(|state| state != b'Z' && state != b'X')
}

#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !holds() {
        assert!(Instant::now() < end, "{what} does not happen");
        std::thread::sleep(Duration::from_millis(5));
    }
}

trait Stream: Read + Write + Send {}
impl<S: Read + Write + Send> Stream for S {}

/// An NBD client that waits for each reply.
pub struct Client {
    stream: Box<dyn Stream>,
    pub size: u64,
    cookie: u64,
}

/// Opens a connection, without the handshake.
pub fn connect(address: &Address) -> UnixStream {
    let Address::Path(path) = address else { panic!("a path") };
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

impl Client {
    pub fn new(address: &Address, volume: &str) -> Client {
        let stream: Box<dyn Stream> = match address {
            Address::Path(_) => Box::new(connect(address)),
            Address::Net(address) => Box::new(TcpStream::connect(address).unwrap()),
        };
        let mut client = Client { stream, size: 0, cookie: 0 };
        assert_eq!(&client.read::<18>()[..], b"NBDMAGICIHAVEOPT\0\x03");
        client.stream.write_all(b"\0\0\0\x03IHAVEOPT\0\0\0\x01").unwrap();
        client.stream.write_all(&(volume.len() as u32).to_be_bytes()).unwrap();
        client.stream.write_all(volume.as_bytes()).unwrap();
        client.size = u64::from_be_bytes(client.read());
        client.read::<2>();
        client
    }

    fn read<const SIZE: usize>(&mut self) -> [u8; SIZE] {
        let mut bytes = [0; SIZE];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Sends a request and returns the error number in its reply; 0 means success.
    pub fn ask(&mut self, command: u32, offset: u64, length: u32, payload: &[u8]) -> u32 {
        self.cookie += 1;
        let mut bytes = 0x2560_9513u32.to_be_bytes().to_vec();
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend(payload);
        self.stream.write_all(&bytes).unwrap();
        assert_eq!(self.read(), 0x6744_6698u32.to_be_bytes());
        let error = u32::from_be_bytes(self.read());
        assert_eq!(u64::from_be_bytes(self.read()), self.cookie);
        error
    }

    #[track_caller]
    pub fn write_at(&mut self, offset: u64, bytes: &[u8]) {
        assert_eq!(self.ask(WRITE, offset, bytes.len() as u32, bytes), 0);
    }

    #[track_caller]
    pub fn read_at(&mut self, offset: u64, length: u32) -> Vec<u8> {
        assert_eq!(self.ask(READ, offset, length, &[]), 0);
        let mut bytes = vec![0; length as usize];
        self.stream.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// Reads and discards `length` bytes of a reply's data.
    pub fn skip(&mut self, length: usize) {
        self.stream.read_exact(&mut vec![0; length]).unwrap();
    }

    #[track_caller]
    pub fn flush(&mut self) {
        assert_eq!(self.ask(FLUSH, 0, 0, &[]), 0);
    }
}
