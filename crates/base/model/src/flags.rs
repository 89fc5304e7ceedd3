//! Role and result of a span.

/// Role of a span relative to its parent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// No kind was recorded.
    #[default]
    Unspecified,
    /// Work within a service.
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
    /// No status was recorded.
    #[default]
    Unset,
    /// Success, regardless of the tags.
    Ok,
    /// Failure; the tag `error` describes it.
    Error,
}
