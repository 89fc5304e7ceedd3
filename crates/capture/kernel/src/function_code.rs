//! Programs for probes on functions and raw tracepoints: each writes the arguments as an event.

use crate::assembler::Register::{R1, R2, R3, R6, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, Register, Size};
use crate::chosen::ChosenCode;
use crate::event_code::{EventCode, EventSize};
use crate::filter_code::{FieldForm, FieldLoader, FieldTable, FilterCode};
use crate::frame::{PROCESS, SCRATCH};
use crate::function_point::FunctionPoint;
use crate::function_type::{FunctionType, ValueKind, ValueSource};
use crate::record_type::TEXT_SIZE_MAX;
use crate::ring_code::{Preemption, RingCode};

/// Helper that reads texts.
const TEXT_HELPER: Helper = Helper::ProbeReadKernelStr;

/// Returns the program for a probe, which records the events that pass the filter. In it, `R6` is
/// the context that the kernel passes.
pub(crate) fn program(
    rings: &RingCode<'_>,
    chosen: ChosenCode,
    function: &FunctionType,
    filter: Option<&FilterCode>,
) -> Assembler {
    // The kernel disables preemption around the programs of all other probes.
    let preemption = match function.point {
        FunctionPoint::Entry(_) | FunctionPoint::Exit(_) => Preemption::Possible,
        _ => Preemption::Disabled,
    };
    let mut program = EventCode::with_preemption(rings, preemption);
    let (code, end) = (&mut program.code, program.end);
    code.copy(R6, R1);
    ChosenCode::within(chosen.for_scope(function.scope), code, PROCESS, end);
    if let Some(filter) = filter {
        program.filter(filter, filter_fields(function));
    }
    let event = EventSize { id: function.id, fields_max: function.size_max() };
    program.record(event, |code, fields| {
        for value in &function.values {
            match value.kind {
                ValueKind::Integer(integer) => {
                    load(code, value.source, R1);
                    fields.register(code, integer.bytes, R1);
                }
                ValueKind::Text => {
                    load(code, value.source, R3);
                    let redaction = function.redaction(&value.name);
                    // The hash is that of the whole text.
                    let size = redaction.map_or(function.text_size, |_| TEXT_SIZE_MAX);
                    fields.string(code, redaction, size, TEXT_HELPER);
                }
            }
        }
    });
    program.finish()
}

/// Returns the values of a probe for filters.
pub(crate) fn filter_fields(function: &FunctionType) -> FieldTable<'_> {
    let fields = function.values.iter().map(|value| {
        let (form, to) = match value.kind {
            ValueKind::Integer(integer) => (FieldForm::Integer(integer), R1),
            ValueKind::Text => {
                (FieldForm::Text { size_max: function.text_size, helper: TEXT_HELPER }, R3)
            }
        };
        (&*value.name, FieldLoader::new(form, move |code| load(code, value.source, to)))
    });
    FieldTable { event: function.point.to_string(), slots: Vec::new(), fields: fields.collect() }
}

/// Loads a value. `R0` to `R5` are lost.
fn load(code: &mut Assembler, source: ValueSource, to: Register) {
    let helper = match source {
        ValueSource::Context(offset) => {
            return code.load(Size::Bits64, to, Address(R6, offset));
        }
        // A program may load arguments of some types only; the helpers return all.
        ValueSource::Argument(_) => Helper::GetFunctionArgument,
        ValueSource::Result => Helper::GetFunctionResult,
    };
    code.store_number(Size::Bits64, SCRATCH, 0);
    let address = match source {
        ValueSource::Argument(index) => {
            code.number(R2, index.into());
            R3
        }
        _ => R2,
    };
    code.copy(address, R10);
    code.alu_number(Alu::Add, address, SCRATCH.1.into());
    code.copy(R1, R6);
    code.call(helper);
    code.load(Size::Bits64, to, SCRATCH);
}
