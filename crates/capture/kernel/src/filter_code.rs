//! Code that evaluates filters in the kernel, before an event takes space in a ring.
//!
//! A filter of the language of `blkkin-filter` is resolved to the fields of one event type
//! (`plan`), by a table of how fields are loaded (`fields`). [`FilterCode`] then makes a function
//! of it. The function gives the result of [`Filter::eval`] on the fields as they would be
//! recorded. `texts` copies texts into the memory of `scratch`, and compares them there. A filter
//! that cannot run in the kernel is refused with the position in its text.
//!
//! ```text
//! arguments  R1: register with which loaders work, R2: frame of the caller, with its slots
//! result     R0: 1 if the event is recorded, else 0
//! R6         the first argument             R8     slot of the scratch memory
//! R7         length of a text               frame  slots as in `frame`, then those of this module
//! ```
//!
//! The kernel's verifier follows each path through the code. Where paths join again, it must not
//! know by which one the code was reached, or the number of paths would double at each condition.
//! Results are therefore hidden from it ([`hide`]).

mod fields;
mod plan;
mod scratch;
#[cfg(test)]
mod tests;
mod texts;

use crate::assembler::Register::{R0, R1, R2, R3, R6, R7, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::event_type::Integer;
use crate::frame::PROCESS;
use blkkin_filter::tree::{BinaryOp, CompareOp};
use blkkin_filter::{Filter, FilterError, Step};
pub(crate) use fields::{FieldForm, FieldLoader, FieldTable};
use plan::{Condition, Number, NumberSource, Plan, WAITING_MAX};
pub(crate) use scratch::{FilterScratch, ScratchCode};
pub(crate) use texts::Functions;
use texts::SLOT_ADDRESS;

/// Maximum number of instructions of a filter. Jumps must reach the function's end.
const INSTRUCTIONS_MAX: usize = 8 << 10;
/// Maximum number of functions of a program, which is the kernel's limit without the functions that
/// are no filters.
const FUNCTIONS_MAX: usize = 250;

/// Returns the slot for a value that waits for the other side of an operator.
fn waiting(depth: usize) -> Address {
    debug_assert!(depth < WAITING_MAX, "the plan limits the depth");
    Address(R10, SLOT_ADDRESS.1 - 8 - 8 * depth as i16)
}

/// Filter for the events of one type, ready to be compiled.
#[derive(Debug)]
pub(crate) struct FilterCode {
    plan: Plan,
    scratch: Option<ScratchCode>,
    /// Names of the fields that the filter uses.
    names: Vec<String>,
}

impl FilterCode {
    /// Resolves a filter for the events of a type. An error states the part of the filter that
    /// cannot run in the kernel. `scratch` is called if the filter uses texts.
    pub(crate) fn new(
        filter: &Filter,
        fields: &FieldTable<'_>,
        scratch: ScratchCode,
    ) -> Result<FilterCode, FilterError> {
        let plan = Plan::new(filter, fields)?;
        let scratch = (!plan.blocks.is_empty()).then_some(scratch);
        let names = filter.operands().iter().filter_map(|operand| match operand.path.first() {
            Some(Step::Name(name)) => Some(name.clone()),
            _ => None,
        });
        let filter_code = FilterCode { plan, scratch, names: names.collect() };
        let mut trial = Assembler::default();
        let mut functions = Functions::default();
        let label = trial.label();
        filter_code.define(&mut trial, label, &mut functions, fields);
        functions.define(&mut trial);
        if trial.len() > INSTRUCTIONS_MAX || functions.count() > FUNCTIONS_MAX {
            let hint = Some("events can be filtered when they are read".to_owned());
            let message = "this filter is too long for the kernel";
            return Err(FilterError::unsupported(filter, filter.root().span, message, hint));
        }
        Ok(filter_code)
    }

    /// Returns true if no event of the type passes the filter.
    pub(crate) fn is_never(&self) -> bool {
        matches!(self.plan.root, Condition::Fixed(false))
    }

    /// Returns true if the filter uses a field of this name.
    pub(crate) fn uses(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// Calls a filter's function, whose result will be in `R0`. `R1` to `R5` are lost.
    pub(crate) fn call(code: &mut Assembler, function: Label) {
        code.copy(R1, R6);
        code.copy(R2, R10);
        code.call_local(function);
    }

    /// Defines the filter's function.
    pub(crate) fn define(
        &self,
        code: &mut Assembler,
        function: Label,
        functions: &mut Functions,
        fields: &FieldTable<'_>,
    ) {
        let (yes, no, done, end) = (code.label(), code.label(), code.label(), code.label());
        code.set(function);
        code.copy(R6, R1);
        for slot in [PROCESS].iter().chain(&fields.slots) {
            code.load(Size::Bits64, R3, Address(R2, slot.1));
            code.store(Size::Bits64, *slot, R3);
        }
        // The result if all slots of the scratch memory are in use: the event is recorded.
        code.number(R7, 1);
        if let Some(scratch) = self.scratch {
            scratch.acquire(code, self.plan.blocks.len(), end);
            code.store(Size::Bits64, SLOT_ADDRESS, scratch::SLOT);
        }
        let mut generator = Generator { code, functions, fields, plan: &self.plan };
        generator.condition(&self.plan.root, 0, (yes, no));
        code.set(yes);
        code.number(R7, 1);
        code.jump(done);
        code.set(no);
        code.number(R7, 0);
        code.set(done);
        if let Some(scratch) = self.scratch {
            scratch.release(code);
        }
        code.set(end);
        code.copy(R0, R7);
        hide(code, R0);
        code.exit();
    }
}

/// Makes the verifier forget what it knows about a register, whose value stays the same. `R1` is
/// lost.
fn hide(code: &mut Assembler, register: Register) {
    // The verifier does not know the thread's id, nor that the same number is applied twice.
    code.load(Size::Bits64, R1, PROCESS);
    code.alu(Alu::Xor, register, R1);
    code.alu(Alu::Xor, register, R1);
}

/// Generator of the code of one filter. A number is computed in `R0`. `depth` is the number of
/// slots of the frame that are in use.
struct Generator<'g> {
    code: &'g mut Assembler,
    functions: &'g mut Functions,
    fields: &'g FieldTable<'g>,
    plan: &'g Plan,
}

impl Generator<'_> {
    /// Adds code that jumps to one of two labels. Both are the target of a jump that can be
    /// reached, since the verifier refuses other code.
    fn condition(&mut self, condition: &Condition, depth: usize, (yes, no): (Label, Label)) {
        match condition {
            Condition::Fixed(is_true) => {
                self.code.number(R0, (*is_true).into());
                self.code.jump_if_number(If::NotEqual, R0, 0, yes);
                self.code.jump(no);
            }
            Condition::Not(child) => self.condition(child, depth, (no, yes)),
            Condition::All(children) => {
                self.chain(children, depth, |next| (next, no), (yes, no));
            }
            Condition::Any(children) => {
                self.chain(children, depth, |next| (yes, next), (yes, no));
            }
            Condition::True(number) => {
                self.number(number, depth, no);
                self.code.jump_if_number(If::NotEqual, R0, 0, yes);
                self.code.jump(no);
            }
            Condition::Exists(number) => {
                self.number(number, depth, no);
                self.code.jump(yes);
            }
            Condition::Numbers(op, left, right) => {
                self.both(left, right, depth, no);
                self.compare_numbers(*op, left.is_signed, right.is_signed, (yes, no));
            }
            Condition::Text(op, block, bytes) => {
                self.copy(*block);
                texts::compare_known(self.code, *op, *block, bytes, (yes, no));
            }
            Condition::Blocks(op, left, right) => {
                self.copy(*left);
                self.copy(*right);
                let blocks = (*left, *right);
                texts::compare_texts(self.code, self.functions, *op, blocks, (yes, no));
            }
            Condition::Matches(block, glob) => {
                self.copy(*block);
                texts::matches(self.code, self.functions, *block, glob, (yes, no));
            }
        }
    }

    /// Adds the code for a chain of conditions. `targets` returns the targets of each condition but
    /// the last, by the label of the next one.
    fn chain(
        &mut self,
        children: &[Condition],
        depth: usize,
        targets: impl Fn(Label) -> (Label, Label),
        last_targets: (Label, Label),
    ) {
        let Some((last, others)) = children.split_last() else { return };
        for child in others {
            let next = self.code.label();
            self.condition(child, depth, targets(next));
            self.code.set(next);
        }
        self.condition(last, depth, last_targets);
    }

    fn copy(&mut self, block: usize) {
        texts::copy(self.code, block, &self.plan.blocks[block], self.fields);
    }

    /// Jumps by the comparison of `R0` with `R1`.
    fn compare_numbers(
        &mut self,
        op: CompareOp,
        is_left_signed: bool,
        is_right_signed: bool,
        (yes, no): (Label, Label),
    ) {
        let is_smaller =
            matches!(op, CompareOp::NotEqual | CompareOp::Less | CompareOp::LessOrEqual);
        let is_larger =
            matches!(op, CompareOp::NotEqual | CompareOp::Greater | CompareOp::GreaterOrEqual);
        let target = |is_true| if is_true { yes } else { no };
        // A negative number is less than any unsigned number.
        match (is_left_signed, is_right_signed) {
            (true, false) => {
                self.code.jump_if_number(If::LessSigned, R0, 0, target(is_smaller));
            }
            (false, true) => {
                self.code.jump_if_number(If::LessSigned, R1, 0, target(is_larger));
            }
            _ => {}
        }
        let is_signed = is_left_signed && is_right_signed;
        let condition = match op {
            CompareOp::Equal => If::Equal,
            CompareOp::NotEqual => If::NotEqual,
            CompareOp::Less if is_signed => If::LessSigned,
            CompareOp::LessOrEqual if is_signed => If::LessOrEqualSigned,
            CompareOp::Greater if is_signed => If::GreaterSigned,
            CompareOp::GreaterOrEqual if is_signed => If::GreaterOrEqualSigned,
            CompareOp::Less => If::Less,
            CompareOp::LessOrEqual => If::LessOrEqual,
            CompareOp::Greater => If::Greater,
            CompareOp::GreaterOrEqual => If::GreaterOrEqual,
        };
        self.code.jump_if(condition, R0, R1, yes);
        self.code.jump(no);
    }

    /// Computes two numbers in `R0` and `R1`. The one that needs more slots is computed first.
    fn both(&mut self, left: &Number, right: &Number, depth: usize, absent: Label) {
        let is_right_first = right.need() > left.need();
        let (first, second) = if is_right_first { (right, left) } else { (left, right) };
        self.number(first, depth, absent);
        self.code.store(Size::Bits64, waiting(depth), R0);
        self.number(second, depth + 1, absent);
        match is_right_first {
            true => self.code.load(Size::Bits64, R1, waiting(depth)),
            false => {
                self.code.copy(R1, R0);
                self.code.load(Size::Bits64, R0, waiting(depth));
            }
        }
    }

    /// Computes a number in `R0`. Jumps to `absent` if it has no value.
    fn number(&mut self, number: &Number, depth: usize, absent: Label) {
        match &number.source {
            NumberSource::Fixed(bits) => self.code.number(R0, *bits),
            NumberSource::Pid => {
                self.code.load(Size::Bits64, R0, PROCESS);
                self.code.alu_number(Alu::ShiftRight, R0, 32);
            }
            NumberSource::Tid => {
                self.code.load(Size::Bits64, R0, PROCESS);
                self.extend(Integer::signed(4));
            }
            NumberSource::Cpu => {
                self.code.call(Helper::GetSmpProcessorId);
                self.extend(Integer::unsigned(4));
            }
            NumberSource::Field(name, integer) => {
                self.load(name);
                self.extend(*integer);
            }
            NumberSource::Word(name, element, index) => {
                self.load(name);
                let shift = (8 * element.bytes * index) as i32;
                self.code.alu_number(Alu::ShiftRight, R0, shift);
                self.extend(*element);
            }
            NumberSource::InBlock(block, element, offset) => {
                self.copy(*block);
                self.code.load(
                    Size::Bits64,
                    R0,
                    Address(scratch::SLOT, scratch::length_of(*block)),
                );
                let end = (offset + element.bytes) as i32;
                self.code.jump_if_number(If::LessOrEqual, R0, end, absent);
                let at = Address(scratch::SLOT, scratch::text_of(*block) + *offset as i16);
                self.code.load(Size::of_bytes(element.bytes), R0, at);
                self.extend(*element);
            }
            NumberSource::Truth(condition) => self.truth(condition, depth),
            NumberSource::Negate(child) => {
                self.number(child, depth, absent);
                negate(self.code, R0);
            }
            NumberSource::BitNot(child) => {
                self.number(child, depth, absent);
                self.code.alu_number(Alu::Xor, R0, -1);
            }
            NumberSource::Binary(op, left, right) => {
                self.both(left, right, depth, absent);
                let is_signed = left.is_signed || right.is_signed;
                self.calculate(*op, is_signed, absent);
            }
        }
    }

    /// Loads a field into `R0`.
    fn load(&mut self, name: &str) {
        if let Some(loader) = self.fields.find(name) {
            (loader.load)(self.code);
        }
        self.code.copy(R0, R1);
    }

    /// Extends the integer in the low bytes of `R0` to 64 bits.
    fn extend(&mut self, integer: Integer) {
        let unused = 64 - 8 * integer.bytes as i32;
        if unused > 0 {
            let right = if integer.is_signed { Alu::ShiftRightSigned } else { Alu::ShiftRight };
            self.code.alu_number(Alu::ShiftLeft, R0, unused);
            self.code.alu_number(right, R0, unused);
        }
    }

    /// Sets `R0` to 1 if the condition is true, else to 0.
    fn truth(&mut self, condition: &Condition, depth: usize) {
        let (yes, no, done) = (self.code.label(), self.code.label(), self.code.label());
        self.condition(condition, depth, (yes, no));
        self.code.set(yes);
        self.code.number(R0, 1);
        self.code.jump(done);
        self.code.set(no);
        self.code.number(R0, 0);
        self.code.set(done);
        hide(self.code, R0);
    }

    /// Applies an operator to `R0` and `R1`. `R1` to `R3` are lost.
    fn calculate(&mut self, op: BinaryOp, is_signed: bool, absent: Label) {
        let code = &mut *self.code;
        match op {
            BinaryOp::Add => code.alu(Alu::Add, R0, R1),
            BinaryOp::Subtract => code.alu(Alu::Sub, R0, R1),
            BinaryOp::Multiply => code.alu(Alu::Mul, R0, R1),
            BinaryOp::BitAnd => code.alu(Alu::And, R0, R1),
            BinaryOp::BitOr => code.alu(Alu::Or, R0, R1),
            BinaryOp::BitXor => code.alu(Alu::Xor, R0, R1),
            BinaryOp::ShiftLeft | BinaryOp::ShiftRight => {
                // A negative distance is a large unsigned one.
                code.jump_if_number(If::Greater, R1, 63, absent);
                let shift =
                    if op == BinaryOp::ShiftLeft { Alu::ShiftLeft } else { Alu::ShiftRight };
                code.alu(shift, R0, R1);
            }
            BinaryOp::Divide | BinaryOp::Remainder => {
                code.jump_if_number(If::Equal, R1, 0, absent);
                let division = if op == BinaryOp::Divide { Alu::Divide } else { Alu::Remainder };
                match is_signed {
                    true => divide_signed(code, division),
                    false => code.alu(division, R0, R1),
                }
            }
        }
    }
}

fn negate(code: &mut Assembler, register: Register) {
    code.alu_number(Alu::Xor, register, -1);
    code.alu_number(Alu::Add, register, 1);
}

/// Divides `R0` by `R1` as signed numbers, which older kernels cannot: divides their magnitudes,
/// and negates the result if needed. `R1` to `R3` are lost.
fn divide_signed(code: &mut Assembler, division: Alu) {
    let (dividend, divisor) = (R2, R3);
    code.copy(dividend, R0);
    code.copy(divisor, R1);
    for register in [R0, R1] {
        negate_if_negative(code, register, register);
    }
    code.alu(division, R0, R1);
    // The sign of a remainder is that of the dividend.
    if division == Alu::Divide {
        code.alu(Alu::Xor, dividend, divisor);
    }
    negate_if_negative(code, R0, dividend);
}

fn negate_if_negative(code: &mut Assembler, register: Register, sign: Register) {
    let is_done = code.label();
    code.jump_if_number(If::GreaterOrEqualSigned, sign, 0, is_done);
    negate(code, register);
    code.set(is_done);
}
