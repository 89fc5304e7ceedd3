//! A slot of four words in the memory of each thread, which an observer outside of the program can
//! find: the slot is at the same [offset] from the thread pointer in all threads. Behind the slot
//! are three private words of the thread, which no observer reads.
//!
//! # Layout
//!
//! ```text
//! 0    state, u64: 0 while the thread has set nothing; CHANGING while the other words change
//! 8    three words, u64, whose meaning is the caller's
//! 32   first private word, u64: 0 while the private words are absent or change
//! 40   two private words, u64
//! ```
//!
//! The slot's address is a multiple of 32, so the slot is within one page and one cache line. A new
//! thread's slot is zeroed; a forked child has a copy of the slot of the thread that forked.
//!
//! # Reading from outside
//!
//! A thread changes only its own slot. It stores [`CHANGING`] in the first word, then the other
//! words, then the new first word. An observer that has interrupted or stopped the thread, such as
//! an eBPF program that runs on the thread's own processor, reads either `CHANGING` or the four
//! words of one `set`. Other observers may read a mixture of two values.
//!
//! # Signal handlers
//!
//! A signal handler may use the slot. It must set the words that it found before it returns, even
//! if their first word is `CHANGING`: then the interrupted change of the slot completes correctly.
//!
//! A signal handler may take the private words and set others, too. It leaves them absent if it
//! found them absent; otherwise it leaves them absent, or sets words whose last is the one that it
//! found. An interrupted [`take_private`] then returns words from before the handler, or their
//! second word from after it. An interrupted [`set_private`] sets its words in spite of the
//! handler.
//!
//! # Why assembly
//!
//! Rust cannot choose the model of a thread-local variable. In a library the default model lets
//! the C library allocate the variable separately for each thread. Here the slot belongs to the
//! "static" block at the thread pointer (initial-exec model), also in a library that is loaded by
//! `dlopen`; glibc has spare room of about 1.6 KiB there. The symbol is hidden, so each program or
//! library has a slot of its own, and weak, so that several copies of this crate may be linked
//! together; those share a slot. The functions are not inlined, because in a Rust `dylib` only the
//! library itself can refer to a hidden symbol.

/// Number of words of the slot.
pub const WORDS: usize = 4;
/// Alignment of the slot in bytes.
pub const ALIGNMENT: usize = 32;
/// First word of the slot while its other words change.
pub const CHANGING: u64 = 1;
/// Number of private words.
pub const PRIVATE_WORDS: usize = 3;

pub use access::{get, offset, set, set_private, state, swap, take_private};

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), target_os = "linux", not(miri)))]
mod access {
    use super::{ALIGNMENT, CHANGING, PRIVATE_WORDS, WORDS};
    use std::arch::asm;

    // SAFETY: defines a zeroed thread-local variable under a name that only this crate uses. The
    // copies of the crate that have this name also have this size and alignment.
    #[expect(unsafe_code)]
    mod definition {
        std::arch::global_asm!(
            ".pushsection .tbss.blkkin_thread_slot_2,\"awT\",%nobits",
            ".weak blkkin_thread_slot_2",
            ".hidden blkkin_thread_slot_2",
            ".type blkkin_thread_slot_2, %object",
            ".size blkkin_thread_slot_2, {size}",
            ".balign {alignment}",
            "blkkin_thread_slot_2:",
            ".zero {size}",
            ".popsection",
            size = const (super::WORDS + super::PRIVATE_WORDS) * size_of::<u64>(),
            alignment = const super::ALIGNMENT,
        );
    }

    /// Returns the offset of the slot from the thread pointer, the same in all threads.
    #[inline(always)]
    fn offset_here() -> isize {
        let offset: isize;
        // SAFETY: reads a word that the linker or the dynamic linker has set.
        #[expect(unsafe_code)]
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {offset}, qword ptr [rip + blkkin_thread_slot_2@GOTTPOFF]",
                offset = out(reg) offset,
                options(nostack, preserves_flags, readonly),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "adrp {offset}, :gottprel:blkkin_thread_slot_2",
                "ldr {offset}, [{offset}, :gottprel_lo12:blkkin_thread_slot_2]",
                offset = out(reg) offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        offset
    }

    /// Returns the thread pointer. Not cached by the compiler: code that switches stacks may
    /// continue on another thread.
    #[inline(always)]
    fn thread_pointer() -> *mut u64 {
        let pointer: *mut u64;
        // SAFETY: reads a register, or the word that the ABI keeps at the thread pointer.
        #[expect(unsafe_code)]
        unsafe {
            #[cfg(target_arch = "x86_64")]
            asm!(
                "mov {pointer}, qword ptr fs:[0]",
                pointer = out(reg) pointer,
                options(nostack, preserves_flags, readonly),
            );
            #[cfg(target_arch = "aarch64")]
            asm!(
                "mrs {pointer}, tpidr_el0",
                pointer = out(reg) pointer,
                options(nostack, preserves_flags, nomem),
            );
        }
        pointer
    }

    #[inline(always)]
    fn slot() -> *mut u64 {
        thread_pointer().wrapping_byte_offset(offset_here())
    }

    /// Returns the offset of this program's or library's slots from the thread pointer, in bytes;
    /// `None` where there is no such offset.
    #[inline(never)]
    pub fn offset() -> Option<isize> {
        Some(offset_here())
    }

    /// Returns the first word of this thread's slot.
    #[inline(never)]
    pub fn state() -> u64 {
        // SAFETY: the slot is a live and aligned part of this thread's memory, and only this thread
        // uses it.
        #[expect(unsafe_code)]
        unsafe {
            slot().read_volatile()
        }
    }

    /// Returns the words of this thread's slot.
    #[inline(never)]
    pub fn get() -> [u64; WORDS] {
        read(slot())
    }

    /// Sets the words of this thread's slot.
    #[inline(never)]
    pub fn set(words: &[u64; WORDS]) {
        write(slot(), words);
    }

    /// Sets the words of this thread's slot, and returns the replaced ones.
    #[inline(never)]
    pub fn swap(words: &[u64; WORDS]) -> [u64; WORDS] {
        let slot = slot();
        let replaced = read(slot);
        write(slot, words);
        replaced
    }

    /// Makes this thread's private words absent, and returns them; the first is 0 if they were
    /// absent.
    #[inline(never)]
    pub fn take_private() -> [u64; PRIVATE_WORDS] {
        let first = slot().wrapping_add(WORDS);
        // SAFETY: as in `read`; the private words follow the slot. The compiler keeps the order of
        // volatile accesses. The other words are read before the first is cleared: a signal handler
        // that finds the first word cleared may overwrite the others.
        #[expect(unsafe_code)]
        unsafe {
            let words = std::array::from_fn(|index| first.add(index).read_volatile());
            first.write_volatile(0);
            words
        }
    }

    /// Sets this thread's private words, the first of which is not 0.
    #[inline(never)]
    pub fn set_private(words: &[u64; PRIVATE_WORDS]) {
        let first = slot().wrapping_add(WORDS);
        let [present, second, third] = *words;
        // SAFETY: as in `take_private`. A signal handler may overwrite the words until the first is
        // set, so they are read again.
        #[expect(unsafe_code)]
        unsafe {
            while {
                first.add(1).write_volatile(second);
                first.add(2).write_volatile(third);
                first.write_volatile(present);
                [first.add(1).read_volatile(), first.add(2).read_volatile()] != [second, third]
            } {}
        }
    }

    #[inline(always)]
    fn read(slot: *mut u64) -> [u64; WORDS] {
        // SAFETY: as in `state`; the slot has this many words.
        #[expect(unsafe_code)]
        std::array::from_fn(|index| unsafe { slot.add(index).read_volatile() })
    }

    #[inline(always)]
    fn write(slot: *mut u64, words: &[u64; WORDS]) {
        let [state, rest @ ..] = words;
        // SAFETY: as in `read`. The compiler keeps the order of volatile stores. An observer on
        // this thread's processor sees stores in the order of the program.
        #[expect(unsafe_code)]
        unsafe {
            slot.write_volatile(CHANGING);
            for (index, word) in rest.iter().enumerate() {
                slot.add(1 + index).write_volatile(*word);
            }
            slot.write_volatile(*state);
        }
    }
}

#[cfg(not(all(
    any(target_arch = "x86_64", target_arch = "aarch64"),
    target_os = "linux",
    not(miri)
)))]
mod access {
    use super::{PRIVATE_WORDS, WORDS};
    use std::cell::Cell;

    thread_local! {
        /// This thread's slot. The variable has no destructor, so it can be used until the thread
        /// ends.
        static SLOT: Cell<[u64; WORDS]> = const { Cell::new([0; WORDS]) };
        /// This thread's private words.
        static PRIVATE: Cell<[u64; PRIVATE_WORDS]> = const { Cell::new([0; PRIVATE_WORDS]) };
    }

    /// Returns the offset of this program's or library's slots from the thread pointer, in bytes;
    /// `None` where there is no such offset.
    pub fn offset() -> Option<isize> {
        None
    }

    /// Returns the first word of this thread's slot.
    pub fn state() -> u64 {
        SLOT.get()[0]
    }

    /// Returns the words of this thread's slot.
    pub fn get() -> [u64; WORDS] {
        SLOT.get()
    }

    /// Sets the words of this thread's slot.
    pub fn set(words: &[u64; WORDS]) {
        SLOT.set(*words);
    }

    /// Sets the words of this thread's slot, and returns the replaced ones.
    pub fn swap(words: &[u64; WORDS]) -> [u64; WORDS] {
        SLOT.replace(*words)
    }

    /// Makes this thread's private words absent, and returns them; the first is 0 if they were
    /// absent.
    pub fn take_private() -> [u64; PRIVATE_WORDS] {
        let [present, second, third] = PRIVATE.get();
        PRIVATE.set([0, second, third]);
        [present, second, third]
    }

    /// Sets this thread's private words, the first of which is not 0.
    pub fn set_private(words: &[u64; PRIVATE_WORDS]) {
        PRIVATE.set(*words);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lock of the tests that interrupt their thread, of which only one may run at a time.
    #[cfg(feature = "testing")]
    static INTERRUPTS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    const A: [u64; WORDS] = [2, 10, 11, 12];
    const B: [u64; WORDS] = [2, 20, 21, 22];

    #[test]
    fn each_thread_has_a_zeroed_slot() {
        set(&A);
        let other = std::thread::spawn(|| {
            let first = get();
            set(&B);
            (first, get())
        });
        assert_eq!(other.join().unwrap(), ([0; WORDS], B));
        assert_eq!((get(), state()), (A, 2));
        assert_eq!(swap(&[0; WORDS]), A);
        assert_eq!((get(), state()), ([0; WORDS], 0));
    }

    #[test]
    fn each_thread_has_absent_private_words() {
        set(&A);
        set_private(&[1, 2, 3]);
        let other = std::thread::spawn(|| {
            let first = take_private();
            set_private(&[4, 5, 6]);
            (first, get(), take_private())
        });
        assert_eq!(other.join().unwrap(), ([0; PRIVATE_WORDS], [0; WORDS], [4, 5, 6]));
        assert_eq!(get(), A, "the slot is separate");
        assert_eq!(take_private(), [1, 2, 3]);
        assert_eq!(take_private()[0], 0);
        set(&[0; WORDS]);
    }

    #[test]
    fn the_offset_keeps_the_slot_within_a_cache_line() {
        let offsets = [0; 4].map(|_| std::thread::spawn(offset).join().unwrap());
        assert_eq!(offsets, [offset(); 4]);
        if cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && !cfg!(miri) {
            let offset = offset().unwrap();
            assert!(offset != 0 && offset % ALIGNMENT as isize == 0, "{offset}");
        }
    }

    /// A signal handler that interrupts a thread at any instruction of [`swap`], and restores what
    /// it found, sees a whole value or `CHANGING`, and does not disturb the interrupted code.
    #[cfg(feature = "testing")]
    #[test]
    fn handlers_see_whole_values_and_disturb_nothing() {
        use crate::testing::while_interrupted;
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        static WHOLE: AtomicU64 = AtomicU64::new(0);
        static TORN: AtomicU64 = AtomicU64::new(0);
        fn handler() {
            let found = swap(&[2, 30, 31, 32]);
            let is_whole = [[0; WORDS], A, B, [2, 30, 31, 32]].contains(&found);
            let count = if is_whole { &WHOLE } else { &TORN };
            if is_whole || found[0] != CHANGING {
                count.fetch_add(1, Relaxed);
            }
            set(&found);
        }
        let _alone = INTERRUPTS.lock();
        set(&A);
        let mut wrong = 0;
        while_interrupted(handler, || {
            for _ in 0..1_000_000 {
                wrong += u32::from(swap(&B) != A);
                wrong += u32::from(swap(&A) != B);
            }
        })
        .unwrap();
        assert_eq!((wrong, TORN.load(Relaxed)), (0, 0));
        assert!(WHOLE.load(Relaxed) > 0, "not interrupted");
        set(&[0; WORDS]);
    }

    /// A signal handler that sets private words, and leaves other ones or none, does not make the
    /// interrupted code take a mixture or lose its words.
    #[cfg(feature = "testing")]
    #[test]
    fn handlers_do_not_mix_private_words() {
        use crate::testing::while_interrupted;
        use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
        const OF_HANDLERS: u64 = 1 << 40;
        static PRESENT: AtomicU64 = AtomicU64::new(0);
        static ABSENT: AtomicU64 = AtomicU64::new(0);
        fn handler() {
            let [present, second, third] = take_private();
            set_private(&[1, OF_HANDLERS, OF_HANDLERS]);
            take_private();
            match present {
                0 => _ = ABSENT.fetch_add(1, Relaxed),
                _ => {
                    set_private(&[present, second | OF_HANDLERS, third]);
                    PRESENT.fetch_add(1, Relaxed);
                }
            }
        }
        let _alone = INTERRUPTS.lock();
        let mut wrong = 0;
        while_interrupted(handler, || {
            for number in 1..=1_000_000 {
                set_private(&[1, number, number]);
                let [present, second, third] = take_private();
                wrong += u32::from(present != 1 || third != number);
                wrong += u32::from(second & !OF_HANDLERS != number);
            }
        })
        .unwrap();
        assert_eq!(wrong, 0);
        assert!(PRESENT.load(Relaxed) > 0, "not interrupted");
        take_private();
    }
}
