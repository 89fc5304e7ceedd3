//! Programs for probes on user code: each writes values from registers and memory of the traced
//! program as an event.

use crate::assembler::Register::{R0, R1, R2, R3, R6, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, Register, Size};
use crate::chosen::ChosenCode;
use crate::event_code::{EventCode, EventSize};
use crate::frame::{EVENT_ID, PROCESS, SCRATCH};
use crate::program::{ArgumentLocation, Register as UserRegister, ScaledIndex};
use crate::ring_code::{Preemption, RingCode};
use crate::user_type::UserValue;

/// Offset of the instruction's address in `struct pt_regs`.
const INSTRUCTION_POINTER: i16 = 16 * 8;

/// Way in which a program gets the id of its events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EventId {
    /// All events have this id.
    Constant(u16),
    /// The id is the cookie with which the program is attached to an instruction.
    Cookie,
}

/// Generator of a program.
#[derive(Clone, Copy)]
pub(crate) struct UserCode<'c> {
    pub(crate) rings: &'c RingCode<'c>,
    /// Choice of processes; `None` to record all.
    pub(crate) chosen: Option<ChosenCode>,
    pub(crate) values: &'c [UserValue],
}

impl UserCode<'_> {
    /// Returns the program. In it, `R6` holds the saved registers.
    pub(crate) fn program(&self, id: EventId) -> Assembler {
        // Breakpoints interrupt a program's own code, which the kernel may preempt.
        let mut program = EventCode::with_preemption(self.rings, Preemption::Possible);
        let (code, end) = (&mut program.code, program.end);
        code.copy(R6, R1);
        ChosenCode::within(self.chosen, code, PROCESS, end);
        let constant = match id {
            EventId::Constant(id) => id,
            EventId::Cookie => {
                code.copy(R1, R6);
                code.call(Helper::GetAttachCookie);
                code.store(Size::Bits64, EVENT_ID, R0);
                0
            }
        };
        let fields_max = self.values.iter().map(|value| value.size).sum();
        let event = EventSize { id: constant, fields_max };
        program.record(event, |code, fields| {
            if id == EventId::Cookie {
                code.load(Size::Bits64, R1, EVENT_ID);
                RingCode::set_id(code, R1);
            }
            for value in self.values {
                load(code, value);
                fields.register(code, value.size, R1);
            }
        });
        program.finish()
    }
}

/// Loads a value into `R1`; only its low bytes have a meaning. `R0` to `R5` are lost.
fn load(code: &mut Assembler, value: &UserValue) {
    match value.location {
        ArgumentLocation::Constant(number) => code.number(R1, number.cast_unsigned()),
        ArgumentLocation::Register { register, size_in_register, shift_bits } => {
            load_register(code, R1, register);
            if shift_bits > 0 {
                code.alu_number(Alu::ShiftRight, R1, shift_bits.into());
            }
            if usize::from(size_in_register) < value.size {
                extend(code, size_in_register, value.is_signed);
            }
        }
        ArgumentLocation::Memory { base, displacement, index } => {
            load_register(code, R3, base);
            if let Some(ScaledIndex { register, scale }) = index {
                load_register(code, R1, register);
                code.alu_number(Alu::Mul, R1, scale.into());
                code.alu(Alu::Add, R3, R1);
            }
            read(code, displacement, value.size);
        }
        ArgumentLocation::RipRelative { from_probe, .. } => {
            code.load(Size::Bits64, R3, Address(R6, INSTRUCTION_POINTER));
            read(code, from_probe.unwrap_or_default(), value.size);
        }
        ArgumentLocation::Unsupported(_) => code.number(R1, 0),
    }
}

/// Loads a register of the traced program.
fn load_register(code: &mut Assembler, to: Register, register: UserRegister) {
    match register.pt_regs_offset() {
        Some(offset) => code.load(Size::Bits64, to, Address(R6, offset.cast_signed())),
        None => code.number(to, 0),
    }
}

/// Extends the low `size` bytes of `R1` to the whole register.
fn extend(code: &mut Assembler, size: u8, is_signed: bool) {
    let unused_bits = 64 - 8 * i32::from(size);
    code.alu_number(Alu::ShiftLeft, R1, unused_bits);
    let right = if is_signed { Alu::ShiftRightSigned } else { Alu::ShiftRight };
    code.alu_number(right, R1, unused_bits);
}

/// Loads bytes of the traced program's memory into `R1`, from the address in `R3` and a
/// displacement. Bytes that cannot be read are zeros.
fn read(code: &mut Assembler, displacement: i64, size: usize) {
    code.number(R1, displacement.cast_unsigned());
    code.alu(Alu::Add, R3, R1);
    code.store_number(Size::Bits64, SCRATCH, 0);
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, SCRATCH.1.into());
    code.number(R2, size as u64);
    code.call(Helper::ProbeReadUser);
    code.load(Size::Bits64, R1, SCRATCH);
}
