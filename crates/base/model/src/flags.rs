//! Role and result of a span.

/// Role of a span relative to its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// The span's program recorded no kind.
    #[default]
    Unspecified,
    /// Work within one service, without a call or message.
    Internal,
    /// Client side of a call.
    Client,
    /// Server side of a call.
    Server,
    /// Sending side of a message.
    Producer,
    /// Receiving side of a message.
    Consumer,
}

/// Result of a span, as its program set it. [`SpanRef::is_error`] also counts spans with only an
/// `error` tag.
///
/// [`SpanRef::is_error`]: crate::SpanRef::is_error
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// The span's program recorded no status.
    #[default]
    Unset,
    /// Success, even if the span has an `error` tag.
    Ok,
    /// Failure; the tag `error` describes it.
    Error,
}
