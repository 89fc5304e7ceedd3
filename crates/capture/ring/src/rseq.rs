//! Restartable sequences: stretches of code that the kernel aborts if the thread is preempted,
//! migrated to another processor, or interrupted by a signal. The thread then continues at the
//! sequence's abort handler.
//!
//! Each sequence takes effect by a store to one word, and so is atomic on one processor. If the
//! sequence copies bytes, it copies them to unpublished memory before, and the store publishes
//! them. [`Sequences::record`], the path of nearly all events, computes the event's position within
//! the sequence. The other sequences, for rarer cases, get the loaded values of the ring's words as
//! arguments. They check that the thread is still on the same processor, and that these words have
//! not changed.
//!
//! The C library (glibc from 2.35) registers each thread's area with the kernel: 32 bytes at a
//! fixed offset from the thread pointer.
//!
//! ```text
//! +4  CPU_ID   processor that the thread runs on; negative if the area is not registered
//! +8  CS       address of the current sequence's descriptor (start, size, abort handler), or 0
//! ```
//!
//! `CS` is cleared after each sequence, because the library that contains the sequence may be
//! unloaded.
//!
//! # Children that share memory
//!
//! A child of `vfork` runs with its parent's memory and thread pointer, and so with its parent's
//! area, which the kernel does not maintain for the child: `CPU_ID` is the processor on which the
//! parent was suspended, and sequences are not restarted. POSIX allows such a child only `exec` and
//! `_exit`, but its signal handlers may record events. So each sequence compares `CPU_ID` with the
//! processor's own number. While a child runs on another processor, its sequences fail, and its
//! events are recorded into the ring with a lock.
//!
//! One case remains: a child on its parent's processor. Suppose that it is preempted or interrupted
//! within the ten nanoseconds of a sequence, and another thread of its parent or its own signal
//! handler records on that processor. Then events of that one packet may be torn. If that happens
//! between the last check of the position and its store, or if the child is migrated within those
//! nanoseconds, the position may also decrease; the reader then finds invalid data and ends that
//! one ring. No other ring and no other memory is touched.
//!
//! [`Sequences::record`] omits the comparison on processors without `rdpid` (from before 2019),
//! because it would cost more than the event. There a child that was migrated may do the same to
//! the ring of its parent's processor.
//!
//! Not covered are threads that share a thread pointer and run at the same time (`clone` with
//! `CLONE_VM` and neither `CLONE_VFORK` nor `CLONE_SETTLS`). The C library does not support them
//! either: one would clear the other's `CS`.

use crate::cells::{Cells, Word};
use crate::encoder::Event;
use crate::event_layout::TIME_AT;
use crate::packet;
use crate::shape::{CONTROL_SIZE, SLEEPING, Shape};
use crate::switch::SubbufferSwitch;
use std::arch::asm;
use std::mem::offset_of;
use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicPtr, Ordering};

// Sequences assume that `WRITE` is the first word of a ring's control.
const _: () = assert!(Word::Write as usize == 0 && CONTROL_SIZE.is_power_of_two());

/// Access to the rseq areas that the C library has registered for this process's threads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// Offset of the area from the thread pointer, in bytes.
    offset: isize,
}

/// Result of the last [`Sequences::find`]; [`NONE`] if no area was found, or before the first call.
static OFFSET: AtomicIsize = AtomicIsize::new(NONE);
const NONE: isize = isize::MIN;
/// Set if the processor has `rdpid`, which returns the processor's number at hardly any cost.
static HAS_RDPID: AtomicBool = AtomicBool::new(false);
/// Mask of the processor's number in the value that `rdpid` returns; the other bits are the NUMA
/// node.
const CPU_MASK: u32 = 0xfff;
/// Selector of a segment whose limit equals the value of `rdpid`; `lsl` reads the limit on all
/// processors.
const CPU_SEGMENT: u32 = 0x7b;

/// An event to append, with its ring and its position in the ring.
pub(crate) struct PlacedEvent<'a> {
    pub(crate) cpu: usize,
    /// Offset of the ring's control in the memory, in bytes.
    pub(crate) control: usize,
    /// Offset of the event in the memory, in bytes.
    pub(crate) data: usize,
    pub(crate) event: &'a Event<'a>,
    /// The ring's position before the event.
    pub(crate) write: u64,
    /// The ring's position after the event.
    pub(crate) next: u64,
    /// Value of the ring's `LAST_TIME`, loaded before `time` was read.
    pub(crate) last_time: u64,
    /// The event's time, not before `last_time`.
    pub(crate) time: u64,
}

/// Addresses and sizes of a writer's rings, as read by the assembler code of a sequence.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingAddresses {
    /// Number of rings for processors; a processor with this number or a higher one has no ring.
    processors: u64,
    /// 1 if the processor has `rdpid`, otherwise 0.
    has_rdpid: u64,
    /// Address of the first ring's control; the controls of the other rings follow.
    controls: *const u8,
    data: *const u8,
    /// Address of the reader's flag `SLEEPING`.
    sleeping: *const u8,
    ring_size: u64,
    ring_mask: u64,
    subbuffer_size: u64,
    subbuffer_mask: u64,
}

// SAFETY: the addresses are in memory that the writer owns along with this value.
#[expect(unsafe_code)]
unsafe impl Send for RingAddresses {}
// SAFETY: as above; the value itself never changes.
#[expect(unsafe_code)]
unsafe impl Sync for RingAddresses {}

impl RingAddresses {
    pub(crate) fn new(cells: &Cells, shape: &Shape) -> RingAddresses {
        // The result is within the memory, as `Cells::shape` has checked.
        let place = |at: usize| cells.start().as_ptr().wrapping_add(at).cast_const();
        RingAddresses {
            processors: shape.rings as u64 - 1,
            has_rdpid: has_rdpid().into(),
            controls: place(shape.control_of(0)),
            data: place(shape.data_of(0).start),
            sleeping: place(SLEEPING),
            ring_size: shape.ring_size() as u64,
            ring_mask: shape.ring_size() as u64 - 1,
            subbuffer_size: shape.subbuffer_size as u64,
            subbuffer_mask: shape.subbuffer_size as u64 - 1,
        }
    }
}

/// A writer that [`Sequences::record`] can use.
///
/// # Safety
///
/// At [`ADDRESSES_AT`](Self::ADDRESSES_AT) there are the [`RingAddresses`] of memory that lives as
/// long as the writer.
#[expect(unsafe_code)]
pub(crate) unsafe trait HasRingAddresses {
    /// Offset of the [`RingAddresses`] in the writer, in bytes.
    const ADDRESSES_AT: usize;
}

fn has_rdpid() -> bool {
    std::arch::x86_64::__cpuid(0).eax >= 7
        && std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 22 != 0
}

/// One copy of bytes within a sequence, in the layout that the assembler code reads.
#[repr(C)]
struct CopyStep {
    from: *const u8,
    into: *mut u8,
    size: usize,
}

/// Copies by which a sequence leaves a sub-buffer and begins the next one, and the new `RESTART`.
#[repr(C)]
struct SwitchCopies {
    copies: [CopyStep; 3],
    restart: u64,
}

/// Prologue and epilogue of all sequences but that of [`Sequences::record`]: announces the
/// sequence, checks the processor and a word, sets `done` if the end is reached, and clears `CS`.
/// The abort handler is preceded by the signature with which the C library registered the areas.
/// The kernel refuses a handler without that signature.
macro_rules! sequence {
    ($($body:literal),* $(,)?) => {
        concat!(
            // Descriptor for the kernel: version and flags, start, size, abort handler.
            ".pushsection __rseq_cs, \"aw\"\n",
            ".balign 32\n",
            "20: .long 0, 0\n",
            ".quad 21f, 22f - 21f, 23f\n",
            ".popsection\n",
            // Abort handler: signature, then exit.
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
            // Also check the number that the processor itself returns.
            "test {rdpid:e}, {rdpid:e}\n",
            "jz 28f\n",
            "rdpid {scratch}\n",
            "jmp 29f\n",
            "28:\n",
            "mov {scratch:e}, {cpu_segment}\n",
            "lsl {scratch:e}, {scratch:e}\n",
            "jnz 24f\n",
            "29:\n",
            "and {scratch:e}, {cpu_mask}\n",
            "cmp {scratch:e}, {cpu:e}\n",
            "jne 24f\n",
            "cmp qword ptr [{word}], {expected}\n",
            "jne 24f\n",
            $($body, "\n",)*
            "22:\n",
            "mov {done:e}, 1\n",
            "24:\n",
            "mov qword ptr fs:[{area} + 8], 0\n",
        )
    };
}

/// Outcome of recording an event on the fast path, by [`Sequences::record`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceOutcome {
    NotRecorded,
    Recorded,
    /// The event is recorded, and the reader may be asleep.
    RecordedWhileAsleep,
}

/// Result of the sequence if it was aborted after it had published the event, so that the value of
/// the reader's flag `SLEEPING` is unknown. Without an abort the result is the flag's lower half: 0
/// while the reader is awake.
const MAY_SLEEP: u64 = 1;
/// Result of the sequence if the event was not published. The lower half of the flag never has this
/// value.
const NOT_RECORDED: u64 = 1 << 32;

/// Number of successive checks that must all find a processor other than the area's. A thread is
/// not migrated so often in so short a time.
const FOREIGN_AREA_CHECKS: usize = 4;

impl Sequences {
    /// Finds the rseq areas that the C library has registered, if any. Returns `None` under
    /// ThreadSanitizer, which does not see the stores of sequences.
    pub(crate) fn find() -> Option<Sequences> {
        if cfg!(thread_sanitizer) {
            return None;
        }
        let offset = blkkin_sys::rseq_offset();
        OFFSET.store(offset.unwrap_or(NONE), Ordering::Relaxed);
        HAS_RDPID.store(has_rdpid(), Ordering::Relaxed);
        Some(Sequences { offset: offset? })
    }

    /// Returns the cached result of [`Sequences::find`], at the cost of a load; `None` before the
    /// first call.
    #[inline(always)]
    pub(crate) fn cached() -> Option<Sequences> {
        let offset = OFFSET.load(Ordering::Relaxed);
        (offset != NONE).then_some(Sequences { offset })
    }

    /// Returns the processor that this thread's area names: the one that the thread runs on, unless
    /// the area is [foreign](Sequences::is_foreign_area). `None` if the area is not registered.
    #[inline(always)]
    pub(crate) fn cpu(self) -> Option<usize> {
        let cpu: u32;
        // SAFETY: the C library has announced that each thread has an area there. Threads that it
        // did not create still have its thread pointer, or no Rust code could run in them.
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

    /// Returns true if this thread's rseq area does not name the processor on which the thread
    /// runs, so that the kernel does not maintain the area. Also true if that processor's number
    /// cannot be read. Compares repeatedly, as the thread may be migrated between the two reads.
    #[cold]
    pub(crate) fn is_foreign_area(self) -> bool {
        (0..FOREIGN_AREA_CHECKS).all(|_| {
            let (cpu, is_told): (u32, u32);
            // SAFETY: returns the limit of a segment, if there is such a segment; touches no
            // memory.
            #[expect(unsafe_code)]
            unsafe {
                asm!(
                    "xor {is_told:e}, {is_told:e}",
                    "lsl {cpu:e}, {cpu:e}",
                    "setz {is_told:l}",
                    cpu = inout(reg) CPU_SEGMENT => cpu,
                    is_told = out(reg) is_told,
                    options(nostack, nomem),
                );
            }
            is_told == 0 || self.cpu() != Some((cpu & CPU_MASK) as usize)
        })
    }

    /// Records an event with the writer in `slot`, unless the event needs the slow path or the
    /// sequence is aborted before it publishes the event. The writer is used only within the
    /// sequence. So a writer is unused once it has been removed from the slot, and all sequences
    /// have been restarted.
    ///
    /// The sequence continues after the instruction that publishes the event, in order to check
    /// whether the reader sleeps. So the abort handler must find out whether that instruction has
    /// run: the instruction is a string instruction, which also advances a register.
    #[inline(always)]
    pub(crate) fn record<W: HasRingAddresses>(
        self,
        slot: &AtomicPtr<W>,
        event: &Event<'_>,
    ) -> SequenceOutcome {
        let done: u64;
        // SAFETY: a writer in the slot is alive while it is there, and until all sequences were
        // restarted afterwards. The event is copied to the ring's position, into the current
        // sub-buffer; the sequence checks that the sub-buffer has room for all bytes that are
        // copied.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                ".pushsection __rseq_cs, \"aw\"",
                ".balign 32",
                "20: .long 0, 0",
                ".quad 21f, 22f - 21f, 23f",
                ".popsection",
                ".pushsection __rseq_failure, \"ax\"",
                ".byte 0x0f, 0xb9, 0x3d",
                ".long 0x53053053",
                // If the publishing instruction has run, the event is recorded, but the flag is
                // unknown.
                "23:",
                "lea rdx, [{control} + 8]",
                "cmp rdi, rdx",
                "mov edx, {may_sleep}",
                "je 26f",
                "24:",
                "mov rdx, {not_recorded}",
                "jmp 26f",
                ".popsection",
                "xor edi, edi",
                "xor {control:e}, {control:e}",
                "lea {place}, [rip + 20b]",
                "mov qword ptr fs:[{area} + 8], {place}",
                "21:",
                "mov {writer}, qword ptr [{slot}]",
                "test {writer}, {writer}",
                "jz 24b",
                // The ring. The number of an unregistered area is negative, thus too high when
                // unsigned.
                "mov {place:e}, dword ptr fs:[{area} + 4]",
                "cmp {place}, qword ptr [{writer} + {addresses} + {processors}]",
                "jae 24b",
                // Also check the number that the processor itself returns, if that is cheap.
                "cmp qword ptr [{writer} + {addresses} + {has_rdpid}], 0",
                "je 27f",
                "rdpid {write}",
                "and {write:e}, {cpu_mask}",
                "cmp {write:e}, {place:e}",
                "jne 24b",
                "27:",
                "mov {control}, {place}",
                "shl {control}, {control_bits}",
                "add {control}, qword ptr [{writer} + {addresses} + {controls}]",
                "imul {place}, qword ptr [{writer} + {addresses} + {ring_size}]",
                "add {place}, qword ptr [{writer} + {addresses} + {data}]",
                // Room: the sub-buffer must have been begun, and have enough bytes left.
                "mov {write}, qword ptr [{control}]",
                "mov rax, {write}",
                "and rax, qword ptr [{writer} + {addresses} + {subbuffer_mask}]",
                "jz 24b",
                "add rax, {left}",
                "cmp rax, qword ptr [{writer} + {addresses} + {subbuffer_size}]",
                "jae 24b",
                "mov rax, {write}",
                "and rax, qword ptr [{writer} + {addresses} + {ring_mask}]",
                "add {place}, rax",
                // Reading the time takes longest. Meanwhile the event's bytes, just stored in small
                // pieces, reach the cache, so that they can be loaded in large pieces.
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                // From the end to the start, so that one register is both counter and index.
                "25:",
                "movups {grain}, xmmword ptr [{from} + {left} - 32]",
                "movups {next_grain}, xmmword ptr [{from} + {left} - 16]",
                "movups xmmword ptr [{place} + {left} - 32], {grain}",
                "movups xmmword ptr [{place} + {left} - 16], {next_grain}",
                "sub {left}, 32",
                "jnz 25b",
                "mov qword ptr [{place} + {time_at}], rax",
                "mov qword ptr [{control} + {last_time}], rax",
                "lea rax, [{write} + {size}]",
                "mov rdi, {control}",
                // The position can differ only in a child of `vfork`.
                "cmp qword ptr [{control}], {write}",
                "jne 24b",
                // Stores the position, and advances `rdi`.
                "stosq",
                "mov rdx, qword ptr [{writer} + {addresses} + {sleeping}]",
                "mov edx, dword ptr [rdx]",
                "inc qword ptr [{control} + {recorded}]",
                "22:",
                "26:",
                "mov qword ptr fs:[{area} + 8], 0",
                area = in(reg) self.offset,
                slot = in(reg) slot.as_ptr(),
                from = in(reg) event.start(),
                left = inout(reg) event.copied_size() => _,
                size = in(reg) event.size(),
                writer = out(reg) _,
                control = out(reg) _,
                place = out(reg) _,
                write = out(reg) _,
                grain = out(xmm_reg) _,
                next_grain = out(xmm_reg) _,
                out("rax") _,
                out("rdx") done,
                out("rdi") _,
                addresses = const W::ADDRESSES_AT,
                processors = const offset_of!(RingAddresses, processors),
                has_rdpid = const offset_of!(RingAddresses, has_rdpid),
                cpu_mask = const CPU_MASK,
                controls = const offset_of!(RingAddresses, controls),
                data = const offset_of!(RingAddresses, data),
                sleeping = const offset_of!(RingAddresses, sleeping),
                ring_size = const offset_of!(RingAddresses, ring_size),
                ring_mask = const offset_of!(RingAddresses, ring_mask),
                subbuffer_size = const offset_of!(RingAddresses, subbuffer_size),
                subbuffer_mask = const offset_of!(RingAddresses, subbuffer_mask),
                control_bits = const CONTROL_SIZE.trailing_zeros(),
                last_time = const Word::LastTime as usize,
                recorded = const Word::Recorded as usize,
                time_at = const TIME_AT,
                may_sleep = const MAY_SLEEP,
                not_recorded = const NOT_RECORDED,
                options(nostack),
            );
        }
        match done {
            0 => SequenceOutcome::Recorded,
            NOT_RECORDED => SequenceOutcome::NotRecorded,
            _ => SequenceOutcome::RecordedWhileAsleep,
        }
    }

    /// Appends an event. Returns false if the sequence was aborted or a check failed.
    pub(crate) fn append(self, cells: &Cells, placed: &PlacedEvent<'_>) -> bool {
        debug_assert!(placed.data + placed.event.copied_size() <= cells.size());
        let control = cells.word(placed.control, Word::Write).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: `data` and the copied bytes after it are in the memory, as `Plan::Append` has
        // checked for the position that the sequence checks again. The bytes there are at or after
        // `write`, and unpublished.
        #[expect(unsafe_code)]
        unsafe {
            let into = cells.start().as_ptr().add(placed.data);
            asm!(
                sequence!(
                    "cmp qword ptr [{word} + 8], {last_time}",
                    "jne 24f",
                    // From the end to the start, so that one register is both counter and index.
                    "25:",
                    "movups {grain}, xmmword ptr [{from} + {left} - 16]",
                    "movups xmmword ptr [{into} + {left} - 16], {grain}",
                    "sub {left}, 16",
                    "jnz 25b",
                    "mov qword ptr [{word} + 8], {time}",
                    "inc qword ptr [{word} + {recorded}]",
                    "mov qword ptr [{word}], {next}",
                ),
                area = in(reg) self.offset,
                recorded = const Word::Recorded as usize,
                cpu = in(reg) placed.cpu,
                word = in(reg) control,
                expected = in(reg) placed.write,
                last_time = in(reg) placed.last_time,
                from = in(reg) placed.event.start(),
                into = in(reg) into,
                left = inout(reg) placed.event.copied_size() => _,
                time = in(reg) placed.time,
                next = in(reg) placed.next,
                scratch = out(reg) _,
                grain = out(xmm_reg) _,
                rdpid = in(reg) u32::from(HAS_RDPID.load(Ordering::Relaxed)),
                cpu_segment = const CPU_SEGMENT,
                cpu_mask = const CPU_MASK,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }

    /// Leaves a sub-buffer and begins the next one. Returns false if the sequence was aborted or a
    /// check failed.
    pub(crate) fn switch(
        self,
        cells: &Cells,
        cpu: usize,
        control: usize,
        write: u64,
        switch: &SubbufferSwitch,
    ) -> bool {
        let place = |at: usize, bytes: &[u8]| {
            debug_assert!(at + bytes.len() <= cells.size());
            // SAFETY: within the memory, as positions in a ring's data are.
            #[expect(unsafe_code)]
            let into = unsafe { cells.start().as_ptr().add(at) };
            CopyStep { from: bytes.as_ptr(), into, size: bytes.len() }
        };
        let begin = place(switch.begin.0, &switch.begin.1);
        let copies: [CopyStep; 3] = match &switch.leave {
            Some((at, end, discarded)) => [
                place(at + packet::LAST_TIME, end),
                place(at + packet::DISCARDED, discarded),
                begin,
            ],
            None => [place(0, &[]), place(0, &[]), begin],
        };
        let copies = SwitchCopies { copies, restart: switch.restart };
        let control = cells.word(control, Word::Write).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: each copy is from bytes of this thread to an offset in the memory that
        // `Writer::switch` has computed from positions in the ring. The header of the sub-buffer to
        // leave is published only once `WRITE` is beyond it, and the header of the next one is
        // beyond `WRITE`.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                sequence!(
                    "cmp qword ptr [{word} + 8], {last_time}",
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
                    "mov rsi, qword ptr [{copies}]",
                    "mov qword ptr [{word} + {restart}], rsi",
                    "mov qword ptr [{word} + 8], {time}",
                    "mov qword ptr [{word}], {next}",
                ),
                area = in(reg) self.offset,
                cpu = in(reg) cpu,
                word = in(reg) control,
                expected = in(reg) write,
                copies = inout(reg) &raw const copies => _,
                restart = const Word::Restart as usize,
                last_time = in(reg) switch.last_time,
                time = in(reg) switch.time,
                next = in(reg) switch.write,
                scratch = out(reg) _,
                out("rsi") _,
                out("rdi") _,
                out("rcx") _,
                rdpid = in(reg) u32::from(HAS_RDPID.load(Ordering::Relaxed)),
                cpu_segment = const CPU_SEGMENT,
                cpu_mask = const CPU_MASK,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }

    /// Counts an event that found the ring full. Returns false if the sequence was aborted or a
    /// check failed.
    pub(crate) fn count_lost(self, cells: &Cells, cpu: usize, control: usize, lost: u64) -> bool {
        let counter = cells.word(control, Word::Lost).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: changes one word of the memory.
        #[expect(unsafe_code)]
        unsafe {
            asm!(
                sequence!("mov qword ptr [{word}], {next}"),
                area = in(reg) self.offset,
                cpu = in(reg) cpu,
                word = in(reg) counter,
                expected = in(reg) lost,
                next = in(reg) lost.wrapping_add(1),
                scratch = out(reg) _,
                rdpid = in(reg) u32::from(HAS_RDPID.load(Ordering::Relaxed)),
                cpu_segment = const CPU_SEGMENT,
                cpu_mask = const CPU_MASK,
                done = inout(reg) done,
                options(nostack),
            );
        }
        done != 0
    }
}

#[cfg(test)]
mod tests {
    use super::{PlacedEvent, Sequences};
    use crate::cells::{Cells, Word};
    use crate::{Event, Shape};
    use std::sync::atomic::Ordering::Relaxed;

    /// The sequence fails if another writer on this processor has changed the ring's words after
    /// they were loaded.
    #[test]
    fn what_came_in_between_is_noticed() {
        let Some(sequences) = Sequences::find() else { return };
        let rings = blkkin_sys::current_cpu() + 64;
        let shape = Shape { rings, ..Shape::default() };
        let (_, cells) = Cells::create(c"test", &shape).unwrap();
        let mut bytes = [1; 32];
        let event = Event::new(&mut bytes, 20, 7).unwrap();
        // Repeated, because any attempt may be preempted.
        let is_appended = |write: u64, last_time: u64| {
            (0..100).any(|_| {
                let cpu = sequences.cpu().unwrap();
                let control = shape.control_of(cpu);
                cells.store(control, Word::Write, 84, Relaxed);
                cells.store(control, Word::LastTime, 9, Relaxed);
                let data = shape.data_of(cpu).start + 84;
                let (event, next, time) = (&event, 104, 10);
                let placed =
                    PlacedEvent { cpu, control, data, event, write, next, last_time, time };
                let is_appended = sequences.append(&cells, &placed);
                let found =
                    [Word::Write, Word::LastTime].map(|word| cells.load(control, word, Relaxed));
                assert_eq!(found, if is_appended { [104, 10] } else { [84, 9] });
                is_appended
            })
        };
        assert!(is_appended(84, 9));
        assert!(!is_appended(84, 8), "another time");
        assert!(!is_appended(64, 9), "another position");
    }
}
