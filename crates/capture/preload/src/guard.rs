//! A counter for each thread: calls are not recorded while it is not 0. The tracer's own work
//! increments it, and a child of `vfork`, which shares its parent's memory.
//!
//! On x86-64 the counter is read without a function call and without an allocation
//! (initial-exec model), because the first use may be in a signal handler. Stable Rust can choose
//! that model only in assembly.

/// Returns true if calls of this thread are not recorded.
#[inline(always)]
pub(crate) fn is_silent() -> bool {
    counter::get() != 0
}

/// Increments the counter at the begin of the tracer's own work, and decrements it at the end.
pub(crate) fn mark_own_work(is_begin: bool) {
    counter::add(if is_begin { 1 } else { -1 });
}

#[cfg(target_arch = "x86_64")]
mod counter {
    use std::arch::{asm, global_asm};

    // The symbol is visible in this library only.
    global_asm!(
        ".pushsection .tbss.blkkin_io_silent, \"awT\", @nobits",
        ".globl blkkin_io_silent",
        ".hidden blkkin_io_silent",
        ".type blkkin_io_silent, @object",
        ".size blkkin_io_silent, 4",
        ".balign 4",
        "blkkin_io_silent:",
        ".zero 4",
        ".popsection",
    );

    #[inline(always)]
    pub(super) fn get() -> i32 {
        let value: i32;
        // SAFETY: reads this thread's copy of the counter. Not `pure`, so the compiler repeats the
        // read where the counter may have changed.
        unsafe {
            asm!(
                "mov {value:r}, qword ptr [rip + blkkin_io_silent@GOTTPOFF]",
                "mov {value:e}, dword ptr fs:[{value:r}]",
                value = out(reg) value,
                options(nostack, preserves_flags, readonly),
            );
        }
        value
    }

    pub(super) fn add(change: i32) {
        // SAFETY: changes only this thread's copy of the counter.
        unsafe {
            asm!(
                "mov {offset}, qword ptr [rip + blkkin_io_silent@GOTTPOFF]",
                "add dword ptr fs:[{offset}], {change:e}",
                offset = out(reg) _,
                change = in(reg) change,
                options(nostack),
            );
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod counter {
    use std::cell::Cell;

    thread_local! {
        static SILENT: Cell<i32> = const { Cell::new(0) };
    }

    pub(super) fn get() -> i32 {
        SILENT.get()
    }

    pub(super) fn add(change: i32) {
        SILENT.set(SILENT.get().wrapping_add(change));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_work_nests_and_is_of_one_thread() {
        assert!(!is_silent());
        mark_own_work(true);
        mark_own_work(true);
        mark_own_work(false);
        assert!(is_silent());
        std::thread::spawn(|| assert!(!is_silent())).join().expect("a thread");
        mark_own_work(false);
        assert!(!is_silent());
    }
}
