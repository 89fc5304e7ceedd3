//! The typed tree of a filter, which hosts compile to checks in a tracer, to eBPF or to SQL.
//!
//! Start at [`Node`]. Fields appear as indexes into the filter's list of operands
//! ([`crate::operand`]). Chains of `&&` and `||` are one node with many children, signs of literals
//! are part of the literal, and unary `+` and parentheses have no nodes.

use crate::glob::Glob;
use crate::severity::Severity;

/// Maximum height of a tree, and maximum nesting of parentheses and sign operators.
pub const DEPTH_MAX: usize = 64;

/// A range of bytes in a filter's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset of the first byte.
    pub start: usize,
    /// Offset after the last byte.
    pub end: usize,
}

impl Span {
    /// Returns the range from the start of this span to the end of `last`.
    pub fn to(self, last: Span) -> Span {
        Span { start: self.start, end: last.end }
    }
}

/// An expression with its static type and its span. Two nodes are equal if their expressions are
/// equal, independent of their spans.
#[derive(Clone, Debug)]
pub struct Node {
    /// Form of the expression, with its children.
    pub expr: Expr,
    /// Static type of the expression's value.
    pub ty: Type,
    /// Span in the text, including parentheses.
    pub span: Span,
}

impl PartialEq for Node {
    fn eq(&self, other: &Node) -> bool {
        self.expr == other.expr
    }
}

/// The static type of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// A truth value, which is 0 or 1 as a number.
    Bool,
    /// A signed or unsigned integer of 64 bits.
    Int,
    /// A floating-point number of 64 bits (IEEE 754).
    Float,
    /// A string, compared byte by byte.
    String,
    /// A type that is known only when an event is evaluated.
    Unknown,
}

impl Node {
    /// Returns the number of nodes on the longest path to a leaf, including this node.
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

    /// Returns the operands of the tree's `has` tests.
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

/// Form of an expression: a literal, a field, or an operation on other expressions.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// An integer literal from 0 up, of unsigned type.
    Uint(u64),
    /// A negative integer literal.
    Int(i64),
    /// A finite floating-point literal.
    Float(f64),
    /// A string literal without unescaped stars.
    Str(Box<[u8]>),
    /// A string literal with unescaped stars. Appears only as one side of `==` or `!=`.
    Glob(Glob),
    /// Word of a severity level, compared with the event's severity. Evaluates to the level's
    /// number.
    Severity(Severity),
    /// Value of a field; index into [`crate::Filter::operands`].
    Operand(usize),
    /// Test for the presence of a field; index into [`crate::Filter::operands`].
    Has(usize),
    /// True if the child is not true.
    Not(Box<Node>),
    /// True if all children are true; has at least two children.
    All(Vec<Node>),
    /// True if at least one child is true; has at least two children.
    Any(Vec<Node>),
    /// A comparison. False if a side is absent, or if the sides are of different kinds.
    Compare(CompareOp, Box<Node>, Box<Node>),
    /// The negated number, always signed.
    Negate(Box<Node>),
    /// The 64 bits inverted, always unsigned.
    BitNot(Box<Node>),
    /// Arithmetic or bit manipulation. Absent if a side is absent or not a number.
    Binary(BinaryOp, Box<Node>, Box<Node>),
}

/// Operator that compares two values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompareOp {
    /// `==`, also for patterns and labels.
    Equal,
    /// `!=`, also for patterns and labels.
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
    /// `/`, towards zero; absent if the divisor is 0.
    Divide,
    /// `%` of integers, with the dividend's sign; absent if the divisor is 0.
    Remainder,
    /// `&`, bitwise and of integers; the result is unsigned.
    BitAnd,
    /// `|`, bitwise or of integers; the result is unsigned.
    BitOr,
    /// `^`, bitwise exclusive or of integers; the result is unsigned.
    BitXor,
    /// `<<`; absent if the distance is not within 0 to 63.
    ShiftLeft,
    /// `>>`, filling up with zeros; absent if the distance is not within 0 to 63.
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

    /// Returns whether the operator is `==` or `!=`. Patterns and labels support no other
    /// comparison.
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

    /// Returns whether the operator accepts floats. All other binary operators need integers.
    pub fn accepts_floats(self) -> bool {
        use BinaryOp::*;
        matches!(self, Add | Subtract | Multiply | Divide)
    }
}

/// Precedence of an expression: a child of lower precedence than its parent needs parentheses. Bit
/// operators bind tighter than comparisons, as in LTTng and unlike in C.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// `||`, the lowest precedence.
    Any,
    /// `&&`
    All,
    /// `==`, `!=`
    Equality,
    /// `<`, `<=`, `>`, `>=`
    Order,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `<<`, `>>`
    Shift,
    /// `+`, `-`
    Sum,
    /// `*`, `/`, `%`
    Product,
    /// `!`, `-`, `~` and negative literals
    Unary,
    /// Literals, fields and parentheses, the highest precedence.
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
    /// Returns the precedence of the expression's outermost operator. An expression without one,
    /// such as a field, has [`Precedence::Primary`].
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
