//! A batch of spans and its outcome. Start at [`Batch`].

use blkkin_wire::{Format, Outcome};
use std::time::Duration;

/// Spans as received, still encoded.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Encoding of the bytes.
    pub format: Format,
    /// Content, not compressed.
    pub bytes: &'a [u8],
    /// Rule for the valid spans if the batch also has invalid spans.
    pub policy: Policy,
}

/// Rule for valid spans that arrive in a batch with invalid spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// One invalid span refuses the whole batch, as in Zipkin.
    #[default]
    Whole,
    /// Valid spans are accepted, invalid spans refused.
    EachSpan,
}

/// Result of a batch that was decoded: the number of accepted spans, and the reasons for refusing
/// spans. If no span was accepted, nothing had to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Outcome of decoding. The spans that the outcome counts as given were accepted.
    pub outcome: Outcome,
}

/// Temporary rejection of a batch, which may be valid. The sender should try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason, as text for people.
    pub reason: String,
    /// Delay before the next attempt.
    pub retry_after: Duration,
}

/// Callback for the result of a batch. The store calls it once, from any thread, possibly before
/// [`SpanStore::accept`] returns. The callback should not block.
///
/// [`SpanStore::accept`]: crate::SpanStore::accept
pub type Done = Box<dyn FnOnce(Result<Accepted, Refusal>) + Send>;
