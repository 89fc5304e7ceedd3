//! A batch during decoding. Start at [`Batch`].

use crate::error::{Fault, Reason, Refusal, Result};
use crate::limits::Limits;
use crate::outcome::{End, Outcome};
use crate::span_draft::SpanDraft;
use blkkin_model::{SpanRef, SpanSink};

/// Permitted bytes of decoded strings for each byte of a batch, in addition to
/// [`Limits::expanded_bytes`]. With this value, any number of spans of 300 bytes may share 2 KiB of
/// tags.
const EXPANSION: u64 = 8;

/// A batch during decoding: its limits, its sink, and the outcome so far.
pub(crate) struct Batch<'w> {
    pub(crate) limits: &'w Limits,
    sink: &'w mut dyn SpanSink,
    outcome: Outcome,
    /// Index of the current or next span.
    index: u64,
    /// Total size of the strings and byte strings in the spans passed to [`Batch::emit`].
    expanded_bytes: u64,
    expanded_bytes_max: u64,
}

/// Reason to stop decoding a batch.
pub(crate) enum Stop {
    Broken(Box<Fault>),
    Cancelled,
}

impl<'w> Batch<'w> {
    pub(crate) fn new(bytes: &[u8], limits: &'w Limits, sink: &'w mut dyn SpanSink) -> Batch<'w> {
        Batch {
            limits,
            sink,
            outcome: Outcome::default(),
            index: 0,
            expanded_bytes: 0,
            expanded_bytes_max: limits
                .expanded_bytes
                .saturating_add(EXPANSION * bytes.len() as u64),
        }
    }

    /// Ends decoding and returns the outcome.
    pub(crate) fn finish(mut self, read: Result<(), Stop>) -> Outcome {
        self.outcome.end = match read {
            Ok(()) => End::Whole,
            Err(Stop::Cancelled) => End::Cancelled,
            Err(Stop::Broken(fault)) => End::Broken(Refusal { span: self.index, fault: *fault }),
        };
        self.outcome
    }

    pub(crate) fn check_size(&self, bytes: &[u8]) -> Result<(), Stop> {
        let count_max = self.limits.batch_bytes;
        if bytes.len() <= count_max {
            return Ok(());
        }
        let reason = Reason::TooMany { what: "bytes", count_max: count_max as u64 };
        Err(Stop::Broken(reason.at(count_max)))
    }

    /// Checks that the limit on spans permits another span. `offset` is the start of the span in
    /// the batch.
    #[inline]
    pub(crate) fn open(&self, offset: usize) -> Result<(), Stop> {
        if self.index < self.limits.spans {
            return Ok(());
        }
        let reason = Reason::TooMany { what: "spans", count_max: self.limits.spans };
        Err(Stop::Broken(reason.at(offset)))
    }

    /// Finishes the current span and passes it to the sink, or refuses it.
    #[inline]
    pub(crate) fn close(&mut self, draft: &mut SpanDraft<'_>, offset: usize) -> Result<(), Stop> {
        match draft.finish(offset) {
            Ok(span) => {
                self.emit(&span, offset)?;
                self.next();
            }
            Err(fault) => self.refuse(*fault),
        }
        Ok(())
    }

    /// Finishes the current span as [`Batch::close`] does, or refuses the span if reading it
    /// failed.
    #[inline]
    pub(crate) fn close_read(
        &mut self,
        read: Result<()>,
        draft: &mut SpanDraft<'_>,
        offset: usize,
    ) -> Result<(), Stop> {
        match read {
            Ok(()) => self.close(draft, offset),
            Err(fault) => {
                self.refuse(*fault);
                Ok(())
            }
        }
    }

    /// Checks the limit on expanded bytes and passes a span that starts at `offset` to the sink.
    #[inline]
    pub(crate) fn emit(&mut self, span: &SpanRef<'_>, offset: usize) -> Result<(), Stop> {
        // All formats are checked here, so shared values count once for each span.
        self.expanded_bytes += span.text_bytes() as u64;
        let count_max = self.expanded_bytes_max;
        if self.expanded_bytes > count_max {
            let what = "bytes when shared values are counted for each span";
            return Err(Stop::Broken(Reason::TooMany { what, count_max }.at(offset)));
        }
        if self.sink.span(span).is_break() {
            return Err(Stop::Cancelled);
        }
        self.outcome.accepted += 1;
        Ok(())
    }

    /// Advances the index to the next span.
    #[inline]
    pub(crate) fn next(&mut self) {
        self.index += 1;
    }

    /// Records the refusal of the current span and advances the index to the next span.
    #[cold]
    pub(crate) fn refuse(&mut self, fault: Fault) {
        self.outcome.refuse(Refusal { span: self.index, fault });
        self.index += 1;
    }
}

impl From<Box<Fault>> for Stop {
    fn from(fault: Box<Fault>) -> Stop {
        Stop::Broken(fault)
    }
}
