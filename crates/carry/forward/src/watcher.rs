//! Waits until traces change, until the relay closes its connection, or until the work shall end.

use crate::positions;
use blkkin_control::{COMPLETE_FILE, CompleteTime};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Watcher of directories. If the kernel permits no more watches, everything counts as changed from
/// then on, at intervals of [`POLL_PAUSE`].
#[derive(Debug)]
pub(crate) struct Watcher {
    inotify: Option<OwnedFd>,
    directories: HashMap<i32, PathBuf>,
    /// File with the time up to which the traces are complete, if their recorder has one, and its
    /// watch.
    complete: Option<(File, Option<i32>)>,
}

/// Changes since the last wait.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    /// Set if directories or metadata files were added, renamed or removed.
    pub(crate) in_tree: bool,
    /// Directories of traces whose index files have changed.
    pub(crate) traces: HashSet<PathBuf>,
    /// Set if the work shall end.
    pub(crate) is_ending: bool,
    /// Set if the relay has sent something, or has closed the connection.
    pub(crate) of_relay: bool,
    /// Time in nanoseconds since 1970 before which the traces have all events, with these changes;
    /// `None` if it is unknown.
    pub(crate) complete_ns: Option<u64>,
}

const POLL_PAUSE: Duration = Duration::from_millis(20);
const EVENT_BYTES: usize = 16 << 10;

impl Watcher {
    pub(crate) fn new() -> Watcher {
        let inotify = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).ok();
        Watcher { inotify, directories: HashMap::new(), complete: None }
    }

    /// Watches the file with the time up to which the traces in a directory are complete, once it
    /// exists.
    pub(crate) fn watch_complete(&mut self, root: &Path) {
        if self.complete.is_some() {
            return;
        }
        let path = root.join(COMPLETE_FILE);
        let Ok(file) = File::open(&path) else { return };
        let watch = self.inotify.as_ref();
        let watch = watch.and_then(|it| inotify::add_watch(it, &path, WatchFlags::MODIFY).ok());
        self.complete = Some((file, watch));
    }

    fn complete_ns(&self) -> Option<u64> {
        let (file, _) = self.complete.as_ref()?;
        let mut bytes = [0; CompleteTime::SIZE];
        file.read_exact_at(&mut bytes, 0).ok()?;
        CompleteTime::decode(bytes).map(|time| time.until_ns)
    }

    /// Watches a directory, which must be read after this call.
    pub(crate) fn watch(&mut self, directory: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let of_entries = WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::DELETE;
        let flags = match is_index(directory) {
            true => of_entries | WatchFlags::MODIFY | WatchFlags::ONLYDIR,
            false => of_entries | WatchFlags::ONLYDIR,
        };
        match inotify::add_watch(inotify, directory, flags) {
            Ok(number) => {
                self.directories.insert(number, directory.to_owned());
            }
            Err(Errno::NOENT | Errno::NOTDIR) => {}
            Err(_) => self.inotify = None,
        }
    }

    /// Waits for changes, at most for `timeout`. `ending` becomes readable when the work shall end.
    pub(crate) fn wait(
        &mut self,
        ending: BorrowedFd<'_>,
        relay: Option<BorrowedFd<'_>>,
        timeout: Duration,
    ) -> io::Result<Changes> {
        let is_polling = self.inotify.is_none();
        let timeout = if is_polling { timeout.min(POLL_PAUSE) } else { timeout };
        let mut polled = vec![PollFd::from_borrowed_fd(ending, PollFlags::IN)];
        polled.extend(relay.map(|relay| PollFd::from_borrowed_fd(relay, PollFlags::IN)));
        let watched = self.inotify.iter();
        polled.extend(watched.map(|fd| PollFd::from_borrowed_fd(fd.as_fd(), PollFlags::IN)));
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
            traces: HashSet::new(),
            // It is read before the changes, so that these have all packets up to then.
            complete_ns: self.complete_ns(),
        };
        drop(polled);
        self.read(&mut changes);
        Ok(changes)
    }

    fn read(&mut self, changes: &mut Changes) {
        let Watcher { inotify, directories, complete } = self;
        let Some(inotify) = inotify else { return };
        let mut buffer = [MaybeUninit::uninit(); EVENT_BYTES];
        let mut reader = Reader::new(inotify, &mut buffer);
        while let Ok(event) = reader.next() {
            let flags = event.events();
            let name = event.file_name().map(|name| name.to_bytes()).unwrap_or_default();
            let is_complete =
                complete.as_ref().is_some_and(|(_, watch)| *watch == Some(event.wd()));
            if is_complete || name.starts_with(positions::FILE.as_bytes()) {
                continue;
            }
            let directory = directories.get(&event.wd());
            match directory.filter(|directory| is_index(directory)).and_then(|it| it.parent()) {
                Some(trace) => {
                    changes.traces.insert(trace.to_owned());
                }
                // The queue was full, or the directory does not have index files.
                None => changes.in_tree = true,
            }
            if flags.contains(ReadFlags::IGNORED) {
                directories.remove(&event.wd());
            }
        }
    }
}

fn is_index(directory: &Path) -> bool {
    directory.file_name().is_some_and(|name| name == "index")
}
