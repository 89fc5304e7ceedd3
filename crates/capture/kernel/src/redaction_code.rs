//! Code that redacts fields: it reads a text or bytes into memory that no other process sees, and
//! writes the length or a hash into the event.
//!
//! ```text
//! memory:   0 the words with which a hash begins, made from the key
//!          64 a slot for each ring
//! slot:     0 STATE   of the hash that is computed: 4 words
//!          32 LENGTH  of the text in bytes
//!          64 TEXT    with room for TEXT_SIZE bytes and PADDING
//! ```
//!
//! The program that has acquired a ring has the ring's slot, too. The hash is SipHash-2-4 (see
//! [`HashKey`]), computed by the kernel's function for loops, which calls a function of the program
//! for each word. The state is in memory, where the kernel's verifier does not follow it: it then
//! examines that function once, whatever the length of the text.

#[cfg(test)]
mod tests;

use crate::assembler::Register::{R0, R1, R2, R3, R4, R6, R7, R8, R9, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::error::Error;
use crate::read_code::read_bytes;
use crate::redaction::HashKey;
use blkkin_control::RedactionMethod;
use blkkin_sys::bpf::Map;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::Relaxed;

/// Offset of the first slot in the memory.
const SLOTS: usize = 64;
const STATE: i16 = 0;
const LENGTH: i16 = 32;
const TEXT: i16 = 64;
/// Maximum size of a text in bytes, with its NUL.
const TEXT_SIZE: usize = 4096;
/// Number of bytes after a text. The word that ends a hash begins there if the text is longest.
const PADDING: usize = 64;
const SLOT_SIZE: usize = TEXT as usize + TEXT_SIZE + PADDING;

/// Registers of the four words of the state.
const WORDS: [Register; 4] = [R6, R7, R8, R9];

/// Memory for the redactions of a recording.
#[derive(Debug)]
pub(crate) struct RedactionMemory(Map);

impl RedactionMemory {
    /// Creates the memory for the programs that write into this number of rings.
    pub(crate) fn new(rings: usize, key: HashKey) -> Result<RedactionMemory, Error> {
        let failed = |error: io::Error| Error::Map("redaction", error);
        let block = Map::block("blkkin_redacted", SLOTS + rings * SLOT_SIZE).map_err(failed)?;
        let memory = block.memory().map_err(failed)?;
        for (index, word) in key.state().into_iter().enumerate() {
            // Relaxed: no program runs yet.
            memory.word(8 * index).store(word, Relaxed);
        }
        Ok(RedactionMemory(block))
    }

    /// Returns the descriptor of the memory, for programs.
    pub(crate) fn block(&self) -> i32 {
        self.0.as_fd().as_raw_fd()
    }
}

/// Generator of the code of one program that redacts fields.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RedactionCode {
    /// Descriptor of the memory. The kernel refuses programs that redact without memory.
    block: i32,
    /// Slot of the frame with the index of the ring.
    ring: Address,
    /// Label of the function that computes hashes.
    hash: Label,
}

impl RedactionCode {
    /// Returns the generator for a program that has the index of its ring in the slot `ring`.
    pub(crate) fn new(code: &mut Assembler, block: Option<i32>, ring: Address) -> RedactionCode {
        let block = block.unwrap_or(-1);
        RedactionCode { block, ring, hash: code.label() }
    }

    /// Sets `to` to the address of the ring's slot. `other` is lost.
    fn slot(self, code: &mut Assembler, to: Register, other: Register) {
        code.load(Size::Bits64, other, self.ring);
        code.alu_number(Alu::Mul, other, SLOT_SIZE as i32);
        code.block(to, self.block, SLOTS);
        code.alu(Alu::Add, to, other);
    }

    /// Sets `R1` to the address of the text in the ring's slot. `R2` is lost.
    fn text(self, code: &mut Assembler) {
        self.slot(code, R1, R2);
        code.alu_number(Alu::Add, R1, TEXT.into());
    }

    /// Defines the functions that compute hashes, if the program needs them.
    pub(crate) fn define(self, code: &mut Assembler) {
        if !code.uses(self.hash) {
            return;
        }
        let add_word = code.label();
        self.define_hash(code, add_word);
        define_add_word(code, add_word);
    }

    /// Defines a function that returns the hash of the text in the slot at `R1`.
    fn define_hash(self, code: &mut Assembler, add_word: Label) {
        let (is_bounded, slot_address) = (code.label(), Address(R10, -8));
        code.set(self.hash);
        code.store(Size::Bits64, slot_address, R1);
        code.load(Size::Bits64, R2, Address(R1, LENGTH));
        code.jump_if_number(If::LessOrEqual, R2, TEXT_SIZE as i32, is_bounded);
        code.number(R2, 0);
        code.set(is_bounded);
        // The last word has the rest of the text, zeros, and the length in its last byte.
        code.copy(R3, R1);
        code.alu(Alu::Add, R3, R2);
        code.store_number(Size::Bits64, Address(R3, TEXT), 0);
        code.copy(R4, R2);
        code.alu_number(Alu::And, R4, -8);
        code.alu(Alu::Add, R4, R1);
        code.store(Size::Bits8, Address(R4, TEXT + 7), R2);
        code.block(R3, self.block, 0);
        for at in 0..4 {
            code.load(Size::Bits64, R4, Address(R3, 8 * at));
            code.store(Size::Bits64, Address(R1, STATE + 8 * at), R4);
        }
        code.copy(R1, R2);
        code.alu_number(Alu::ShiftRight, R1, 3);
        code.alu_number(Alu::Add, R1, 1);
        code.function_address(R2, add_word);
        code.copy(R3, R10);
        code.alu_number(Alu::Add, R3, slot_address.1.into());
        code.number(R4, 0);
        code.call(Helper::Loop);
        code.load(Size::Bits64, R1, slot_address);
        load_state(code, R1);
        code.alu_number(Alu::Xor, WORDS[2], 0xff);
        (0..4).for_each(|_| round(code));
        code.copy(R0, WORDS[0]);
        WORDS[1..].iter().for_each(|word| code.alu(Alu::Xor, R0, *word));
        code.exit();
    }
}

/// Defines the function that the loop calls. `R1` is the index of the word, and `R2` the address of
/// the slot's address.
fn define_add_word(code: &mut Assembler, function: Label) {
    let (slot, word, is_end) = (R4, R3, code.label());
    code.set(function);
    code.number(R0, 1);
    code.jump_if_number(If::Greater, R1, (TEXT_SIZE / 8) as i32, is_end);
    code.load(Size::Bits64, slot, Address(R2, 0));
    code.alu_number(Alu::ShiftLeft, R1, 3);
    code.alu(Alu::Add, R1, slot);
    code.load(Size::Bits64, word, Address(R1, TEXT));
    load_state(code, slot);
    code.alu(Alu::Xor, WORDS[3], word);
    (0..2).for_each(|_| round(code));
    code.alu(Alu::Xor, WORDS[0], word);
    for (at, register) in (0..).zip(WORDS) {
        code.store(Size::Bits64, Address(slot, STATE + 8 * at), register);
    }
    code.number(R0, 0);
    code.set(is_end);
    code.exit();
}

fn load_state(code: &mut Assembler, slot: Register) {
    for (at, register) in (0..).zip(WORDS) {
        code.load(Size::Bits64, register, Address(slot, STATE + 8 * at));
    }
}

/// Adds a round of the hash. `R0` is lost.
fn round(code: &mut Assembler) {
    let [v0, v1, v2, v3] = WORDS;
    let mut half = |[a, b]: [Register; 2], turn_b, turn_a| {
        code.alu(Alu::Add, a, b);
        rotate_left(code, b, turn_b);
        code.alu(Alu::Xor, b, a);
        if turn_a {
            rotate_left(code, a, 32);
        }
    };
    half([v0, v1], 13, true);
    half([v2, v3], 16, false);
    half([v0, v3], 21, false);
    half([v2, v1], 17, true);
}

/// Rotates a register. `R0` is lost.
fn rotate_left(code: &mut Assembler, register: Register, bits: i32) {
    code.copy(R0, register);
    code.alu_number(Alu::ShiftRight, R0, 64 - bits);
    code.alu_number(Alu::ShiftLeft, register, bits);
    code.alu(Alu::Or, register, R0);
}

/// Each of these functions sets `R0` to the redaction of a field. The other parameters are those of
/// the function of `FieldWriter` that writes the field itself.
impl RedactionCode {
    /// Redacts a string. Its length is without the NUL.
    pub(crate) fn string(
        self,
        code: &mut Assembler,
        method: RedactionMethod,
        size_max: usize,
        helper: Helper,
    ) {
        let is_read = code.label();
        self.text(code);
        code.number(R2, size_max.min(TEXT_SIZE) as u64);
        code.call(helper);
        code.jump_if_number(If::GreaterSigned, R0, 0, is_read);
        code.number(R0, 1);
        code.set(is_read);
        code.alu_number(Alu::Sub, R0, 1);
        self.finish(code, method);
    }

    /// Redacts bytes.
    pub(crate) fn bytes(
        self,
        code: &mut Assembler,
        method: RedactionMethod,
        size_max: usize,
        helper: Helper,
        slot: Address,
    ) {
        read_bytes(code, size_max.min(TEXT_SIZE), helper, slot, |code| {
            self.slot(code, R1, R4);
            code.alu_number(Alu::Add, R1, TEXT.into());
        });
        self.finish(code, method);
    }

    /// Redacts an array of bytes.
    pub(crate) fn array(self, code: &mut Assembler, method: RedactionMethod, size: usize) {
        if method == RedactionMethod::Hash {
            self.text(code);
            code.number(R2, size as u64);
            code.call(Helper::ProbeReadKernel);
        }
        code.number(R0, size as u64);
        self.finish(code, method);
    }

    /// Redacts what has been read into the slot, whose length is in `R0`.
    fn finish(self, code: &mut Assembler, method: RedactionMethod) {
        if method == RedactionMethod::Hash {
            self.slot(code, R1, R2);
            code.store(Size::Bits64, Address(R1, LENGTH), R0);
            code.call_local(self.hash);
        }
    }
}
