//! Restartable sequences: stretches of code during which a thread is neither preempted, moved to
//! another processor nor interrupted by a signal; if that happens, the kernel makes it go on at the
//! sequence's abort instead.
//!
//! Each of them checks that the thread is still on the processor whose ring was looked at, and that
//! the word to change is as it was; does its copies, behind what counts; and changes the word, which
//! is its last instruction. So what it does happens on one processor as a whole or not at all.
//!
//! The C library (glibc from 2.35) registers each thread's area with the kernel: 32 bytes at a fixed
//! offset from the thread pointer.
//!
//! ```text
//! +4  CPU_ID   processor that the thread runs on; negative if the area is not registered
//! +8  CS       the sequence that the thread is in, or 0: where it starts, its size, its abort
//! ```
//!
//! `CS` is cleared behind each sequence, because the library with the sequence may be unloaded.

use crate::cells::{Cells, Word};
use crate::packet;
use crate::write::{GRAIN, Switch};
use std::arch::asm;
use std::sync::OnceLock;

/// How this process's threads find their areas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// From the thread pointer to the area.
    offset: isize,
}

/// An event to append.
pub(crate) struct Append<'a> {
    pub(crate) cpu: usize,
    /// Where the ring's control is.
    pub(crate) control: usize,
    /// Where in the memory the event goes.
    pub(crate) data: usize,
    /// A multiple of [`GRAIN`].
    pub(crate) bytes: &'a [u8],
    /// The ring's position before …
    pub(crate) write: u64,
    /// … and behind it.
    pub(crate) next: u64,
    pub(crate) time: u64,
}

/// A copy within a sequence.
#[repr(C)]
struct Copy {
    from: *const u8,
    into: *mut u8,
    size: usize,
}

/// The frame of all sequences: says which sequence it is, checks the processor, and sets `done` if
/// the end is reached. The abort has a signature before it, which the C library chose when it
/// registered the areas; without it the kernel would not go there.
macro_rules! sequence {
    ($($body:literal),* $(,)?) => {
        concat!(
            // What the kernel is told: version and flags, start, size, abort.
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "20: .long 0, 0\n",
            ".quad 21f, 22f - 21f, 23f\n",
            ".popsection\n",
            // The abort: signature, then out.
            ".pushsection __rseq_failure, \"ax\"\n",
            ".byte 0x0f, 0xb9, 0x3d\n",
            ".long 0x53053053\n",
            "23: jmp 24f\n",
            ".popsection\n",
            "lea {scratch}, [rip + 20b]\n",
            "mov qword ptr fs:[{area} + 8], {scratch}\n",
            "21:\n",
            "cmp dword ptr fs:[{area} + 4], {cpu:e}\n",
            "jne 24f\n",
            $($body, "\n",)*
            "22:\n",
            "mov {done:e}, 1\n",
            "24:\n",
            "mov qword ptr fs:[{area} + 8], 0\n",
        )
    };
}

impl Sequences {
    /// If the C library has registered areas.
    pub(crate) fn find() -> Option<Sequences> {
        static FOUND: OnceLock<Option<Sequences>> = OnceLock::new();
        *FOUND.get_or_init(|| {
            let offset = blkkin_sys::rseq_offset()?;
            Some(Sequences { offset })
        })
    }

    /// The processor that this runs on now; `None` if this thread has no area.
    #[inline(always)]
    pub(crate) fn cpu(self) -> Option<usize> {
        let cpu: u32;
        // SAFETY: the C library has told that each thread has an area there. Threads that it does
        // not know still have its thread pointer, or none of this code's language could run.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                "mov {cpu:e}, dword ptr fs:[{area} + 4]",
                cpu = lateout(reg) cpu,
                area = in(reg) self.offset,
                options(nostack, preserves_flags, readonly),
            );
        }
        i32::try_from(cpu).ok().map(|cpu| cpu as usize)
    }

    /// Appends an event; `false` if something came in between.
    #[inline(always)]
    pub(crate) fn append(self, cells: &Cells, append: &Append<'_>) -> bool {
        debug_assert!(append.bytes.len().is_multiple_of(GRAIN) && !append.bytes.is_empty());
        debug_assert!(append.data + append.bytes.len() <= cells.size());
        let control = cells.word(append.control, Word::Write).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: `data` to the end of `bytes` is in the memory: `Plan::Append` says so, for the
        // position that the sequence checks. Copies are of whole grains, of which `bytes` and the
        // sub-buffer have enough. What is overwritten is behind `write`, where nothing counts.
        #[expect(unsafe_code)]
        unsafe {
            let into = cells.start().as_ptr().add(append.data);
            asm!(
                sequence!(
                    "cmp qword ptr [{control}], {write}",
                    "jne 24f",
                    // From the end to the start, so that one register counts and addresses.
                    "25:",
                    "movups {grain}, xmmword ptr [{from} + {left} - 16]",
                    "movups xmmword ptr [{into} + {left} - 16], {grain}",
                    "sub {left}, 16",
                    "jnz 25b",
                    "mov qword ptr [{control} + 8], {time}",
                    "mov qword ptr [{control}], {next}",
                ),
                area = in(reg) self.offset,
                cpu = in(reg) append.cpu,
                control = in(reg) control,
                write = in(reg) append.write,
                from = in(reg) append.bytes.as_ptr(),
                into = in(reg) into,
                left = inout(reg) append.bytes.len() => _,
                time = in(reg) append.time,
                next = in(reg) append.next,
                scratch = out(reg) _,
                grain = out(xmm_reg) _,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }

    /// Leaves a sub-buffer and begins the next one; `false` if something came in between.
    pub(crate) fn switch(
        self,
        cells: &Cells,
        cpu: usize,
        control: usize,
        write: u64,
        switch: &Switch,
    ) -> bool {
        let place = |at: usize, bytes: &[u8]| {
            debug_assert!(at + bytes.len() <= cells.size());
            // SAFETY: within the memory, as positions in a ring's data are.
            #[expect(unsafe_code)]
            let into = unsafe { cells.start().as_ptr().add(at) };
            Copy { from: bytes.as_ptr(), into, size: bytes.len() }
        };
        let begin = place(switch.begin.0, &switch.begin.1);
        let copies = match &switch.leave {
            Some((at, end, discarded)) => [
                place(at + packet::LAST_TIME, end),
                place(at + packet::DISCARDED, discarded),
                begin,
            ],
            None => [place(0, &[]), place(0, &[]), begin],
        };
        self.copy_and_store(cells, cpu, control, write, &copies, (switch.time, switch.write))
    }

    fn copy_and_store(
        self,
        cells: &Cells,
        cpu: usize,
        control: usize,
        write: u64,
        copies: &[Copy; 3],
        (time, next): (u64, u64),
    ) -> bool {
        let control = cells.word(control, Word::Write).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: each copy is from bytes of this thread to a place in the memory, which `switch`
        // has checked. The header of the sub-buffer to leave counts only when `WRITE` is beyond it,
        // and that of the one to begin is behind `WRITE`.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                sequence!(
                    "cmp qword ptr [{control}], {write}",
                    "jne 24f",
                    "mov {scratch:e}, 3",
                    "25:",
                    "mov rsi, qword ptr [{copies}]",
                    "mov rdi, qword ptr [{copies} + 8]",
                    "mov rcx, qword ptr [{copies} + 16]",
                    "rep movsb",
                    "add {copies}, 24",
                    "dec {scratch:e}",
                    "jnz 25b",
                    "mov qword ptr [{control} + 8], {time}",
                    "mov qword ptr [{control}], {next}",
                ),
                area = in(reg) self.offset,
                cpu = in(reg) cpu,
                control = in(reg) control,
                write = in(reg) write,
                copies = inout(reg) copies.as_ptr() => _,
                time = in(reg) time,
                next = in(reg) next,
                scratch = out(reg) _,
                out("rsi") _,
                out("rdi") _,
                out("rcx") _,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }

    /// Counts an event that found no room; `false` if something came in between.
    pub(crate) fn count_lost(self, cells: &Cells, cpu: usize, control: usize, lost: u64) -> bool {
        let counter = cells.word(control, Word::Lost).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: changes one word of the memory.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                sequence!(
                    "cmp qword ptr [{counter}], {lost}",
                    "jne 24f",
                    "mov qword ptr [{counter}], {next}",
                ),
                area = in(reg) self.offset,
                cpu = in(reg) cpu,
                counter = in(reg) counter,
                lost = in(reg) lost,
                next = in(reg) lost + 1,
                scratch = out(reg) _,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }
}
