//! Assembler of eBPF: instructions with labels become the code that the kernel loads.
//!
//! The calling convention: `R0` is a function's result, `R1` to `R5` are its arguments and are lost
//! by a call, `R6` to `R9` are kept, `R10` is the end of the frame of 512 bytes.

use std::collections::BTreeSet;

/// Register of the eBPF machine, 64 bits wide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R6 = 6,
    R7,
    R8,
    R9,
    R10,
}

/// Operation on two registers, or on a register and a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Alu {
    Add = 0x00,
    Sub = 0x10,
    Mul = 0x20,
    /// Unsigned division. The result of a division by 0 is 0.
    Divide = 0x30,
    Or = 0x40,
    And = 0x50,
    ShiftLeft = 0x60,
    ShiftRight = 0x70,
    /// Remainder of an unsigned division.
    Remainder = 0x90,
    Xor = 0xa0,
    Move = 0xb0,
    /// Right shift that keeps the sign.
    ShiftRightSigned = 0xc0,
}

/// Condition of a jump; comparisons are unsigned unless named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum If {
    Equal = 0x10,
    Greater = 0x20,
    GreaterOrEqual = 0x30,
    /// The registers have a common bit.
    AnyBit = 0x40,
    NotEqual = 0x50,
    GreaterSigned = 0x60,
    GreaterOrEqualSigned = 0x70,
    Less = 0xa0,
    LessOrEqual = 0xb0,
    LessSigned = 0xc0,
    LessOrEqualSigned = 0xd0,
}

/// Size of a memory access: 1, 2, 4 or 8 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Size {
    Bits8 = 0x10,
    Bits16 = 0x08,
    Bits32 = 0x00,
    Bits64 = 0x18,
}

impl Size {
    /// Returns the size for a number of bytes: 1, 2, 4, or else 8.
    pub(crate) fn of_bytes(bytes: usize) -> Size {
        match bytes {
            1 => Size::Bits8,
            2 => Size::Bits16,
            4 => Size::Bits32,
            _ => Size::Bits64,
        }
    }
}

/// Function of the kernel that programs may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Helper {
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    KtimeGetNs = 5,
    GetSmpProcessorId = 8,
    GetCurrentPidTgid = 14,
    GetCurrentComm = 16,
    GetStack = 67,
    ProbeReadUser = 112,
    ProbeReadKernel = 113,
    ProbeReadUserStr = 114,
    ProbeReadKernelStr = 115,
    RingbufOutput = 130,
    GetCurrentTaskBtf = 158,
    GetAttachCookie = 174,
    /// Returns the registers that a thread had in its program (since Linux 5.15).
    TaskRegisters = 175,
    /// Calls a function of the program repeatedly, until it returns 1 (since Linux 5.17).
    Loop = 181,
    /// Since Linux 5.17, as the next.
    GetFunctionArgument = 183,
    GetFunctionResult = 184,
}

/// Address in memory: a register and an offset in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Address(pub(crate) Register, pub(crate) i16);

/// Target of jumps and calls: a position in the code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Code with labels.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    code: Vec<u64>,
    /// Position of each label, once it is set.
    labels: Vec<Option<usize>>,
    /// Instructions whose target is a label.
    targets: Vec<Target>,
}

/// Instruction that refers to a label.
#[derive(Debug)]
struct Target {
    instruction: usize,
    label: Label,
    reference: Reference,
}

/// Way in which an instruction refers to a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reference {
    Jump,
    Call,
    /// Load of the address of a function, for a helper that calls it.
    FunctionAddress,
}

const CLASS_LOAD_WIDE: u8 = 0x18;
const CLASS_LOAD: u8 = 0x61;
const CLASS_STORE_NUMBER: u8 = 0x62;
const CLASS_STORE: u8 = 0x63;
const CLASS_ATOMIC: u8 = 0xc3;
const CLASS_JUMP: u8 = 0x05;
const CLASS_ALU64: u8 = 0x07;
/// Conversion of a register to the big-endian byte order.
const TO_BIG_ENDIAN: u8 = 0xdc;
/// The second operand is a register.
const BY_REGISTER: u8 = 0x08;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Marks of a wide load or a call, in the field of the second register. `PSEUDO_MAP`: the number is
/// a map's descriptor. `PSEUDO_MAP_VALUE`: the numbers are a map's descriptor and an offset in the
/// map's value. `PSEUDO_LOCAL`: the call's target is in this program.
const PSEUDO_MAP: u8 = 1;
const PSEUDO_MAP_VALUE: u8 = 2;
const PSEUDO_LOCAL: u8 = 1;
/// Mark of a wide load whose number is the distance to a function of this program.
const PSEUDO_FUNCTION: u8 = 4;

const ATOMIC_ADD: i32 = 0x00;
const ATOMIC_OR: i32 = 0x40;
const ATOMIC_AND: i32 = 0x50;
const ATOMIC_COMPARE_EXCHANGE: i32 = 0xf1;

fn instruction(code: u8, registers: (u8, u8), offset: i16, number: i32) -> u64 {
    let (to, from) = registers;
    let [low, high] = offset.to_le_bytes();
    let [n0, n1, n2, n3] = number.to_le_bytes();
    u64::from_ne_bytes([code, to | from << 4, low, high, n0, n1, n2, n3])
}

impl Assembler {
    /// Creates a label, to be [set](Self::set) at a later position.
    pub(crate) fn label(&mut self) -> Label {
        self.labels.push(None);
        Label(self.labels.len() - 1)
    }

    /// Returns true if an instruction refers to the label.
    pub(crate) fn uses(&self, label: Label) -> bool {
        self.targets.iter().any(|target| target.label == label)
    }

    /// Sets a label to the current position.
    pub(crate) fn set(&mut self, label: Label) {
        debug_assert!(self.labels[label.0].is_none(), "a label has one position");
        self.labels[label.0] = Some(self.code.len());
    }

    fn push(&mut self, code: u8, registers: (u8, u8), offset: i16, number: i32) {
        self.code.push(instruction(code, registers, offset, number));
    }

    /// Applies an operation to a register, with another register.
    pub(crate) fn alu(&mut self, operation: Alu, to: Register, from: Register) {
        let code = CLASS_ALU64 | BY_REGISTER | operation as u8;
        self.push(code, (to as u8, from as u8), 0, 0);
    }

    /// Applies an operation to a register, with a number that is sign-extended.
    pub(crate) fn alu_number(&mut self, operation: Alu, to: Register, number: i32) {
        self.push(CLASS_ALU64 | operation as u8, (to as u8, 0), 0, number);
    }

    /// Reverses the order of a register's bytes, so that an unsigned comparison of two registers
    /// compares the loaded bytes from the first to the last.
    pub(crate) fn reverse_bytes(&mut self, register: Register) {
        self.push(TO_BIG_ENDIAN, (register as u8, 0), 0, 64);
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.alu(Alu::Move, to, from);
    }

    /// Sets a register to a number.
    pub(crate) fn number(&mut self, to: Register, number: u64) {
        match i32::try_from(number.cast_signed()) {
            Ok(number) => self.alu_number(Alu::Move, to, number),
            Err(_) => self.wide(to, 0, number as u32, (number >> 32) as u32),
        }
    }

    fn wide(&mut self, to: Register, pseudo: u8, low: u32, high: u32) {
        self.push(CLASS_LOAD_WIDE, (to as u8, pseudo), 0, low.cast_signed());
        self.push(0, (0, 0), 0, high.cast_signed());
    }

    /// Sets a register to a map.
    pub(crate) fn map(&mut self, to: Register, descriptor: i32) {
        self.wide(to, PSEUDO_MAP, descriptor.cast_unsigned(), 0);
    }

    /// Sets a register to the address of a byte in a map that is one block of memory.
    pub(crate) fn block(&mut self, to: Register, descriptor: i32, offset: usize) {
        self.wide(to, PSEUDO_MAP_VALUE, descriptor.cast_unsigned(), offset as u32);
    }

    /// Loads an unsigned integer.
    pub(crate) fn load(&mut self, size: Size, to: Register, from: Address) {
        self.push(CLASS_LOAD | size as u8, (to as u8, from.0 as u8), from.1, 0);
    }

    pub(crate) fn store(&mut self, size: Size, to: Address, from: Register) {
        self.push(CLASS_STORE | size as u8, (to.0 as u8, from as u8), to.1, 0);
    }

    /// Stores a number that is sign-extended to 64 bits.
    pub(crate) fn store_number(&mut self, size: Size, to: Address, number: i32) {
        self.push(CLASS_STORE_NUMBER | size as u8, (to.0 as u8, 0), to.1, number);
    }

    fn atomic(&mut self, operation: i32, to: Address, from: Register) {
        let code = CLASS_ATOMIC | Size::Bits64 as u8;
        self.push(code, (to.0 as u8, from as u8), to.1, operation);
    }

    /// Adds a register to a word of memory, atomically.
    pub(crate) fn atomic_add(&mut self, to: Address, from: Register) {
        self.atomic(ATOMIC_ADD, to, from);
    }

    /// Sets the bits in a word of memory that are set in a register (bitwise OR), atomically.
    pub(crate) fn atomic_or(&mut self, to: Address, from: Register) {
        self.atomic(ATOMIC_OR, to, from);
    }

    /// Clears the bits in a word of memory that are clear in a register (bitwise AND), atomically.
    pub(crate) fn atomic_and(&mut self, to: Address, from: Register) {
        self.atomic(ATOMIC_AND, to, from);
    }

    /// Stores a register in a word of memory if the word equals `R0`, atomically. `R0` becomes the
    /// word's previous value.
    pub(crate) fn atomic_compare_exchange(&mut self, to: Address, from: Register) {
        self.atomic(ATOMIC_COMPARE_EXCHANGE, to, from);
    }

    pub(crate) fn jump(&mut self, label: Label) {
        self.target(label, Reference::Jump);
        self.push(CLASS_JUMP, (0, 0), 0, 0);
    }

    /// Jumps if two registers meet a condition.
    pub(crate) fn jump_if(&mut self, condition: If, one: Register, other: Register, label: Label) {
        self.target(label, Reference::Jump);
        let code = CLASS_JUMP | BY_REGISTER | condition as u8;
        self.push(code, (one as u8, other as u8), 0, 0);
    }

    /// Jumps if a register and a number, which is sign-extended, meet a condition.
    pub(crate) fn jump_if_number(
        &mut self,
        condition: If,
        one: Register,
        number: i32,
        label: Label,
    ) {
        self.target(label, Reference::Jump);
        self.push(CLASS_JUMP | condition as u8, (one as u8, 0), 0, number);
    }

    pub(crate) fn call(&mut self, helper: Helper) {
        self.push(CALL, (0, 0), 0, helper as i32);
    }

    /// Calls a function of this program.
    pub(crate) fn call_local(&mut self, label: Label) {
        self.target(label, Reference::Call);
        self.push(CALL, (0, PSEUDO_LOCAL), 0, 0);
    }

    /// Sets a register to the address of a function of this program, for [`Helper::Loop`].
    pub(crate) fn function_address(&mut self, to: Register, label: Label) {
        self.target(label, Reference::FunctionAddress);
        self.wide(to, PSEUDO_FUNCTION, 0, 0);
    }

    pub(crate) fn exit(&mut self) {
        self.push(EXIT, (0, 0), 0, 0);
    }

    /// Ends the program with the result 0, which tracing programs must have.
    pub(crate) fn finish(&mut self) {
        self.alu_number(Alu::Move, Register::R0, 0);
        self.exit();
    }

    fn target(&mut self, label: Label, reference: Reference) {
        self.targets.push(Target { instruction: self.code.len(), label, reference });
    }

    /// Returns the number of instructions so far.
    pub(crate) fn len(&self) -> usize {
        self.code.len()
    }

    /// Returns the positions of all functions in ascending order, if a helper calls one of them.
    /// The kernel then demands a description of each function. Otherwise returns an empty list.
    pub(crate) fn described_functions(&self) -> Vec<u32> {
        if !self.targets.iter().any(|target| target.reference == Reference::FunctionAddress) {
            return Vec::new();
        }
        let targets = self.targets.iter().filter(|target| target.reference != Reference::Jump);
        let starts = targets.filter_map(|target| u32::try_from(self.labels[target.label.0]?).ok());
        let starts: BTreeSet<u32> = starts.chain([0]).collect();
        starts.into_iter().collect()
    }

    /// Returns the code; `None` if a jump is too long for its instruction, or if a label that is
    /// used has no position.
    pub(crate) fn assemble(mut self) -> Option<Vec<u64>> {
        for Target { instruction, label, reference } in &self.targets {
            let position = i64::try_from(self.labels[label.0]?).ok()?;
            let distance = position - i64::try_from(*instruction).ok()? - 1;
            let mut bytes = self.code[*instruction].to_ne_bytes();
            match reference {
                Reference::Jump => {
                    bytes[2..4].copy_from_slice(&i16::try_from(distance).ok()?.to_le_bytes());
                }
                Reference::Call | Reference::FunctionAddress => {
                    bytes[4..].copy_from_slice(&i32::try_from(distance).ok()?.to_le_bytes());
                }
            }
            self.code[*instruction] = u64::from_ne_bytes(bytes);
        }
        Some(self.code)
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{R0, R1, R2, R10};
    use super::*;

    fn bytes(code: &[u64]) -> Vec<[u8; 8]> {
        code.iter().map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn instructions_have_the_bytes_of_the_instruction_set() {
        let mut code = Assembler::default();
        let (begin, end) = (code.label(), code.label());
        code.set(begin);
        code.number(R0, 7);
        code.number(R1, 0x1_0000_0002);
        code.load(Size::Bits16, R2, Address(R1, -2));
        code.store(Size::Bits64, Address(R10, -8), R2);
        code.jump_if_number(If::LessSigned, R2, -1, end);
        code.atomic_compare_exchange(Address(R1, 24), R2);
        code.jump(begin);
        code.set(end);
        code.exit();
        let expected = [
            [0xb7, 0, 0, 0, 7, 0, 0, 0],
            [0x18, 1, 0, 0, 2, 0, 0, 0],
            [0, 0, 0, 0, 1, 0, 0, 0],
            [0x69, 0x12, 0xfe, 0xff, 0, 0, 0, 0],
            [0x7b, 0x2a, 0xf8, 0xff, 0, 0, 0, 0],
            [0xc5, 2, 2, 0, 0xff, 0xff, 0xff, 0xff],
            [0xdb, 0x21, 24, 0, 0xf1, 0, 0, 0],
            [0x05, 0, 0xf8, 0xff, 0, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes(&code.assemble().unwrap()), expected);
    }

    /// The positions of functions are listed only if a helper calls one.
    #[test]
    fn functions_that_helpers_call_are_described() {
        let program = |is_described: bool| {
            let mut code = Assembler::default();
            let (local, called) = (code.label(), code.label());
            code.call_local(local);
            if is_described {
                code.function_address(R2, called);
            }
            code.exit();
            for label in [local, called] {
                code.set(label);
                code.exit();
            }
            code
        };
        assert_eq!(program(false).described_functions(), []);
        assert_eq!(program(true).described_functions(), [0, 4, 5]);
        let code = bytes(&program(true).assemble().unwrap());
        assert_eq!(code[1], [0x18, 0x42, 0, 0, 3, 0, 0, 0]);
    }

    #[test]
    fn a_jump_that_is_too_long_is_refused() {
        let mut code = Assembler::default();
        let end = code.label();
        code.jump(end);
        (0..40_000).for_each(|_| code.copy(R0, R0));
        code.set(end);
        code.exit();
        assert_eq!(code.assemble(), None);
    }

    #[test]
    fn a_label_without_a_position_is_refused() {
        let mut code = Assembler::default();
        let end = code.label();
        code.jump(end);
        assert_eq!(code.assemble(), None);
    }
}
