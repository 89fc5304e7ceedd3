//! The current span of a thread, as programs in the kernel read it: from the thread's own memory,
//! in the layout of `blkkin_control::current_span`. That memory is untrusted. It is read by a
//! helper that fails where memory is missing, and what it contains is only copied.

use crate::assembler::Register::{R0, R1, R2, R3, R8, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::btf::Btf;
use crate::error::Error;
use crate::event_type::Integer;
use crate::frame::{FRAME_END, offset};
use crate::ring_code::FieldWriter;
use crate::span_slots::SpanSlotsCode;
use blkkin_control::FieldKind;
use blkkin_control::current_span::{SPAN, WORDS};

/// Offset in the frame of the words that are read from a thread's slot. More words may follow.
pub(super) const RECORD: i16 = FRAME_END - RECORD_SIZE;
/// Size in bytes of the memory at [`RECORD`]: the slot's words and what the programs add to them.
pub(super) const RECORD_SIZE: i16 = 80;
/// Slot of the frame for a key of a map.
pub(super) const KEY: Address = Address(R10, RECORD - 8);
/// Size of a word in bytes.
pub(super) const WORD: i16 = 8;

/// Word of the memory at [`RECORD`].
pub(super) const fn record_word(word: i16) -> Address {
    Address(R10, RECORD + WORD * word)
}

/// Offsets in the kernel's structures by which a thread's current span is found.
#[derive(Clone, Copy, Debug)]
pub(super) struct ThreadPlaces {
    pub(super) process_id: i16,
    pub(super) thread_id: i16,
    /// Thread pointer.
    pointer: i16,
    /// Address of the next instruction, in `struct pt_regs`.
    instruction: i16,
}

impl ThreadPlaces {
    pub(super) fn of(btf: &Btf) -> Result<ThreadPlaces, Error> {
        Ok(ThreadPlaces {
            process_id: offset(btf, "task_struct", "tgid")?,
            thread_id: offset(btf, "task_struct", "pid")?,
            pointer: offset(btf, "task_struct", "thread.fsbase")?,
            instruction: offset(btf, "pt_regs", "ip")?,
        })
    }

    /// Copies the current span of a thread to the words at [`RECORD`]. `task` holds the thread,
    /// which must be the one that runs on this processor. Jumps to `none` if the thread has no
    /// current span, or if its memory cannot be read. `R0` to `R5` are lost.
    pub(super) fn read_span(
        self,
        code: &mut Assembler,
        slots: SpanSlotsCode,
        task: Register,
        none: Label,
    ) {
        code.load(Size::Bits32, R0, Address(task, self.process_id));
        slots.load(code, R0, none);
        code.load(Size::Bits64, R3, Address(task, self.pointer));
        code.alu(Alu::Add, R3, R1);
        code.copy(R1, R10);
        code.alu_number(Alu::Add, R1, RECORD.into());
        code.number(R2, WORDS as u64 * WORD as u64);
        code.call(Helper::ProbeReadUser);
        code.jump_if_number(If::NotEqual, R0, 0, none);
        code.load(Size::Bits64, R1, record_word(0));
        code.jump_if_number(If::NotEqual, R1, SPAN as i32, none);
        // Ids of 0 are invalid.
        code.load(Size::Bits64, R1, record_word(1));
        code.load(Size::Bits64, R2, record_word(2));
        code.alu(Alu::Or, R1, R2);
        code.jump_if_number(If::Equal, R1, 0, none);
        code.load(Size::Bits64, R1, record_word(3));
        code.jump_if_number(If::Equal, R1, 0, none);
        // The kernel's own threads in a process, such as those of io_uring, have the thread pointer
        // of the thread that has made them, and no instruction in the program.
        code.copy(R1, task);
        code.call(Helper::TaskRegisters);
        code.load(Size::Bits64, R1, Address(R0, self.instruction));
        code.jump_if_number(If::Equal, R1, 0, none);
    }

    /// Sets `R8` to the identity of a thread: its process in the upper half, its id in the lower
    /// half. `task` holds the thread. `R1` is lost.
    pub(super) fn identity(self, code: &mut Assembler, task: Register) {
        code.load(Size::Bits32, R8, Address(task, self.process_id));
        code.alu_number(Alu::ShiftLeft, R8, 32);
        code.load(Size::Bits32, R1, Address(task, self.thread_id));
        code.alu(Alu::Or, R8, R1);
    }
}

/// Place of the current span of the running thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CurrentSpan {
    places: ThreadPlaces,
    slots: SpanSlotsCode,
}

impl CurrentSpan {
    pub(crate) fn of(btf: &Btf, slots: SpanSlotsCode) -> Result<CurrentSpan, Error> {
        Ok(CurrentSpan { places: ThreadPlaces::of(btf)?, slots })
    }

    /// Copies the current span to the frame, for [`write_span`]. `task` holds the running thread.
    /// Jumps to `none` if it has no current span, or if its memory cannot be read. `R0` to `R5` are
    /// lost.
    pub(crate) fn read(self, code: &mut Assembler, task: Register, none: Label) {
        self.places.read_span(code, self.slots, task, none);
    }
}

/// Size of the fields of a span in bytes.
pub(crate) const SPAN_FIELDS_SIZE: usize = 24;

/// Fields with which the events begin: the ids of the span.
pub(crate) fn span_fields() -> [(&'static str, FieldKind); 3] {
    ["trace_id", "trace_id_high", "span_id"].map(|name| (name, Integer::pointer().field()))
}

/// Writes the ids of the span that is in the frame. `R1` is lost.
pub(crate) fn write_span(code: &mut Assembler, fields: &mut FieldWriter) {
    for word in 1..=3 {
        code.load(Size::Bits64, R1, record_word(word));
        fields.register(code, 8, R1);
    }
}

/// Writes the difference of two times in 8 bytes: `R1` minus `R2`, or 0 if that is negative or if
/// `R2` is 0.
pub(super) fn write_elapsed(code: &mut Assembler, fields: &mut FieldWriter) {
    let (unknown, is_known) = (code.label(), code.label());
    code.jump_if_number(If::Equal, R2, 0, unknown);
    code.jump_if(If::Less, R1, R2, unknown);
    code.alu(Alu::Sub, R1, R2);
    code.jump(is_known);
    code.set(unknown);
    code.number(R1, 0);
    code.set(is_known);
    fields.register(code, 8, R1);
}
