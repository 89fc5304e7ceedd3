//! Tokens of the filter language.

use crate::tree::Span;

/// A token and its span in the text.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind<'t>,
    pub(crate) span: Span,
}

#[derive(Debug, PartialEq)]
pub(crate) enum TokenKind<'t> {
    Integer(u64),
    Float(f64),
    /// A string literal, split at unescaped stars. A literal without stars is one piece.
    Text(Vec<Vec<u8>>),
    Name(&'t str),
    /// A scope such as `$ctx`, stored without the `$`.
    Scope(&'t str),
    /// An operator, a bracket or a dot.
    Symbol(&'static str),
    End,
}
