//! The flat form of field classes that [`super::walk`] runs.
//!
//! Ops stand in the order of the bytes. An op with a body (array, optional, variant) is followed
//! by the body's ops and knows how many there are. Whatever could be decided from the schema
//! alone is decided: which fields lie on byte boundaries, which runs have a fixed size, which
//! values must be kept for later lengths and selectors.

use super::op::{Op, Save};
use super::plain::Plain;

/// The ops of one scope, or of the three scopes of an event's body.
#[derive(Debug, Default)]
pub(crate) struct Program {
    pub(super) ops: Box<[Op]>,
    /// What to do with the values that some ops read.
    pub(super) saves: Box<[Save]>,
    /// The short form, where there is one.
    pub(super) plain: Option<Plain>,
}

impl Program {
    /// Whether it consumes nothing at all.
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
