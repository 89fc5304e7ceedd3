//! Generates ids. An id is a counter value, enciphered with random keys of the process.
//!
//! - **Within a process** no id repeats: no number is used twice, and the cipher is a bijection.
//!   (Without stored keys, see below, ids differ like random numbers.) Threads reserve numbers in
//!   blocks, so that they do not contend.
//! - **Between processes** ids differ like random numbers, because the keys are random.
//! - **After a fork** the child has new keys. The old keys lie in memory that the kernel wipes in
//!   children, so the kind of fork does not matter. Counters continue: blocks that the parent
//!   reserved belong to the threads that had them. A fork in a signal handler that interrupts
//!   [`make`] is like one right after it: parent and child may both have the id that was being
//!   made.
//! - **In a signal handler** ids can be made at any moment, even if the interrupted code is making
//!   one. The only state of a thread is one word, the next number. Reserving a number is one
//!   instruction on x86-64, and an atomic addition on other processors; a handler precedes or
//!   follows it. When a block is used up, both the handler and the interrupted code reserve a
//!   block. Either store may win, because both store a number that is used nowhere else. A handler
//!   left by `siglongjmp` at worst wastes the rest of a block.
//! - **While a thread ends** its word stays usable, because it has no destructor; if it should be
//!   unusable, each id costs a block.
//! - **Nothing blocks.** Only the first id of a process makes system calls; [`prepare`] makes them
//!   early. But if the kernel cannot wipe the keys, none are stored, and each id gets new keys by
//!   system calls. If `getrandom` fails, keys are hashed from values that differ each time: time,
//!   process, thread, addresses, a counter.

use blkkin_sys::{WipedOnFork, add_on_own_thread, moment_identity, random_words};
use std::num::NonZeroU64;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Distance between the starts of two blocks, in numbers. 64 bits have enough blocks for a million
/// new threads a second over half a year.
const BLOCK_STRIDE: u64 = 1 << 20;

/// Bit of a number that is set when the number's block is used up. The bit covers the second half
/// of the stride, so that handlers may continue counting until the next block is reserved.
const USED_UP: u64 = BLOCK_STRIDE / 2;

type Keys = [u64; 2];

/// The two keys of this process, or zeros. The first key is stored last.
static KEYS: WipedOnFork = WipedOnFork::new();

/// Start of the next block to reserve. Children continue with the parent's value: in a child, the
/// forking thread still has its block, which must not be reserved again.
static BLOCKS: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Next number of this thread's block, to be enciphered into an id.
    static NUMBERS: AtomicU64 = const { AtomicU64::new(USED_UP) };
}

/// Returns a new id: pseudorandom, never 0, and unique within the process.
#[inline]
pub fn make() -> NonZeroU64 {
    let [first, second] = KEYS.words();
    // Acquire: pairs with the release of the exchange in `new_keys`; a thread that sees the first
    // key sees the second.
    let before = first.load(Acquire);
    if before != 0
        && let Some(number) = number_of_block()
        && let Some(id) = NonZeroU64::new(encipher([before, second.load(Relaxed)], number))
    {
        return id;
    }
    make_slowly()
}

/// Slow path of [`make`]: makes the first id of a process or of a block, and each id if keys cannot
/// be stored. Also replaces the one id that would be 0.
#[cold]
fn make_slowly() -> NonZeroU64 {
    loop {
        let keys = keys();
        let number = number_of_block().unwrap_or_else(number_of_new_block);
        if let Some(id) = NonZeroU64::new(encipher(keys, number)) {
            return id;
        }
    }
}

/// Makes the system calls of the first id early, for programs that may lose the permission for
/// them, or that need a fast first id.
pub fn prepare() {
    keys();
}

/// Enciphers a number with the one-round cipher of Even and Mansour ("A construction of a cipher
/// from a single pseudorandom permutation", 1997): a fixed permutation between two keys. So two
/// processes generate unrelated ids from the same numbers. With the first key alone, they would
/// generate the same ids in another order. With the second key alone, their ids of equal numbers
/// would always differ in the same bits.
#[inline]
fn encipher([before, after]: Keys, number: u64) -> u64 {
    scramble(number ^ before) ^ after
}

/// Permutes the 64-bit words so that each output bit depends on all input bits: the finalizer
/// "Mix13" of David Stafford.
#[inline]
fn scramble(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// Returns the next number of the thread's block; `None` if the block is used up, or if the
/// thread's word is unusable because the thread is ending.
#[inline]
fn number_of_block() -> Option<u64> {
    let number = NUMBERS.try_with(|next| add_on_own_thread(next, 1)).unwrap_or(USED_UP);
    (number & USED_UP == 0).then_some(number)
}

/// Reserves a block and returns its first number. The thread keeps the other numbers, unless its
/// word is unusable because it is ending.
fn number_of_new_block() -> u64 {
    let number = BLOCKS.fetch_add(BLOCK_STRIDE, Relaxed);
    let _ = NUMBERS.try_with(|next| next.store(number + 1, Relaxed));
    number
}

fn keys() -> Keys {
    let [first, second] = KEYS.words();
    let before = first.load(Acquire);
    if before == 0 { new_keys() } else { [before, second.load(Relaxed)] }
}

fn new_keys() -> Keys {
    let keys = mixed_keys(random_words());
    if !KEYS.arm() {
        return keys;
    }
    // Threads and handlers may run this concurrently. The first store of each key wins; no thread
    // waits, and none sees a first key without the final second key.
    let [first, second] = KEYS.words();
    let _ = second.compare_exchange(0, keys[1].max(1), Relaxed, Relaxed);
    // Release: pairs with the acquire loads in `keys` and `make`.
    let _ = first.compare_exchange(0, keys[0].max(1), Release, Relaxed);
    [first.load(Acquire), second.load(Relaxed)]
}

/// Returns the keys `from_kernel`, if `getrandom` has returned them. Otherwise returns hashes of
/// values of which at least one differs between any two calls.
fn mixed_keys(from_kernel: Option<Keys>) -> Keys {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    if let Some(keys) = from_kernel {
        return keys;
    }
    let [process, thread, since_1970, since_boot] = moment_identity();
    let stack = std::ptr::from_ref(&process).addr() as u64;
    let code = std::ptr::from_ref(&COUNT).addr() as u64;
    let count = COUNT.fetch_add(1, Relaxed);
    let facts = [process, thread, since_1970, since_boot, stack, code, count];
    // Different seeds, so that the two keys differ.
    [1, 2].map(|seed| facts.iter().fold(seed, |all, fact| scramble(all ^ scramble(*fact))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::{Call, Fork, in_child, refuse};
    use std::collections::HashSet;
    use std::sync::Barrier;

    #[test]
    fn scrambling_is_one_to_one() {
        // Inverts each step, by the inverses of the factors modulo 2^64.
        let unshift = |word: u64, by: u32| (0..64 / by).fold(word, |guess, _| word ^ (guess >> by));
        let inverse = |factor: u64| {
            (0..6).fold(factor, |guess: u64, _| {
                guess.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(guess)))
            })
        };
        let unscramble = |word: u64| {
            let word = unshift(word, 31).wrapping_mul(inverse(0x94d0_49bb_1331_11eb));
            unshift(unshift(word, 27).wrapping_mul(inverse(0xbf58_476d_1ce4_e5b9)), 30)
        };
        for word in (0..64).map(|bit| 1 << bit).chain([0, 1, u64::MAX, 0x0123_4567_89ab_cdef]) {
            assert_eq!(unscramble(scramble(word)), word, "{word:#x}");
        }
    }

    /// The ids of two processes are unrelated. The first key changes the differences between ids.
    /// The second key separates processes whose first keys are similar by chance.
    #[test]
    fn both_keys_count() {
        let step = |keys: Keys| encipher(keys, 0) ^ encipher(keys, 1);
        let mut seen = HashSet::new();
        for first in 0..100 {
            // Keys that differ in the lowest bit have the same difference, because that bit swaps
            // the two numbers.
            assert!(seen.insert(step([2 * first, 7])), "first key {first}");
            let ids = |keys: Keys| (0..1000).map(move |number| encipher(keys, number));
            let one: HashSet<u64> = ids([first, 7]).collect();
            assert!(ids([first ^ 1, 8]).all(|id| !one.contains(&id)), "first key {first}");
        }
    }

    /// Threads that reserve blocks at the same time reserve different blocks.
    #[test]
    fn blocks_are_taken_once() {
        const THREADS: usize = 4;
        let start = Barrier::new(THREADS);
        let take = || {
            let mut numbers = vec![0; 500_000];
            start.wait();
            numbers.fill_with(number_of_new_block);
            numbers
        };
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(take)).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect()
        });
        assert!(all.iter().all(|number| number % BLOCK_STRIDE == 0));
        all.sort_unstable();
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]), "a block was taken twice");
    }

    /// Keys made without `getrandom` differ between calls, between threads, and between a process
    /// and its children.
    #[test]
    fn keys_without_randomness_differ() {
        let mut seen = HashSet::new();
        let mut check = |keys: Keys| {
            for key in keys {
                assert!(seen.insert(key), "{key:#x} twice");
            }
        };
        for _ in 0..1000 {
            check(mixed_keys(None));
        }
        let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(|| mixed_keys(None))).collect();
        for thread in threads {
            check(thread.join().expect("no panic"));
        }
        for _ in 0..8 {
            let found = in_child(Fork::Raw, |words: &[AtomicU64; 2]| {
                for (word, key) in words.iter().zip(mixed_keys(None)) {
                    word.store(key, Relaxed);
                }
            });
            check(found.expect("a child"));
        }
    }

    /// The process stores no keys if the kernel cannot wipe them in children.
    #[test]
    fn keys_that_are_not_wiped_are_not_kept() {
        let found = in_child(Fork::Raw, |[refused, first, second]: &[AtomicU64; 3]| {
            refused.store(u64::from(refuse(Call::Madvise)), Relaxed);
            first.store(keys()[0], Relaxed);
            second.store(keys()[0], Relaxed);
        });
        let [refused, first, second] = found.expect("a child");
        assert_eq!(refused, 1);
        assert_ne!(first, second);
    }
}
