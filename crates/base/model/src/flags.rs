//! What a span is to its request, and how it ended.

/// What a span is to the one that caused it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Nobody said.
    #[default]
    Unspecified,
    /// Work within a service.
    Internal,
    /// A call, where it is made.
    Client,
    /// A call, where it is answered.
    Server,
    /// A message, where it is sent.
    Producer,
    /// A message, where it is taken.
    Consumer,
}

/// How a span ended, if its program said so in as many words. [`SpanRef::is_error`] also counts
/// those that were only tagged.
///
/// [`SpanRef::is_error`]: crate::SpanRef::is_error
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Status {
    /// Nobody said.
    #[default]
    Unset,
    /// Well, whatever else the span looks like.
    Ok,
    /// With an error; what error is the tag `error`.
    Error,
}
