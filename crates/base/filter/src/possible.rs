//! Static check whether a filter can hold for events that lack some of its fields. Start at
//! [`Filter::may_hold`].

use crate::filter::Filter;
use crate::tree::{Expr, Node};

/// Results that an expression may have.
#[derive(Clone, Copy)]
struct Outcomes {
    is_true: bool,
    is_false: bool,
}

const BOTH: Outcomes = Outcomes { is_true: true, is_false: true };
const FALSE: Outcomes = Outcomes { is_true: false, is_false: true };

impl Filter {
    /// Returns false if the filter holds for no event of a kind. `is_present` returns false for an
    /// operand, by its index, that no event of the kind has.
    pub fn may_hold(&self, is_present: impl Fn(usize) -> bool) -> bool {
        outcomes(self.root(), &is_present).is_true
    }
}

fn outcomes(node: &Node, is_present: &impl Fn(usize) -> bool) -> Outcomes {
    match &node.expr {
        Expr::Not(child) => {
            let Outcomes { is_true, is_false } = outcomes(child, is_present);
            Outcomes { is_true: is_false, is_false: is_true }
        }
        Expr::All(children) => {
            let of = |child| outcomes(child, is_present);
            Outcomes {
                is_true: children.iter().all(|child| of(child).is_true),
                is_false: children.iter().any(|child| of(child).is_false),
            }
        }
        Expr::Any(children) => {
            let of = |child| outcomes(child, is_present);
            Outcomes {
                is_true: children.iter().any(|child| of(child).is_true),
                is_false: children.iter().all(|child| of(child).is_false),
            }
        }
        Expr::Compare(_, left, right)
            if is_absent(left, is_present) || is_absent(right, is_present) =>
        {
            FALSE
        }
        Expr::Has(operand) if !is_present(*operand) => FALSE,
        _ if is_absent(node, is_present) => FALSE,
        _ => BOTH,
    }
}

/// Returns whether an expression has no value, as a field that it needs is missing.
fn is_absent(node: &Node, is_present: &impl Fn(usize) -> bool) -> bool {
    match &node.expr {
        Expr::Operand(operand) => !is_present(*operand),
        Expr::Negate(child) | Expr::BitNot(child) => is_absent(child, is_present),
        Expr::Binary(_, left, right) => is_absent(left, is_present) || is_absent(right, is_present),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{Value, Values};

    /// Event with the fields `a` and `b`, of these values.
    struct Fields<'f>(&'f Filter, [u64; 2]);

    fn place(filter: &Filter, index: usize) -> Option<usize> {
        ["a", "b"].iter().position(|name| filter.operands()[index].to_string() == *name)
    }

    impl Values for Fields<'_> {
        fn value(&self, index: usize) -> Value<'_> {
            place(self.0, index).map_or(Value::Absent, |at| Value::Uint(self.1[at]))
        }
    }

    /// Filters that hold for some values may hold.
    #[test]
    fn what_cannot_hold_holds_for_no_values() {
        for (text, expected) in [
            ("a > 0", true),
            ("x > 0", false),
            ("x != 0", false),
            ("!(x != 0)", true),
            ("has(x)", false),
            ("!has(x)", true),
            ("has(a) && x > 0", false),
            ("a > 0 || x > 0", true),
            ("x > 0 || y > 0", false),
            ("!(x > 0 || y > 0)", true),
            ("!(a > 0 && x > 0)", true),
            ("x", false),
            ("!x", true),
            ("a + x > 0", false),
            ("-x < 0", false),
            ("~x == 1 || b == 1", true),
            ("x & 1", false),
            ("a & 1", true),
            ("(x > 0) == 0", true),
            ("(x > 0) == (a > 0)", true),
            ("has(x) && (a == 1 || b == 1)", false),
            ("!(has(a) && !has(x))", true),
        ] {
            let filter = Filter::parse(text).expect(text);
            let may_hold = filter.may_hold(|index| place(&filter, index).is_some());
            assert_eq!(may_hold, expected, "{text}");
            let mut values = [[0, 0], [0, 1], [1, 0], [1, 1]].into_iter();
            let holds = values.any(|values| filter.eval(&Fields(&filter, values)));
            assert!(may_hold || !holds, "{text}");
        }
    }
}
