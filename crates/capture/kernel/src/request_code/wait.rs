//! Programs that record how long, and for what, a thread with a current span did not run.
//!
//! When such a thread leaves its processor, its current span, the time and the reason are stored in
//! a table ([`WaitTable`]). The moment at which it is woken is added, and the event is recorded
//! when it runs again. Threads without a current span cost a look into a table at each of these
//! moments.
//!
//! The reason is derived from what the kernel knows at that moment: whether the thread could have
//! run on, whether it waits for a disk, and in which system call it is. Nothing else is assumed; a
//! wait of another kind has the reason `other`, and the name of the system call.

use super::calls::{NO_CALL, call_field};
use super::current_span::{
    KEY, SPAN_FIELDS_SIZE, ThreadPlaces, WORD, record_word, span_fields, write_elapsed, write_span,
};
use crate::assembler::Register::{R0, R1, R2, R3, R6, R7, R8, R9, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Size};
use crate::btf::{BitPlace, Btf};
use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_type::{Integer, event_type};
use crate::frame::{PROCESS, SCRATCH, offset};
use crate::ring_code::{RingCode, TIME_SLOT};
use crate::span_slots::SpanSlotsCode;
use crate::tracefs::SystemCall;
use blkkin_control::{EventType, FieldKind, Label as EnumLabel, Width};
use blkkin_sys::bpf::Map;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the events.
pub(crate) const WAIT: &str = "request:wait";

/// Reason why a thread did not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Reason {
    Other = 0,
    /// The thread could have run.
    Runnable = 1,
    Disk = 2,
    Lock = 3,
    Network = 4,
    Sleep = 5,
    Fault = 6,
    Poll = 7,
}

const REASONS: [(&str, Reason); 8] = [
    ("other", Reason::Other),
    ("runnable", Reason::Runnable),
    ("disk", Reason::Disk),
    ("lock", Reason::Lock),
    ("network", Reason::Network),
    ("sleep", Reason::Sleep),
    ("fault", Reason::Fault),
    ("poll", Reason::Poll),
];

/// System calls whose waits have a reason of their own.
const CALLS: [(Reason, &[&str]); 4] = [
    (Reason::Lock, &["futex", "futex_wait", "futex_waitv"]),
    (
        Reason::Network,
        &[
            "accept", "accept4", "connect", "recvfrom", "recvmsg", "recvmmsg", "sendto", "sendmsg",
            "sendmmsg",
        ],
    ),
    (Reason::Sleep, &["nanosleep", "clock_nanosleep", "pause", "rt_sigsuspend", "rt_sigtimedwait"]),
    (
        Reason::Poll,
        &[
            "poll",
            "ppoll",
            "select",
            "pselect6",
            "epoll_wait",
            "epoll_pwait",
            "epoll_pwait2",
            "io_uring_enter",
        ],
    ),
];
/// System calls whose reason depends on the type of the descriptor in their first argument.
const DESCRIPTOR_CALLS: [&str; 4] = ["read", "write", "readv", "writev"];
/// Value in the table of calls for [`DESCRIPTOR_CALLS`].
const BY_DESCRIPTOR: i32 = 0x80;

/// Size of the table of calls: system calls with higher numbers have no reason of their own.
const CALLS_MAX: usize = 512;
/// Reasons of waits by system call, for programs.
#[derive(Debug)]
pub(super) struct WaitKinds {
    table: Map,
}

impl WaitKinds {
    pub(super) fn new(calls: &[SystemCall]) -> Result<WaitKinds, Error> {
        let create = || {
            let table = Map::block("blkkin_kinds", CALLS_MAX)?;
            let memory = table.memory()?;
            let mut bytes = [0; CALLS_MAX];
            for call in calls {
                let Some(kind) = bytes.get_mut(call.number as usize) else { continue };
                let name = &&*call.name;
                let reason = CALLS.iter().find(|(_, names)| names.contains(name));
                *kind = match reason {
                    Some((reason, _)) => *reason as u8,
                    None if DESCRIPTOR_CALLS.contains(name) => BY_DESCRIPTOR as u8,
                    None => 0,
                };
            }
            memory.copy_in(0, &bytes);
            Ok(WaitKinds { table })
        };
        create().map_err(|error| Error::Map("kinds", error))
    }
}

/// Number of entries of the table of waits. Two threads whose ids differ by a multiple of this
/// number share an entry. If one begins to wait while the other waits, the other's wait is counted
/// as lost.
const THREADS: usize = 1 << 15;
/// Words of an entry: the thread's identity, the three words of its span, and the following.
const WAIT_WORDS: usize = 8;
/// Time at which the thread left its processor; 0 while it runs.
const LEFT: i16 = 4;
/// Time at which it was woken; 0 until then.
const WOKEN: i16 = 5;
/// Reason in the lower half, number of the system call in the upper half.
const CAUSE: i16 = 6;
/// Id of the thread that released the lock; 0 if that is not known.
const WAKER: i16 = 7;

/// Threads that wait, in the kernel.
#[derive(Debug)]
pub(super) struct WaitTable {
    table: Map,
}

impl WaitTable {
    pub(super) fn new() -> Result<WaitTable, Error> {
        let size = THREADS * WAIT_WORDS * WORD as usize;
        let table = Map::block("blkkin_waits", size).map_err(|error| Error::Map("waits", error))?;
        Ok(WaitTable { table })
    }
}

/// Returns the description of the events, without an id.
pub(super) fn wait_type(calls: &[SystemCall]) -> EventType {
    let label = |name: &str, value: u64| EnumLabel { name: name.to_owned(), value };
    let reasons = REASONS.iter().map(|(name, reason)| label(name, *reason as u64)).collect();
    let unsigned = |bytes| Integer::unsigned(bytes).field();
    let reason = FieldKind::Enum { is_signed: false, width: Width::Bits8, labels: reasons };
    let own = [
        ("reason", reason),
        ("call", call_field(&[("none", NO_CALL)], calls)),
        ("blocked", unsigned(8)),
        ("runnable", unsigned(8)),
        ("waker", unsigned(4)),
    ];
    event_type(0, WAIT.to_owned(), span_fields().into_iter().chain(own))
}

/// Size of the fields of an event in bytes.
const FIELDS_SIZE: usize = SPAN_FIELDS_SIZE + 1 + 4 + 8 + 8 + 4;

/// Offsets in the kernel's structures that the programs need.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitPlaces {
    thread: ThreadPlaces,
    /// State of a thread: 0 if it can run.
    state: i16,
    /// Set while a thread waits for a disk.
    in_iowait: BitPlace,
    /// Number of the system call, in `struct pt_regs`.
    call: i16,
    /// First argument of the system call, in `struct pt_regs`.
    first_argument: i16,
    /// Open files of a thread.
    files: i16,
    /// Table of descriptors, in `struct files_struct`.
    descriptors: i16,
    /// Number of entries, in `struct fdtable`.
    descriptors_max: i16,
    /// Entries, in `struct fdtable`.
    entries: i16,
    /// Inode, in `struct file`.
    inode: i16,
    /// Type of the file, in `struct inode`.
    mode: i16,
}

impl WaitPlaces {
    pub(super) fn of(btf: &Btf) -> Result<WaitPlaces, Error> {
        Ok(WaitPlaces {
            thread: ThreadPlaces::of(btf)?,
            state: offset(btf, "task_struct", "__state")?,
            in_iowait: btf.bit("task_struct", "in_iowait")?,
            call: offset(btf, "pt_regs", "orig_ax")?,
            first_argument: offset(btf, "pt_regs", "di")?,
            files: offset(btf, "task_struct", "files")?,
            descriptors: offset(btf, "files_struct", "fdt")?,
            descriptors_max: offset(btf, "fdtable", "max_fds")?,
            entries: offset(btf, "fdtable", "fd")?,
            inode: offset(btf, "file", "f_inode")?,
            mode: offset(btf, "inode", "i_mode")?,
        })
    }
}

/// Generator of the programs.
pub(super) struct WaitCode<'c> {
    pub(super) rings: &'c RingCode<'c>,
    pub(super) chosen: ChosenCode,
    pub(super) slots: SpanSlotsCode,
    pub(super) places: WaitPlaces,
    pub(super) kinds: &'c WaitKinds,
    pub(super) waits: &'c WaitTable,
    /// Id of the events.
    pub(super) id: u16,
}

impl WaitCode<'_> {
    /// Returns the programs with the names of their raw tracepoints.
    pub(super) fn programs(&self) -> [(&'static str, Assembler); 2] {
        [("sched_switch", self.switch()), ("sched_waking", self.waking())]
    }

    /// Returns the program for `sched_switch`, which passes whether the thread was preempted, the
    /// thread that leaves, and the thread that runs next.
    fn switch(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        let next = code.label();
        code.copy(R6, R1);
        self.leave(code, next);
        code.set(next);
        self.find_next(code, end);
        let event = EventSize { id: self.id, fields_max: FIELDS_SIZE };
        program.record(event, |code, fields| {
            write_span(code, fields);
            code.load(Size::Bits64, R1, record_word(CAUSE));
            fields.register(code, 1, R1);
            code.alu_number(Alu::ShiftRight, R1, 32);
            fields.register(code, 4, R1);
            let is_woken = code.label();
            // A thread that has not been woken was blocked until now.
            code.load(Size::Bits64, R1, record_word(WOKEN));
            code.jump_if_number(If::NotEqual, R1, 0, is_woken);
            code.load(Size::Bits64, R1, TIME_SLOT);
            code.set(is_woken);
            code.store(Size::Bits64, SCRATCH, R1);
            code.load(Size::Bits64, R2, record_word(LEFT));
            write_elapsed(code, fields);
            code.load(Size::Bits64, R1, TIME_SLOT);
            code.load(Size::Bits64, R2, SCRATCH);
            write_elapsed(code, fields);
            code.load(Size::Bits64, R1, record_word(WAKER));
            fields.register(code, 4, R1);
        });
        program.finish()
    }

    /// Stores the wait of the thread that leaves, if it has a current span.
    fn leave(&self, code: &mut Assembler, next: Label) {
        let places = self.places;
        let [preempted, is_disk, has_reason, has_kind] = [(); 4].map(|()| code.label());
        let (is_free, is_stored) = (code.label(), code.label());
        code.load(Size::Bits64, R7, Address(R6, 8));
        places.thread.read_span(code, self.slots, R7, next);
        code.load(Size::Bits32, R0, Address(R7, places.thread.process_id));
        self.chosen.load(code, R0, next);
        code.call(Helper::KtimeGetNs);
        code.store(Size::Bits64, record_word(LEFT), R0);
        code.store_number(Size::Bits64, record_word(WOKEN), 0);
        code.store_number(Size::Bits64, record_word(WAKER), 0);

        code.copy(R1, R7);
        code.call(Helper::TaskRegisters);
        code.load(Size::Bits64, R9, Address(R0, places.call));
        code.load(Size::Bits64, R1, Address(R6, 0));
        code.jump_if_number(If::AnyBit, R1, 1, preempted);
        code.load(Size::Bits32, R1, Address(R7, places.state));
        code.jump_if_number(If::Equal, R1, 0, preempted);
        code.jump_if_number(If::AnyBit, R1, STATE_DEAD, next);
        // Outside of system calls, a thread leaves its program only by an exception.
        code.number(R8, Reason::Fault as u64);
        code.jump_if_number(If::Equal, R9, NO_CALL, has_kind);
        code.number(R8, Reason::Other as u64);
        code.jump_if_number(If::GreaterOrEqual, R9, CALLS_MAX as i32, has_kind);
        code.copy(R1, R9);
        code.block(R2, self.kinds.table.as_fd().as_raw_fd(), 0);
        code.alu(Alu::Add, R2, R1);
        code.load(Size::Bits8, R8, Address(R2, 0));
        // While io_uring waits for anything, the kernel counts the thread as waiting for a disk.
        code.jump_if_number(If::Equal, R8, Reason::Poll as i32, has_reason);
        code.set(has_kind);
        code.load(Size::Bits8, R1, Address(R7, places.in_iowait.offset as i16));
        code.jump_if_number(If::AnyBit, R1, 1 << places.in_iowait.bit, is_disk);
        code.jump_if_number(If::NotEqual, R8, BY_DESCRIPTOR, has_reason);
        self.reason_of_descriptor(code, has_reason);
        code.set(is_disk);
        code.number(R8, Reason::Disk as u64);
        code.jump(has_reason);
        code.set(preempted);
        code.number(R8, Reason::Runnable as u64);
        code.load(Size::Bits64, R1, record_word(LEFT));
        code.store(Size::Bits64, record_word(WOKEN), R1);
        code.set(has_reason);
        code.alu_number(Alu::ShiftLeft, R9, 32);
        code.alu(Alu::Or, R9, R8);
        code.store(Size::Bits64, record_word(CAUSE), R9);

        places.thread.identity(code, R7);
        code.store(Size::Bits64, record_word(0), R8);
        self.find(code);
        code.load(Size::Bits64, R1, Address(R2, WORD * LEFT));
        code.jump_if_number(If::Equal, R1, 0, is_free);
        code.load(Size::Bits64, R1, Address(R2, 0));
        code.jump_if(If::Equal, R1, R8, is_free);
        self.rings.count_unplaced(code, R3);
        code.set(is_free);
        // Another processor may wake the thread meanwhile. It sees the wait once `LEFT` is stored.
        for word in (0..WAIT_WORDS as i16).filter(|word| *word != LEFT).chain([LEFT]) {
            code.load(Size::Bits64, R1, record_word(word));
            code.store(Size::Bits64, Address(R2, WORD * word), R1);
        }
        code.load(Size::Bits32, R1, Address(R7, places.state));
        code.jump_if_number(If::NotEqual, R1, STATE_WAKING, is_stored);
        code.load(Size::Bits64, R1, Address(R2, WORD * WOKEN));
        code.jump_if_number(If::NotEqual, R1, 0, is_stored);
        code.load(Size::Bits64, R1, record_word(LEFT));
        code.store(Size::Bits64, Address(R2, WORD * WOKEN), R1);
        code.set(is_stored);
    }

    /// Sets `R8` to the reason of a wait for the descriptor that is the first argument of the
    /// system call. `R0` holds the registers of the thread in `R7`.
    fn reason_of_descriptor(&self, code: &mut Assembler, done: Label) {
        let places = self.places;
        code.number(R8, Reason::Other as u64);
        code.load(Size::Bits64, R3, Address(R0, places.first_argument));
        code.load(Size::Bits64, R1, Address(R7, places.files));
        code.jump_if_number(If::Equal, R1, 0, done);
        code.load(Size::Bits64, R1, Address(R1, places.descriptors));
        code.jump_if_number(If::Equal, R1, 0, done);
        code.load(Size::Bits32, R2, Address(R1, places.descriptors_max));
        code.jump_if(If::GreaterOrEqual, R3, R2, done);
        code.alu_number(Alu::ShiftLeft, R3, 3);
        code.load(Size::Bits64, R1, Address(R1, places.entries));
        code.alu(Alu::Add, R3, R1);
        read_kernel(code, 8, done);
        code.alu_number(Alu::Add, R3, places.inode.into());
        read_kernel(code, 8, done);
        code.alu_number(Alu::Add, R3, places.mode.into());
        read_kernel(code, 2, done);
        code.alu_number(Alu::And, R3, FILE_TYPE);
        code.jump_if_number(If::NotEqual, R3, SOCKET, done);
        code.number(R8, Reason::Network as u64);
        code.jump(done);
    }

    /// Finds the wait of the thread that runs next, and copies its words to those of the frame.
    /// Jumps to `none` if it has no wait.
    fn find_next(&self, code: &mut Assembler, none: Label) {
        code.load(Size::Bits64, R7, Address(R6, 16));
        self.places.thread.identity(code, R7);
        self.find_waiting(code, none);
        for word in 1..WAIT_WORDS as i16 {
            code.load(Size::Bits64, R1, Address(R2, WORD * word));
            code.store(Size::Bits64, record_word(word), R1);
        }
        code.store_number(Size::Bits64, Address(R2, WORD * LEFT), 0);
        code.store(Size::Bits64, PROCESS, R8);
    }

    /// Returns the program for `sched_waking`, which passes the thread that is woken. It runs in
    /// the thread that wakes, or in an interrupt.
    fn waking(&self) -> Assembler {
        let places = self.places;
        let mut code = Assembler::default();
        let end = code.label();
        code.load(Size::Bits64, R7, Address(R1, 0));
        places.thread.identity(&mut code, R7);
        self.find_waiting(&mut code, end);
        code.load(Size::Bits64, R1, Address(R2, WORD * WOKEN));
        code.jump_if_number(If::NotEqual, R1, 0, end);
        code.copy(R6, R2);
        code.call(Helper::KtimeGetNs);
        code.store(Size::Bits64, Address(R6, WORD * WOKEN), R0);
        code.load(Size::Bits32, R1, Address(R6, WORD * CAUSE));
        code.jump_if_number(If::NotEqual, R1, Reason::Lock as i32, end);
        // In an interrupt, such as that of a timer, the running thread has nothing to do with it:
        // it is not in a system call that releases locks.
        code.call(Helper::GetCurrentTaskBtf);
        code.copy(R7, R0);
        code.copy(R1, R0);
        code.call(Helper::TaskRegisters);
        code.load(Size::Bits64, R1, Address(R0, places.call));
        code.jump_if_number(If::GreaterOrEqual, R1, CALLS_MAX as i32, end);
        code.block(R2, self.kinds.table.as_fd().as_raw_fd(), 0);
        code.alu(Alu::Add, R2, R1);
        code.load(Size::Bits8, R1, Address(R2, 0));
        code.jump_if_number(If::NotEqual, R1, Reason::Lock as i32, end);
        code.load(Size::Bits32, R1, Address(R7, places.thread.thread_id));
        code.store(Size::Bits64, Address(R6, WORD * WAKER), R1);
        code.set(end);
        code.finish();
        code
    }

    /// Sets `R2` to the address of the entry of the thread whose identity is in `R8`. `R1` is lost.
    fn find(&self, code: &mut Assembler) {
        code.copy(R1, R8);
        code.alu_number(Alu::And, R1, THREADS as i32 - 1);
        code.alu_number(Alu::Mul, R1, (WAIT_WORDS * WORD as usize) as i32);
        code.block(R2, self.waits.table.as_fd().as_raw_fd(), 0);
        code.alu(Alu::Add, R2, R1);
    }

    /// Sets `R2` to the address of the entry of the thread in `R8`, or jumps to `none` if it does
    /// not wait. `R1` is lost.
    fn find_waiting(&self, code: &mut Assembler, none: Label) {
        self.find(code);
        code.load(Size::Bits64, R1, Address(R2, WORD * LEFT));
        code.jump_if_number(If::Equal, R1, 0, none);
        code.load(Size::Bits64, R1, Address(R2, 0));
        code.jump_if(If::NotEqual, R1, R8, none);
    }
}

/// State of a thread that has ended.
const STATE_DEAD: i32 = 0x80;
/// State of a thread that is being woken.
const STATE_WAKING: i32 = 0x200;

/// Type in a file's mode, and that of sockets.
const FILE_TYPE: i32 = 0o170_000;
const SOCKET: i32 = 0o140_000;

/// Sets `R3` to `bytes` bytes at the address in `R3`, or jumps to `unreadable`. `R0` to `R5` are
/// lost.
fn read_kernel(code: &mut Assembler, bytes: u64, unreadable: Label) {
    code.store_number(Size::Bits64, KEY, 0);
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, KEY.1.into());
    code.number(R2, bytes);
    code.call(Helper::ProbeReadKernel);
    code.jump_if_number(If::NotEqual, R0, 0, unreadable);
    code.load(Size::Bits64, R3, KEY);
}
