//! The program's [bell](blkkin_control::bell), and whether events are looked at at all.
//!
//! As long as the program talks to no daemon, nobody can want an event, and its type stays undecided. Each
//! event then looks at one word: the number of a daemon that asks the program to connect. Nothing else tells a
//! program of a daemon that comes later, so it needs neither a thread nor a system call until then.

use super::connection::OTHER;
use super::settings;
use blkkin_control::bell;
use blkkin_sys::descriptor::{Held, raise};
use blkkin_sys::{SharedPage, process};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The page; a program's alone, and zeros, until there is a file.
static PAGE: SharedPage = SharedPage::new();
const _: () = assert!(bell::SIZE <= blkkin_sys::SHARED_PAGE_SIZE);
/// The file of the page.
static FILE: Mutex<Option<Held<OwnedFd>>> = Mutex::new(None);

/// There is a thread that hears of daemons, or there will be none: events need not look.
static LISTENS: AtomicBool = AtomicBool::new(false);

/// The word that is 0 until a daemon asks the program to connect.
pub static CALL: &AtomicU64 = {
    let [_, ring] = PAGE.words();
    ring
};

/// The word with the number of seccomp filters that the program had when it made the page.
pub(super) fn filters() -> &'static AtomicU64 {
    let words: &[AtomicU64; bell::SIZE / 8] = PAGE.words();
    &words[bell::FILTERS as usize / 8]
}

/// Whether nobody can want any event: there is no thread, and no daemon has asked for one.
#[inline(always)]
pub(crate) fn is_quiet() -> bool {
    CALL.load(Ordering::Relaxed) == 0 && !is_listening()
}

/// Whether types are decided as they are come by.
#[inline(always)]
pub(crate) fn is_listening() -> bool {
    LISTENS.load(Ordering::Relaxed)
}

/// Has types decided as they are come by.
pub(crate) fn listen() {
    LISTENS.store(true, Ordering::Relaxed);
}

/// Takes the daemon's call for answered, and leaves types undecided until the next one.
pub(super) fn rest() {
    let call = CALL.load(Ordering::Relaxed);
    // Another daemon may be calling at the moment.
    let _ = CALL.compare_exchange(call, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Makes the page one that daemons find, if it is not that already. False if they cannot.
pub(super) fn hang_out() -> bool {
    // Before any thread of the program may be here; a child may have got it locked.
    let Ok(mut file) = FILE.try_lock() else { return false };
    if file.as_ref().and_then(Held::get).is_some() {
        return true;
    }
    // The program has closed it.
    *file = None;
    let made = match PAGE.share(bell::NAME) {
        Ok(made) => made,
        Err(error) => {
            settings::tell(|| format!("agents that come later do not find this program: {error}"));
            return false;
        }
    };
    let filters = process::seccomp_filters().unwrap_or(bell::UNKNOWN);
    let words: &[AtomicU64; bell::SIZE / 8] = PAGE.words();
    let sockets = settings::get().sockets.iter().map(|path| bell::mark_of(path));
    let rest = [filters].into_iter().chain(sockets);
    let first = bell::FILTERS as usize / 8;
    words
        .iter()
        .skip(first)
        .zip(rest)
        .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    words[bell::KIND as usize / 8].store(bell::MAGIC, Ordering::Release);
    *file = Held::new(raise(OwnedFd::from(made)), OTHER);
    file.is_some()
}

/// Closes the file: the thread hears of daemons by itself, or the library goes.
pub(super) fn take_in() {
    if let Ok(mut file) = FILE.try_lock() {
        *file = None;
    }
}
