//! Evaluation of filter trees, and of operators on values, without allocation. The host (the
//! program that applies the filter) supplies an event's values through [`Values`].

use crate::glob::Glob;
use crate::tree::{BinaryOp, CompareOp, Expr, Node};
pub use crate::value::{Integer, Labels, Value, Values};
use std::cmp::Ordering;

/// Evaluates a condition by recursion over its tree. Uses stack for each level of the tree.
pub(crate) fn evaluate<V: Values + ?Sized>(node: &Node, values: &V) -> bool {
    match &node.expr {
        Expr::Not(child) => !evaluate(child, values),
        Expr::All(children) => children.iter().all(|child| evaluate(child, values)),
        Expr::Any(children) => children.iter().any(|child| evaluate(child, values)),
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
        // A pattern has no value of its own; a comparison matches it with the other side's value.
        Expr::Glob(_) => Value::Absent,
        Expr::Not(_) | Expr::All(_) | Expr::Any(_) | Expr::Compare(..) | Expr::Has(_) => {
            Value::Uint(evaluate(node, values).into())
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

/// Returns true for a number other than 0, including NaN, and for an enumeration with such an
/// integer.
pub(crate) fn is_true(value: Value<'_>) -> bool {
    match number(value) {
        Some(Number::Integer(integer)) => integer.bits() != 0,
        Some(Number::Float(float)) => float != 0.0,
        None => false,
    }
}

pub(crate) fn negate(value: Value<'_>) -> Value<'static> {
    match number(value) {
        Some(Number::Integer(integer)) => Value::Int(integer.bits().cast_signed().wrapping_neg()),
        Some(Number::Float(float)) => Value::Float(-float),
        None => Value::Absent,
    }
}

pub(crate) fn bit_not(value: Value<'_>) -> Value<'static> {
    match number(value) {
        Some(Number::Integer(integer)) => Value::Uint(!integer.bits()),
        _ => Value::Absent,
    }
}

pub(crate) fn binary(op: BinaryOp, left: Value<'_>, right: Value<'_>) -> Value<'static> {
    match (number(left), number(right)) {
        (Some(left), Some(right)) => calculate(op, left, right).unwrap_or(Value::Absent),
        _ => Value::Absent,
    }
}

/// Returns the result of `==` or `!=` between a value and a pattern. Returns false for a value that
/// is neither a string nor an enumeration.
pub(crate) fn compare_glob(op: CompareOp, glob: &Glob, value: Value<'_>) -> bool {
    let matched = match value {
        Value::Str(text) => glob.matches(text),
        Value::Enum(integer, labels) => labels.any(integer, &mut |label| glob.matches(label)),
        _ => return false,
    };
    matched == (op == CompareOp::Equal)
}

/// Number on which arithmetic is defined: an integer or a float.
#[derive(Clone, Copy)]
enum Number {
    Integer(Integer),
    Float(f64),
}

fn number(value: Value<'_>) -> Option<Number> {
    Some(match value {
        Value::Int(number) => Number::Integer(Integer::Signed(number)),
        Value::Uint(number) => Number::Integer(Integer::Unsigned(number)),
        Value::Enum(integer, _) => Number::Integer(integer),
        Value::Float(number) => Number::Float(number),
        Value::Absent | Value::Present | Value::Str(_) => return None,
    })
}

impl Number {
    fn float(self) -> f64 {
        match self {
            Number::Integer(Integer::Signed(number)) => number as f64,
            Number::Integer(Integer::Unsigned(number)) => number as f64,
            Number::Float(number) => number,
        }
    }
}

/// Applies an arithmetic or bit operator. Returns `None` if the result is absent.
fn calculate(op: BinaryOp, left: Number, right: Number) -> Option<Value<'static>> {
    match (left, right) {
        (Number::Integer(left), Number::Integer(right)) => calculate_integers(op, left, right),
        _ => calculate_floats(op, left.float(), right.float()),
    }
}

/// Applies an operator to two integers, by the rules in the section "Numbers" of the crate's
/// documentation. Returns `None` if the result is absent.
fn calculate_integers(op: BinaryOp, left: Integer, right: Integer) -> Option<Value<'static>> {
    let unsigned = matches!((left, right), (Integer::Unsigned(_), Integer::Unsigned(_)));
    let (a, b) = (left.bits(), right.bits());
    let (signed_a, signed_b) = (a.cast_signed(), b.cast_signed());
    let arithmetic = |bits: u64| match unsigned {
        true => Value::Uint(bits),
        false => Value::Int(bits.cast_signed()),
    };
    let distance = || u32::try_from(right.exact()).ok();
    Some(match op {
        BinaryOp::Add => arithmetic(a.wrapping_add(b)),
        BinaryOp::Subtract => Value::Int(signed_a.wrapping_sub(signed_b)),
        BinaryOp::Multiply => arithmetic(a.wrapping_mul(b)),
        BinaryOp::Divide | BinaryOp::Remainder if b == 0 => return None,
        BinaryOp::Divide if unsigned => Value::Uint(a / b),
        BinaryOp::Divide => Value::Int(signed_a.wrapping_div(signed_b)),
        BinaryOp::Remainder if unsigned => Value::Uint(a % b),
        BinaryOp::Remainder => Value::Int(signed_a.wrapping_rem(signed_b)),
        BinaryOp::BitAnd => Value::Uint(a & b),
        BinaryOp::BitOr => Value::Uint(a | b),
        BinaryOp::BitXor => Value::Uint(a ^ b),
        BinaryOp::ShiftLeft => Value::Uint(a.checked_shl(distance()?)?),
        BinaryOp::ShiftRight => Value::Uint(a.checked_shr(distance()?)?),
    })
}

fn calculate_floats(op: BinaryOp, a: f64, b: f64) -> Option<Value<'static>> {
    Some(Value::Float(match op {
        BinaryOp::Add => a + b,
        BinaryOp::Subtract => a - b,
        BinaryOp::Multiply => a * b,
        BinaryOp::Divide if b != 0.0 => a / b,
        _ => return None,
    }))
}

pub(crate) fn compare(op: CompareOp, left: Value<'_>, right: Value<'_>) -> bool {
    match (left, right) {
        (Value::Str(left), Value::Str(right)) => match op {
            CompareOp::Equal => left == right,
            CompareOp::NotEqual => left != right,
            _ => order_matches(op, Some(left.cmp(right))),
        },
        (Value::Enum(integer, labels), Value::Str(text))
        | (Value::Str(text), Value::Enum(integer, labels)) => {
            let matched = || labels.any(integer, &mut |label| label == text);
            op.is_equality() && matched() == (op == CompareOp::Equal)
        }
        _ => match (number(left), number(right)) {
            (Some(Number::Integer(left)), Some(Number::Integer(right))) => {
                order_matches(op, Some(left.exact().cmp(&right.exact())))
            }
            (Some(left), Some(right)) => {
                order_matches(op, left.float().partial_cmp(&right.float()))
            }
            _ => false,
        },
    }
}

/// Returns true if a comparison holds for two numbers or strings in this order. `None` means that
/// one of them is NaN; then only `!=` holds.
fn order_matches(op: CompareOp, order: Option<Ordering>) -> bool {
    match op {
        CompareOp::Equal => order == Some(Ordering::Equal),
        CompareOp::NotEqual => order != Some(Ordering::Equal),
        CompareOp::Less => order.is_some_and(Ordering::is_lt),
        CompareOp::LessOrEqual => order.is_some_and(Ordering::is_le),
        CompareOp::Greater => order.is_some_and(Ordering::is_gt),
        CompareOp::GreaterOrEqual => order.is_some_and(Ordering::is_ge),
    }
}
