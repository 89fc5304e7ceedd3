//! Slots of the stack frame that the eBPF programs use, in addition to those of `ring_code`;
//! offsets of fields in the kernel's structures; and the context that precedes the fields of every
//! event.

use crate::assembler::Register::{R1, R10};
use crate::assembler::{Address, Alu, Assembler, Size};
use crate::btf::Btf;
use crate::error::Error;
use crate::ring_code::{FieldWriter, RingCode, SLOTS_END};

/// Process id in the upper half, thread id in the lower half.
pub(crate) const PROCESS: Address = Address(R10, SLOTS_END - 8);
/// Result of the system call.
pub(crate) const RESULT: Address = Address(R10, SLOTS_END - 16);
/// Time at which the system call began; 0 if that is not known.
pub(crate) const BEGIN: Address = Address(R10, SLOTS_END - 24);
/// Scratch slot for a value that is needed for a few instructions.
pub(crate) const SCRATCH: Address = Address(R10, SLOTS_END - 32);
/// Second scratch slot.
pub(crate) const SECOND_SCRATCH: Address = Address(R10, SLOTS_END - 40);
/// Offset in the stack frame of the slot for the program's name, which has 16 bytes.
pub(crate) const NAME: i16 = SLOTS_END - 56;

/// Size in bytes of an event's header and context.
pub(crate) const FIXED_SIZE: usize = blkkin_ring::HEADER_SIZE + 8;

/// Writes an event's header and context: process and thread. `R0` to `R5` are lost.
pub(crate) fn begin_event(rings: &RingCode<'_>, code: &mut Assembler, id: u16) -> FieldWriter {
    let mut fields = FieldWriter::after_header();
    rings.header(code, id);
    code.load(Size::Bits64, R1, PROCESS);
    code.alu_number(Alu::ShiftRight, R1, 32);
    fields.register(code, 4, R1);
    code.load(Size::Bits64, R1, PROCESS);
    fields.register(code, 4, R1);
    fields
}

/// Returns the offset of a field of the kernel's structures, for instructions.
pub(crate) fn offset(btf: &Btf, structure: &'static str, path: &'static str) -> Result<i16, Error> {
    let place = btf.field(structure, path)?;
    i16::try_from(place.offset).map_err(|_| Error::TooFar { structure, path })
}
