//! Errors in a filter, without the filter's text.

use crate::tree::Span;

/// Error at a span of a filter's text. [`FilterError`](crate::FilterError) adds the faulty line.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) span: Span,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
}

impl Fault {
    pub(crate) fn new(span: Span, message: impl Into<String>) -> Fault {
        Fault { span, message: message.into(), hint: None }
    }

    pub(crate) fn hint(self, hint: impl Into<String>) -> Fault {
        Fault { hint: Some(hint.into()), ..self }
    }
}
