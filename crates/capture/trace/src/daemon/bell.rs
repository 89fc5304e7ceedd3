//! The program's [bell](blkkin_control::bell): how a daemon that starts later reaches the program.
//!
//! Without a connection to a daemon no event can be wanted, and event types stay undecided. Each event then
//! loads one word, [`CALL`], in which a daemon writes its number to have the program connect. So waiting for a
//! daemon takes neither a thread nor a system call.

use super::purpose::OTHER;
use super::settings;
use blkkin_control::bell;
use blkkin_sys::descriptor::{Held, raise};
use blkkin_sys::{SharedPage, process};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The page. Private memory, all zeros, until [`publish_page`] maps a file over it.
static PAGE: SharedPage = SharedPage::new();
const _: () = assert!(bell::SIZE <= blkkin_sys::SHARED_PAGE_SIZE);
/// The file that is mapped over the page.
static FILE: Mutex<Option<Held<OwnedFd>>> = Mutex::new(None);

/// Set once the thread runs, which notices daemons itself, or once there will never be one. From then on event
/// types are decided when they are first reached.
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

/// True if no event can be wanted: there is no connection, and no daemon has called.
#[inline(always)]
pub(crate) fn is_quiet() -> bool {
    CALL.load(Ordering::Relaxed) == 0 && !is_listening()
}

/// True if event types are decided when they are first reached.
#[inline(always)]
pub(crate) fn is_listening() -> bool {
    LISTENS.load(Ordering::Relaxed)
}

/// From now on, event types are decided when they are first reached.
pub(crate) fn listen() {
    LISTENS.store(true, Ordering::Relaxed);
}

/// Ends a call that led to no connection. Event types stay undecided until the next call.
pub(super) fn clear_call() {
    let call = CALL.load(Ordering::Relaxed);
    // A call that another daemon makes meanwhile stays.
    let _ = CALL.compare_exchange(call, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Maps a file over the page, so that daemons find it, unless that is done already. False on failure.
pub(super) fn publish_page() -> bool {
    // A child forked meanwhile may have inherited a locked mutex.
    let Ok(mut file) = FILE.try_lock() else { return false };
    if file.as_ref().and_then(Held::get).is_some() {
        return true;
    }
    // The program has closed it.
    *file = None;
    let made = match PAGE.share(bell::NAME) {
        Ok(made) => made,
        Err(error) => {
            settings::report(|| {
                format!("agents that come later do not find this program: {error}")
            });
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

/// Closes the file, so that daemons do not find the page any more.
pub(super) fn withdraw_page() {
    if let Ok(mut file) = FILE.try_lock() {
        *file = None;
    }
}
