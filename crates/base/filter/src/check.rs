//! Type check of the parse tree. The check assigns a type to every node of the tree, rejects
//! expressions of the wrong type, resolves the names of severity levels, and collects the distinct
//! operands. Start at [`check`].

use crate::fault::Fault;
use crate::operand::{Operand, OperandKind, PseudoField, Step};
use crate::parser::ParseTree;
use crate::severity::Severity;
use crate::tree::{BinaryOp, CompareOp, Expr, Node, Type};
use std::collections::HashMap;

/// Checks a parse tree. Returns the typed tree and the distinct operands, to which the tree refers
/// by index.
pub(crate) fn check(parsed: ParseTree) -> Result<(Node, Vec<Operand>), Fault> {
    let ParseTree { mut root, operands: mentions } = parsed;
    let mut checker = Checker { mentions, operands: Vec::new(), known: HashMap::new() };
    checker.visit(&mut root)?;
    check_condition(&root)?;
    Ok((root, checker.operands))
}

struct Checker {
    /// Parsed operands, one for each mention of a field.
    mentions: Vec<Operand>,
    /// Distinct operands, in the order of their first mentions.
    operands: Vec<Operand>,
    /// Index in `operands` of each distinct operand, by scope and path.
    known: HashMap<(OperandKind, Vec<Step>), usize>,
}

impl Checker {
    fn visit(&mut self, node: &mut Node) -> Result<(), Fault> {
        let span = node.span;
        node.ty = match &mut node.expr {
            Expr::Uint(_) | Expr::Int(_) | Expr::Severity(_) => Type::Int,
            Expr::Float(_) => Type::Float,
            Expr::Str(_) => Type::String,
            Expr::Glob(_) => {
                return Err(Fault::new(span, "a pattern can only be compared, with `==` or `!=`")
                    .hint("a literal star is written `\\*`"));
            }
            Expr::Operand(mention) => {
                *mention = self.intern(*mention);
                self.operands[*mention].ty()
            }
            Expr::Has(mention) => {
                *mention = self.intern(*mention);
                Type::Bool
            }
            Expr::Not(child) => {
                self.visit(child)?;
                check_condition(child)?;
                Type::Bool
            }
            Expr::All(children) | Expr::Any(children) => {
                for child in children {
                    self.visit(child)?;
                    check_condition(child)?;
                }
                Type::Bool
            }
            Expr::Negate(child) => {
                self.visit(child)?;
                check_number(child, "-")?;
                if child.ty == Type::Bool { Type::Int } else { child.ty }
            }
            Expr::BitNot(child) => {
                self.visit(child)?;
                check_integer(child, "~")?;
                Type::Int
            }
            Expr::Binary(op, left, right) => {
                self.visit(left)?;
                self.visit(right)?;
                binary_type(*op, left, right)?
            }
            Expr::Compare(op, left, right) => {
                self.visit_comparison(*op, left, right)?;
                check_comparable(left, right)?;
                Type::Bool
            }
        };
        Ok(())
    }

    fn visit_comparison(
        &mut self,
        op: CompareOp,
        left: &mut Node,
        right: &mut Node,
    ) -> Result<(), Fault> {
        if let Some(level) = self.level(right, left) {
            right.expr = Expr::Severity(level);
        } else if let Some(level) = self.level(left, right) {
            left.expr = Expr::Severity(level);
        }
        let mut has_glob = false;
        for side in [left, right] {
            if !matches!(side.expr, Expr::Glob(_)) {
                self.visit(side)?;
                continue;
            }
            side.ty = Type::String;
            if !op.is_equality() {
                let message = format!("`{}` cannot compare with a pattern", op.symbol());
                return Err(Fault::new(side.span, message)
                    .hint("use `==` or `!=`; a literal star is written `\\*`"));
            }
            if has_glob {
                return Err(Fault::new(side.span, "cannot compare two patterns")
                    .hint("a literal star is written `\\*`"));
            }
            has_glob = true;
        }
        Ok(())
    }

    /// Returns the severity level that the word on one side of a comparison names. Returns `None`
    /// if the word names no level, or if the opposite side is not the event's severity.
    fn level(&self, side: &Node, opposite: &Node) -> Option<Severity> {
        let (Expr::Operand(side), Expr::Operand(opposite)) = (&side.expr, &opposite.expr) else {
            return None;
        };
        let side = &self.mentions[*side];
        match (side.kind, side.path.as_slice(), self.mentions[*opposite].pseudo()) {
            (OperandKind::Payload, [Step::Name(word)], Some(PseudoField::Severity)) => {
                Severity::from_word(word)
            }
            _ => None,
        }
    }

    /// Returns the index of the distinct operand for a mention. Adds the operand if it is new.
    fn intern(&mut self, mention: usize) -> usize {
        let operand = &self.mentions[mention];
        *self.known.entry((operand.kind, operand.path.clone())).or_insert_with(|| {
            self.operands.push(operand.clone());
            self.operands.len() - 1
        })
    }
}

fn binary_type(op: BinaryOp, left: &Node, right: &Node) -> Result<Type, Fault> {
    for side in [left, right] {
        match op.accepts_floats() {
            true => check_number(side, op.symbol())?,
            false => check_integer(side, op.symbol())?,
        }
    }
    Ok(match (left.ty, right.ty) {
        _ if !op.accepts_floats() => Type::Int,
        (Type::Float, _) | (_, Type::Float) => Type::Float,
        (Type::Unknown, _) | (_, Type::Unknown) => Type::Unknown,
        _ => Type::Int,
    })
}

fn check_number(node: &Node, symbol: &str) -> Result<(), Fault> {
    match node.ty {
        Type::String => {
            Err(Fault::new(node.span, format!("`{symbol}` needs a number, but this is a string")))
        }
        _ => Ok(()),
    }
}

fn check_integer(node: &Node, symbol: &str) -> Result<(), Fault> {
    let kind = match node.ty {
        Type::String => "a string",
        Type::Float => "a float",
        _ => return Ok(()),
    };
    Err(Fault::new(node.span, format!("`{symbol}` needs an integer, but this is {kind}")))
}

/// Checks that a node can be used as a condition. A string cannot.
fn check_condition(node: &Node) -> Result<(), Fault> {
    match node.ty {
        Type::String => Err(Fault::new(node.span, "a string is neither true nor false")
            .hint("compare it, as in `name == \"open*\"`, or ask for the field by `has(FIELD)`")),
        _ => Ok(()),
    }
}

fn check_comparable(left: &Node, right: &Node) -> Result<(), Fault> {
    let (string, other) = match (left.ty, right.ty) {
        (Type::String, other) => (left, other),
        (other, Type::String) => (right, other),
        _ => return Ok(()),
    };
    let other = match other {
        Type::String | Type::Unknown => return Ok(()),
        Type::Int | Type::Float => "a number",
        Type::Bool => "a truth value",
    };
    let fault =
        Fault::new(left.span.to(right.span), format!("cannot compare a string with {other}"));
    let quoted_number = matches!(&string.expr, Expr::Str(bytes)
        if std::str::from_utf8(bytes).is_ok_and(|text| text.parse::<f64>().is_ok()));
    Err(if quoted_number { fault.hint("write the number without quotes") } else { fault })
}
