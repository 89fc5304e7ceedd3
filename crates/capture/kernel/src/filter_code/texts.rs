//! Code that copies texts and arrays into scratch memory, compares them, and matches patterns.
//!
//! Known bytes are compared in words of 8 bytes, without a loop. Searches, and comparisons of two
//! texts, are loops by the kernel's function for loops, which calls a function of the program. The
//! loop's state is in the scratch memory.

use super::fields::{FieldForm, FieldTable};
use super::plan::{Block, holds};
use super::scratch::{FIRST, FOUND, SECOND, SLOT, START, TEXT_SIZE, length_of, text_of};
use crate::assembler::Register::{R0, R1, R2, R3, R4, R7, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::chosen::NAME_SIZE;
use crate::frame::FRAME_END;
use crate::frame::{NAME, SCRATCH};
use crate::read_code::read_bytes;
use blkkin_filter::Glob;
use blkkin_filter::tree::CompareOp;
use std::cmp::Ordering;

/// Slot of the frame with the address of the scratch memory's slot, for loops.
pub(super) const SLOT_ADDRESS: Address = Address(R10, FRAME_END - 8);

/// Functions that the programs of filters call in loops.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    loop_bodies: Vec<(LoopBody, Label)>,
    defined: usize,
}

/// Function that is called in a loop.
#[derive(Debug, PartialEq, Eq)]
enum LoopBody {
    /// Looks for a piece in a text, one position a call.
    Search { index: usize, piece: Box<[u8]> },
    /// Compares two texts, one word a call.
    Compare { left: usize, right: usize },
}

impl Functions {
    /// Returns the label of a function, which is defined later.
    fn loop_body(&mut self, code: &mut Assembler, body: LoopBody) -> Label {
        if let Some((_, label)) = self.loop_bodies.iter().find(|(known, _)| *known == body) {
            return *label;
        }
        let label = code.label();
        self.loop_bodies.push((body, label));
        label
    }

    /// Returns the number of functions.
    pub(super) fn count(&self) -> usize {
        self.loop_bodies.len()
    }

    /// Defines the functions that have not been defined yet.
    pub(crate) fn define(&mut self, code: &mut Assembler) {
        for (body, label) in &self.loop_bodies[self.defined..] {
            code.set(*label);
            define_loop_body(code, body);
        }
        self.defined = self.loop_bodies.len();
    }
}

/// Makes sure that a text or an array has been copied. `R0` to `R5` are lost.
pub(super) fn copy(code: &mut Assembler, index: usize, block: &Block, fields: &FieldTable<'_>) {
    let is_copied = code.label();
    code.load(Size::Bits64, R0, Address(SLOT, length_of(index)));
    code.jump_if_number(If::NotEqual, R0, 0, is_copied);
    let form = match block {
        Block::Procname => {
            load_procname(code);
            FieldForm::Text { size_max: NAME_SIZE, helper: Helper::ProbeReadKernelStr }
        }
        Block::Field(name) => {
            // The plan has only blocks of known fields.
            let Some(loader) = fields.find(name) else { return code.set(is_copied) };
            (loader.load)(code);
            loader.form
        }
    };
    match form {
        FieldForm::Text { size_max, helper } => copy_text(code, index, size_max, helper),
        FieldForm::Bytes { size_max, helper } => copy_bytes(code, index, size_max, helper),
        FieldForm::Array { element, count } => {
            let size = element.bytes * count;
            code.number(R2, size as u64);
            to_text(code, index);
            code.call(Helper::ProbeReadKernel);
            code.number(R0, size as u64 + 1);
        }
        // Their elements are not in memory.
        FieldForm::Integer(_) | FieldForm::Float | FieldForm::Word { .. } => code.number(R0, 1),
    }
    code.store(Size::Bits64, Address(SLOT, length_of(index)), R0);
    code.copy(R1, SLOT);
    code.alu(Alu::Add, R1, R0);
    code.store_number(Size::Bits64, Address(R1, text_of(index) - 1), 0);
    code.set(is_copied);
}

/// Sets `R3` to the address of the thread's name.
fn load_procname(code: &mut Assembler) {
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, NAME.into());
    code.number(R2, NAME_SIZE as u64);
    code.call(Helper::GetCurrentComm);
    code.copy(R3, R10);
    code.alu_number(Alu::Add, R3, NAME.into());
}

/// Sets `R1` to the address of the copy.
fn to_text(code: &mut Assembler, index: usize) {
    code.copy(R1, SLOT);
    code.alu_number(Alu::Add, R1, text_of(index).into());
}

/// Copies the text at `R3`, and sets `R0` to its length plus 1. A text that cannot be read is
/// empty, as in [`FieldWriter::string`](crate::ring_code::FieldWriter::string).
fn copy_text(code: &mut Assembler, index: usize, size_max: usize, helper: Helper) {
    let (is_empty, is_read) = (code.label(), code.label());
    to_text(code, index);
    code.number(R2, size_max.min(TEXT_SIZE) as u64);
    code.call(helper);
    code.jump_if_number(If::LessOrEqualSigned, R0, 0, is_empty);
    // Older verifiers do not know the helper's maximum.
    code.jump_if_number(If::LessOrEqual, R0, TEXT_SIZE as i32, is_read);
    code.set(is_empty);
    code.number(R0, 1);
    code.set(is_read);
}

/// Copies the `R2` bytes at `R3`, and sets `R0` to their number plus 1. Bytes that cannot be read
/// are left out, as in [`FieldWriter::bytes`](crate::ring_code::FieldWriter::bytes).
fn copy_bytes(code: &mut Assembler, index: usize, size_max: usize, helper: Helper) {
    let size_max = size_max.min(TEXT_SIZE - 1);
    read_bytes(code, size_max, helper, SCRATCH, |code| to_text(code, index));
    code.alu_number(Alu::Add, R0, 1);
}

/// Word of 8 bytes in known bytes, padded with zeros.
struct Word {
    offset: i16,
    bits: u64,
    /// Mask of the bits that are not padding.
    mask: u64,
}

fn words(bytes: &[u8]) -> impl Iterator<Item = Word> {
    bytes.chunks(8).enumerate().map(|(index, chunk)| {
        let mut word = [0; 8];
        word[..chunk.len()].copy_from_slice(chunk);
        let mask = u64::MAX >> (64 - 8 * chunk.len());
        Word { offset: 8 * index as i16, bits: u64::from_le_bytes(word), mask }
    })
}

/// Jumps to `differs` if the bytes at an address differ from known bytes. `R1` and `R2` are lost.
fn jump_unless_equal(code: &mut Assembler, at: Address, bytes: &[u8], differs: Label) {
    for Word { offset, bits, mask } in words(bytes) {
        code.load(Size::Bits64, R1, Address(at.0, at.1 + offset));
        if mask != u64::MAX {
            code.number(R2, mask);
            code.alu(Alu::And, R1, R2);
        }
        code.number(R2, bits);
        code.jump_if(If::NotEqual, R1, R2, differs);
    }
}

/// Targets of the three results of a comparison.
struct Targets {
    less: Label,
    equal: Label,
    greater: Label,
}

impl Targets {
    fn new(op: CompareOp, yes: Label, no: Label) -> Targets {
        let target = |order| if holds(op, order) { yes } else { no };
        Targets {
            less: target(Ordering::Less),
            equal: target(Ordering::Equal),
            greater: target(Ordering::Greater),
        }
    }
}

/// Compares a copied text with known bytes. `R0` to `R2` are lost.
pub(super) fn compare_known(
    code: &mut Assembler,
    op: CompareOp,
    index: usize,
    bytes: &[u8],
    (yes, no): (Label, Label),
) {
    let targets = Targets::new(op, yes, no);
    code.load(Size::Bits64, R0, Address(SLOT, length_of(index)));
    if op.is_equality() {
        // Equal and unequal have both targets; the unequal order does not matter.
        code.jump_if_number(If::NotEqual, R0, length_word(bytes), targets.less);
        // A longer text has another length, so that its words are not compared.
        let end = bytes.len().min(TEXT_SIZE);
        let at = Address(SLOT, text_of(index));
        jump_unless_equal(code, at, &bytes[..end], targets.less);
        return code.jump(targets.equal);
    }
    let is_prefix = code.label();
    for Word { offset, bits, .. } in words(&bytes[..bytes.len().min(TEXT_SIZE)]) {
        // The padding after the text's end reaches to the end of the word in which it begins.
        if offset > 0 {
            code.jump_if_number(If::LessOrEqual, R0, offset.into(), is_prefix);
        }
        code.load(Size::Bits64, R1, Address(SLOT, text_of(index) + offset));
        code.reverse_bytes(R1);
        code.number(R2, bits.swap_bytes());
        code.jump_if(If::Less, R1, R2, targets.less);
        code.jump_if(If::Greater, R1, R2, targets.greater);
    }
    code.set(is_prefix);
    code.jump_if_number(If::Less, R0, length_word(bytes), targets.less);
    code.jump_if_number(If::Greater, R0, length_word(bytes), targets.greater);
    code.jump(targets.equal);
}

/// Returns the number that stands for the length of a text with these bytes in the scratch memory.
fn length_word(bytes: &[u8]) -> i32 {
    bytes.len() as i32 + 1
}

/// Compares two copied texts. `R0` to `R5` are lost.
pub(super) fn compare_texts(
    code: &mut Assembler,
    functions: &mut Functions,
    op: CompareOp,
    (left, right): (usize, usize),
    (yes, no): (Label, Label),
) {
    let targets = Targets::new(op, yes, no);
    let is_shorter = code.label();
    let lengths = |code: &mut Assembler, first: Register, second: Register| {
        code.load(Size::Bits64, first, Address(SLOT, length_of(left)));
        code.load(Size::Bits64, second, Address(SLOT, length_of(right)));
    };
    for word in [START, FIRST, SECOND] {
        code.store_number(Size::Bits64, Address(SLOT, word), 0);
    }
    // As many words as the shorter text begins, with the one that contains its end.
    lengths(code, R1, R2);
    code.jump_if(If::LessOrEqual, R1, R2, is_shorter);
    code.copy(R1, R2);
    code.set(is_shorter);
    code.alu_number(Alu::Sub, R1, 1);
    code.alu_number(Alu::ShiftRight, R1, 3);
    code.alu_number(Alu::Add, R1, 1);
    call_loop(code, functions, LoopBody::Compare { left, right });
    code.load(Size::Bits64, R0, Address(SLOT, FIRST));
    code.load(Size::Bits64, R1, Address(SLOT, SECOND));
    code.jump_if(If::Less, R0, R1, targets.less);
    code.jump_if(If::Greater, R0, R1, targets.greater);
    lengths(code, R0, R1);
    code.jump_if(If::Less, R0, R1, targets.less);
    code.jump_if(If::Greater, R0, R1, targets.greater);
    code.jump(targets.equal);
}

/// Matches a copied text with a pattern. `R0` to `R5` and `R7` are lost.
pub(super) fn matches(
    code: &mut Assembler,
    functions: &mut Functions,
    index: usize,
    glob: &Glob,
    (yes, no): (Label, Label),
) {
    let pieces: Vec<&[u8]> = glob.pieces().collect();
    let [first, middle @ .., last] = &pieces[..] else { return code.jump(yes) };
    let length = R7;
    code.load(Size::Bits64, length, Address(SLOT, length_of(index)));
    code.alu_number(Alu::Sub, length, 1);
    code.jump_if_number(If::Less, length, (first.len() + last.len()) as i32, no);
    code.jump_if_number(If::GreaterOrEqual, length, TEXT_SIZE as i32, no);
    let end = |bytes: &[u8]| bytes.len().min(TEXT_SIZE);
    jump_unless_equal(code, Address(SLOT, text_of(index)), &first[..end(first)], no);
    code.alu_number(Alu::Sub, length, last.len() as i32);
    if !last.is_empty() {
        code.copy(R3, SLOT);
        code.alu(Alu::Add, R3, length);
        jump_unless_equal(code, Address(R3, text_of(index)), &last[..end(last)], no);
    }
    if !middle.is_empty() {
        code.number(R1, first.len() as u64);
        code.store(Size::Bits64, Address(SLOT, START), R1);
    }
    for piece in middle {
        // The number of positions at which the piece can begin.
        code.copy(R1, length);
        code.load(Size::Bits64, R2, Address(SLOT, START));
        code.alu(Alu::Sub, R1, R2);
        code.alu_number(Alu::Sub, R1, piece.len() as i32 - 1);
        code.jump_if_number(If::LessOrEqualSigned, R1, 0, no);
        code.store_number(Size::Bits64, Address(SLOT, FOUND), 0);
        call_loop(code, functions, LoopBody::Search { index, piece: (*piece).into() });
        code.load(Size::Bits64, R1, Address(SLOT, FOUND));
        code.jump_if_number(If::Equal, R1, 0, no);
        code.store(Size::Bits64, Address(SLOT, START), R1);
    }
    code.jump(yes);
}

/// Calls a function of this program at most `R1` times, until it returns 1.
fn call_loop(code: &mut Assembler, functions: &mut Functions, body: LoopBody) {
    let label = functions.loop_body(code, body);
    code.function_address(R2, label);
    code.copy(R3, R10);
    code.alu_number(Alu::Add, R3, SLOT_ADDRESS.1.into());
    code.number(R4, 0);
    code.call(Helper::Loop);
}

/// Defines the function that a loop calls. `R2` is the address of [`SLOT_ADDRESS`].
fn define_loop_body(code: &mut Assembler, body: &LoopBody) {
    let (slot, position) = (R3, R4);
    let (is_end, goes_on) = (code.label(), code.label());
    let step = match body {
        LoopBody::Search { .. } => 1,
        LoopBody::Compare { .. } => 8,
    };
    code.load(Size::Bits64, slot, Address(R2, 0));
    code.load(Size::Bits64, position, Address(slot, START));
    code.jump_if_number(If::Greater, position, TEXT_SIZE as i32, is_end);
    code.copy(R1, position);
    code.alu_number(Alu::Add, R1, step);
    code.store(Size::Bits64, Address(slot, START), R1);
    code.copy(R0, slot);
    code.alu(Alu::Add, R0, position);
    match body {
        LoopBody::Search { index, piece } => {
            let piece = &piece[..piece.len().min(TEXT_SIZE)];
            jump_unless_equal(code, Address(R0, text_of(*index)), piece, goes_on);
            code.alu_number(Alu::Add, position, piece.len() as i32);
            code.store(Size::Bits64, Address(slot, FOUND), position);
        }
        LoopBody::Compare { left, right } => {
            code.load(Size::Bits64, R1, Address(R0, text_of(*left)));
            code.load(Size::Bits64, R2, Address(R0, text_of(*right)));
            code.jump_if(If::Equal, R1, R2, goes_on);
            code.reverse_bytes(R1);
            code.store(Size::Bits64, Address(slot, FIRST), R1);
            code.reverse_bytes(R2);
            code.store(Size::Bits64, Address(slot, SECOND), R2);
        }
    }
    code.set(is_end);
    code.number(R0, 1);
    code.exit();
    code.set(goes_on);
    code.number(R0, 0);
    code.exit();
}
