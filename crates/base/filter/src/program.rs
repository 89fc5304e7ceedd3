//! Conditions compiled to programs for a small stack of values. Signal handlers evaluate filters
//! while they record, on stacks of 8 KiB. Evaluation must therefore use the same small amount of
//! memory for any depth of nesting.
//!
//! Trees of a few levels are evaluated by recursion ([`crate::eval::evaluate`]), which is faster.
//!
//! An operator's two sides may need different numbers of values on the stack. The side that needs
//! more is evaluated first (the numbering of Sethi and Ullman). A chain of any length therefore
//! needs two values, and a tree that needs n values has at least 2^(n-1) terms.

use crate::eval::{binary, bit_not, compare, compare_glob, is_true, negate};
use crate::fault::Fault;
use crate::glob::Glob;
use crate::tree::{BinaryOp, CompareOp, Expr, Node};
use crate::value::{Value, Values};

/// Size of the stack in values. It suffices for a balanced tree of 128 terms.
const VALUES_MAX: usize = 8;
const _: () = assert!(VALUES_MAX.is_power_of_two());

#[derive(Clone, Debug)]
pub(crate) struct Program {
    steps: Box<[Step]>,
}

/// Step of the program. It operates on the values at the top of the stack.
#[derive(Clone, Debug)]
enum Step {
    Uint(u64),
    Int(i64),
    Float(f64),
    Str(Box<[u8]>),
    Operand(usize),
    Has(usize),
    Not,
    Negate,
    BitNot,
    /// Binary operator. The flag is set if the right side was evaluated first.
    Binary(BinaryOp, bool),
    Compare(CompareOp, bool),
    CompareGlob(CompareOp, Glob),
    /// Conversion of the top value to a truth value, 0 or 1.
    Truth,
    /// Short-circuit of `&&`. If the top value is false, the value becomes 0, and the program
    /// continues at the step with this index. Otherwise the value is popped.
    EndIfFalse(usize),
    /// Short-circuit of `||`. If the top value is true, the value becomes 1, and the program
    /// continues at the step with this index. Otherwise the value is popped.
    EndIfTrue(usize),
}

/// Returns how many stack values are needed to evaluate a node.
fn need(node: &Node) -> usize {
    match &node.expr {
        Expr::Not(child) | Expr::Negate(child) | Expr::BitNot(child) => need(child),
        Expr::All(children) | Expr::Any(children) => children.iter().map(need).max().unwrap_or(1),
        Expr::Compare(_, left, right) if matches!(left.expr, Expr::Glob(_)) => need(right),
        Expr::Compare(_, left, right) if matches!(right.expr, Expr::Glob(_)) => need(left),
        Expr::Compare(_, left, right) | Expr::Binary(_, left, right) => {
            let (left, right) = (need(left), need(right));
            left.max(right) + usize::from(left == right)
        }
        _ => 1,
    }
}

impl Program {
    pub(crate) fn new(root: &Node) -> Result<Program, Fault> {
        if need(root) > VALUES_MAX {
            let message = "too many parentheses within both sides of operators";
            return Err(Fault::new(root.span, message)
                .hint("`&&` and `||` may be chained without parentheses as often as you like"));
        }
        let mut steps = Vec::new();
        append(root, &mut steps);
        Ok(Program { steps: steps.into() })
    }

    /// Returns true if the condition holds for an event with these values.
    pub(crate) fn matches(&self, values: &(impl Values + ?Sized)) -> bool {
        let mut stack = [Value::Absent; VALUES_MAX];
        let (mut top, mut depth, mut at) = (Value::Absent, 0usize, 0);
        while let Some(step) = self.steps.get(at) {
            at += 1;
            let new = match step {
                Step::Uint(number) => Value::Uint(*number),
                Step::Int(number) => Value::Int(*number),
                Step::Float(number) => Value::Float(*number),
                Step::Str(bytes) => Value::Str(bytes),
                Step::Operand(operand) => values.value(*operand),
                Step::Has(operand) => truth(!matches!(values.value(*operand), Value::Absent)),
                step => {
                    let mut below = || {
                        depth = depth.wrapping_sub(1);
                        stack[depth % VALUES_MAX]
                    };
                    top = match step {
                        Step::Not => truth(!is_true(top)),
                        Step::Negate => negate(top),
                        Step::BitNot => bit_not(top),
                        Step::Binary(op, false) => binary(*op, below(), top),
                        Step::Binary(op, true) => binary(*op, top, below()),
                        Step::Compare(op, false) => truth(compare(*op, below(), top)),
                        Step::Compare(op, true) => truth(compare(*op, top, below())),
                        Step::CompareGlob(op, glob) => truth(compare_glob(*op, glob, top)),
                        Step::EndIfFalse(end) | Step::EndIfTrue(end) => {
                            let is_true = is_true(top);
                            match is_true == matches!(step, Step::EndIfTrue(_)) {
                                true => {
                                    at = *end;
                                    truth(is_true)
                                }
                                false => below(),
                            }
                        }
                        _ => truth(is_true(top)),
                    };
                    continue;
                }
            };
            stack[depth % VALUES_MAX] = top;
            depth = depth.wrapping_add(1);
            top = new;
        }
        is_true(top)
    }
}

fn truth(is_true: bool) -> Value<'static> {
    Value::Uint(is_true.into())
}

/// Appends the steps that compute a node's value and push it onto the stack. The recursion is at
/// most [`crate::tree::DEPTH_MAX`] deep.
fn append(node: &Node, steps: &mut Vec<Step>) {
    let mut both = |left: &Node, right: &Node, step: &dyn Fn(bool) -> Step| {
        let is_right_first = need(right) > need(left);
        let (first, second) = if is_right_first { (right, left) } else { (left, right) };
        append(first, steps);
        append(second, steps);
        steps.push(step(is_right_first));
    };
    match &node.expr {
        Expr::Binary(op, left, right) => return both(left, right, &|swap| Step::Binary(*op, swap)),
        Expr::Compare(op, left, right) => match (&left.expr, &right.expr) {
            (Expr::Glob(glob), _) => {
                append(right, steps);
                return steps.push(Step::CompareGlob(*op, glob.clone()));
            }
            (_, Expr::Glob(glob)) => {
                append(left, steps);
                return steps.push(Step::CompareGlob(*op, glob.clone()));
            }
            _ => return both(left, right, &|swap| Step::Compare(*op, swap)),
        },
        _ => {}
    }
    let step = match &node.expr {
        Expr::Uint(number) => Step::Uint(*number),
        Expr::Int(number) => Step::Int(*number),
        Expr::Float(number) => Step::Float(*number),
        Expr::Str(bytes) => Step::Str(bytes.clone()),
        Expr::Severity(level) => Step::Uint(level.number()),
        Expr::Operand(operand) => Step::Operand(*operand),
        Expr::Has(operand) => Step::Has(*operand),
        Expr::Not(child) => {
            append(child, steps);
            Step::Not
        }
        Expr::Negate(child) => {
            append(child, steps);
            Step::Negate
        }
        Expr::BitNot(child) => {
            append(child, steps);
            Step::BitNot
        }
        Expr::All(children) | Expr::Any(children) => return append_all(node, children, steps),
        // Not reached: comparisons and arithmetic return above, and patterns only appear in
        // comparisons.
        Expr::Glob(_) | Expr::Compare(..) | Expr::Binary(..) => Step::Uint(0),
    };
    steps.push(step);
}

/// Appends the steps of `&&` or `||`: those of each child in sequence. After each child except the
/// last, a conditional jump to the end follows.
fn append_all(node: &Node, children: &[Node], steps: &mut Vec<Step>) {
    let is_all = matches!(node.expr, Expr::All(_));
    let start = steps.len();
    for (index, child) in children.iter().enumerate() {
        append(child, steps);
        steps.push(match index + 1 == children.len() {
            true => Step::Truth,
            // Placeholder for the end, which is set below.
            false if is_all => Step::EndIfFalse(usize::MAX),
            false => Step::EndIfTrue(usize::MAX),
        });
    }
    let end_of_all = steps.len();
    for step in &mut steps[start..] {
        if let Step::EndIfFalse(end) | Step::EndIfTrue(end) = step
            && *end == usize::MAX
        {
            *end = end_of_all;
        }
    }
}
