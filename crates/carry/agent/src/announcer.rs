//! Announces the agent to programs that were started earlier and have no connection. Each program
//! has a bell, a page of shared memory. The agent writes to that page to make the program connect:
//! see [`blkkin_control::bell`]. When the agent starts, a thread scans `/proc` for these pages a
//! few times, because some programs cannot be rung at once.

use blkkin_control::bell;
use blkkin_sys::process::seccomp_filters_in;
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Pauses before each scan of `/proc`. A program that sandboxes itself between two scans is not
/// rung by the later scan.
const PAUSES: [Duration; 4] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_secs(2),
];
/// Number of consecutive unused descriptor numbers that ends the search for bells in a range of
/// descriptors.
const GAP_MAX: u32 = 4;
/// Maximum number of threads of a process that are checked for seccomp filters.
const THREADS_MAX: usize = 256;
/// Maximum number of bell pages recorded for a process. The program and each library that records
/// have one page each.
const MAPPED_MAX: usize = 4;
/// Maximum number of bytes read from a process's list of mappings.
const MAPS_SIZE_MAX: u64 = 16 << 20;

/// Handle of the announcing thread. The thread ends after its last scan, or when the handle is
/// dropped.
#[derive(Debug)]
pub(crate) struct Announcer(#[expect(dead_code, reason = "its end is noticed")] Sender<()>);

/// Criteria that select the programs to ring.
struct Announcement {
    /// User to whose programs the agent is announced; `None` for all users.
    uid: Option<u32>,
    /// Hash of the path of the agent's socket: see [`bell::socket_hash`].
    socket: u64,
    /// Mount id of the kernel's internal mount for memfds. A file on that mount is a memfd.
    mount: u64,
}

/// Processes with seccomp filters, by the inode of the bell page that they have mapped. A child
/// process has its parent's page mapped, even after closing the page's file.
type SandboxedProcesses = HashMap<u64, Vec<PathBuf>>;

/// Content of a bell page: the program's number of seccomp filters when it made the page, the
/// hashes of the sockets that it tries, and the number of the pending connection request; 0 without
/// a request.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    filters: u64,
    sockets: [u64; bell::SOCKETS_MAX],
    ring: u64,
}

impl Announcer {
    /// Starts a thread that announces the agent on `socket` to waiting programs: those of user
    /// `uid`, or of all users. The agent must already listen, so that these programs can connect.
    /// The calling thread must not be confined yet, because the new thread needs root's capability
    /// to inspect other processes.
    pub(crate) fn start(socket: &Path, uid: Option<u32>) -> io::Result<Announcer> {
        let socket = std::path::absolute(socket).unwrap_or(socket.to_owned());
        let memory = rustix::fs::memfd_create(c"blkkin-mount", MemfdFlags::CLOEXEC)?;
        let mount = mount_of(&memory)?;
        let calls = Announcement { uid, socket: bell::socket_hash(&socket), mount };
        let (lives, ends) = channel();
        let call = move || {
            crate::confine::confine_to_announcing();
            calls.run(&ends);
        };
        std::thread::Builder::new().name("blkkin-caller".to_owned()).spawn(call)?;
        Ok(Announcer(lives))
    }
}

impl Announcement {
    fn run(&self, ends: &Receiver<()>) {
        for pause in PAUSES {
            if ends.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Each scan writes a new number, so that a program whose last attempt to connect failed
            // tries again.
            let number = blkkin_sys::monotonic_ns() | 1;
            if self.ring_all(number, ends).is_none() {
                return;
            }
        }
    }

    /// Rings programs in one scan of all processes. Returns `None` if the announcer was dropped, or
    /// if `/proc` cannot be read.
    fn ring_all(&self, number: u64, ends: &Receiver<()>) -> Option<()> {
        // The number in a page rings all processes that have mapped the page, so sandboxed
        // processes are collected first.
        let mut sandboxed = SandboxedProcesses::new();
        for process in processes(ends)? {
            note_sandboxed(process?, &mut sandboxed);
        }
        for process in processes(ends)? {
            self.ring_process(&process?, number, &sandboxed);
        }
        Some(())
    }

    fn ring_process(&self, process: &Path, number: u64, sandboxed: &SandboxedProcesses) {
        let is_meant = |uid| fs::metadata(process).is_ok_and(|status| status.uid() == uid);
        if self.uid.is_some_and(|uid| !is_meant(uid)) {
            return;
        }
        for range in bell::DESCRIPTORS {
            let mut gap = 0;
            for descriptor in range {
                let path = process.join(format!("fd/{descriptor}"));
                match fs::read_link(&path) {
                    Ok(target) => {
                        gap = 0;
                        if is_bell(&target) {
                            let _ = self.ring(process, &path, number, sandboxed);
                        }
                    }
                    Err(error) if error.kind() == io::ErrorKind::NotFound => gap += 1,
                    Err(_) => return,
                }
                if gap == GAP_MAX {
                    break;
                }
            }
        }
    }

    /// Writes `number` to the bell page at `path`, to request a connection from the program. Writes
    /// 0 (no request) instead if a process that has mapped the page has another number of seccomp
    /// filters than the page shows. Writes nothing if the program does not try this agent's socket.
    /// The file is checked first, because any process can create a file with a bell's name.
    fn ring(
        &self,
        process: &Path,
        path: &Path,
        number: u64,
        sandboxed: &SandboxedProcesses,
    ) -> io::Result<()> {
        let file = self.open(path)?;
        let page = read(&file)?;
        let is_meant = page.sockets.contains(&self.socket);
        let others = sandboxed.get(&file.metadata()?.ino()).into_iter().flatten();
        let mut sharers = others.map(PathBuf::as_path).chain([process]);
        let answer = match is_meant && !sharers.any(|one| is_sandboxed_since(one, page.filters)) {
            true => number,
            // Clears the number of an earlier agent, which is not valid any longer.
            false => 0,
        };
        if answer != page.ring && is_meant {
            file.write_all_at(&answer.to_ne_bytes(), bell::CALL)?;
        }
        Ok(())
    }

    /// Opens a file of another process. Fails unless the file is a memfd with the size of a bell
    /// page, sealed against resizing. Until the mount id shows that the file is a memfd, neither
    /// the file nor its file system is accessed, because an access could block.
    fn open(&self, path: &Path) -> io::Result<File> {
        let place =
            rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, rustix::fs::Mode::empty())?;
        if mount_of(&place)? != self.mount {
            return Err(Errno::INVAL.into());
        }
        let path = format!("/proc/self/fd/{}", place.as_raw_fd());
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = rustix::fs::open(path, flags, rustix::fs::Mode::empty())?;
        let seals = rustix::fs::fcntl_get_seals(&file)?;
        let file = File::from(file);
        let is_a_page = seals.contains(SealFlags::SHRINK | SealFlags::GROW)
            && (bell::SIZE as u64..=blkkin_sys::SHARED_PAGE_SIZE as u64)
                .contains(&file.metadata()?.len());
        is_a_page.then_some(file).ok_or_else(|| Errno::INVAL.into())
    }
}

/// Returns an iterator over the directories of all processes in `/proc`; `None` if `/proc` cannot
/// be read. The iterator yields `None` once the announcer was dropped.
fn processes(ends: &Receiver<()>) -> Option<impl Iterator<Item = Option<PathBuf>>> {
    let all = fs::read_dir("/proc").ok()?.filter_map(Result::ok);
    let is_process =
        |name: &std::ffi::OsStr| name.to_str().is_some_and(|name| name.parse::<u32>().is_ok());
    let processes = all.filter(move |entry| is_process(&entry.file_name()));
    Some(processes.map(|process| {
        let is_over = ends.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected);
        (!is_over).then(|| process.path())
    }))
}

/// Adds to `sandboxed` the bell pages that a process has mapped, if a thread of the process has
/// seccomp filters.
fn note_sandboxed(process: PathBuf, sandboxed: &mut SandboxedProcesses) {
    if !is_sandboxed_since(&process, 0) {
        return;
    }
    let Ok(maps) = File::open(process.join("maps")) else { return };
    let lines = BufReader::new(maps.take(MAPS_SIZE_MAX)).split(b'\n');
    let pages = lines.map_while(Result::ok).filter_map(|line| page_in(str::from_utf8(&line).ok()?));
    for page in pages.take(MAPPED_MAX) {
        sandboxed.entry(page).or_default().push(process.clone());
    }
}

/// Returns the inode of the bell page that `line` of `/proc/PID/maps` describes; `None` for another
/// mapping.
fn page_in(line: &str) -> Option<u64> {
    // Addresses, permissions, offset and device precede the inode; spaces follow it.
    let (inode, path) = line.splitn(5, ' ').nth(4)?.split_once(' ')?;
    is_bell(Path::new(path.trim_start_matches(' '))).then(|| inode.parse().ok()).flatten()
}

fn is_bell(target: &Path) -> bool {
    target.to_str().and_then(|target| target.strip_prefix("/memfd:"))
        == bell::NAME.to_str().ok().map(|name| format!("{name} (deleted)")).as_deref()
}

/// Reads a bell's page, and checks its magic number.
fn read(file: &File) -> io::Result<Page> {
    let mut bytes = [0; bell::SIZE];
    file.read_exact_at(&mut bytes, 0)?;
    let (words, _) = bytes.as_chunks::<8>();
    let word =
        |place: u64| words.get(place as usize / 8).map_or(0, |word| u64::from_ne_bytes(*word));
    if word(bell::KIND) != bell::MAGIC {
        return Err(Errno::INVAL.into());
    }
    let sockets = std::array::from_fn(|socket| word(bell::SOCKETS + 8 * socket as u64));
    Ok(Page { filters: word(bell::FILTERS), sockets, ring: word(bell::CALL) })
}

/// Returns whether a thread of the process has another number of seccomp filters than `filters`, or
/// an unknown number. A filter that is newer than the process's page may kill the process when it
/// connects. Returns true if the threads cannot be listed.
fn is_sandboxed_since(process: &Path, filters: u64) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return true };
    threads.filter_map(Result::ok).take(THREADS_MAX).any(|thread| {
        let status = fs::read_to_string(thread.path().join("status"));
        // A thread whose status cannot be read has ended.
        status.is_ok_and(|status| seccomp_filters_in(&status) != Some(filters))
    })
}

/// Returns the mount id of an open file, without accessing its file system.
fn mount_of(file: &OwnedFd) -> io::Result<u64> {
    let path = format!("/proc/self/fdinfo/{}", file.as_fd().as_raw_fd());
    let text = fs::read_to_string(path)?;
    let mount = text.lines().find_map(|line| line.strip_prefix("mnt_id:"));
    let mount = mount.and_then(|mount| mount.trim().parse().ok());
    mount.ok_or_else(|| io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::SharedPage;
    use blkkin_sys::testing::Fork;
    use parking_lot::Mutex;
    use std::os::fd::BorrowedFd;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// Makes a memfd with this name, size and seals.
    fn memory(name: &str, size: u64, seals: SealFlags) -> File {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create(name, flags).unwrap());
        file.set_len(size).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    fn calls() -> Announcement {
        let memory = rustix::fs::memfd_create(c"mount", MemfdFlags::CLOEXEC).unwrap();
        Announcement { uid: None, socket: 7, mount: mount_of(&memory).unwrap() }
    }

    fn write(file: &File, place: u64, word: u64) {
        file.write_all_at(&word.to_ne_bytes(), place).unwrap();
    }

    fn ring(file: BorrowedFd<'_>) -> io::Result<()> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        calls().ring(Path::new("/proc/self"), &path, 99, &SandboxedProcesses::new())
    }

    fn rung(file: &File) -> u64 {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, bell::CALL).unwrap();
        u64::from_ne_bytes(bytes)
    }

    const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW);

    #[test]
    fn programs_are_called_that_look_for_this_agent() {
        let page = memory("blkkin-bell", 4096, SEALS);
        assert!(is_bell(&fs::read_link(format!("/proc/self/fd/{}", page.as_raw_fd())).unwrap()));
        write(&page, bell::KIND, bell::MAGIC);
        ring(page.as_fd()).unwrap();
        assert_eq!(rung(&page), 0, "it looks elsewhere");
        write(&page, bell::SOCKETS + 8, 7);
        ring(page.as_fd()).unwrap();
        assert_eq!(rung(&page), 99);
        // The page records one filter and the process has none, so its filters have changed.
        write(&page, bell::FILTERS, 1);
        ring(page.as_fd()).unwrap();
        assert_eq!(rung(&page), 0);
    }

    /// A process whose sandboxed child has mapped the same page gets no connection request: the
    /// child would try to connect too, and its filter might kill it.
    #[test]
    fn parents_of_sandboxed_children_are_not_called() {
        const SOCKET: u64 = 8;
        static PAGE: SharedPage = SharedPage::new();
        let file = PAGE.share(bell::NAME).unwrap();
        let calls = Announcement { socket: SOCKET, ..calls() };
        write(&file, bell::KIND, bell::MAGIC);
        write(&file, bell::SOCKETS, SOCKET);
        // The child and its parent synchronize through the word after those of the page.
        let words: &[AtomicU64; bell::SIZE / 8 + 1] = PAGE.words();
        let stage = &words[bell::SIZE / 8];
        let wait_for = |wanted| {
            while stage.load(SeqCst) != wanted {
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        let filter = crate::confine::filter_for_test();
        // The child closes its own copy of the descriptor.
        let file = Mutex::new(Some(file));
        let rung = || rung(file.lock().as_ref().unwrap());
        let (_lives, ends) = channel();
        std::thread::scope(|scope| {
            let child = scope.spawn(|| {
                blkkin_sys::testing::in_child(Fork::Library, |_: &[AtomicU64; 1]| {
                    drop(file.lock().take());
                    stage.store(1 + u64::from(seccompiler::apply_filter(&filter).is_err()), SeqCst);
                    wait_for(3);
                })
            });
            while stage.load(SeqCst) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
            assert_eq!(stage.load(SeqCst), 1);
            calls.ring_all(99, &ends).unwrap();
            let while_sandboxed = rung();
            stage.store(3, SeqCst);
            child.join().unwrap().unwrap();
            assert_eq!(while_sandboxed, 0);
        });
        calls.ring_all(99, &ends).unwrap();
        assert_eq!(rung(), 99);
    }

    #[test]
    fn pages_are_found_among_mappings() {
        let line =
            |path: &str| format!("7f0000000000-7f0000001000 rw-s 00000000 00:01 2057 {path}");
        let name = "/memfd:blkkin-bell (deleted)";
        assert_eq!(page_in(&line(&format!("                       {name}"))), Some(2057));
        assert_eq!(page_in(&line("   /memfd:blkkin-rings (deleted)")), None);
        assert_eq!(page_in(&line(&format!("  /tmp{name}"))), None);
        assert_eq!(page_in("7f0000000000-7f0000001000 rw-p 00000000 00:00 0 "), None);
    }

    /// The announcer writes only to files with all properties of a bell page: memfd, size, seals
    /// and content.
    #[test]
    fn what_is_no_page_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let check = |file: File, is_rung: bool| {
            write(&file, bell::KIND, bell::MAGIC);
            write(&file, bell::SOCKETS, 7);
            assert_eq!(ring(file.as_fd()).is_ok(), is_rung);
            assert_eq!(rung(&file) == 99, is_rung);
        };
        check(memory("blkkin-bell", 4096, SEALS), true);
        check(memory("blkkin-bell", 4096, SealFlags::SHRINK), false);
        check(memory("blkkin-bell", 1 << 30, SEALS), false);
        let path = folder.path().join("memfd:blkkin-bell (deleted)");
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(4096).unwrap();
        check(file, false);
        let nothing = memory("blkkin-bell", 4096, SEALS);
        assert!(ring(nothing.as_fd()).is_err());
        // Opening a FIFO blocks until another process opens it for writing.
        let pipe = folder.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
        let path = rustix::fs::open(&pipe, OFlags::PATH, rustix::fs::Mode::empty()).unwrap();
        assert!(ring(path.as_fd()).is_err());
    }
}
