//! What came of a batch. Start at [`Outcome`].

use crate::Refusal;

/// What came of a batch: how many spans were given to the sink, how many were not, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Given to the sink, and taken.
    pub given: u64,
    /// Not given, as there was something wrong with each of them alone.
    pub refused: u64,
    /// What was wrong with the first [`REFUSALS_MAX`] of them.
    pub refusals: Vec<Refusal>,
    /// Whether the batch was read to its end.
    pub end: End,
}

/// How many refusals of a batch are told.
pub const REFUSALS_MAX: usize = 8;

/// How the reading of a batch ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum End {
    /// All was read.
    #[default]
    Whole,
    /// From here on nothing can be understood, or the batch is larger than it may be. How many
    /// spans there would have been, nobody knows.
    Broken(Refusal),
    /// The sink wanted no more.
    Enough,
}

impl Outcome {
    /// Whether there was nothing wrong with any of it.
    pub fn is_good(&self) -> bool {
        self.refused == 0 && !matches!(self.end, End::Broken(_))
    }

    /// The first thing that was wrong.
    pub fn first_refusal(&self) -> Option<&Refusal> {
        self.refusals.first().or(match &self.end {
            End::Broken(refusal) => Some(refusal),
            End::Whole | End::Enough => None,
        })
    }

    pub(crate) fn refuse(&mut self, refusal: Refusal) {
        self.refused += 1;
        if self.refusals.len() < REFUSALS_MAX {
            self.refusals.push(refusal);
        }
    }
}
