//! Evaluation by the tree, as the language is defined: what a filter's steps must agree with.

use crate::eval::{Value, Values, binary, bit_not, compare, compare_glob, is_true, negate};
use crate::tree::{CompareOp, Expr, Node};

/// Whether a condition holds.
pub(super) fn truth<V: Values + ?Sized>(node: &Node, values: &V) -> bool {
    match &node.expr {
        Expr::Not(child) => !truth(child, values),
        Expr::All(children) => children.iter().all(|child| truth(child, values)),
        Expr::Any(children) => children.iter().any(|child| truth(child, values)),
        Expr::Compare(op, left, right) => compare_nodes(*op, left, right, values),
        Expr::Has(operand) => !matches!(values.value(*operand), Value::Absent),
        _ => is_true(value(node, values)),
    }
}

fn value<'v, V: Values + ?Sized>(node: &'v Node, values: &'v V) -> Value<'v> {
    match &node.expr {
        Expr::Uint(number) => Value::Uint(*number),
        Expr::Int(number) => Value::Int(*number),
        Expr::Float(number) => Value::Float(*number),
        Expr::Str(bytes) => Value::Str(bytes),
        Expr::Severity(level) => Value::Uint(level.number()),
        Expr::Operand(operand) => values.value(*operand),
        Expr::Negate(child) => negate(value(child, values)),
        Expr::BitNot(child) => bit_not(value(child, values)),
        Expr::Binary(op, left, right) => binary(*op, value(left, values), value(right, values)),
        // A pattern is no value; comparisons look at it before they come here.
        Expr::Glob(_) => Value::Absent,
        Expr::Not(_) | Expr::All(_) | Expr::Any(_) | Expr::Compare(..) | Expr::Has(_) => {
            Value::Uint(truth(node, values).into())
        }
    }
}

fn compare_nodes<V: Values + ?Sized>(op: CompareOp, left: &Node, right: &Node, values: &V) -> bool {
    let (glob, other) = match (&left.expr, &right.expr) {
        (Expr::Glob(glob), _) => (glob, right),
        (_, Expr::Glob(glob)) => (glob, left),
        _ => return compare(op, value(left, values), value(right, values)),
    };
    compare_glob(op, glob, value(other, values))
}
