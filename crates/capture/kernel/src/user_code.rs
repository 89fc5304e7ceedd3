//! Programs for probes on user code: each writes values from registers and memory of the traced
//! program as an event.

use crate::assembler::Register::{R0, R1, R2, R3, R6, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, Register, Size};
use crate::chosen::ChosenCode;
use crate::event_code::{EventCode, EventSize};
use crate::filter_code::{FieldForm, FieldLoader, FieldTable, FilterCode};
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
    /// Filter of the events and their name; `None` to record all.
    pub(crate) filter: Option<(&'c FilterCode, &'c str)>,
}

impl<'c> UserCode<'c> {
    /// Returns the program. In it, `R6` holds the saved registers.
    pub(crate) fn program(&self, id: EventId) -> Assembler {
        // Breakpoints interrupt a program's own code, which the kernel may preempt.
        let mut program = EventCode::with_preemption(self.rings, Preemption::Possible);
        let (code, end) = (&mut program.code, program.end);
        code.copy(R6, R1);
        ChosenCode::within(self.chosen, code, PROCESS, end);
        if let Some((filter, event)) = self.filter {
            program.filter(filter, filter_fields(event, self.values));
        }
        let code = &mut program.code;
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

/// Returns the values of the event with this name for filters.
pub(crate) fn filter_fields<'v>(event: &str, values: &'v [UserValue]) -> FieldTable<'v> {
    let fields = values.iter().map(|value| {
        let form = value.integer().map_or(FieldForm::Float, FieldForm::Integer);
        (&*value.name, FieldLoader::new(form, move |code| load(code, value)))
    });
    FieldTable { event: event.to_owned(), slots: Vec::new(), fields: fields.collect() }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chosen::ChosenProcesses;
    use crate::error::Error;
    use crate::filter_code::FilterScratch;
    use crate::load::load;
    use crate::program::UsdtArgument;
    use crate::testing::{RandomFilters, small_rings};
    use crate::user_type::{usdt_values, user_event_type};
    use blkkin_filter::Filter;
    use blkkin_sys::bpf::AttachPoint;
    use blkkin_sys::testing::{Random, skip};

    const REGISTERS: [UserRegister; 17] = [
        UserRegister::Rax,
        UserRegister::Rbx,
        UserRegister::Rcx,
        UserRegister::Rdx,
        UserRegister::Rsi,
        UserRegister::Rdi,
        UserRegister::Rbp,
        UserRegister::Rsp,
        UserRegister::R8,
        UserRegister::R9,
        UserRegister::R10,
        UserRegister::R11,
        UserRegister::R12,
        UserRegister::R13,
        UserRegister::R14,
        UserRegister::R15,
        UserRegister::Xmm(3),
    ];

    /// Returns an argument as a hostile file could describe it.
    fn argument(random: &mut Random) -> UsdtArgument {
        let size = random.one_of(&[1, 2, 4, 8]);
        let displacement = match random.below(3) {
            0 => random.below(256) as i64 - 128,
            1 => i64::from(random.next() as i32),
            _ => random.next().cast_signed(),
        };
        let index = random.chance(50).then(|| ScaledIndex {
            register: random.one_of(&REGISTERS),
            scale: random.one_of(&[0, 1, 2, 4, 8, 255]),
        });
        let location = match random.below(5) {
            0 => ArgumentLocation::Constant(displacement),
            1 => ArgumentLocation::Register {
                register: random.one_of(&REGISTERS),
                size_in_register: random.one_of(&[1, 2, 4, 8]),
                shift_bits: random.one_of(&[0, 0, 8]),
            },
            2 | 3 => {
                ArgumentLocation::Memory { base: random.one_of(&REGISTERS), displacement, index }
            }
            _ => ArgumentLocation::RipRelative {
                symbol: "variable".to_owned(),
                displacement,
                from_probe: random.chance(80).then_some(displacement),
            },
        };
        let (is_signed, is_float) = (random.chance(50), random.chance(10));
        UsdtArgument { size, is_signed, is_float, location }
    }

    /// A filter that uses a floating-point number is refused, with the number's name.
    #[test]
    fn floating_point_numbers_are_not_filtered() {
        let location =
            ArgumentLocation::Memory { base: UserRegister::Rax, displacement: 0, index: None };
        let argument = |is_float| UsdtArgument {
            size: 8,
            is_signed: false,
            is_float,
            location: location.clone(),
        };
        let values = usdt_values(&[argument(true), argument(false)]);
        let scratch = match FilterScratch::new(1) {
            Ok(scratch) => scratch,
            Err(error) => {
                return skip("floating_point_numbers_are_not_filtered", &error.to_string());
            }
        };
        let compile = |text| {
            let filter = Filter::parse(text).expect("a filter");
            FilterCode::new(&filter, &filter_fields("usdt", &values), scratch.code()).map(drop)
        };
        let refused = compile("arg0 > 1.5").expect_err("refused").to_string();
        assert!(refused.contains("floating-point"), "{refused}");
        assert!(compile("arg1 > 1").is_ok());
    }

    #[test]
    fn the_kernel_accepts_random_arguments_of_usdt_probes() {
        let test = "the_kernel_accepts_random_arguments_of_usdt_probes";
        let create = || -> Result<_, Error> {
            let rings = small_rings([0; 16])?;
            let scratch = FilterScratch::new(rings.processors())?;
            Ok((rings, ChosenProcesses::new()?, scratch))
        };
        let (rings, chosen, scratch) = match create() {
            Ok(created) => created,
            Err(error) if error.is_permission() => return skip(test, &error.to_string()),
            Err(error) => panic!("{error}"),
        };
        let rings = &rings.code();
        // Kernels before Linux 6.6 have no programs for many instructions.
        let empty =
            UserCode { rings, chosen: None, values: &[], filter: None }.program(EventId::Cookie);
        let has_cookies = load("usdt", empty, AttachPoint::UserInstructions).is_ok();
        let mut random = Random::new(21);
        let (mut recorded, mut filtered) = (0, 0);
        for round in 0..300 {
            let count = random.below(33);
            let arguments: Vec<UsdtArgument> = (0..count).map(|_| argument(&mut random)).collect();
            let values = &*usdt_values(&arguments);
            let chosen = random.chance(50).then(|| chosen.code());
            let event_type = user_event_type("usdt", values);
            let text = RandomFilters::new(&event_type).text(&mut random);
            let filter = Filter::parse(&text).ok();
            // Filters that are refused have tests of their own.
            let code =
                |filter| FilterCode::new(filter, &filter_fields("usdt", values), scratch.code());
            let filter = filter.as_ref().and_then(|filter| code(filter).ok());
            filtered += usize::from(filter.is_some());
            let code = UserCode {
                rings,
                chosen,
                values,
                filter: filter.as_ref().map(|one| (one, "usdt")),
            };
            let (id, place) = match has_cookies && random.chance(50) {
                true => (EventId::Cookie, AttachPoint::UserInstructions),
                false => (EventId::Constant(7), AttachPoint::UserInstruction),
            };
            match load("usdt", code.program(id), place) {
                Ok(_) => recorded += values.len(),
                Err(error) if round == 0 && error.is_permission() => {
                    return skip(test, &error.to_string());
                }
                Err(error) => panic!("round {round}: {text}: {error}\n{arguments:#?}"),
            }
        }
        assert!(recorded > 300 && filtered > 30, "{recorded}, {filtered}");
    }
}
