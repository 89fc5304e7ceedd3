//! Places of threads' current spans, by process, for programs in the kernel.
//!
//! The table has an entry for each value of a process id's low bits: the id in the lower half of a
//! word, and the offset of the slot from the thread pointer in the upper half. Two processes whose
//! ids differ in their high bits only cannot both have an entry.

use crate::assembler::Register::{R1, R2, R3};
use crate::assembler::{Address, Alu, Assembler, If, Label, Register, Size};
use crate::error::Error;
use blkkin_control::current_span::SlotOffset;
use blkkin_sys::SharedMemory;
use blkkin_sys::bpf::Map;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::Ordering::Relaxed;

/// Number of entries.
const ENTRIES: u32 = 1 << 16;
/// Size of an entry in bytes.
const ENTRY_SIZE: u32 = 8;

/// Table of the processes whose threads show their current spans. Changes take effect at once.
#[derive(Debug)]
pub struct SpanSlots {
    table: Map,
    memory: SharedMemory,
}

impl SpanSlots {
    /// Makes an empty table.
    pub fn new() -> Result<SpanSlots, Error> {
        let create = || {
            let table = Map::block("blkkin_slots", (ENTRIES * ENTRY_SIZE) as usize)?;
            let memory = table.memory()?;
            Ok(SpanSlots { table, memory })
        };
        create().map_err(|error| Error::Map("slots", error))
    }

    /// Adds or replaces the place of the current spans of a process. Returns false if the entry
    /// belongs to another process.
    pub fn insert(&self, process: u32, offset: SlotOffset) -> bool {
        let word = self.memory.word(place(process));
        let present = word.load(Relaxed) as u32;
        if process == 0 || present != 0 && present != process {
            return false;
        }
        let offset = u64::from(offset.bytes().cast_unsigned());
        word.store(offset << 32 | u64::from(process), Relaxed);
        true
    }

    /// Removes a process.
    pub fn remove(&self, process: u32) {
        let word = self.memory.word(place(process));
        if word.load(Relaxed) as u32 == process {
            word.store(0, Relaxed);
        }
    }

    /// Returns true if only one of two processes can have an entry.
    pub(crate) fn share_entry(one: u32, other: u32) -> bool {
        place(one) == place(other)
    }

    /// Returns the generator of code that reads the table.
    pub(crate) fn code(&self) -> SpanSlotsCode {
        SpanSlotsCode { table: self.table.as_fd().as_raw_fd() }
    }
}

/// Returns the offset of a process's entry in the table.
fn place(process: u32) -> usize {
    (process % ENTRIES * ENTRY_SIZE) as usize
}

/// Generator of code that reads the table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpanSlotsCode {
    table: i32,
}

impl SpanSlotsCode {
    /// Sets `R1` to the offset of the slots of a process, whose id is in `process`. Jumps to
    /// `absent` if the table does not have it. `R2` and `R3` are lost.
    pub(crate) fn load(self, code: &mut Assembler, process: Register, absent: Label) {
        code.copy(R1, process);
        code.alu_number(Alu::And, R1, ENTRIES.cast_signed() - 1);
        code.alu_number(Alu::ShiftLeft, R1, ENTRY_SIZE.trailing_zeros().cast_signed());
        code.block(R2, self.table, 0);
        code.alu(Alu::Add, R2, R1);
        code.load(Size::Bits64, R1, Address(R2, 0));
        code.copy(R3, R1);
        code.alu_number(Alu::ShiftLeft, R3, 32);
        code.alu_number(Alu::ShiftRight, R3, 32);
        code.jump_if(If::NotEqual, R3, process, absent);
        code.alu_number(Alu::ShiftRightSigned, R1, 32);
        code.jump_if_number(If::Equal, R1, 0, absent);
    }
}
