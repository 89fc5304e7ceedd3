//! Restartable sequences: stretches of code during which a thread is neither preempted, moved to
//! another processor nor interrupted by a signal; if that happens, the kernel makes it go on at the
//! sequence's abort instead.
//!
//! Each of them does its copies, behind what counts, and then changes one word, which is its last
//! store. So what it does happens on one processor as a whole or not at all.
//! [`Sequences::record`], which nearly all events take, finds out within the sequence where the event
//! goes. The others, for what is rarer, check that the thread is still on the processor whose ring
//! was looked at before, and that the word to change is as it was.
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
//!
//! # Children that share memory
//!
//! A child of `vfork` runs with its parent's memory and thread pointer, and so with its parent's area,
//! of which the kernel knows nothing in the child: the number in it is that of the processor which the
//! parent left, and sequences are not restarted. POSIX lets such a child do nothing but `exec` and
//! `_exit`, but its signal handlers may record events. So each sequence compares `CPU_ID` with the
//! processor itself. A child that was moved fails, and takes the ring with a lock, as do its later
//! events. What is left is a child on the very processor that its parent left: if it is preempted or
//! interrupted within the ten nanoseconds of a sequence, and another thread of its parent or its own
//! signal handler records on that processor, then events of that one packet may be torn. If that
//! happens between the last look at the position and its store, or the child is moved within those
//! nanoseconds, then the position may also go back, and the reader finds nonsense and ends that one
//! ring. No other ring and no other memory is touched.
//! Processors without `rdpid` (those from before 2019) are not asked by
//! [`Sequences::record`], because that would cost more than the event: there a child that was
//! moved may do the same to the ring of the processor that its parent left.
//!
//! Not covered are threads that share a thread pointer and run at the same time (`clone` with
//! `CLONE_VM` and neither `CLONE_VFORK` nor `CLONE_SETTLS`), in which the C library does not work
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

// The sequences take it to be the first word of a ring's control.
const _: () = assert!(Word::Write as usize == 0 && CONTROL_SIZE.is_power_of_two());

/// How this process's threads find their areas.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// From the thread pointer to the area.
    offset: isize,
}

/// What [`Sequences::find`] has found.
static OFFSET: AtomicIsize = AtomicIsize::new(NONE);
const NONE: isize = isize::MIN;
/// Whether the processor has `rdpid`, which gives its number at hardly any cost.
static HAS_RDPID: AtomicBool = AtomicBool::new(false);
/// Bits of it that are the processor's number in what Linux has the processor say; the rest is its
/// node.
const CPU_MASK: u32 = 0xfff;
/// The segment whose limit says the same; of all processors.
const CPU_SEGMENT: u32 = 0x7b;

/// An event to append.
pub(crate) struct PlacedEvent<'a> {
    pub(crate) cpu: usize,
    /// Where the ring's control is.
    pub(crate) control: usize,
    /// Where in the memory the event goes.
    pub(crate) data: usize,
    pub(crate) event: &'a Event<'a>,
    /// The ring's position before …
    pub(crate) write: u64,
    /// … and behind it.
    pub(crate) next: u64,
    /// What the ring's last time was before the event's own was read, …
    pub(crate) last_time: u64,
    /// … which is not before that.
    pub(crate) time: u64,
}

/// What a sequence has to know of a writer.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct RingAddresses {
    /// Processors that have a ring.
    processors: u64,
    /// Whether the processor has `rdpid`.
    has_rdpid: u64,
    /// Where the controls start, and the data.
    controls: *const u8,
    data: *const u8,
    /// Where the reader says that it sleeps.
    sleeping: *const u8,
    ring_size: u64,
    ring_mask: u64,
    subbuffer_size: u64,
    subbuffer_mask: u64,
}

// SAFETY: the places are in memory that the writer owns beside the frame.
#[expect(unsafe_code)]
unsafe impl Send for RingAddresses {}
// SAFETY: as above; the frame itself never changes.
#[expect(unsafe_code)]
unsafe impl Sync for RingAddresses {}

impl RingAddresses {
    pub(crate) fn new(cells: &Cells, shape: &Shape) -> RingAddresses {
        // Within the memory, as `Shape::check` and the writer have made sure.
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
/// At [`ADDRESSES_AT`](Self::ADDRESSES_AT) there are the [`RingAddresses`] of memory that lives as long
/// as the writer.
#[expect(unsafe_code)]
pub(crate) unsafe trait HasRingAddresses {
    /// Offset of the [`RingAddresses`], in bytes.
    const ADDRESSES_AT: usize;
}

fn has_rdpid() -> bool {
    std::arch::x86_64::__cpuid(0).eax >= 7
        && std::arch::x86_64::__cpuid_count(7, 0).ecx & 1 << 22 != 0
}

/// A copy within a sequence.
#[repr(C)]
struct CopyStep {
    from: *const u8,
    into: *mut u8,
    size: usize,
}

/// What leaves a sub-buffer and begins the next one, in the order in which a sequence takes it.
#[repr(C)]
struct SwitchCopies {
    copies: [CopyStep; 3],
    restart: u64,
}

/// The frame of all sequences: says which sequence it is, checks the processor and a word, and sets
/// `done` if the end is reached. The abort has a signature before it, which the C library chose when it
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
            // Also what the processor says.
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

/// What [`Sequences::record`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SequenceOutcome {
    NotRecorded,
    Recorded,
    /// And the reader may sleep.
    RecordedWhileAsleep,
}

/// What the sequence says: half of the reader's word, 0 while it is awake, and this if it does not know, or
/// that, which the word cannot be, if it has not got so far.
const MAY_SLEEP: u64 = 1;
const NOT_RECORDED: u64 = 1 << 32;

/// How often the processor must differ; a thread is not moved as often in so short a time.
const FOREIGN_AREA_CHECKS: usize = 4;

impl Sequences {
    /// If the C library has registered areas. None where the sanitizer looks on, which does not see what
    /// sequences do.
    pub(crate) fn find() -> Option<Sequences> {
        if cfg!(thread_sanitizer) {
            return None;
        }
        let offset = blkkin_sys::rseq_offset();
        OFFSET.store(offset.unwrap_or(NONE), Ordering::Relaxed);
        HAS_RDPID.store(has_rdpid(), Ordering::Relaxed);
        Some(Sequences { offset: offset? })
    }

    /// As [`Sequences::find`] has found, if it has been called: at the cost of a load.
    #[inline(always)]
    pub(crate) fn cached() -> Option<Sequences> {
        let offset = OFFSET.load(Ordering::Relaxed);
        (offset != NONE).then_some(Sequences { offset })
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

    /// Whether the kernel does not maintain this thread's area, as the processor is another one; if
    /// the thread is not just being moved.
    #[cold]
    pub(crate) fn is_foreign_area(self) -> bool {
        (0..FOREIGN_AREA_CHECKS).all(|_| {
            let (cpu, is_told): (u32, u32);
            // SAFETY: gives the limit of a segment, if there is such a one; touches nothing.
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

    /// Records an event with the writer that `slot` holds, if nothing must be looked at more closely,
    /// and nothing came in between. The writer is only used within the sequence: who takes it out of
    /// the slot, and then has all sequences restarted, can be sure that it is unused.
    ///
    /// The sequence goes on behind the instruction that publishes the event, to look whether the
    /// reader sleeps. So where it is aborted it must be known whether that was before or behind: the
    /// instruction also moves a register, by being one for strings.
    #[inline(always)]
    pub(crate) fn record<W: HasRingAddresses>(
        self,
        slot: &AtomicPtr<W>,
        event: &Event<'_>,
    ) -> SequenceOutcome {
        let done: u64;
        // SAFETY: a writer in the slot is alive while it is there, and until all sequences were
        // restarted afterwards. The event goes behind the ring's position, into the same
        // sub-buffer, which it fits into with all that is copied: both is checked.
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
                // Behind the publishing instruction? Then whether the reader sleeps is not known.
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
                // The ring. A processor of none, as a number without sign, is too high.
                "mov {place:e}, dword ptr fs:[{area} + 4]",
                "cmp {place}, qword ptr [{writer} + {addresses} + {processors}]",
                "jae 24b",
                // Also what the processor says, if that is cheap.
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
                // Room: a sub-buffer that has been begun, and enough of it.
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
                // The time takes longest to get. Meanwhile the event's bytes, which have been stored in
                // small pieces just now, reach the cache, so that they can be loaded in large ones.
                "rdtsc",
                "shl rdx, 32",
                "or rax, rdx",
                // From the end to the start, so that one register counts and addresses.
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
                // Of no use but in a child of `vfork`.
                "cmp qword ptr [{control}], {write}",
                "jne 24b",
                // Stores the position, and moves `rdi` behind it.
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

    /// Appends an event; `false` if something came in between.
    pub(crate) fn append(self, cells: &Cells, placed: &PlacedEvent<'_>) -> bool {
        debug_assert!(placed.data + placed.event.copied_size() <= cells.size());
        let control = cells.word(placed.control, Word::Write).as_ptr();
        let mut done: u32 = 0;
        // SAFETY: `data` and as many bytes as are copied are in the memory:
        // `Plan::Append` says so, for the position that the sequence checks. What is overwritten is behind `write`, where nothing counts.
        #[expect(unsafe_code)]
        unsafe {
            let into = cells.start().as_ptr().add(placed.data);
            asm!(
                sequence!(
                    "cmp qword ptr [{word} + 8], {last_time}",
                    "jne 24f",
                    // From the end to the start, so that one register counts and addresses.
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

    /// Leaves a sub-buffer and begins the next one; `false` if something came in between.
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
        // SAFETY: each copy is from bytes of this thread to a place in the memory, which `switch`
        // has checked. The header of the sub-buffer to leave counts only when `WRITE` is beyond it,
        // and that of the one to begin is behind `WRITE`.
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

    /// Counts an event that found no room; `false` if something came in between.
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

    /// What another writer on this processor did between a look at the ring and the sequence.
    #[test]
    fn what_came_in_between_is_noticed() {
        let Some(sequences) = Sequences::find() else { return };
        let rings = blkkin_sys::current_cpu() + 64;
        let shape = Shape { rings, ..Shape::default() };
        let (_, cells) = Cells::create(c"test", &shape).unwrap();
        let mut bytes = [1; 32];
        let event = Event::new(&mut bytes, 20, 7).unwrap();
        // Whether one of some tries succeeds, as any of them may be preempted.
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
