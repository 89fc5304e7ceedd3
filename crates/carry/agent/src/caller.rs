//! Programs that were started before the agent, and talk to none: each holds a page by which it can be called,
//! see [`blkkin_control::bell`]. They are looked for in `/proc` when the agent starts, and some more times soon
//! after, for those that could not be called then; by a thread that ends when that is done.

use blkkin_control::bell;
use blkkin_sys::process::seccomp_filters_in;
use rustix::fs::{MemfdFlags, OFlags, SealFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Pauses before the looks. A program that ends its sandboxing between two of them is left alone from then on.
const PAUSES: [Duration; 6] = [
    Duration::ZERO,
    Duration::from_millis(300),
    Duration::from_millis(700),
    Duration::from_secs(2),
    Duration::from_secs(7),
    Duration::from_secs(20),
];
/// Numbers without a file, one after the other, after which no more are tried.
const GAP_MAX: u32 = 4;
/// Threads of a process that are looked at before it is called.
const THREADS_MAX: usize = 256;

/// Calls programs, until it is dropped.
#[derive(Debug)]
pub(crate) struct Caller(#[expect(dead_code, reason = "its end is noticed")] Sender<()>);

/// Which programs are called.
struct Calls {
    /// Programs of this user; of all if there is none.
    uid: Option<u32>,
    /// Mark of the agent's socket.
    socket: u64,
    /// Mount to which all memfds belong.
    mount: u64,
}

/// What was found out about a page.
#[derive(Debug, PartialEq, Eq)]
struct Page {
    filters: u64,
    sockets: [u64; bell::SOCKETS_MAX],
    ring: u64,
}

impl Caller {
    /// Begins to call programs that look for agents on this socket: of one user, or of all. To be called when
    /// it is listened on, and before the process is confined: the thread needs the right to look at other
    /// processes, and of root's powers it keeps only that.
    pub(crate) fn start(socket: &Path, uid: Option<u32>) -> io::Result<Caller> {
        let socket = std::path::absolute(socket).unwrap_or(socket.to_owned());
        let memory = rustix::fs::memfd_create(c"blkkin-mount", MemfdFlags::CLOEXEC)?;
        let mount = mount_of(&memory)?;
        let calls = Calls { uid, socket: bell::mark_of(&socket), mount };
        let (lives, ends) = channel();
        let call = move || {
            crate::confine::confine_to_calls();
            calls.run(&ends);
        };
        std::thread::Builder::new().name("blkkin-caller".to_owned()).spawn(call)?;
        Ok(Caller(lives))
    }
}

impl Calls {
    fn run(&self, ends: &Receiver<()>) {
        for pause in PAUSES {
            if ends.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            // Another one each time, so that who could not come before tries once more.
            let number = blkkin_sys::monotonic_ns() | 1;
            let Ok(processes) = fs::read_dir("/proc") else { return };
            for process in processes.filter_map(Result::ok) {
                let name = process.file_name();
                let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
                if ends.try_recv() == Err(std::sync::mpsc::TryRecvError::Disconnected) {
                    return;
                }
                self.call(pid, number);
            }
        }
    }

    fn call(&self, pid: u32, number: u64) {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_meant = |uid| fs::metadata(&process).is_ok_and(|status| status.uid() == uid);
        if self.uid.is_some_and(|uid| !is_meant(uid)) {
            return;
        }
        for range in bell::DESCRIPTORS {
            let mut gap = 0;
            for descriptor in range {
                let path = process.join(format!("fd/{descriptor}"));
                match fs::read_link(&path) {
                    Ok(target) if is_bell(&target) => {
                        let _ = self.ring(&process, &path, number);
                    }
                    Ok(_) => gap = 0,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => gap += 1,
                    Err(_) => return,
                }
                if gap == GAP_MAX {
                    break;
                }
            }
        }
    }

    /// Writes the number to a page. All that is known of the file is what somebody has called it.
    fn ring(&self, process: &Path, path: &Path, number: u64) -> io::Result<()> {
        let file = self.open(path)?;
        let page = read(&file)?;
        let is_meant = page.sockets.contains(&self.socket);
        let answer = match is_meant && !is_sandboxed_since(process, page.filters) {
            true => number,
            // The call of an agent that was there before counts no more.
            false => 0,
        };
        if answer != page.ring && is_meant {
            file.write_all_at(&answer.to_ne_bytes(), bell::RING)?;
        }
        Ok(())
    }

    /// Opens a file of another process, if it is a memfd whose size stays. Nothing that is done before that is
    /// known asks the file itself or its file system, which could make this wait.
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

fn is_bell(target: &Path) -> bool {
    target.to_str().and_then(|target| target.strip_prefix("/memfd:"))
        == bell::NAME.to_str().ok().map(|name| format!("{name} (deleted)")).as_deref()
}

/// What is written in a page.
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
    Ok(Page { filters: word(bell::FILTERS), sockets, ring: word(bell::RING) })
}

/// Whether a thread of a process has other seccomp filters than the process had when it made its page. It may
/// not be permitted then to do what a call has it do, and be killed.
fn is_sandboxed_since(process: &Path, filters: u64) -> bool {
    let Ok(threads) = fs::read_dir(process.join("task")) else { return true };
    threads.filter_map(Result::ok).take(THREADS_MAX).any(|thread| {
        let status = fs::read_to_string(thread.path().join("status"));
        // One that cannot be read has ended.
        status.is_ok_and(|status| seccomp_filters_in(&status) != Some(filters))
    })
}

/// The mount of an open file; its file system is not asked.
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
    use std::os::fd::BorrowedFd;

    /// A file, as a program could hold it.
    fn memory(name: &str, size: u64, seals: SealFlags) -> File {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = File::from(rustix::fs::memfd_create(name, flags).unwrap());
        file.set_len(size).unwrap();
        rustix::fs::fcntl_add_seals(&file, seals).unwrap();
        file
    }

    fn calls() -> Calls {
        let memory = rustix::fs::memfd_create(c"mount", MemfdFlags::CLOEXEC).unwrap();
        Calls { uid: None, socket: 7, mount: mount_of(&memory).unwrap() }
    }

    fn write(file: &File, place: u64, word: u64) {
        file.write_all_at(&word.to_ne_bytes(), place).unwrap();
    }

    fn ring(file: BorrowedFd<'_>) -> io::Result<()> {
        let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
        calls().ring(Path::new("/proc/self"), &path, 99)
    }

    fn rung(file: &File) -> u64 {
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, bell::RING).unwrap();
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
        // It has become another one since: it had a filter.
        write(&page, bell::FILTERS, 1);
        ring(page.as_fd()).unwrap();
        assert_eq!(rung(&page), 0);
    }

    /// What others call a page.
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
        // Opening it would wait for somebody who writes.
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
