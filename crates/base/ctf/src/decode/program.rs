//! The flat form of field classes that [`super::walk`] runs.
//!
//! Ops are in the order of the bytes. An op with a body (array, optional, variant) contains the
//! number of the body's ops, and is followed by them. All properties that follow from the schema
//! alone are precomputed: fields on byte boundaries, runs of a fixed size, and values to store for
//! later lengths and selectors.

use super::op::{Op, Save};
use super::plain::PlainProgram;

/// The ops of one scope, or of an event's body: common context, specific context and payload.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(super) ops: Box<[Op]>,
    /// Uses of the integers that ops read. The field `save` of an op is an index into this list, or
    /// `NONE`.
    pub(super) saves: Box<[Save]>,
    /// Plain form of the program; `None` if an op has no plain form, a field is hidden, or the
    /// program reads no bytes.
    pub(super) plain: Option<PlainProgram>,
}

impl Program {
    /// Returns whether the program has no op that reads fields. Alignment alone does not count.
    pub(super) fn is_empty(&self) -> bool {
        !self.ops.iter().any(|op| {
            !matches!(
                op,
                Op::BeginScope(..)
                    | Op::EndScope(_)
                    | Op::BeginStruct(_)
                    | Op::EndStruct(_)
                    | Op::Align(_)
            )
        })
    }
}
