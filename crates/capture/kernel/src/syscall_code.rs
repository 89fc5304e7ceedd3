//! Programs for the two tracepoints of system calls. The program at the entry of a call stores the
//! time for the thread; the program at the exit writes the event, with the arguments from the saved
//! registers.
//!
//! Arguments are read at the exit because the kernel has then read the paths itself, so that they
//! are in memory; a program in the kernel cannot wait for a page.

use crate::assembler::Register::{R0, R1, R2, R3, R6, R7, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::btf::Btf;
use crate::call_type::{ADDRESS_SIZE_MAX, ArgumentKind, CallType, PATH_SIZE_MAX};
use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::event_code::{EventCode, EventSize, EventSlots};
use crate::event_type::Integer;
use crate::filter_code::{FieldForm, FieldLoader, FieldTable, FilterCode};
use crate::frame::{BEGIN, DURATION, PROCESS, RESULT, SCRATCH, SECOND_SCRATCH, offset};
use crate::request_code::{CurrentSpan, write_span};
use crate::ring_code::{EVENT, FieldWriter, RingCode, TIME_SLOT};
use crate::span_slots::SpanSlotsCode;
use blkkin_sys::bpf::Map;

/// Number of entries in the table of begin times. Two threads whose ids differ by a multiple of
/// this number share an entry. Then the duration of one of their calls may be unknown.
const THREADS: usize = 1 << 16;
/// Size in bytes of a thread's entry: its id, and the time at which its call began.
const THREAD_SIZE: usize = 16;

/// Makes an empty table of begin times in the kernel.
pub(crate) fn begin_times() -> Result<Map, Error> {
    Map::block("blkkin_begins", THREADS * THREAD_SIZE).map_err(|error| Error::Map("begins", error))
}

/// Flag of a thread's status: the current call was made by 32-bit code, whose numbers and registers
/// differ.
pub(crate) const IS_COMPAT: i32 = 2;

/// Offsets in the kernel's structures that the programs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SyscallPlaces {
    /// Registers of the six arguments, in `struct pt_regs`.
    arguments: [i16; 6],
    /// Number of the call, in `struct pt_regs`.
    number: i16,
    /// Status of the thread, in `struct task_struct`.
    status: i16,
}

impl SyscallPlaces {
    pub(crate) fn of(btf: &Btf) -> Result<SyscallPlaces, Error> {
        let mut arguments = [0; 6];
        for (to, name) in arguments.iter_mut().zip(["di", "si", "dx", "r10", "r8", "r9"]) {
            *to = offset(btf, "pt_regs", name)?;
        }
        Ok(SyscallPlaces {
            arguments,
            number: offset(btf, "pt_regs", "orig_ax")?,
            status: offset(btf, "task_struct", "thread_info.status")?,
        })
    }

    /// Returns the places in an array of the arguments.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn of_array() -> SyscallPlaces {
        SyscallPlaces { arguments: [0, 8, 16, 24, 32, 40], number: 0, status: 0 }
    }
}

/// Sets `to` to the address of the current thread's entry in the table of begin times.
fn thread_entry(code: &mut Assembler, begin_times: i32, to: Register) {
    code.load(Size::Bits64, R1, PROCESS);
    code.alu_number(Alu::And, R1, THREADS as i32 - 1);
    code.alu_number(Alu::ShiftLeft, R1, THREAD_SIZE.trailing_zeros() as i32);
    code.block(to, begin_times, 0);
    code.alu(Alu::Add, to, R1);
}

/// Sets `R1` to the identity of a thread's call: the thread's id, and in the upper half the number
/// of the call, which is in `number`. That register is lost.
fn call_identity(code: &mut Assembler, number: Register) {
    code.alu_number(Alu::ShiftLeft, number, 32);
    code.load(Size::Bits64, R1, PROCESS);
    code.alu_number(Alu::ShiftLeft, R1, 32);
    code.alu_number(Alu::ShiftRight, R1, 32);
    code.alu(Alu::Add, R1, number);
}

/// Returns the program for the entry of system calls, which passes the registers and the call's
/// number. With `slots`, it stores the time only for processes that show current spans.
pub(crate) fn entry(
    chosen: ChosenCode,
    slots: Option<SpanSlotsCode>,
    begin_times: i32,
) -> Assembler {
    let mut code = Assembler::default();
    let end = code.label();
    code.load(Size::Bits64, R6, Address(R1, 8));
    chosen.current(&mut code, PROCESS, end);
    if let Some(slots) = slots {
        code.load(Size::Bits64, R0, PROCESS);
        code.alu_number(Alu::ShiftRight, R0, 32);
        slots.load(&mut code, R0, end);
    }
    code.call(Helper::KtimeGetNs);
    thread_entry(&mut code, begin_times, R2);
    call_identity(&mut code, R6);
    code.store(Size::Bits64, Address(R2, 0), R1);
    code.store(Size::Bits64, Address(R2, 8), R0);
    code.set(end);
    code.finish();
    code
}

/// Generator of the program for the exit of system calls.
pub(crate) struct ExitCode<'c> {
    pub(crate) rings: &'c RingCode<'c>,
    pub(crate) chosen: ChosenCode,
    pub(crate) places: SyscallPlaces,
    pub(crate) begin_times: i32,
    /// Place of the current span, if only calls of threads that have one are recorded.
    pub(crate) span: Option<CurrentSpan>,
    /// Calls to record, in the order of their numbers.
    pub(crate) calls: &'c [CallType],
    /// Filter of each of the calls, if it has one.
    pub(crate) filters: &'c [Option<FilterCode>],
}

/// Maximum number of calls that one program records. The jumps of larger programs would be too long
/// for their instructions.
const CALLS_MAX: usize = 256;
/// The same if calls have filters, which are functions. A program has at most 256.
const FILTERED_CALLS_MAX: usize = 64;

impl ExitCode<'_> {
    /// Returns the programs, each of which records a part of the calls.
    pub(crate) fn programs(&self) -> Vec<Assembler> {
        let has_filters = self.filters.iter().any(Option::is_some);
        let size = if has_filters { FILTERED_CALLS_MAX } else { CALLS_MAX };
        let parts = self.calls.chunks(size).zip(self.filters.chunks(size));
        parts.map(|(calls, filters)| ExitCode { calls, filters, ..*self }.program()).collect()
    }

    /// Returns the program for all calls. In it, `R6` holds the saved registers.
    fn program(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        code.copy(R6, R1);
        self.chosen.current(code, PROCESS, end);
        code.load(Size::Bits64, R1, Address(R6, 8));
        code.store(Size::Bits64, RESULT, R1);
        code.load(Size::Bits64, R6, Address(R6, 0));
        code.call(Helper::GetCurrentTaskBtf);
        code.load(Size::Bits32, R1, Address(R0, self.places.status));
        code.jump_if_number(If::AnyBit, R1, IS_COMPAT, end);
        if let Some(span) = self.span {
            code.copy(R7, R0);
            span.read(code, R7, end);
        }
        let number = Address(R6, self.places.number);
        code.load(Size::Bits64, R2, number);
        let [take_begin, is_selected, has_begin] = [(); 3].map(|()| code.label());
        let labels: Vec<Label> = self.calls.iter().map(|_| code.label()).collect();
        dispatch(code, &self.numbers(&labels), end);
        let slots = EventSlots { id: SCRATCH, size: SECOND_SCRATCH };
        for ((call, filter), label) in self.calls.iter().zip(self.filters).zip(labels) {
            program.code.set(label);
            if let Some(filter) = filter {
                program.code.number(R2, call.number.into());
                call_take_begin(&mut program.code, take_begin);
                let uses_duration = filter.uses("duration");
                if uses_duration {
                    // The event has the duration that has passed the filter.
                    program.code.call(Helper::KtimeGetNs);
                    load_duration(&mut program.code);
                    program.code.store(Size::Bits64, DURATION, R1);
                }
                let fields = filter_fields(self.places, call, uses_duration);
                program.filter(filter, fields);
            }
            let event = EventSize { id: call.id, fields_max: call.size_max() };
            slots.store(&mut program.code, event);
            program.code.jump(if filter.is_some() { has_begin } else { is_selected });
        }
        let code = &mut program.code;
        // The verifier refuses code that is not reached, such as this if all calls have filters.
        if code.uses(is_selected) {
            code.set(is_selected);
            code.load(Size::Bits64, R2, number);
            call_take_begin(code, take_begin);
        }
        code.set(has_begin);
        let calls: Vec<(&CallType, bool)> = self
            .calls
            .iter()
            .zip(self.filters)
            .map(|(call, filter)| (call, uses_duration(filter.as_ref())))
            .collect();
        let select = |code: &mut Assembler, labels: &[Label], other| {
            code.load(Size::Bits64, R2, number);
            dispatch(code, &self.numbers(labels), other);
        };
        program.record_one_of(slots, &calls, select, |code, (call, uses_duration), fields| {
            write_fields(code, self.places, call, *uses_duration, fields);
        });
        let mut code = program.finish();
        self.define_take_begin(&mut code, take_begin);
        code
    }

    /// Returns the numbers of the calls, each with its label.
    fn numbers(&self, labels: &[Label]) -> Vec<(u32, Label)> {
        self.calls.iter().map(|call| call.number).zip(labels.iter().copied()).collect()
    }

    /// Defines a function that returns the time at which a thread's call began, and clears it. `R1`
    /// is the process and the thread, `R2` the number of the call. The result is 0 if the stored
    /// time is that of another thread, or of another call that did not return. Only a program that
    /// records the call may take its time, as other programs run at the exit of the call, too.
    fn define_take_begin(&self, code: &mut Assembler, function: Label) {
        let is_other = code.label();
        code.set(function);
        code.store(Size::Bits64, PROCESS, R1);
        code.copy(R3, R2);
        thread_entry(code, self.begin_times, R2);
        call_identity(code, R3);
        code.number(R0, 0);
        code.load(Size::Bits64, R3, Address(R2, 0));
        code.jump_if(If::NotEqual, R1, R3, is_other);
        code.load(Size::Bits64, R0, Address(R2, 8));
        code.store_number(Size::Bits64, Address(R2, 8), 0);
        code.set(is_other);
        code.exit();
    }
}

fn uses_duration(filter: Option<&FilterCode>) -> bool {
    filter.is_some_and(|filter| filter.uses("duration"))
}

/// Stores the time at which the current call began. `take_begin` is the function that returns it,
/// and `R2` the number of the call.
fn call_take_begin(code: &mut Assembler, take_begin: Label) {
    code.load(Size::Bits64, R1, PROCESS);
    code.call_local(take_begin);
    code.store(Size::Bits64, BEGIN, R0);
}

/// Writes the fields of a call. The duration is in its slot if that is known, else it is computed.
pub(crate) fn write_fields(
    code: &mut Assembler,
    places: SyscallPlaces,
    call: &CallType,
    is_duration_known: bool,
    fields: &mut FieldWriter,
) {
    if call.is_of_request {
        write_span(code, fields);
    }
    for (index, (name, kind)) in call.arguments.iter().enumerate() {
        let redaction = call.redaction(name);
        load_argument(code, places, index, *kind);
        match *kind {
            ArgumentKind::Integer(Integer { bytes, .. }) => fields.register(code, bytes, R1),
            ArgumentKind::Path => {
                fields.string(code, redaction, PATH_SIZE_MAX, Helper::ProbeReadUserStr);
            }
            ArgumentKind::SocketAddress { .. } | ArgumentKind::ReturnedSocketAddress { .. } => {
                let helper = Helper::ProbeReadUser;
                fields.bytes(code, redaction, ADDRESS_SIZE_MAX, helper, SCRATCH);
            }
            ArgumentKind::ReturnedDescriptors => fields.register(code, 8, R1),
        }
    }
    code.load(Size::Bits64, R1, RESULT);
    fields.register(code, 8, R1);
    match is_duration_known {
        true => code.load(Size::Bits64, R1, DURATION),
        false => {
            code.load(Size::Bits64, R0, TIME_SLOT);
            load_duration(code);
        }
    }
    fields.register(code, 8, R1);
}
/// Sets `R1` to the duration of a call that ended at the time in `R0`; 0 if it is not known. `R2`
/// is lost.
fn load_duration(code: &mut Assembler) {
    let is_unknown = code.label();
    code.number(R1, 0);
    code.load(Size::Bits64, R2, BEGIN);
    code.jump_if_number(If::Equal, R2, 0, is_unknown);
    code.copy(R1, R0);
    code.alu(Alu::Sub, R1, R2);
    code.set(is_unknown);
}

/// Loads an argument: an integer or two descriptors into `R1`, the address of other arguments into
/// `R3`, and the size of a socket's address into `R2`. `R0` to `R5` are lost.
fn load_argument(code: &mut Assembler, places: SyscallPlaces, index: usize, kind: ArgumentKind) {
    let argument = |index: usize| Address(R6, places.arguments[index]);
    match kind {
        ArgumentKind::Integer(_) => code.load(Size::Bits64, R1, argument(index)),
        ArgumentKind::Path => code.load(Size::Bits64, R3, argument(index)),
        ArgumentKind::SocketAddress { size } => {
            code.load(Size::Bits32, R2, argument(size));
            load_address(code, argument(index));
        }
        ArgumentKind::ReturnedSocketAddress { size } => {
            load_returned_size(code, argument(size));
            load_address(code, argument(index));
        }
        ArgumentKind::ReturnedDescriptors => load_returned_descriptors(code, argument(index)),
    }
}

/// Sets `R3` to a pointer to a socket's address of `R2` bytes, and `R2` to 0 if the address is too
/// long: the kernel refuses it without reading; the bytes would be other data of the program.
fn load_address(code: &mut Assembler, pointer: Address) {
    let is_possible = code.label();
    code.jump_if_number(If::LessOrEqual, R2, ADDRESS_SIZE_MAX as i32, is_possible);
    code.number(R2, 0);
    code.set(is_possible);
    code.load(Size::Bits64, R3, pointer);
}

/// Sets `R1` to the two descriptors that the call has returned, of 32 bits each: -1 if the call
/// failed.
fn load_returned_descriptors(code: &mut Assembler, pointer: Address) {
    let done = code.label();
    code.store_number(Size::Bits64, SCRATCH, -1);
    code.load(Size::Bits64, R1, RESULT);
    code.jump_if_number(If::LessSigned, R1, 0, done);
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, SCRATCH.1.into());
    code.number(R2, 8);
    code.load(Size::Bits64, R3, pointer);
    // The helper stores zeros if it cannot read.
    code.call(Helper::ProbeReadUser);
    code.jump_if_number(If::Equal, R0, 0, done);
    code.store_number(Size::Bits64, SCRATCH, -1);
    code.set(done);
    code.load(Size::Bits64, R1, SCRATCH);
}

/// Sets `R2` to the size of an address that the call has returned: 0 if the call failed or has
/// returned no address.
fn load_returned_size(code: &mut Assembler, pointer: Address) {
    let done = code.label();
    code.store_number(Size::Bits64, SECOND_SCRATCH, 0);
    code.load(Size::Bits64, R1, RESULT);
    code.jump_if_number(If::LessSigned, R1, 0, done);
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, SECOND_SCRATCH.1.into());
    code.number(R2, 4);
    code.load(Size::Bits64, R3, pointer);
    // The helper stores zeros if it cannot read.
    code.call(Helper::ProbeReadUser);
    code.set(done);
    code.load(Size::Bits32, R2, SECOND_SCRATCH);
}

/// Returns the fields of a system call for filters. The slot [`DURATION`] is used only if
/// `uses_duration` is set.
pub(crate) fn filter_fields(
    places: SyscallPlaces,
    call: &CallType,
    uses_duration: bool,
) -> FieldTable<'_> {
    let argument = |index: usize, kind: ArgumentKind| {
        let form = match kind {
            ArgumentKind::Integer(integer) => FieldForm::Integer(integer),
            ArgumentKind::Path => {
                FieldForm::Text { size_max: PATH_SIZE_MAX, helper: Helper::ProbeReadUserStr }
            }
            ArgumentKind::SocketAddress { .. } | ArgumentKind::ReturnedSocketAddress { .. } => {
                FieldForm::Bytes { size_max: ADDRESS_SIZE_MAX, helper: Helper::ProbeReadUser }
            }
            ArgumentKind::ReturnedDescriptors => {
                FieldForm::Word { element: Integer::signed(4), count: 2 }
            }
        };
        let load = move |code: &mut Assembler| load_argument(code, places, index, kind);
        FieldLoader::new(form, load)
    };
    let slot = |integer, slot| {
        let load = move |code: &mut Assembler| code.load(Size::Bits64, R1, slot);
        FieldLoader::new(FieldForm::Integer(integer), load)
    };
    let mut fields: Vec<_> = call
        .arguments
        .iter()
        .enumerate()
        .map(|(index, (name, kind))| (name.as_str(), argument(index, *kind)))
        .collect();
    fields.push(("ret", slot(Integer::signed(8), RESULT)));
    fields.push(("duration", slot(Integer::unsigned(8), DURATION)));
    let slots = if uses_duration { vec![RESULT, DURATION] } else { vec![RESULT] };
    FieldTable { event: call.event_name(), slots, fields }
}

/// Jumps to the label of the number in `R2`, or to `other`. `numbers` are in ascending order.
fn dispatch(code: &mut Assembler, numbers: &[(u32, Label)], other: Label) {
    match numbers {
        [] => code.jump(other),
        [(number, label)] => {
            code.jump_if_number(If::Equal, R2, number.cast_signed(), *label);
            code.jump(other);
        }
        _ => {
            let (lower, upper) = numbers.split_at(numbers.len() / 2);
            let is_upper = code.label();
            let first = upper.first().map_or(0, |(number, _)| number.cast_signed());
            code.jump_if_number(If::GreaterOrEqual, R2, first, is_upper);
            dispatch(code, lower, other);
            code.set(is_upper);
            dispatch(code, upper, other);
        }
    }
}

const _: () = assert!(EVENT as u8 != R6 as u8, "the saved registers stay in R6");
