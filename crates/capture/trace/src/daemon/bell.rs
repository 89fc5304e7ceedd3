//! The program's [`bell`]: a shared page through which an agent that starts later makes the program
//! connect.
//!
//! No event can be wanted without a connection to an agent, so event types stay undecided. Each
//! event then loads the word [`CALL`]. An agent stores a new number there to make the program
//! connect. So waiting for an agent takes neither a thread nor a system call.

use super::purpose::OTHER;
use super::settings;
use blkkin_control::bell;
use blkkin_sys::descriptor::{RegisteredDescriptor, raise};
use blkkin_sys::{SharedPage, process};
use std::os::fd::OwnedFd;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Page that is shared with agents once [`publish_page`] maps a file over it. Until then it is
/// private memory, all zeros.
static PAGE: SharedPage = SharedPage::new();
const _: () = assert!(bell::SIZE <= blkkin_sys::SHARED_PAGE_SIZE);
/// File that is mapped over the page; `None` while the page is private memory, and once
/// [`withdraw_page`] has closed the file.
static FILE: Mutex<Option<RegisteredDescriptor<OwnedFd>>> = Mutex::new(None);

/// Set once the thread serves connections, because it then finds agents itself, or once no thread
/// will ever run. Event types are then decided when the program first reaches them.
static DECISIONS_ENABLED: AtomicBool = AtomicBool::new(false);

/// Call word of the page: a number that an agent has stored to request a connection, new for each
/// request; 0 without a request.
pub static CALL: &AtomicU64 = {
    let [_, ring] = PAGE.words();
    ring
};

/// Returns the page's word with the program's number of seccomp filters at the time of publication.
pub(super) fn filters() -> &'static AtomicU64 {
    let words: &[AtomicU64; bell::SIZE / 8] = PAGE.words();
    &words[bell::FILTERS as usize / 8]
}

/// Returns true if no channel can record events yet: there has been no connection, and no agent has
/// requested one by storing to `CALL`.
#[inline(always)]
pub(crate) fn is_quiet() -> bool {
    CALL.load(Ordering::Relaxed) == 0 && !are_decisions_enabled()
}

/// Returns true if event types are decided when the program first reaches them.
#[inline(always)]
pub(crate) fn are_decisions_enabled() -> bool {
    DECISIONS_ENABLED.load(Ordering::Relaxed)
}

/// Enables decisions: event types are then decided when the program first reaches them.
pub(crate) fn enable_decisions() {
    DECISIONS_ENABLED.store(true, Ordering::Relaxed);
}

/// Clears [`CALL`] after an agent's request that led to no connection. Event types stay undecided
/// until the next request.
pub(super) fn clear_call() {
    let call = CALL.load(Ordering::Relaxed);
    // If another agent calls meanwhile, its number stays.
    let _ = CALL.compare_exchange(call, 0, Ordering::Relaxed, Ordering::Relaxed);
}

/// Maps a file over the page, so that agents find the page. Does nothing if agents can
/// find the page already. Returns false on failure.
pub(super) fn publish_page() -> bool {
    // A child forked meanwhile may have inherited a locked mutex.
    let Ok(mut file) = FILE.try_lock() else { return false };
    if file.as_ref().and_then(RegisteredDescriptor::get).is_some() {
        return true;
    }
    // If there was a file, the program has closed it.
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
    let sockets = settings::get().sockets.iter().map(|path| bell::socket_hash(path));
    let rest = [filters].into_iter().chain(sockets);
    let first = bell::FILTERS as usize / 8;
    words
        .iter()
        .skip(first)
        .zip(rest)
        .for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    words[bell::KIND as usize / 8].store(bell::MAGIC, Ordering::Release);
    *file = RegisteredDescriptor::new(raise(OwnedFd::from(made)), OTHER);
    file.is_some()
}

/// Closes the page's file, so that agents no longer find the page.
pub(super) fn withdraw_page() {
    if let Ok(mut file) = FILE.try_lock() {
        *file = None;
    }
}
