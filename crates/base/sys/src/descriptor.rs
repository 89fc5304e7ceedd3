//! Descriptors that a library holds in a foreign program. The program may close all descriptors
//! that it did not open, and then reuse their numbers for its own files. So each use checks first
//! that the number still refers to the library's file. A number that refers to another file is
//! neither used nor closed, also on drop. The program may still close the descriptor between check
//! and use. That window is short, and programs rarely close all descriptors more than once.
//!
//! A global table lists up to 128 such descriptors, for code without access to their owners. A
//! child process uses the table to close the descriptors of threads that do not exist in the child.
//! Code that runs at the end of the process finds its sockets in the table.

use rustix::fs::{FileType, fstat};
use rustix::io::fcntl_dupfd_cloexec;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

/// Lowest descriptor number that [`raise`] assigns; programs rarely use such numbers.
const HIGH: i32 = 512;

/// Identity of the file that a descriptor refers to. A later comparison shows if the descriptor
/// number has been reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    device: u64,
    inode: u64,
    /// Number that identifies a file without an inode of its own: the kernel's number of an eventfd
    /// plus 1, [`KIND`] with a hash of the file's type, or [`KIND`] alone without `/proc`. 0 for
    /// files with an inode of their own.
    number: u64,
}

/// Flag in `Identity::number`: the other bits are a hash of the file's type and not an eventfd's
/// number. The program may have other files of the same type, but they hardly have these descriptor
/// numbers. Without `/proc` the type is unknown, and only the flag is set.
const KIND: u64 = 1 << 63;

impl Identity {
    /// Reads the identity of a descriptor's file. Returns `None` if the descriptor is closed, or if
    /// the file cannot be distinguished from others.
    pub fn of(descriptor: BorrowedFd<'_>) -> Option<Identity> {
        let status = fstat(descriptor).ok()?;
        let has_own_inode = FileType::from_raw_mode(status.st_mode) != FileType::Unknown;
        let number = match has_own_inode {
            true => 0,
            false => {
                eventfd_of(descriptor).or_else(|| kind_of(descriptor)).or_else(unknown_kind)?
            }
        };
        Some(Identity { device: status.st_dev, inode: status.st_ino, number })
    }

    /// Returns true if the file is an eventfd, or if its type is unknown because `/proc` is
    /// unavailable. Returns false also for eventfds if `/proc` does not show their numbers (before
    /// Linux 5.2).
    pub fn is_eventfd(self) -> bool {
        self.number != 0 && (self.number & KIND == 0 || self.number == KIND)
    }
}

/// Returns the kernel's number of an eventfd plus 1; `None` for other files, and if `/proc` does
/// not show the number.
fn eventfd_of(descriptor: BorrowedFd<'_>) -> Option<u64> {
    let path = format!("/proc/self/fdinfo/{}", descriptor.as_raw_fd());
    let text = std::fs::read_to_string(path).ok()?;
    let number = text.lines().find_map(|line| line.strip_prefix("eventfd-id:"))?;
    number.trim().parse::<u64>().ok()?.checked_add(1)
}

/// Returns [`KIND`] without a hash if there is no `/proc`, as in a bare `chroot`; otherwise `None`.
fn unknown_kind() -> Option<u64> {
    (!std::path::Path::new("/proc/self").exists()).then_some(KIND)
}

/// Returns [`KIND`] with a hash of the file's type; `None` if `/proc` does not show the type. Meant
/// for a file without an inode of its own.
fn kind_of(descriptor: BorrowedFd<'_>) -> Option<u64> {
    let path = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let kind = std::fs::read_link(path).ok()?;
    let mut hasher = DefaultHasher::new();
    kind.hash(&mut hasher);
    Some(hasher.finish() | KIND)
}

/// Moves the descriptor to a free number from 512 on, which programs hardly use. Returns the
/// descriptor unchanged if it has such a number already, or if none is free.
pub fn raise(descriptor: OwnedFd) -> OwnedFd {
    match descriptor.as_raw_fd() < HIGH {
        true => fcntl_dupfd_cloexec(&descriptor, HIGH).unwrap_or(descriptor),
        false => descriptor,
    }
}

/// Returns true if descriptors 0 to 2 are open. If one of them is closed, the program may be about
/// to open a file under that number, and a library's file must not occupy it.
pub fn has_standard_streams() -> bool {
    (0..3).all(|number| {
        // SAFETY: a number that is not open makes the call fail, and has no other effect.
        #[expect(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        rustix::io::fcntl_getfd(descriptor).is_ok()
    })
}

/// Descriptor of a library, listed in the table unless the table was full. The host program may
/// close the descriptor without the library's knowledge.
#[derive(Debug)]
pub struct RegisteredDescriptor<T: AsFd> {
    /// Owned descriptor; `None` only during drop.
    value: Option<T>,
    identity: Identity,
    slot: Option<usize>,
}

impl<T: AsFd> RegisteredDescriptor<T> {
    /// Adds a descriptor to the table, unless the table is full. The caller defines the meaning of
    /// `purpose`. Returns `None` if the identity of the descriptor's file cannot be determined.
    pub fn new(value: T, purpose: u32) -> Option<RegisteredDescriptor<T>> {
        let identity = Identity::of(value.as_fd())?;
        let slot = register(value.as_fd(), identity, purpose);
        Some(RegisteredDescriptor { value: Some(value), identity, slot })
    }

    /// Returns the descriptor; `None` if it no longer refers to the file that was registered.
    pub fn get(&self) -> Option<&T> {
        let value = self.value.as_ref()?;
        (Identity::of(value.as_fd()) == Some(self.identity)).then_some(value)
    }

    /// Returns the identity of the file at registration.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Changes the purpose that the table states for the descriptor.
    pub fn set_purpose(&self, purpose: u32) {
        if let Some(slot) = self.slot {
            TABLE[slot].purpose.store(purpose, Ordering::Relaxed);
        }
    }
}

impl<T: AsFd> Drop for RegisteredDescriptor<T> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            TABLE[slot].number.store(NONE, Ordering::Release);
        }
        let is_ours = self.get().is_some();
        if let Some(value) = self.value.take()
            && !is_ours
        {
            std::mem::forget(value);
        }
    }
}

/// Entry of the table of descriptors, which all threads of the process share.
struct Entry {
    /// Descriptor number, stored last and cleared first.
    number: AtomicI32,
    purpose: AtomicU32,
    identity: [AtomicU64; 3],
}

const NONE: i32 = -1;
/// Value of [`Entry::number`] while a thread fills the entry.
const CLAIMED: i32 = -2;
const ENTRIES: usize = 128;

static TABLE: [Entry; ENTRIES] = [const {
    Entry {
        number: AtomicI32::new(NONE),
        purpose: AtomicU32::new(0),
        identity: [const { AtomicU64::new(0) }; 3],
    }
}; ENTRIES];

/// Adds a descriptor to the table and returns its index there; `None` if the table is full.
fn register(descriptor: BorrowedFd<'_>, identity: Identity, purpose: u32) -> Option<usize> {
    let (claim, relaxed) = (Ordering::Acquire, Ordering::Relaxed);
    let slot = TABLE
        .iter()
        .position(|entry| entry.number.compare_exchange(NONE, CLAIMED, claim, relaxed).is_ok())?;
    let entry = &TABLE[slot];
    entry.purpose.store(purpose, relaxed);
    let words = [identity.device, identity.inode, identity.number];
    for (word, value) in entry.identity.iter().zip(words) {
        word.store(value, relaxed);
    }
    entry.number.store(descriptor.as_raw_fd(), Ordering::Release);
    Some(slot)
}

/// Calls `each` for this process's registered descriptors with this purpose. Skips descriptors that
/// no longer refer to the registered files.
pub fn each_registered(purpose: u32, mut each: impl FnMut(BorrowedFd<'_>)) {
    for entry in &TABLE {
        if let Some(descriptor) = entry.open()
            && entry.purpose.load(Ordering::Relaxed) == purpose
        {
            each(descriptor);
        }
    }
}

/// Closes all registered descriptors that still refer to the registered files, and clears the
/// table. Only for a child process, in which the threads that own the descriptors do not exist.
pub fn close_inherited() {
    for entry in &TABLE {
        if let Some(descriptor) = entry.open() {
            let number = descriptor.as_raw_fd();
            // SAFETY: the owner registered the number, and its thread does not exist in this
            // process.
            #[expect(unsafe_code)]
            drop(unsafe { OwnedFd::from_raw_fd(number) });
        }
        entry.number.store(NONE, Ordering::Release);
    }
}

impl Entry {
    /// Returns the descriptor of this entry; `None` if the entry is free or being filled, or if the
    /// descriptor no longer refers to the file that was registered.
    fn open(&self) -> Option<BorrowedFd<'static>> {
        let number = self.number.load(Ordering::Acquire);
        if number < 0 {
            return None;
        }
        // SAFETY: the number is not -1. The program may close it at any time. Its use then fails,
        // or affects the program's own file of that number: see the module's comment.
        #[expect(unsafe_code)]
        let descriptor = unsafe { BorrowedFd::borrow_raw(number) };
        let [device, inode, number] = [0, 1, 2].map(|word: usize| {
            self.identity.get(word).map_or(0, |word| word.load(Ordering::Relaxed))
        });
        let identity = Identity { device, inode, number };
        (Identity::of(descriptor) == Some(identity)).then_some(descriptor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SharedMemory;
    use rustix::event::{EventfdFlags, eventfd};
    use std::io::Write;

    #[test]
    fn files_are_told_apart() {
        let (one, _) = SharedMemory::create(c"one", 4096).unwrap();
        let (two, _) = SharedMemory::create(c"two", 4096).unwrap();
        let (three, four) = std::io::pipe().unwrap();
        let events = [(), ()].map(|()| eventfd(0, EventfdFlags::NONBLOCK).unwrap());
        let all = [one.as_fd(), two.as_fd(), three.as_fd(), events[0].as_fd(), events[1].as_fd()];
        let all = all.map(|descriptor| Identity::of(descriptor).unwrap());
        for (place, identity) in all.iter().enumerate() {
            assert!(!all[..place].contains(identity), "{all:?}");
            assert_eq!(identity.is_eventfd(), place > 2);
        }
        let again = events[0].try_clone().unwrap();
        assert_eq!(Identity::of(again.as_fd()), Some(all[3]));
        drop(four);
    }

    #[test]
    fn high_numbers_are_taken() {
        let (_, memory) = std::io::pipe().unwrap();
        let raised = raise(memory.into());
        assert!(raised.as_raw_fd() >= HIGH);
        let number = raised.as_raw_fd();
        assert_eq!(raise(raised).as_raw_fd(), number);
    }

    /// Without `/proc`, as in a bare `chroot`, the inode distinguishes an eventfd from a pipe.
    #[cfg(feature = "testing")]
    #[test]
    fn without_proc_descriptors_are_told_apart_by_inode() {
        use crate::testing::{Fork, in_child};
        let found = in_child(Fork::Raw, |[found]: &[AtomicU64; 1]| {
            // SAFETY: the path ends with a NUL.
            #[expect(unsafe_code)]
            let is_in = unsafe { libc::chroot(c"/dev".as_ptr()) == 0 };
            let event = eventfd(0, EventfdFlags::NONBLOCK)
                .ok()
                .map(|event| RegisteredDescriptor::new(event, 0));
            let pipe = std::io::pipe().ok().and_then(|(reads, _)| Identity::of(reads.as_fd()));
            let is_eventfd = |held: &RegisteredDescriptor<OwnedFd>| {
                held.get().is_some() && held.identity().is_eventfd()
            };
            let is_right = event.flatten().is_some_and(|held| is_eventfd(&held))
                && pipe.is_some_and(|pipe| !pipe.is_eventfd());
            found.store(if is_in { 1 + u64::from(is_right) } else { 0 }, Ordering::Relaxed);
        });
        // Only root may call `chroot`.
        assert_eq!(found, Ok([if crate::user_id() == 0 { 2 } else { 0 }]));
    }

    /// A file of the program that reuses the number of a registered descriptor is neither used nor
    /// closed.
    #[test]
    fn a_number_that_is_anothers_is_left_alone() {
        const PURPOSE: u32 = 4711;
        let (_reads, writes) = std::io::pipe().unwrap();
        let held = RegisteredDescriptor::new(raise(writes.into()), PURPOSE).unwrap();
        let mut found = Vec::new();
        each_registered(PURPOSE, |descriptor| found.push(descriptor.as_raw_fd()));
        let number = held.get().unwrap().as_raw_fd();
        assert_eq!(found, [number]);
        let (reads, others) = std::io::pipe().unwrap();
        // SAFETY: plain integers are passed; the closed descriptor is the one registered above.
        #[expect(unsafe_code)]
        let others = unsafe {
            assert_eq!(libc::dup2(others.as_raw_fd(), number), number);
            OwnedFd::from_raw_fd(number)
        };
        assert!(held.get().is_none());
        each_registered(PURPOSE, |descriptor| panic!("{descriptor:?}"));
        drop(held);
        std::fs::File::from(others).write_all(b"still open").unwrap();
        drop(reads);
    }
}
