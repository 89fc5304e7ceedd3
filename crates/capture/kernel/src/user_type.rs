//! Event types of probes on programs: the values that are recorded, and where a program finds each.

use crate::event_type::{Integer, event_type};
use crate::program::{ArgumentLocation, Register, UsdtArgument};
use blkkin_control::limits::EVENT_NAME_SIZE_MAX;
use blkkin_control::{EventType, FieldKind};

/// Registers of a call's arguments on x86-64, in order.
const ARGUMENT_REGISTERS: [Register; 6] =
    [Register::Rdi, Register::Rsi, Register::Rdx, Register::Rcx, Register::R8, Register::R9];

/// Value that is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UserValue {
    pub(crate) name: String,
    /// Size in bytes: 1, 2, 4 or 8.
    pub(crate) size: usize,
    pub(crate) is_signed: bool,
    pub(crate) location: ArgumentLocation,
    kind: FieldKind,
}

impl UserValue {
    /// Returns the value of an argument of a USDT probe; `None` if no program can read it.
    fn of(index: usize, argument: &UsdtArgument) -> Option<UserValue> {
        let UsdtArgument { size, is_signed, is_float, ref location } = *argument;
        let size = usize::from(size);
        let integer = Integer { bytes: size, is_signed, is_hex: false };
        let kind = match (is_float, size) {
            (false, _) => integer.field(),
            (true, 4) => FieldKind::F32,
            (true, 8) => FieldKind::F64,
            (true, _) => return None,
        };
        let is_readable = match location {
            ArgumentLocation::Constant(_) => !is_float,
            ArgumentLocation::Register { register, .. } => register.pt_regs_offset().is_some(),
            ArgumentLocation::Memory { base, index, .. } => {
                let is_general = |register: Register| register.pt_regs_offset().is_some();
                is_general(*base) && index.is_none_or(|index| is_general(index.register))
            }
            ArgumentLocation::RipRelative { from_probe, .. } => from_probe.is_some(),
            ArgumentLocation::Unsupported(_) => false,
        };
        let name = format!("arg{index}");
        is_readable.then(|| UserValue { name, size, is_signed, location: location.clone(), kind })
    }

    /// Returns the form of an integer; `None` for a floating-point number.
    pub(crate) fn integer(&self) -> Option<Integer> {
        let is_integer = !matches!(self.kind, FieldKind::F32 | FieldKind::F64);
        let UserValue { size: bytes, is_signed, .. } = *self;
        is_integer.then_some(Integer { bytes, is_signed, is_hex: false })
    }

    /// Returns the value of a whole register, which is shown in hexadecimal.
    fn of_register(name: String, register: Register) -> UserValue {
        let location = ArgumentLocation::Register { register, size_in_register: 8, shift_bits: 0 };
        let kind = Integer::pointer().field();
        UserValue { name, size: 8, is_signed: false, location, kind }
    }
}

/// Returns the values that are recorded at an instruction: the registers of a call's arguments.
pub(crate) fn entry_values() -> Vec<UserValue> {
    let registers = ARGUMENT_REGISTERS.into_iter().enumerate();
    registers.map(|(index, one)| UserValue::of_register(format!("arg{index}"), one)).collect()
}

/// Returns the values that are recorded when a function returns: the register of its result.
pub(crate) fn return_values() -> Vec<UserValue> {
    vec![UserValue::of_register("ret".to_owned(), Register::Rax)]
}

/// Returns the values that are recorded at a USDT probe. Arguments that no program can read, such
/// as those in vector registers, are left out.
pub(crate) fn usdt_values(arguments: &[UsdtArgument]) -> Vec<UserValue> {
    let values = arguments.iter().enumerate();
    values.filter_map(|(index, argument)| UserValue::of(index, argument)).collect()
}

/// Returns the name of an event, cut off if it is too long.
pub(crate) fn cut_name(mut name: String) -> String {
    name.truncate(name.floor_char_boundary(EVENT_NAME_SIZE_MAX));
    name
}

/// Returns the description of an event with these values, without an id.
pub(crate) fn user_event_type(name: &str, values: &[UserValue]) -> EventType {
    event_type(0, name.to_owned(), values.iter().map(|value| (&*value.name, value.kind.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn argument(size: u8, is_float: bool, location: ArgumentLocation) -> UsdtArgument {
        UsdtArgument { size, is_signed: true, is_float, location }
    }

    /// Arguments that cannot be read leave the numbers of the others unchanged.
    #[test]
    fn unreadable_arguments_are_left_out() {
        let register =
            |register| ArgumentLocation::Register { register, size_in_register: 8, shift_bits: 0 };
        let memory = |base| ArgumentLocation::Memory { base, displacement: 8, index: None };
        let symbol = |from_probe| {
            let symbol = "variable".to_owned();
            ArgumentLocation::RipRelative { symbol, displacement: 0, from_probe }
        };
        let arguments = [
            argument(8, true, register(Register::Xmm(0))),
            argument(4, false, register(Register::Rax)),
            argument(8, true, memory(Register::Rsp)),
            argument(8, false, memory(Register::Xmm(1))),
            argument(2, true, memory(Register::Rsp)),
            argument(4, false, symbol(None)),
            argument(4, false, symbol(Some(-8))),
            argument(8, false, ArgumentLocation::Unsupported("[sp]".to_owned())),
            argument(1, false, ArgumentLocation::Constant(7)),
        ];
        let values = usdt_values(&arguments);
        let kinds: Vec<(&str, usize, FieldKind)> =
            values.iter().map(|value| (&*value.name, value.size, value.kind.clone())).collect();
        assert_eq!(
            kinds,
            [
                ("arg1", 4, Integer::signed(4).field()),
                ("arg2", 8, FieldKind::F64),
                ("arg6", 4, Integer::signed(4).field()),
                ("arg8", 1, Integer::signed(1).field()),
            ]
        );
    }

    #[test]
    fn long_names_are_cut_off() {
        assert_eq!(cut_name("ä".repeat(200)), "ä".repeat(127));
        assert_eq!(cut_name("short".to_owned()), "short");
    }
}
