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
    /// Treatment of the good spans of a batch that has bad ones.
    pub policy: Policy,
}

/// Treatment of the good spans of a batch that has bad ones.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// All spans are refused, as Zipkin does.
    #[default]
    Whole,
    /// The good spans are accepted.
    EachSpan,
}

/// Result of a batch that was decoded: the number of accepted spans, and the reasons for refusing
/// others. If no span was accepted, nothing had to be made durable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Outcome of decoding. The spans that it counts as given were accepted.
    pub outcome: Outcome,
}

/// Temporary rejection of a batch, which may be without fault. The sender should try again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason, as text for people.
    pub reason: String,
    /// Delay before the next attempt.
    pub retry_after: Duration,
}

/// Callback for the result of a batch. It is called once, from any thread, possibly before
/// [`SpanStore::accept`] returns, and should not take long.
///
/// [`SpanStore::accept`]: crate::SpanStore::accept
pub type Done = Box<dyn FnOnce(Result<Accepted, Refusal>) + Send>;
