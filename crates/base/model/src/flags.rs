//! Role and result of a span.

/// Role of a span in a call or message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Unknown role: the span's program recorded none, or an unknown value.
    #[default]
    Unspecified,
    /// Work within one service, outside of calls and messages.
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

/// Result of a span, as set by its program. If it is unset, [`SpanRef::is_error`] decides by the
/// span's tag `error`.
///
/// [`SpanRef::is_error`]: crate::SpanRef::is_error
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Unknown result: the span's program recorded none, or an unknown value.
    #[default]
    Unset,
    /// Success, even if the span has an `error` tag.
    Ok,
    /// Failure; the tag `error`, if there is one, describes it.
    Error,
}
