//! Waits until traces change, until the relay closes its connection, or until the work shall end.

use crate::positions;
use blkkin_control::{COMPLETE_FILE, CompleteTime};
use blkkin_ctf::clock_offsets;
use blkkin_sys::keep_access_time;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Watcher of directories. If the kernel permits no more watches, everything counts as changed from
/// then on, at intervals of [`POLL_PAUSE`].
#[derive(Debug)]
pub(crate) struct Watcher {
    watches: Option<Watches>,
    /// File with the time up to which the traces are complete, if their recorder has one, and its
    /// watch.
    complete: Option<(File, i32)>,
    /// Time of the last change of that file.
    declared: Option<Instant>,
}

/// Watches of files that are added, renamed and removed, and of index files that grow. A recorder
/// that writes `complete` after all index files need not wake this process for each of them.
#[derive(Debug)]
struct Watches {
    tree: DirectoryWatches,
    growth: DirectoryWatches,
}

/// Watches of directories.
#[derive(Debug)]
struct DirectoryWatches {
    inotify: OwnedFd,
    directories: HashMap<i32, PathBuf>,
}

/// Changes since the last wait.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Set if directories or metadata files were added, renamed or removed.
    pub(crate) in_tree: bool,
    /// Traces whose index files have changed, by their directories.
    pub(crate) traces: HashMap<PathBuf, TraceChanges>,
    /// Set if the work shall end.
    pub(crate) is_ending: bool,
    /// Set if the relay has sent something, or has closed the connection.
    pub(crate) of_relay: bool,
    /// Time in nanoseconds since 1970 before which the traces have all events, with these changes;
    /// `None` if it is unknown.
    pub(crate) complete_ns: Option<u64>,
}

/// Changes of a trace's index files.
#[derive(Debug, Default)]
pub(crate) struct TraceChanges {
    /// Names of the streams whose index files have grown.
    grown: HashSet<Vec<u8>>,
    /// Set if files were added or removed.
    pub(crate) has_other_files: bool,
}

/// Time after a change of the file with the time up to which traces are complete, in which index
/// files are not waited for. After it, the recorder may have gone.
const DECLARING_TIME: Duration = Duration::from_secs(1);
const POLL_PAUSE: Duration = Duration::from_millis(20);
const EVENT_BYTES: usize = 16 << 10;
/// Number of events that have room in the buffer, whatever their names are.
const EVENTS_MIN: usize = 32;

impl Watcher {
    pub(crate) fn new() -> Watcher {
        let watches = || io::Result::Ok(Watches { tree: open()?, growth: open()? });
        Watcher { watches: watches().ok(), complete: None, declared: None }
    }

    /// Watches the file with the time up to which the traces in a directory are complete, once it
    /// exists, and whenever it was replaced.
    pub(crate) fn watch_complete(&mut self, root: &Path) {
        let Some(Watches { tree, .. }) = &self.watches else { return };
        let path = root.join(COMPLETE_FILE);
        let identity = |file: &fs::Metadata| (file.dev(), file.ino());
        let present = fs::metadata(&path).ok().as_ref().map(identity);
        let known = self.complete.as_ref().and_then(|(file, _)| file.metadata().ok());
        if present == known.as_ref().map(identity) {
            return;
        }
        // A later recorder has replaced the file.
        self.complete = None;
        let Ok(file) = File::open(&path).inspect(keep_access_time) else { return };
        let watch = inotify::add_watch(&tree.inotify, &path, WatchFlags::MODIFY);
        self.complete = watch.ok().map(|watch| (file, watch));
    }

    fn complete_ns(&self) -> Option<u64> {
        let (file, _) = self.complete.as_ref()?;
        let mut bytes = [0; CompleteTime::SIZE];
        file.read_exact_at(&mut bytes, 0).ok()?;
        CompleteTime::decode(bytes).map(|time| time.until_ns)
    }

    /// Watches a directory, which must be read after this call.
    pub(crate) fn watch(&mut self, directory: &Path) {
        let Some(Watches { tree, growth }) = &mut self.watches else { return };
        let of_entries = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let watched = tree.add(directory, of_entries).and_then(|()| match is_index(directory) {
            true => growth.add(directory, WatchFlags::MODIFY),
            false => Ok(()),
        });
        match watched {
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.watches = None,
        }
    }

    /// Waits for changes, at most for `timeout`. `ending` becomes readable when the work shall end.
    pub(crate) fn wait(
        &mut self,
        ending: BorrowedFd<'_>,
        relay: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<Changes> {
        let is_polling = self.watches.is_none();
        let timeout = if is_polling { timeout.min(POLL_PAUSE) } else { timeout };
        let declares = self.declared.is_some_and(|last| last.elapsed() < DECLARING_TIME);
        let timeout = if declares { timeout.min(DECLARING_TIME) } else { timeout };
        let mut polled = vec![PollFd::from_borrowed_fd(ending, PollFlags::IN)];
        polled.extend(relay.map(|relay| PollFd::from_borrowed_fd(relay, PollFlags::IN)));
        if let Some(Watches { tree, growth }) = &self.watches {
            polled.push(PollFd::new(&tree.inotify, PollFlags::IN));
            if !declares {
                polled.push(PollFd::new(&growth.inotify, PollFlags::IN));
            }
        }
        let timeout = Timespec {
            tv_sec: timeout.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        match poll(&mut polled, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let is_ready = |at: usize| polled.get(at).is_some_and(|one| !one.revents().is_empty());
        let mut changes = Changes {
            in_tree: is_polling,
            is_ending: is_ready(0),
            of_relay: relay.is_some() && is_ready(1),
            traces: HashMap::new(),
            // It is read before the changes, so that these have all packets up to then.
            complete_ns: self.complete_ns(),
        };
        drop(polled);
        self.read(&mut changes);
        Ok(changes)
    }

    fn read(&mut self, changes: &mut Changes) {
        let Some(Watches { tree, growth }) = &mut self.watches else { return };
        let complete = self.complete.as_ref().map(|(_, watch)| *watch);
        let declared = &mut self.declared;
        tree.read(|watch, directory, name| {
            if complete == Some(watch) {
                *declared = Some(Instant::now());
                return;
            }
            // The forwarder itself has written these.
            let own = [positions::FILE, clock_offsets::FILE];
            if own.iter().any(|own| name.starts_with(own.as_bytes())) {
                return;
            }
            match trace_of(directory) {
                Some(trace) => changes.of(trace).has_other_files = true,
                None => changes.in_tree = true,
            }
        });
        growth.read(|_, directory, name| match trace_of(directory) {
            Some(trace) => {
                let grown = &mut changes.of(trace).grown;
                let stream = name.strip_suffix(b".idx").unwrap_or(name);
                if !grown.contains(stream) {
                    grown.insert(stream.to_owned());
                }
            }
            // The queue was full.
            None => changes.in_tree = true,
        });
    }
}

fn open() -> io::Result<DirectoryWatches> {
    let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
    Ok(DirectoryWatches { inotify, directories: HashMap::new() })
}

impl DirectoryWatches {
    fn add(&mut self, directory: &Path, flags: WatchFlags) -> Result<(), Errno> {
        let number = inotify::add_watch(&self.inotify, directory, flags | WatchFlags::ONLYDIR)?;
        self.directories.insert(number, directory.to_owned());
        Ok(())
    }

    /// Calls `handle` with the watch, the directory and the name of each change. The directory is
    /// `None` for other watches, and if changes were lost.
    fn read(&mut self, mut handle: impl FnMut(i32, Option<&Path>, &[u8])) {
        let DirectoryWatches { inotify, directories } = self;
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(inotify, &mut buffer);
        let mut in_buffer = 0;
        while let Ok(event) = reader.next() {
            let watch = event.wd();
            let name = event.file_name().map(|name| name.to_bytes()).unwrap_or_default();
            handle(watch, directories.get(&watch).map(PathBuf::as_path), name);
            if event.events().contains(ReadFlags::IGNORED) {
                directories.remove(&watch);
            }
            in_buffer += 1;
            if reader.is_buffer_empty() {
                if in_buffer < EVENTS_MIN {
                    // The buffer has room for more, so these were all.
                    return;
                }
                in_buffer = 0;
            }
        }
    }
}

impl Changes {
    fn of(&mut self, trace: &Path) -> &mut TraceChanges {
        self.traces.entry(trace.to_owned()).or_default()
    }
}

impl TraceChanges {
    /// Returns whether the index file of a stream has grown.
    pub(crate) fn has_grown(&self, stream: &str) -> bool {
        self.grown.contains(stream.as_bytes())
    }
}

/// Returns the directory of the trace whose index files are in `directory`.
fn trace_of(directory: Option<&Path>) -> Option<&Path> {
    directory.filter(|directory| is_index(directory))?.parent()
}

fn is_index(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == "index")
}
