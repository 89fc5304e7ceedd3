//! Tokens of the filter language.

use crate::tree::Span;

/// Token with its span in the filter's text.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind<'t>,
    pub(crate) span: Span,
}

#[derive(Debug, PartialEq)]
pub(crate) enum TokenKind<'t> {
    Integer(u64),
    Float(f64),
    /// String literal, split at unescaped stars. A literal without such stars is one piece.
    Text(Vec<Vec<u8>>),
    Name(&'t str),
    /// Scope such as `$ctx`, stored without the `$`.
    Scope(&'t str),
    /// Operator, bracket, dot or other symbol.
    Symbol(&'static str),
    End,
}
