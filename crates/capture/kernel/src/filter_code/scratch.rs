//! Scratch memory of filters, into which texts are copied before they are compared.
//!
//! ```text
//! for each processor: SLOTS slots
//! slot:   0 OWNER   1 while a filter uses the slot
//!         8 SELF    offset of the slot in the block
//!        16 START   position from which a search continues
//!        24 FOUND   position after what a search has found; 0 if it has found nothing
//!        32 FIRST, 40 SECOND: words in which two texts differ, with the bytes reversed
//!        64 LENGTH  of each text in bytes plus 1; 0 if it has not been copied
//!       128 texts, each with room for TEXT_SIZE bytes and PADDING zeros
//! ```
//!
//! A filter may be interrupted by a probe whose filter runs on the same processor, so each filter
//! acquires a slot. Memory is also the place for values that the kernel's verifier must not follow:
//! it takes a loaded value for any number. Otherwise it would examine the code that follows a loop
//! once for each possible result of the loop.

use super::plan::BLOCKS_MAX;
use crate::assembler::Register::{R0, R1, R8};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Label, Register, Size};
use crate::error::Error;
use blkkin_sys::bpf::Map;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::Relaxed;

/// Number of slots of a processor: a filter in a thread can be interrupted by filters in three
/// kinds of interrupts. Filters of probes that the kernel may preempt can need more; an event
/// without a slot is recorded.
const SLOTS: usize = 4;
/// Maximum size of a text in bytes, with its NUL.
pub(super) const TEXT_SIZE: usize = 4096;
/// Number of bytes after a text, of which the first 8 after its end are zero.
const PADDING: usize = 64;

const OWNER: i16 = 0;
const SELF: i16 = 8;
pub(super) const START: i16 = 16;
pub(super) const FOUND: i16 = 24;
pub(super) const FIRST: i16 = 32;
pub(super) const SECOND: i16 = 40;
const LENGTHS: i16 = 64;
const TEXTS: usize = 128;
/// Size of a slot in bytes; a multiple of 64, so that slots do not share lines of the cache.
const SLOT_SIZE: usize = TEXTS + BLOCKS_MAX * (TEXT_SIZE + PADDING);
const _: () = assert!(SLOT_SIZE.is_multiple_of(64) && SLOT_SIZE < i16::MAX as usize);
/// Number of bytes after the last slot. The verifier does not know that a search ends within the
/// text.
const SLACK: usize = 3 * TEXT_SIZE;

/// Register with the address of the acquired slot.
pub(super) const SLOT: Register = R8;

/// Returns the offset of the length of a text in a slot.
pub(super) fn length_of(block: usize) -> i16 {
    LENGTHS + 8 * block as i16
}

/// Returns the offset of a text in a slot.
pub(super) fn text_of(block: usize) -> i16 {
    (TEXTS + block * (TEXT_SIZE + PADDING)) as i16
}

/// Memory for the filters of a recording.
#[derive(Debug)]
pub(crate) struct FilterScratch {
    block: Map,
    processors: usize,
}

impl FilterScratch {
    /// Creates the memory for a machine that may have this number of processors.
    pub(crate) fn new(processors: usize) -> Result<FilterScratch, Error> {
        let failed = |error: io::Error| Error::Map("filters", error);
        let slots = processors * SLOTS;
        let block = Map::block("blkkin_filters", slots * SLOT_SIZE + SLACK).map_err(failed)?;
        let memory = block.memory().map_err(failed)?;
        for offset in (0..slots).map(|slot| slot * SLOT_SIZE) {
            // Relaxed: no program runs yet.
            memory.word(offset + SELF as usize).store(offset as u64, Relaxed);
        }
        Ok(FilterScratch { block, processors })
    }

    /// Returns a generator of code that acquires the memory.
    pub(crate) fn code(&self) -> ScratchCode {
        ScratchCode { block: self.block.as_fd().as_raw_fd(), processors: self.processors }
    }
}

/// Generator of code that acquires and releases a slot.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScratchCode {
    block: i32,
    processors: usize,
}

impl ScratchCode {
    /// Sets [`SLOT`] to a slot in which no text has been copied. Jumps to `busy` if all slots of
    /// the processor are in use.
    pub(super) fn acquire(&self, code: &mut Assembler, blocks: usize, busy: Label) {
        let is_taken = code.label();
        code.call(Helper::GetSmpProcessorId);
        code.jump_if_number(If::GreaterOrEqual, R0, self.processors as i32, busy);
        code.alu_number(Alu::Mul, R0, (SLOTS * SLOT_SIZE) as i32);
        code.block(SLOT, self.block, 0);
        code.alu(Alu::Add, SLOT, R0);
        for slot in 0..SLOTS {
            let is_used = code.label();
            if slot > 0 {
                code.alu_number(Alu::Add, SLOT, SLOT_SIZE as i32);
            }
            code.number(R0, 0);
            code.number(R1, 1);
            code.atomic_compare_exchange(Address(SLOT, OWNER), R1);
            code.jump_if_number(If::NotEqual, R0, 0, is_used);
            code.load(Size::Bits64, R0, Address(SLOT, SELF));
            code.jump(is_taken);
            code.set(is_used);
        }
        code.jump(busy);
        code.set(is_taken);
        let last = (self.processors * SLOTS - 1) * SLOT_SIZE;
        code.jump_if_number(If::Greater, R0, last as i32, busy);
        code.block(SLOT, self.block, 0);
        code.alu(Alu::Add, SLOT, R0);
        for block in 0..blocks {
            code.store_number(Size::Bits64, Address(SLOT, length_of(block)), 0);
        }
    }

    /// Releases the acquired slot.
    pub(super) fn release(self, code: &mut Assembler) {
        code.store_number(Size::Bits64, Address(SLOT, OWNER), 0);
    }
}
