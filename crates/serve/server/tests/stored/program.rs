//! The server's program, started by the other tests as a child process: a store with small files,
//! on a disk that can have deliberate faults.

use blkkin_journal::{Directory, Disk, File, Lock};
use blkkin_lake::{Lake, Options, Retention};
use blkkin_server::{Listen, Server, Settings};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// Prefix of the server's output lines, which separates them from the test harness's output.
pub(crate) const MARK: &str = "says: ";

/// Deliberate fault of the journal's files, which the tests must detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PlantedFault {
    None,
    /// Every fifth write is acknowledged, but not done.
    SkippedWrites,
    /// Writes are acknowledged 500 ms before they are done: longer than the time between two
    /// answers of a server on a busy machine.
    DelayedWrites,
    /// Syncs succeed without an effect.
    NoSync,
    /// Failed writes and syncs are reported as successful.
    IgnoredErrors,
}

impl PlantedFault {
    const ALL: [PlantedFault; 5] = [
        PlantedFault::None,
        PlantedFault::SkippedWrites,
        PlantedFault::DelayedWrites,
        PlantedFault::NoSync,
        PlantedFault::IgnoredErrors,
    ];

    fn here() -> PlantedFault {
        let name = std::env::var("TEST_PLANT").expect("a plant");
        let found = PlantedFault::ALL.into_iter().find(|plant| format!("{plant:?}") == name);
        found.expect("a plant that is known")
    }
}

fn options() -> Options {
    Options {
        retention: Retention { age: None, bytes: None },
        file_spans: 60,
        merge_files: 2,
        merged_spans_max: 300,
        cache_bytes_max: 0,
        journal: blkkin_journal::Options {
            segment_bytes: 64 << 10,
            total_bytes_max: 1 << 20,
            payload_bytes_max: 32 << 10,
            retry_after: Duration::from_millis(50),
            ..blkkin_journal::Options::default()
        },
        ..Options::default()
    }
}

/// Runs the server until standard input is closed. Not a test, but started by the other tests.
#[test]
#[ignore = "a program of other tests"]
fn serves() {
    let directory = std::env::var_os("TEST_DATA").expect("a directory");
    let disk = Directory::make(Path::new(&directory)).map(|disk| Arc::new(disk) as Arc<dyn Disk>);
    let opened = disk
        .map_err(|error| error.to_string())
        .and_then(|disk| Lake::open_on(with_fault(disk), options()).map_err(|it| it.to_string()));
    let (lake, opened) = match opened {
        Ok(opened) => opened,
        Err(error) => {
            print_line(&format!("cannot start: {error}"));
            std::process::exit(1);
        }
    };
    opened.damage.iter().for_each(|damage| print_line(&format!("damaged: {damage}")));
    let web = vec![([127, 0, 0, 1], 0).into()];
    let listen = Listen { web, ..Listen::default() };
    let settings = Settings { listen, ..Settings::default() };
    let running = match Server::start(Arc::new(lake), settings) {
        Ok(running) => running,
        Err(error) => {
            print_line(&format!("cannot start: {error}"));
            std::process::exit(1);
        }
    };
    print_line(&format!("listening {}", running.web[0]));
    let _ = io::stdin().read(&mut [0]);
    running.stop();
}

fn print_line(what: &str) {
    // A single write, so that a kill leaves no partial line. Errors are ignored: the reader may
    // have ended, or the error may be injected.
    let _ = io::stdout().lock().write_all(format!("\n{MARK}{what}\n").as_bytes());
}

/// Wraps the store's directory so that the journal's files have the fault, because acknowledgements
/// depend on the journal.
fn with_fault(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    match PlantedFault::here() {
        PlantedFault::None => disk,
        _ => Arc::new(FaultyDisk { inner: disk, plant: PlantedFault::None }),
    }
}

/// Wrapper of a disk or file that adds a deliberate fault.
#[derive(Clone)]
struct FaultyDisk<T: ?Sized> {
    plant: PlantedFault,
    inner: Arc<T>,
}

impl FaultyDisk<dyn Disk> {
    fn file(&self, inner: io::Result<Arc<dyn File>>) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(FaultyDisk { plant: self.plant, inner: inner? }))
    }
}

impl Disk for FaultyDisk<dyn Disk> {
    fn lock(&self, is_exclusive: bool) -> io::Result<Option<Lock>> {
        self.inner.lock(is_exclusive)
    }

    fn list(&self, each: &mut dyn FnMut(&str) -> bool) -> io::Result<()> {
        self.inner.list(each)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.file(self.inner.create(name))
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn File>> {
        self.file(self.inner.open(name))
    }

    fn truncate(&self, name: &str, size_bytes: u64) -> io::Result<()> {
        self.inner.truncate(name, size_bytes)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.inner.remove(name)
    }

    fn sync(&self) -> io::Result<()> {
        self.inner.sync()
    }

    fn directory(&self, name: &str) -> io::Result<Arc<dyn Disk>> {
        let inner = self.inner.directory(name)?;
        let plant = if name == "journal" { PlantedFault::here() } else { PlantedFault::None };
        Ok(Arc::new(FaultyDisk { inner, plant }))
    }

    fn random(&self) -> io::Result<u64> {
        self.inner.random()
    }
}

/// Interval between two writes that [`PlantedFault::SkippedWrites`] skips, in writes.
const SKIPPED_WRITE_INTERVAL: u64 = 5;

static WRITES: AtomicU64 = AtomicU64::new(0);

impl File for FaultyDisk<dyn File> {
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(to, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.plant {
            PlantedFault::SkippedWrites
                if WRITES.fetch_add(1, Relaxed).is_multiple_of(SKIPPED_WRITE_INTERVAL) =>
            {
                Ok(())
            }
            PlantedFault::DelayedWrites => {
                let (file, bytes) = (Arc::clone(&self.inner), bytes.to_vec());
                std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(500));
                    let _ = file.write_at(&bytes, offset);
                });
                Ok(())
            }
            PlantedFault::IgnoredErrors => self.inner.write_at(bytes, offset).or(Ok(())),
            _ => self.inner.write_at(bytes, offset),
        }
    }

    fn reserve(&self, size_bytes: u64) -> io::Result<()> {
        self.inner.reserve(size_bytes)
    }

    fn sync(&self) -> io::Result<()> {
        match self.plant {
            PlantedFault::NoSync => Ok(()),
            PlantedFault::IgnoredErrors => self.inner.sync().or(Ok(())),
            _ => self.inner.sync(),
        }
    }

    fn forget(&self) -> io::Result<()> {
        self.inner.forget()
    }

    fn size_bytes(&self) -> io::Result<u64> {
        self.inner.size_bytes()
    }
}
