//! What a trace says it lacks.

use std::fmt;

/// Events or packets that the tracer made but the trace does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// What is missing.
    pub kind: LossKind,
    /// How many; `None` if the trace only says that there were some.
    pub count: Option<u64>,
    /// When the loss began and ended: nanoseconds, and cycles of the stream's clock.
    pub from: Option<(i64, u64)>,
    /// See `from`.
    pub to: Option<(i64, u64)>,
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LossKind {
    /// The tracer had no room for them.
    Events,
    /// Whole packets were overwritten or deleted, with an unknown number of events.
    Packets,
}

impl fmt::Display for LossKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossKind::Events => "event",
            LossKind::Packets => "packet",
        })
    }
}
