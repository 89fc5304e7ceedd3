//! The typed tree of a filter. A host may compile it to a form of its own, such as conditions on
//! columns.
//!
//! Start at [`Node`]. Fields appear as indexes into the filter's list of operands
//! ([`crate::operand`]). A chain of `&&` or `||` is one node with many children. The sign of a
//! literal is part of the literal. Unary `+` and parentheses have no nodes.

use crate::glob::Glob;
use crate::severity::Severity;

/// Maximum height of a tree. The nesting of parentheses and sign operators, with the operand
/// counted as one level, has the same limit.
pub const DEPTH_MAX: usize = 64;

/// Byte range in a filter's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte of the range.
    pub start: usize,
    /// Offset after the last byte of the range.
    pub end: usize,
}

impl Span {
    /// Returns the range from the start of this span to the end of the span `last`.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

/// Expression with its static type and its span. Two nodes are equal if their expressions are
/// equal, whatever their types and spans.
#[derive(Clone, Debug)]
pub struct Node {
    /// Operation, literal or field, with its child nodes.
    pub expr: Expr,
    /// Static type of the expression's value.
    pub ty: Type,
    /// Range of the expression in the filter's text, including parentheses.
    pub span: Span,
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.expr == other.expr
    }
}

/// Static type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// Truth value. Used as a number, it is 0 or 1.
    Bool,
    /// Signed or unsigned integer of 64 bits.
    Int,
    /// Floating-point number of 64 bits (IEEE 754).
    Float,
    /// String, compared byte by byte.
    String,
    /// Type that is known only when an event is evaluated.
    Unknown,
}

impl Node {
    /// Returns the number of nodes on the longest path from this node to a leaf, both included.
    pub(crate) fn height(&self) -> usize {
        let below = match &self.expr {
            Expr::Not(child) | Expr::Negate(child) | Expr::BitNot(child) => child.height(),
            Expr::All(children) | Expr::Any(children) => {
                children.iter().map(Node::height).max().unwrap_or(0)
            }
            Expr::Compare(_, left, right) | Expr::Binary(_, left, right) => {
                left.height().max(right.height())
            }
            _ => 0,
        };
        below + 1
    }

    /// Returns the indexes of the operands that the tree tests by `has`.
    pub(crate) fn tested_operands(&self) -> Vec<usize> {
        match &self.expr {
            Expr::Has(operand) => vec![*operand],
            Expr::Not(child) | Expr::Negate(child) | Expr::BitNot(child) => child.tested_operands(),
            Expr::All(children) | Expr::Any(children) => {
                children.iter().flat_map(Node::tested_operands).collect()
            }
            Expr::Compare(_, left, right) | Expr::Binary(_, left, right) => {
                [left, right].into_iter().flat_map(|child| child.tested_operands()).collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Expression: a literal, a field, or an operation on other expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// Integer literal that is not negative, of unsigned type.
    Uint(u64),
    /// Negative integer literal.
    Int(i64),
    /// Finite floating-point literal.
    Float(f64),
    /// String literal without unescaped stars.
    Str(Box<[u8]>),
    /// String literal with unescaped stars. It appears only as one side of `==` or `!=`.
    Glob(Glob),
    /// Word for a severity level, compared with the event's severity. Its value is the level's
    /// number.
    Severity(Severity),
    /// Value of a field, which is given by its index in [`crate::Filter::operands`].
    Operand(usize),
    /// Test for the presence of a field, which is given by its index in
    /// [`crate::Filter::operands`].
    Has(usize),
    /// `!`: true if the child is not true.
    Not(Box<Node>),
    /// `&&` of at least two children: true if all children are true.
    All(Vec<Node>),
    /// `||` of at least two children: true if at least one child is true.
    Any(Vec<Node>),
    /// Comparison of two sides. False if a side is absent or has no value to compare (a structure
    /// or an array), or if the sides are of different kinds.
    Compare(CompareOp, Box<Node>, Box<Node>),
    /// Unary `-`: the negated number, always signed.
    Negate(Box<Node>),
    /// `~`: the inverted 64 bits, always unsigned.
    BitNot(Box<Node>),
    /// Arithmetic or bit operation on two sides. Absent if a side is absent or not a number, or if
    /// the operator has no result for the two numbers ([`BinaryOp`]).
    Binary(BinaryOp, Box<Node>, Box<Node>),
}

/// Comparison operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`, for numbers, strings, patterns and labels.
    Equal,
    /// `!=`, for numbers, strings, patterns and labels.
    NotEqual,
    /// `<`, for numbers or strings.
    Less,
    /// `<=`, for numbers or strings.
    LessOrEqual,
    /// `>`, for numbers or strings.
    Greater,
    /// `>=`, for numbers or strings.
    GreaterOrEqual,
}

/// Arithmetic or bit operator on two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `+`, which wraps around for integers.
    Add,
    /// `-`, whose result is always signed.
    Subtract,
    /// `*`, which wraps around for integers.
    Multiply,
    /// `/`, which rounds integers towards zero; absent if the divisor is 0.
    Divide,
    /// `%` of integers. The result has the dividend's sign; it is absent if the divisor is 0.
    Remainder,
    /// `&`: bitwise AND of integers; the result is unsigned.
    BitAnd,
    /// `|`: bitwise OR of integers; the result is unsigned.
    BitOr,
    /// `^`: bitwise XOR of integers; the result is unsigned.
    BitXor,
    /// `<<`: left shift of integers; absent if the shift count is not in 0 to 63.
    ShiftLeft,
    /// `>>`: logical right shift of integers; absent if the shift count is not in 0 to 63.
    ShiftRight,
}

impl CompareOp {
    /// Returns the operator as written in a filter, such as `<=`.
    pub fn symbol(self) -> &'static str {
        match self {
            CompareOp::Equal => "==",
            CompareOp::NotEqual => "!=",
            CompareOp::Less => "<",
            CompareOp::LessOrEqual => "<=",
            CompareOp::Greater => ">",
            CompareOp::GreaterOrEqual => ">=",
        }
    }

    /// Returns true if the operator is `==` or `!=`, the only ones for patterns and labels.
    pub fn is_equality(self) -> bool {
        matches!(self, CompareOp::Equal | CompareOp::NotEqual)
    }
}

impl BinaryOp {
    /// Returns the operator as written in a filter, such as `<<`.
    pub fn symbol(self) -> &'static str {
        match self {
            BinaryOp::Add => "+",
            BinaryOp::Subtract => "-",
            BinaryOp::Multiply => "*",
            BinaryOp::Divide => "/",
            BinaryOp::Remainder => "%",
            BinaryOp::BitAnd => "&",
            BinaryOp::BitOr => "|",
            BinaryOp::BitXor => "^",
            BinaryOp::ShiftLeft => "<<",
            BinaryOp::ShiftRight => ">>",
        }
    }

    /// Returns true if the operator accepts floats. The other binary operators need integers.
    pub fn accepts_floats(self) -> bool {
        use BinaryOp::*;
        matches!(self, Add | Subtract | Multiply | Divide)
    }
}

/// Precedence of an expression. A child of lower precedence than its parent needs parentheses. `&`,
/// `^` and `|` bind tighter than comparisons, as in LTTng and unlike in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// `||`, the lowest precedence.
    Any,
    /// `&&`, which binds tighter than `||`.
    All,
    /// `==` and `!=`, which bind looser than `<`.
    Equality,
    /// `<`, `<=`, `>` and `>=`.
    Order,
    /// `|`, which binds tighter than comparisons, unlike in C.
    BitOr,
    /// `^`, which binds tighter than `|`.
    BitXor,
    /// `&`, which binds tighter than `^`.
    BitAnd,
    /// `<<` and `>>`.
    Shift,
    /// Binary `+` and `-`.
    Sum,
    /// `*`, `/` and `%`.
    Product,
    /// `!`, unary `-`, `~` and negative literals.
    Unary,
    /// Other literals, fields, `has(field)` and parentheses: the highest precedence.
    Primary,
}

impl CompareOp {
    /// Returns the precedence of a comparison with this operator.
    pub fn precedence(self) -> Precedence {
        if self.is_equality() { Precedence::Equality } else { Precedence::Order }
    }
}

impl BinaryOp {
    /// Returns the precedence of an operation with this operator.
    pub fn precedence(self) -> Precedence {
        use BinaryOp::*;
        match self {
            Add | Subtract => Precedence::Sum,
            Multiply | Divide | Remainder => Precedence::Product,
            ShiftLeft | ShiftRight => Precedence::Shift,
            BitAnd => Precedence::BitAnd,
            BitXor => Precedence::BitXor,
            BitOr => Precedence::BitOr,
        }
    }
}

impl Expr {
    /// Returns the precedence of the expression's outermost operator. The sign of a negative
    /// literal counts as an operator. An expression without an operator, such as a field, has
    /// [`Precedence::Primary`].
    pub fn precedence(&self) -> Precedence {
        match self {
            Expr::Any(_) => Precedence::Any,
            Expr::All(_) => Precedence::All,
            Expr::Compare(op, ..) => op.precedence(),
            Expr::Binary(op, ..) => op.precedence(),
            Expr::Not(_) | Expr::Negate(_) | Expr::BitNot(_) | Expr::Int(_) => Precedence::Unary,
            Expr::Float(number) if number.is_sign_negative() => Precedence::Unary,
            _ => Precedence::Primary,
        }
    }
}
