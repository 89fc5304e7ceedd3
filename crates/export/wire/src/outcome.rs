//! Outcome of decoding a batch. Start at [`Outcome`].

use crate::error::Refusal;

/// Outcome of decoding a batch: the numbers of accepted and refused spans, and the first faults.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Number of spans that the sink consumed. A span of Zipkin's v1 format counts once for each
    /// span that it is split into.
    pub accepted: u64,
    /// Number of spans refused because they are invalid or exceed a limit.
    pub refused: u64,
    /// The first [`REFUSALS_MAX`] refusals.
    pub refusals: Vec<Refusal>,
    /// Reason why decoding ended.
    pub end: End,
}

/// Maximum number of refusals recorded for a batch.
pub const REFUSALS_MAX: usize = 8;

/// Reason why decoding a batch ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// The whole batch was decoded.
    #[default]
    Whole,
    /// Decoding stopped at a fault in the structure of the batch, or at a limit. The number of
    /// remaining spans is unknown.
    Broken(Refusal),
    /// The sink stopped the decoder.
    Cancelled,
}

impl Outcome {
    /// Returns true if no span was refused and decoding did not stop at a fault.
    pub fn is_good(&self) -> bool {
        self.refused == 0 && !matches!(self.end, End::Broken(_))
    }

    /// Returns the first refused span, or else the fault at which decoding stopped; `None` without
    /// faults.
    pub fn first_refusal(&self) -> Option<&Refusal> {
        self.refusals.first().or(match &self.end {
            End::Broken(refusal) => Some(refusal),
            End::Whole | End::Cancelled => None,
        })
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(refusal);
        }
    }
}
