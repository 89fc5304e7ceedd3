//! What a store is given, and what it says to that. Start at [`Batch`].

use blkkin_wire::{Format, Outcome};
use std::time::Duration;

/// Spans as they came.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// What the bytes are.
    pub format: Format,
    /// Not compressed any more.
    pub bytes: &'a [u8],
    /// What becomes of the good spans of a batch that has bad ones.
    pub policy: Policy,
}

/// What becomes of the good spans of a batch that has bad ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// They are refused with the bad ones, as Zipkin does.
    #[default]
    Whole,
    /// They are taken.
    EachSpan,
}

/// What has become of a batch that was read: how many of its spans were taken, and why others were not. If nothing was
/// taken, because of the policy or because there was nothing, nothing had to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// How reading went. What it says was given was taken.
    pub outcome: Outcome,
}

/// Why a batch was not taken, though there may be nothing wrong with it. Who sent it should try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What is in the way, as words for people.
    pub reason: String,
    /// When it makes sense to try again.
    pub retry_after: Duration,
}

/// Is called once with what has become of a batch, from any thread, perhaps before [`SpanStore::accept`] returns. It
/// should not take long.
///
/// [`SpanStore::accept`]: crate::SpanStore::accept
pub type Done = Box<dyn FnOnce(Result<Accepted, Refusal>) + Send>;
