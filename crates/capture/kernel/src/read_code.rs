//! Code that reads memory of a program or of the kernel, with a size that the kernel's verifier can
//! follow.

use crate::assembler::Register::{R0, R1, R2};
use crate::assembler::{Address, Assembler, Helper, If, Size};

/// Reads the `R2` bytes at `R3`, at most `size_max`, to the address in `R1`, which `set_address`
/// sets without changing `R2` and `R3`. Sets `R0` to the number of bytes: 0 if they cannot be read.
/// `slot` is a free slot of the frame. `R1` to `R5` are lost.
pub(crate) fn read_bytes(
    code: &mut Assembler,
    size_max: usize,
    helper: Helper,
    slot: Address,
    set_address: impl FnOnce(&mut Assembler),
) {
    let (is_bounded, is_read) = (code.label(), code.label());
    code.jump_if_number(If::LessOrEqual, R2, size_max as i32, is_bounded);
    code.number(R2, size_max as u64);
    code.set(is_bounded);
    code.store(Size::Bits64, slot, R2);
    set_address(code);
    code.call(helper);
    code.load(Size::Bits64, R1, slot);
    code.jump_if_number(If::Equal, R0, 0, is_read);
    code.number(R1, 0);
    code.set(is_read);
    code.copy(R0, R1);
}
