//! Application contexts: named texts of the program, with one value per process. A channel may add
//! them to its events. Threads and signal handlers read a value without blocking, by a sequence
//! lock.

use blkkin_control::limits::EVENT_NAME_SIZE_MAX;
use blkkin_sys::WipedOnFork;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of application contexts, whether named by the program or by channels.
const NAMES_MAX: usize = 256;
/// Maximum size of a value, in bytes; longer values are truncated.
const VALUE_SIZE_MAX: usize = 255;

const WORDS: usize = VALUE_SIZE_MAX.div_ceil(8);

/// An application context: its name, and its value in atomic words under a sequence lock.
struct Entry {
    name: OnceLock<Box<str>>,
    /// Sequence number of the value: odd during a write, and incremented at its start and end.
    version: AtomicU64,
    size: AtomicUsize,
    words: [AtomicU64; WORDS],
}

static ENTRIES: [Entry; NAMES_MAX] = [const {
    Entry {
        name: OnceLock::new(),
        version: AtomicU64::new(0),
        size: AtomicUsize::new(0),
        words: [const { AtomicU64::new(0) }; WORDS],
    }
}; NAMES_MAX];

/// Number of reserved entries. Reservations are never undone, so a forked child skips an entry that
/// its parent had reserved and not filled yet.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Copy of an application context's value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContextText {
    bytes: [u8; 8 * WORDS],
    size: usize,
}

impl Default for ContextText {
    fn default() -> ContextText {
        ContextText { bytes: [0; 8 * WORDS], size: 0 }
    }
}

impl ContextText {
    pub(crate) fn as_str(&self) -> &str {
        let bytes = self.bytes.get(..self.size).unwrap_or_default();
        // The sequence lock excludes torn reads, so the bytes are the UTF-8 of a string.
        std::str::from_utf8(bytes).unwrap_or_default()
    }
}

/// Sets the application context `provider:name` for this process. Later events of all channels that
/// record this context have the value, truncated at a NUL and to at most 255 bytes. Returns false
/// if the name is invalid, if there are too many names, or if another thread holds the lock for too
/// long.
///
/// May be called by any thread, but not in a signal handler.
pub fn set_context(name: &str, value: &str) -> bool {
    with_lock(|| {
        let Some(entry) = add(name).and_then(|place| ENTRIES.get(place)) else {
            return false;
        };
        entry.set(truncate(value));
        true
    })
    .unwrap_or(false)
}

/// Returns the value up to its first NUL, truncated to [`VALUE_SIZE_MAX`] bytes at a boundary of
/// characters.
fn truncate(value: &str) -> &[u8] {
    let end = value.bytes().position(|byte| byte == 0).unwrap_or(value.len());
    let end = (0..=end.min(VALUE_SIZE_MAX)).rev().find(|end| value.is_char_boundary(*end));
    &value.as_bytes()[..end.unwrap_or(0)]
}

/// Returns the index of an application context's name, and adds the name if it is new. Returns
/// `None` if the name is invalid, if there are too many names, or if another thread holds the lock
/// for too long.
pub(crate) fn reserve(name: &str) -> Option<usize> {
    find(name).or_else(|| with_lock(|| add(name)).flatten())
}

/// Returns the index of an application context's name; `None` if the name is new.
pub(crate) fn find(name: &str) -> Option<usize> {
    let count = COUNT.load(Ordering::Acquire).min(NAMES_MAX);
    ENTRIES[..count].iter().position(|entry| entry.name.get().is_some_and(|it| **it == *name))
}

/// Copies the value of the application context with index `place` into `text`. The text is empty if
/// there is no value, or if a write was in progress during every attempt. A write that a signal
/// handler or a fork has interrupted is in progress throughout. The caller passes the memory,
/// because signal handlers have little stack.
pub(crate) fn read(place: usize, text: &mut ContextText) {
    let is_there = ENTRIES.get(place).is_some_and(|entry| entry.get(text));
    if !is_there {
        text.size = 0;
    }
}

fn add(name: &str) -> Option<usize> {
    if let Some(place) = find(name) {
        return Some(place);
    }
    let (provider, rest) = name.split_once(':')?;
    let is_name = !provider.is_empty()
        && !rest.is_empty()
        && name.len() <= EVENT_NAME_SIZE_MAX
        && !name.chars().any(char::is_control);
    if !is_name {
        return None;
    }
    // No other call has this index, so the lock inside is never contended.
    let place = COUNT.fetch_update(Ordering::AcqRel, Ordering::Acquire, |count| {
        (count < NAMES_MAX).then_some(count + 1)
    });
    let place = place.ok()?;
    ENTRIES.get(place)?.name.set(name.into()).ok()?;
    Some(place)
}

/// Runs `work` under a lock of this process. The lock is free in a forked child, so the child does
/// not wait for threads that it does not have. Returns `None` if the lock is still held after
/// 100000 attempts: its owner is probably interrupted by the signal handler that calls this
/// function.
fn with_lock<R>(work: impl FnOnce() -> R) -> Option<R> {
    static LOCK: WipedOnFork = WipedOnFork::new();
    const TRIES_MAX: usize = 100_000;
    struct Unlock;
    impl Drop for Unlock {
        fn drop(&mut self) {
            let [lock] = LOCK.words();
            lock.store(0, Ordering::Release);
        }
    }
    LOCK.arm();
    let [lock] = LOCK.words();
    for _ in 0..TRIES_MAX {
        if lock.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            let _unlock = Unlock;
            return Some(work());
        }
        std::thread::yield_now();
    }
    None
}

impl Entry {
    /// Writes the context's value. Only one thread at a time may call this.
    fn set(&self, value: &[u8]) {
        // Odd, even if a fork left it odd.
        let version = self.version.load(Ordering::Relaxed) | 1;
        self.version.store(version, Ordering::Relaxed);
        // Release fence: a reader that sees any of the following stores sees this version or a
        // later one.
        fence(Ordering::Release);
        self.size.store(value.len(), Ordering::Relaxed);
        for (word, bytes) in self.words.iter().zip(value.chunks(8)) {
            let mut whole = [0; 8];
            whole[..bytes.len()].copy_from_slice(bytes);
            word.store(u64::from_le_bytes(whole), Ordering::Relaxed);
        }
        self.version.store(version.wrapping_add(1), Ordering::Release);
    }

    fn get(&self, text: &mut ContextText) -> bool {
        const TRIES_MAX: usize = 100;
        for _ in 0..TRIES_MAX {
            let version = self.version.load(Ordering::Acquire);
            if version & 1 != 0 {
                std::hint::spin_loop();
                continue;
            }
            text.size = self.size.load(Ordering::Relaxed).min(VALUE_SIZE_MAX);
            let words = text.bytes.chunks_exact_mut(8).zip(&self.words);
            for (bytes, word) in words.take(text.size.div_ceil(8)) {
                bytes.copy_from_slice(&word.load(Ordering::Relaxed).to_le_bytes());
            }
            fence(Ordering::Acquire);
            if self.version.load(Ordering::Relaxed) == version {
                return true;
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    fn get(place: usize) -> ContextText {
        let mut text = ContextText::default();
        super::read(place, &mut text);
        text
    }

    #[test]
    fn the_last_value_counts() {
        assert!(find("last:value").is_none());
        let place = reserve("last:value").unwrap();
        assert_eq!(get(place).as_str(), "");
        assert!(set_context("last:value", "one"));
        assert!(set_context("last:value", "longer than eight bytes"));
        assert_eq!(get(place).as_str(), "longer than eight bytes");
        assert!(set_context("last:value", "short"));
        assert_eq!(get(place).as_str(), "short");
        assert_eq!(super::reserve("last:value"), Some(place));
    }

    #[test]
    fn values_are_cut_between_letters() {
        let check = |value: &str, expected: &str| {
            assert!(set_context("cut:value", value));
            assert_eq!(get(reserve("cut:value").unwrap()).as_str(), expected);
        };
        check("a\0b", "a");
        check(&"x".repeat(300), &"x".repeat(255));
        check(&format!("x{}", "ä".repeat(200)), &format!("x{}", "ä".repeat(127)));
        check(&"ä".repeat(200), &"ä".repeat(127));
        check("", "");
    }

    #[test]
    fn names_have_a_provider() {
        for name in ["", "x", ":x", "x:", "a:\n", &format!("a:{}", "x".repeat(300))] {
            assert!(!set_context(name, "x"), "{name:?}");
        }
    }

    /// Readers never see a mixture of two values, while two threads set the context concurrently.
    #[test]
    fn values_are_read_whole() {
        let place = reserve("whole:value").unwrap();
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for letter in ["a", "b"] {
                let is_over = &is_over;
                scope.spawn(move || {
                    for size in (1..200).cycle() {
                        if is_over.load(Ordering::Relaxed) {
                            break;
                        }
                        set_context("whole:value", &letter.repeat(size));
                    }
                });
            }
            for _ in 0..100_000 {
                let text = get(place);
                let text = text.as_str();
                let first = text.get(..1).unwrap_or_default();
                assert_eq!(text, first.repeat(text.len()));
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}
