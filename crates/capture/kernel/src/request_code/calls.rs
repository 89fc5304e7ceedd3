//! The field that names a thread's system call.

use crate::tracefs::SystemCall;
use blkkin_control::limits::LABELS_MAX;
use blkkin_control::{FieldKind, Label, Width};

/// Value of the field outside of system calls.
pub(super) const NO_CALL: i32 = -1;

/// Returns a field with the number of a system call, whose labels are the names of the kernel's
/// calls. `others` are names and numbers for threads that make no call.
pub(super) fn call_field(others: &[(&str, i32)], calls: &[SystemCall]) -> FieldKind {
    let label = |name: &str, value: i64| Label { name: name.to_owned(), value: value as u64 };
    let others = others.iter().map(|(name, number)| label(name, (*number).into()));
    let calls = calls.iter().map(|call| label(&call.name, call.number.into()));
    let labels = others.chain(calls).take(LABELS_MAX).collect();
    FieldKind::Enum { is_signed: true, width: Width::Bits32, labels }
}
