//! Prints a filter in canonical form: the fewest parentheses, one space around binary operators.
//! The result parses to the same tree, unless spaces and escapes make it longer than a filter may
//! be.

use crate::filter::Filter;
use crate::operand::Operand;
use crate::quote::write_string;
use crate::tree::{Expr, Node, Precedence};
use std::fmt;

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Printer { f, operands: self.operands() }.node(self.root())
    }
}

struct Printer<'p, 'f> {
    f: &'p mut fmt::Formatter<'f>,
    operands: &'p [Operand],
}

impl Printer<'_, '_> {
    fn node(&mut self, node: &Node) -> fmt::Result {
        let precedence = node.expr.precedence();
        match &node.expr {
            Expr::Uint(number) => write!(self.f, "{number}"),
            Expr::Int(number) => write!(self.f, "{number}"),
            // `Debug` prints a dot or an exponent, so that the number remains a float.
            Expr::Float(number) => write!(self.f, "{number:?}"),
            Expr::Str(bytes) => write_string(self.f, [&**bytes]),
            Expr::Glob(glob) => write_string(self.f, glob.pieces()),
            Expr::Severity(level) => self.f.write_str(level.word()),
            Expr::Operand(operand) => self.operand(*operand),
            Expr::Has(operand) => {
                self.f.write_str("has(")?;
                self.operand(*operand)?;
                self.f.write_str(")")
            }
            Expr::Not(child) => self.sign("!", child),
            Expr::Negate(child) => self.sign("-", child),
            Expr::BitNot(child) => self.sign("~", child),
            Expr::All(children) => self.chain(children, "&&", precedence),
            Expr::Any(children) => self.chain(children, "||", precedence),
            Expr::Compare(op, left, right) => self.binary(left, op.symbol(), right, precedence),
            Expr::Binary(op, left, right) => self.binary(left, op.symbol(), right, precedence),
        }
    }

    fn sign(&mut self, symbol: &str, child: &Node) -> fmt::Result {
        self.f.write_str(symbol)?;
        self.child(child, child.expr.precedence() < Precedence::Unary)
    }

    /// Prints a chain of `&&` or `||`. Children of the same precedence get parentheses; otherwise
    /// the parser would merge them into the chain.
    fn chain(&mut self, children: &[Node], symbol: &str, precedence: Precedence) -> fmt::Result {
        for (position, child) in children.iter().enumerate() {
            if position > 0 {
                write!(self.f, " {symbol} ")?;
            }
            self.child(child, child.expr.precedence() <= precedence)?;
        }
        Ok(())
    }

    /// Prints a binary operation. Operators are left-associative, so a left child of the same
    /// precedence needs no parentheses.
    fn binary(
        &mut self,
        left: &Node,
        symbol: &str,
        right: &Node,
        precedence: Precedence,
    ) -> fmt::Result {
        self.child(left, left.expr.precedence() < precedence)?;
        write!(self.f, " {symbol} ")?;
        self.child(right, right.expr.precedence() <= precedence)
    }

    fn child(&mut self, child: &Node, parentheses: bool) -> fmt::Result {
        if !parentheses {
            return self.node(child);
        }
        self.f.write_str("(")?;
        self.node(child)?;
        self.f.write_str(")")
    }

    fn operand(&mut self, operand: usize) -> fmt::Result {
        match self.operands.get(operand) {
            Some(operand) => write!(self.f, "{operand}"),
            None => Ok(()),
        }
    }
}
