//! A batch of spans, and the result of accepting it. Start at [`Batch`].

use blkkin_wire::{Format, Outcome};
use std::time::Duration;

/// Batch of spans as received from a sender, still encoded.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// Wire format of `bytes`.
    pub format: Format,
    /// Encoded spans, already decompressed.
    pub bytes: &'a [u8],
    /// Treatment of the valid spans if the batch also has invalid spans.
    pub policy: Policy,
}

/// Treatment of the valid spans of a batch that also has invalid spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The whole batch is refused if any span is invalid or decoding stops at a fault, as in
    /// Zipkin.
    #[default]
    Whole,
    /// Valid spans are accepted, and invalid spans are refused. If decoding stops at a fault, the
    /// valid spans before the fault are accepted.
    EachSpan,
}

/// Result of decoding a batch: the number of accepted spans, and the reasons for refused spans.
/// Nothing is written to disk if no span was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptedBatch {
    /// Result of the decoder. The store accepted all spans that [`Outcome::accepted`] counts.
    pub outcome: Outcome,
}

/// Temporary rejection of a batch, for example because the store is full. The sender should send
/// the batch again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// Reason in plain text, for the sender's log.
    pub reason: String,
    /// Time that the sender should wait before sending the batch again.
    pub retry_after: Duration,
}

/// Callback for the result of a batch. The store calls it once, from any thread, possibly before
/// [`SpanStore::accept`] returns. The callback should not block.
///
/// [`SpanStore::accept`]: crate::SpanStore::accept
pub type AcceptCallback = Box<dyn FnOnce(Result<AcceptedBatch, Refusal>) + Send>;
