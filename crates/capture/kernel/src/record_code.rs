//! Programs for tracepoints: each writes the fields of the kernel's record as an event.

use crate::assembler::Register::{R0, R1, R2, R3, R6};
use crate::assembler::{Address, Alu, Assembler, Helper, Size};
use crate::chosen::ChosenCode;
use crate::frame::{FIXED_SIZE, PROCESS, SCRATCH, begin_event};
use crate::record_type::{BYTES_SIZE_MAX, RecordKind, RecordType, TEXT_SIZE_MAX};
use crate::ring_code::RingCode;

/// Generator of the programs.
pub(crate) struct RecordCode<'c> {
    pub(crate) rings: &'c RingCode<'c>,
    /// Filter for the processes whose events are recorded; `None` to record the events of all
    /// processes and of interrupts.
    pub(crate) chosen: Option<ChosenCode>,
}

impl RecordCode<'_> {
    /// Returns the program for a tracepoint. In it, `R6` is the record.
    pub(crate) fn program(&self, record: &RecordType) -> Assembler {
        let mut code = Assembler::default();
        let (end, switch) = (code.label(), code.label());
        code.copy(R6, R1);
        match &self.chosen {
            Some(chosen) => chosen.current(&mut code, PROCESS, end),
            None => {
                code.call(Helper::GetCurrentPidTgid);
                code.store(Size::Bits64, PROCESS, R0);
            }
        }
        self.rings.reserve(&mut code, FIXED_SIZE + record.size_max, switch, end);
        let mut fields = begin_event(self.rings, &mut code, record.id);
        for (_, offset, kind) in &record.fields {
            let at = Address(R6, *offset as i16);
            match *kind {
                RecordKind::Integer { bytes, .. } => {
                    code.load(Size::of_bytes(bytes), R1, at);
                    fields.register(&mut code, bytes, R1);
                }
                RecordKind::Text { size } => {
                    code.copy(R3, R6);
                    code.alu_number(Alu::Add, R3, *offset as i32);
                    fields.string(&mut code, size, Helper::ProbeReadKernelStr);
                }
                RecordKind::Array { element, count, .. } => {
                    code.copy(R3, R6);
                    code.alu_number(Alu::Add, R3, *offset as i32);
                    fields.array(&mut code, element * count);
                }
                RecordKind::DynamicText { base } => {
                    load_place(&mut code, at, base);
                    fields.string(&mut code, TEXT_SIZE_MAX, Helper::ProbeReadKernelStr);
                }
                RecordKind::DynamicBytes { base } => {
                    load_place(&mut code, at, base);
                    let helper = Helper::ProbeReadKernel;
                    fields.bytes(&mut code, BYTES_SIZE_MAX, helper, SCRATCH);
                }
            }
        }
        self.rings.commit(&mut code, fields.size());
        code.set(end);
        code.finish();
        self.rings.define_switch(&mut code, switch);
        code
    }
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
