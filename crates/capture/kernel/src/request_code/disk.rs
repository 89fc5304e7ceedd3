//! Programs that record requests to disks, with the thread that asked for them: the one of a span
//! (`request:disk`), or the one of a chosen process (`disk:request`).
//!
//! The thread is noted when it queues an I/O operation (`struct bio`), or a part of one that the
//! kernel has split, together with its current span or with its system call. When a request
//! (`struct request`) is issued to the device, it gets the note of its first operation. Further
//! operations that the kernel has merged into the request have no event of their own. Requests
//! without a note, such as those of the kernel's writeback, are recorded without a thread.

use super::calls::{NO_CALL, call_field};
use super::current_span::{
    KEY, RECORD, RECORD_SIZE, SPAN_FIELDS_SIZE, ThreadPlaces, WORD, record_word, span_fields,
    write_elapsed, write_span,
};
use crate::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::btf::Btf;
use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_type::{Integer, event_type};
use crate::frame::{PROCESS, SCRATCH, offset};
use crate::ring_code::{RingCode, TIME_SLOT};
use crate::span_slots::SpanSlotsCode;
use crate::syscall_code::IS_COMPAT;
use crate::tracefs::SystemCall;
use blkkin_control::limits::LABELS_MAX;
use blkkin_control::{EventType, FieldKind, Label as EnumLabel, Width};
use blkkin_sys::bpf::Map;
use std::fs;
use std::os::fd::{AsFd, AsRawFd};

/// Name of the events of requests with a span.
pub(super) const DISK: &str = "request:disk";
/// Name of the events of requests of chosen processes.
const CHOSEN_DISK: &str = "disk:request";

/// Maximum number of operations and of requests that are followed at the same time.
const FOLLOWED_MAX: usize = 1 << 14;

/// Words of a note and of a followed request: process and thread, the three words of the span or
/// the number of the system call, and the following.
const CALL: i16 = 1;
const QUEUED: i16 = 4;
const ISSUED: i16 = 5;
const SECTOR: i16 = 6;
/// Number of the device in the lower half, size in bytes in the upper half.
const DEVICE: i16 = 7;
const OPERATION: i16 = 8;
/// Size of a note, which ends with the time at which the operation was queued.
const NOTE_SIZE: i16 = WORD * (QUEUED + 1);
/// Size of a followed request.
const REQUEST_SIZE: i16 = WORD * (OPERATION + 1);
const _: () = assert!(REQUEST_SIZE <= RECORD_SIZE);

/// Number of the lowest bit of the major number in the kernel's number of a device.
const MAJOR_SHIFT: u32 = 20;
/// Bits of a request's flags that say what it does.
const OPERATION_MASK: i32 = 0xff;
const OPERATIONS: [(&str, u64); 7] = [
    ("read", 0),
    ("write", 1),
    ("flush", 2),
    ("discard", 3),
    ("secure_erase", 5),
    ("zone_append", 7),
    ("write_zeroes", 9),
];

/// Values of the field `call` in place of a system call: the thread ran its program, so a page of
/// its memory was absent; it has no program, as the kernel's threads and the workers of io_uring;
/// nothing is known of it, or the call was made by 32-bit code.
const NO_CALLS: [(&str, i32); 3] =
    [("none", NO_CALL), ("kernel", KERNEL_THREAD), ("unknown", UNKNOWN_CALL)];
const KERNEL_THREAD: i32 = -2;
const UNKNOWN_CALL: i32 = -3;

/// Returns the description of the events of requests with a span, without an id.
pub(super) fn disk_type() -> EventType {
    event_type(0, DISK.to_owned(), span_fields().into_iter().chain(disk_fields()))
}

/// Returns the description of the events of requests of chosen processes, without an id. `calls`
/// are the kernel's system calls.
pub(super) fn chosen_disk_type(calls: &[SystemCall]) -> EventType {
    let call = ("call", call_field(&NO_CALLS, calls));
    event_type(0, CHOSEN_DISK.to_owned(), disk_fields().into_iter().chain([call]))
}

/// Returns the fields of a request. The devices of the machine have their names as labels.
fn disk_fields() -> [(&'static str, FieldKind); 7] {
    let label = |name: &str, value: u64| EnumLabel { name: name.to_owned(), value };
    let operations = OPERATIONS.iter().map(|(name, number)| label(name, *number)).collect();
    let devices: Vec<EnumLabel> = devices().into_iter().take(LABELS_MAX).collect();
    let unsigned = |bytes| Integer::unsigned(bytes).field();
    let device = match devices.is_empty() {
        true => unsigned(4),
        false => FieldKind::Enum { is_signed: false, width: Width::Bits32, labels: devices },
    };
    let operation = FieldKind::Enum { is_signed: false, width: Width::Bits8, labels: operations };
    [
        ("device", device),
        ("operation", operation),
        ("sector", unsigned(8)),
        ("bytes", unsigned(4)),
        ("queued", unsigned(8)),
        ("served", unsigned(8)),
        ("error", Integer::signed(4).field()),
    ]
}

/// Maximum size of the fields of an event in bytes.
const FIELDS_SIZE_MAX: usize = SPAN_FIELDS_SIZE + 4 + 1 + 8 + 4 + 8 + 8 + 4;

/// Returns the names and numbers of the machine's whole block devices.
fn devices() -> Vec<EnumLabel> {
    let entries = fs::read_dir("/sys/block").into_iter().flatten().filter_map(Result::ok);
    let device = |entry: fs::DirEntry| {
        let numbers = fs::read_to_string(entry.path().join("dev")).ok()?;
        let (major, minor) = numbers.trim().split_once(':')?;
        let (major, minor) = (major.parse::<u64>().ok()?, minor.parse::<u64>().ok()?);
        let name = entry.file_name().into_string().ok()?;
        Some(EnumLabel { name, value: major << MAJOR_SHIFT | minor })
    };
    let mut devices: Vec<EnumLabel> = entries.filter_map(device).collect();
    devices.sort_by_key(|device| device.value);
    devices
}

/// Offsets in the kernel's structures that the programs need.
#[derive(Clone, Copy, Debug)]
pub(super) struct DiskPlaces {
    thread: ThreadPlaces,
    /// First operation of a request.
    operation: i16,
    queue: i16,
    /// Disk of a queue.
    disk: i16,
    major: i16,
    first_minor: i16,
    sector: i16,
    size: i16,
    flags: i16,
}

impl DiskPlaces {
    pub(super) fn of(btf: &Btf) -> Result<DiskPlaces, Error> {
        Ok(DiskPlaces {
            thread: ThreadPlaces::of(btf)?,
            operation: offset(btf, "request", "bio")?,
            queue: offset(btf, "request", "q")?,
            disk: offset(btf, "request_queue", "disk")?,
            major: offset(btf, "gendisk", "major")?,
            first_minor: offset(btf, "gendisk", "first_minor")?,
            sector: offset(btf, "request", "__sector")?,
            size: offset(btf, "request", "__data_len")?,
            flags: offset(btf, "request", "cmd_flags")?,
        })
    }
}

/// Operations and requests on their way, in the kernel.
#[derive(Debug)]
pub(super) struct DiskTables {
    notes: Map,
    requests: Map,
}

impl DiskTables {
    pub(super) fn new() -> Result<DiskTables, Error> {
        // Notes of operations that become no request of their own are never removed. Requests are,
        // and those that have no place are counted.
        let (key, count) = (WORD as usize, FOLLOWED_MAX);
        let notes = Map::recent("blkkin_notes", key, NOTE_SIZE as usize, count);
        let requests = Map::hash("blkkin_requests", key, REQUEST_SIZE as usize, count);
        let failed = |error| Error::Map("disk", error);
        Ok(DiskTables { notes: notes.map_err(failed)?, requests: requests.map_err(failed)? })
    }
}

/// Information on the thread that queued a request, which also selects the threads.
#[derive(Clone, Copy, Debug)]
pub(super) enum RequestOrigin {
    /// Its current span. Requests of threads without one are left out.
    Span(SpanSlotsCode),
    /// The system call that it makes.
    Call(CallPlaces),
}

/// Offsets in the kernel's structures by which a thread's system call is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallPlaces {
    /// Number of the call, in `struct pt_regs`.
    call: i16,
    /// Address of the next instruction, in `struct pt_regs`.
    instruction: i16,
    /// Status of the thread, in `struct task_struct`.
    status: i16,
}

impl CallPlaces {
    pub(super) fn of(btf: &Btf) -> Result<CallPlaces, Error> {
        Ok(CallPlaces {
            call: offset(btf, "pt_regs", "orig_ax")?,
            instruction: offset(btf, "pt_regs", "ip")?,
            status: offset(btf, "task_struct", "thread_info.status")?,
        })
    }

    /// Stores the number of the system call that the running thread makes, or one of [`NO_CALLS`],
    /// in the memory at [`RECORD`]. `R0` to `R5` and `R7` are lost.
    fn note(self, code: &mut Assembler) {
        let [is_kernel, is_unknown, is_known] = [(); 3].map(|()| code.label());
        code.call(Helper::GetCurrentTaskBtf);
        code.copy(R7, R0);
        code.copy(R1, R0);
        code.call(Helper::TaskRegisters);
        code.load(Size::Bits64, R1, Address(R0, self.instruction));
        code.jump_if_number(If::Equal, R1, 0, is_kernel);
        code.load(Size::Bits32, R1, Address(R7, self.status));
        code.jump_if_number(If::AnyBit, R1, IS_COMPAT, is_unknown);
        code.load(Size::Bits64, R1, Address(R0, self.call));
        code.store(Size::Bits64, record_word(CALL), R1);
        code.jump(is_known);
        code.set(is_kernel);
        code.store_number(Size::Bits64, record_word(CALL), KERNEL_THREAD);
        code.jump(is_known);
        code.set(is_unknown);
        code.store_number(Size::Bits64, record_word(CALL), UNKNOWN_CALL);
        code.set(is_known);
        for word in CALL + 1..QUEUED {
            code.store_number(Size::Bits64, record_word(word), 0);
        }
    }
}

/// Generator of the programs.
pub(super) struct DiskCode<'c> {
    pub(super) rings: &'c RingCode<'c>,
    pub(super) chosen: ChosenCode,
    pub(super) origin: RequestOrigin,
    pub(super) places: DiskPlaces,
    pub(super) tables: &'c DiskTables,
    /// Set if requests without a note are recorded.
    pub(super) records_unattributed: bool,
    /// Id of the events.
    pub(super) id: u16,
}

impl DiskCode<'_> {
    /// Returns the programs with the names of their raw tracepoints.
    pub(super) fn programs(&self) -> [(&'static str, Assembler); 4] {
        [
            ("block_bio_queue", self.note()),
            ("block_split", self.note()),
            ("block_rq_issue", self.issue()),
            ("block_rq_complete", self.complete()),
        ]
    }

    /// Returns the program that notes the running thread for an operation, which is passed.
    fn note(&self) -> Assembler {
        let mut code = Assembler::default();
        let (unchosen, end) = (code.label(), code.label());
        code.load(Size::Bits64, R6, Address(R1, 0));
        code.store(Size::Bits64, KEY, R6);
        match self.origin {
            RequestOrigin::Span(slots) => self.note_span(&mut code, slots, unchosen),
            RequestOrigin::Call(places) => {
                self.chosen.current(&mut code, record_word(0), unchosen);
                places.note(&mut code);
            }
        }
        code.call(Helper::KtimeGetNs);
        code.store(Size::Bits64, record_word(QUEUED), R0);
        update(&mut code, &self.tables.notes);
        code.jump(end);
        // An earlier operation, whose memory the kernel has reused, may have left a note.
        code.set(unchosen);
        delete(&mut code, &self.tables.notes);
        code.set(end);
        code.finish();
        code
    }

    /// Stores the running thread and its current span in the memory at [`RECORD`]. Jumps to
    /// `unchosen` if it has no current span, or if its process is not chosen.
    fn note_span(&self, code: &mut Assembler, slots: SpanSlotsCode, unchosen: Label) {
        code.call(Helper::GetCurrentTaskBtf);
        code.copy(R7, R0);
        self.places.thread.read_span(code, slots, R7, unchosen);
        code.load(Size::Bits32, R0, Address(R7, self.places.thread.process_id));
        self.chosen.load(code, R0, unchosen);
        code.call(Helper::GetCurrentPidTgid);
        code.store(Size::Bits64, record_word(0), R0);
    }

    /// Returns the program that follows a request, which is passed, from now on.
    fn issue(&self) -> Assembler {
        let places = self.places;
        let mut code = Assembler::default();
        let [is_new, has_note, has_record, end] = [(); 4].map(|()| code.label());
        code.load(Size::Bits64, R6, Address(R1, 0));
        // A request that the device did not accept is issued once more. Another request for another
        // sector has the memory of one whose completion was missed.
        lookup(&mut code, &self.tables.requests, R6);
        code.jump_if_number(If::Equal, R0, 0, is_new);
        code.load(Size::Bits64, R1, Address(R0, WORD * SECTOR));
        code.load(Size::Bits64, R2, Address(R6, places.sector));
        code.jump_if(If::NotEqual, R1, R2, is_new);
        code.copy(R7, R0);
        code.call(Helper::KtimeGetNs);
        code.store(Size::Bits64, Address(R7, WORD * ISSUED), R0);
        code.jump(end);
        code.set(is_new);
        code.load(Size::Bits64, R7, Address(R6, places.operation));
        code.jump_if_number(If::Equal, R7, 0, has_record);
        lookup(&mut code, &self.tables.notes, R7);
        code.jump_if_number(If::NotEqual, R0, 0, has_note);
        code.set(has_record);
        for word in 0..=QUEUED {
            code.store_number(Size::Bits64, record_word(word), 0);
        }
        if let RequestOrigin::Call(_) = self.origin {
            code.store_number(Size::Bits64, record_word(CALL), UNKNOWN_CALL);
        }
        let follow = code.label();
        code.jump(follow);
        code.set(has_note);
        copy_words(&mut code, R0, QUEUED + 1);
        delete(&mut code, &self.tables.notes);
        code.set(follow);
        code.call(Helper::KtimeGetNs);
        code.store(Size::Bits64, record_word(ISSUED), R0);
        code.load(Size::Bits64, R1, Address(R6, places.sector));
        code.store(Size::Bits64, record_word(SECTOR), R1);
        code.load(Size::Bits32, R1, Address(R6, places.size));
        code.alu_number(Alu::ShiftLeft, R1, 32);
        code.store(Size::Bits64, record_word(DEVICE), R1);
        code.load(Size::Bits32, R1, Address(R6, places.flags));
        code.alu_number(Alu::And, R1, OPERATION_MASK);
        code.store(Size::Bits64, record_word(OPERATION), R1);
        let has_device = code.label();
        code.load(Size::Bits64, R1, Address(R6, places.queue));
        code.jump_if_number(If::Equal, R1, 0, has_device);
        code.load(Size::Bits64, R1, Address(R1, places.disk));
        code.jump_if_number(If::Equal, R1, 0, has_device);
        code.load(Size::Bits32, R2, Address(R1, places.major));
        code.alu_number(Alu::ShiftLeft, R2, MAJOR_SHIFT.cast_signed());
        code.load(Size::Bits32, R3, Address(R1, places.first_minor));
        code.alu(Alu::Or, R2, R3);
        code.load(Size::Bits64, R1, record_word(DEVICE));
        code.alu(Alu::Or, R1, R2);
        code.store(Size::Bits64, record_word(DEVICE), R1);
        code.set(has_device);
        code.store(Size::Bits64, KEY, R6);
        update(&mut code, &self.tables.requests);
        code.jump_if_number(If::Equal, R0, 0, end);
        self.rings.count_unplaced(&mut code, R2);
        code.set(end);
        code.finish();
        code
    }

    /// Returns the program for the completion of a request, which passes the request and its error.
    fn complete(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        code.load(Size::Bits64, R6, Address(R1, 0));
        code.load(Size::Bits64, R7, Address(R1, 8));
        code.store(Size::Bits64, SCRATCH, R7);
        lookup(code, &self.tables.requests, R6);
        code.jump_if_number(If::Equal, R0, 0, end);
        copy_words(code, R0, OPERATION + 1);
        delete(code, &self.tables.requests);
        code.load(Size::Bits64, R1, record_word(0));
        code.store(Size::Bits64, PROCESS, R1);
        if !self.records_unattributed {
            code.jump_if_number(If::Equal, R1, 0, end);
        }
        let event = EventSize { id: self.id, fields_max: FIELDS_SIZE_MAX };
        program.record(event, |code, fields| {
            if let RequestOrigin::Span(_) = self.origin {
                write_span(code, fields);
            }
            code.load(Size::Bits64, R1, record_word(DEVICE));
            fields.register(code, 4, R1);
            code.load(Size::Bits64, R2, record_word(OPERATION));
            fields.register(code, 1, R2);
            code.load(Size::Bits64, R2, record_word(SECTOR));
            fields.register(code, 8, R2);
            code.alu_number(Alu::ShiftRight, R1, 32);
            fields.register(code, 4, R1);
            code.load(Size::Bits64, R1, record_word(ISSUED));
            code.load(Size::Bits64, R2, record_word(QUEUED));
            write_elapsed(code, fields);
            code.load(Size::Bits64, R1, TIME_SLOT);
            code.load(Size::Bits64, R2, record_word(ISSUED));
            write_elapsed(code, fields);
            code.load(Size::Bits64, R1, SCRATCH);
            fields.register(code, 4, R1);
            if let RequestOrigin::Call(_) = self.origin {
                code.load(Size::Bits64, R1, record_word(CALL));
                fields.register(code, 4, R1);
            }
        });
        program.finish()
    }
}

/// Sets `R1` to a map and `R2` to the address of its key in the frame.
fn map_and_key(code: &mut Assembler, map: &Map) {
    code.map(R1, map.as_fd().as_raw_fd());
    code.copy(R2, R10);
    code.alu_number(Alu::Add, R2, KEY.1.into());
}

/// Sets `R0` to the address of the value of a key, which is in a register, or to 0 for an unknown
/// key. The key stays in [`KEY`].
fn lookup(code: &mut Assembler, map: &Map, key: Register) {
    code.store(Size::Bits64, KEY, key);
    map_and_key(code, map);
    code.call(Helper::MapLookup);
}

/// Removes the key that is in [`KEY`].
fn delete(code: &mut Assembler, map: &Map) {
    map_and_key(code, map);
    code.call(Helper::MapDelete);
}

/// Sets the value of the key in [`KEY`] to the memory at [`RECORD`]. `R0` is then 0, unless the map
/// is full.
fn update(code: &mut Assembler, map: &Map) {
    map_and_key(code, map);
    code.copy(R3, R10);
    code.alu_number(Alu::Add, R3, RECORD.into());
    code.number(R4, 0);
    code.call(Helper::MapUpdate);
}

/// Copies words from an address to the memory at [`RECORD`].
fn copy_words(code: &mut Assembler, from: Register, count: i16) {
    for word in 0..count {
        code.load(Size::Bits64, R1, Address(from, WORD * word));
        code.store(Size::Bits64, record_word(word), R1);
    }
}
