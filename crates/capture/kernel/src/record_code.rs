//! Programs for tracepoints: each writes the fields of the kernel's record as an event.

use crate::assembler::Register::{R0, R1, R2, R3, R6};
use crate::assembler::{Address, Alu, Assembler, Helper, Size};
use crate::event_code::{EventCode, EventSize};
use crate::event_type::Integer;
use crate::frame::{PROCESS, SCRATCH};
use crate::record_type::{BYTES_SIZE_MAX, RecordKind, RecordType, TEXT_SIZE_MAX};
use crate::ring_code::RingCode;

/// Returns the program for a tracepoint, which records the events of all processes and of
/// interrupts. In it, `R6` is the record.
pub(crate) fn program(rings: &RingCode<'_>, record: &RecordType) -> Assembler {
    let mut program = EventCode::new(rings);
    let code = &mut program.code;
    code.copy(R6, R1);
    code.call(Helper::GetCurrentPidTgid);
    code.store(Size::Bits64, PROCESS, R0);
    let event = EventSize { id: record.id, fields_max: record.size_max };
    program.record(event, |code, fields| {
        for (_, offset, kind) in &record.fields {
            let at = Address(R6, *offset as i16);
            match *kind {
                RecordKind::Integer(Integer { bytes, .. }) => {
                    code.load(Size::of_bytes(bytes), R1, at);
                    fields.register(code, bytes, R1);
                }
                RecordKind::Text { size } => {
                    code.copy(R3, R6);
                    code.alu_number(Alu::Add, R3, *offset as i32);
                    fields.string(code, size, Helper::ProbeReadKernelStr);
                }
                RecordKind::Array { element, count } => {
                    code.copy(R3, R6);
                    code.alu_number(Alu::Add, R3, *offset as i32);
                    fields.array(code, element.bytes * count);
                }
                RecordKind::DynamicText { base } => {
                    load_place(code, at, base);
                    fields.string(code, TEXT_SIZE_MAX, Helper::ProbeReadKernelStr);
                }
                RecordKind::DynamicBytes { base } => {
                    load_place(code, at, base);
                    fields.bytes(code, BYTES_SIZE_MAX, Helper::ProbeReadKernel, SCRATCH);
                }
            }
        }
    });
    program.finish()
}

/// Sets `R2` to the size and `R3` to the address of a dynamic array. The word at `at` describes the
/// array: the lower half has its offset from `base`, the upper half its size in bytes.
fn load_place(code: &mut Assembler, at: Address, base: u32) {
    code.load(Size::Bits32, R2, at);
    code.copy(R3, R2);
    code.alu_number(Alu::And, R3, 0xffff);
    code.alu_number(Alu::Add, R3, base as i32);
    code.alu(Alu::Add, R3, R6);
    code.alu_number(Alu::ShiftRight, R2, 16);
}
