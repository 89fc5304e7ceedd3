//! Programs for tracepoints: each writes the fields of the kernel's record as an event.

use crate::assembler::Register::{R1, R2, R3, R6};
use crate::assembler::{Address, Alu, Assembler, Helper, Size};
use crate::chosen::ChosenCode;
use crate::event_code::{EventCode, EventSize};
use crate::event_type::Integer;
use crate::filter_code::{FieldForm, FieldLoader, FieldTable, FilterCode};
use crate::frame::{PROCESS, SCRATCH};
use crate::record_type::{BYTES_SIZE_MAX, RecordKind, RecordType, TEXT_SIZE_MAX};
use crate::ring_code::RingCode;

/// Returns the program for a tracepoint, which records the events that pass the filter, of the
/// chosen processes or of all. In it, `R6` is the record.
pub(crate) fn program(
    rings: &RingCode<'_>,
    chosen: Option<ChosenCode>,
    record: &RecordType,
    filter: Option<&FilterCode>,
) -> Assembler {
    let mut program = EventCode::new(rings);
    let (code, end) = (&mut program.code, program.end);
    code.copy(R6, R1);
    ChosenCode::within(chosen, code, PROCESS, end);
    if let Some(filter) = filter {
        program.filter(filter, filter_fields(record));
    }
    let event = EventSize { id: record.id, fields_max: record.size_max };
    program.record(event, |code, fields| {
        for (name, offset, kind) in &record.fields {
            load(code, *offset, *kind);
            let redaction = record.redaction(name, *kind);
            match *kind {
                RecordKind::Integer(Integer { bytes, .. }) => fields.register(code, bytes, R1),
                RecordKind::Text { size } => {
                    fields.string(code, redaction, size, Helper::ProbeReadKernelStr);
                }
                RecordKind::Array { element, count } => {
                    fields.array(code, redaction, element.bytes * count);
                }
                RecordKind::DynamicText { .. } => {
                    fields.string(code, redaction, TEXT_SIZE_MAX, Helper::ProbeReadKernelStr);
                }
                RecordKind::DynamicBytes { .. } => {
                    let helper = Helper::ProbeReadKernel;
                    fields.bytes(code, redaction, BYTES_SIZE_MAX, helper, SCRATCH);
                }
            }
        }
    });
    program.finish()
}

/// Loads an integer into `R1`, the address of other fields into `R3`, and the size of bytes into
/// `R2`.
fn load(code: &mut Assembler, offset: u32, kind: RecordKind) {
    let at = Address(R6, offset as i16);
    match kind {
        RecordKind::Integer(Integer { bytes, .. }) => code.load(Size::of_bytes(bytes), R1, at),
        RecordKind::Text { .. } | RecordKind::Array { .. } => {
            code.copy(R3, R6);
            code.alu_number(Alu::Add, R3, offset as i32);
        }
        RecordKind::DynamicText { base } | RecordKind::DynamicBytes { base } => {
            load_place(code, at, base);
        }
    }
}

/// Returns the fields of a tracepoint for filters.
pub(crate) fn filter_fields(record: &RecordType) -> FieldTable<'_> {
    let helper = Helper::ProbeReadKernelStr;
    let fields = record.fields.iter().map(|(name, offset, kind)| {
        let form = match *kind {
            RecordKind::Integer(integer) => FieldForm::Integer(integer),
            RecordKind::Text { size } => FieldForm::Text { size_max: size, helper },
            RecordKind::Array { element, count } => FieldForm::Array { element, count },
            RecordKind::DynamicText { .. } => FieldForm::Text { size_max: TEXT_SIZE_MAX, helper },
            RecordKind::DynamicBytes { .. } => {
                FieldForm::Bytes { size_max: BYTES_SIZE_MAX, helper: Helper::ProbeReadKernel }
            }
        };
        (&**name, FieldLoader::new(form, |code| load(code, *offset, *kind)))
    });
    FieldTable { event: record.name.clone(), slots: Vec::new(), fields: fields.collect() }
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
