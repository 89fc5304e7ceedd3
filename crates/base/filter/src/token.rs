//! The words of the filter language.

use crate::tree::Span;

/// A word of the language and where it stands.
#[derive(Debug)]
pub(crate) struct Token<'t> {
    pub(crate) kind: TokenKind<'t>,
    pub(crate) span: Span,
}

#[derive(Debug, PartialEq)]
pub(crate) enum TokenKind<'t> {
    Integer(u64),
    Float(f64),
    /// A string, cut at its unescaped stars: one piece if there are none.
    Text(Vec<Vec<u8>>),
    Name(&'t str),
    /// `$ctx` and the like, without the `$`.
    Scope(&'t str),
    /// An operator, a bracket or a dot.
    Symbol(&'static str),
    End,
}
