//! Slots of the stack frame that the eBPF programs use, in addition to those of `ring_code`, and
//! offsets of fields in the kernel's structures.

use crate::assembler::Address;
use crate::assembler::Register::R10;
use crate::btf::Btf;
use crate::error::Error;
use crate::ring_code::SLOTS_END;

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
/// Duration of the system call, if a filter uses it.
pub(crate) const DURATION: Address = Address(R10, SLOTS_END - 64);
/// End of the slots that this module lists.
pub(crate) const FRAME_END: i16 = SLOTS_END - 64;

/// Id of the event, if it is known only when the program runs. Shares the slot of `DURATION`, which
/// only events of system calls have.
pub(crate) const EVENT_ID: Address = Address(R10, SLOTS_END - 64);

/// Returns the offset of a field of the kernel's structures, for instructions.
pub(crate) fn offset(btf: &Btf, structure: &'static str, path: &'static str) -> Result<i16, Error> {
    let place = btf.field(structure, path)?;
    i16::try_from(place.offset).map_err(|_| Error::TooFar { structure, path })
}
