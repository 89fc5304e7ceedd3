//! Static check whether a filter can hold for events that lack some of its fields. Start at
//! [`Filter::may_hold`].

use crate::filter::Filter;
use crate::operand::Operand;
use crate::tree::{Expr, Node};

/// Depth to which a filter is looked at. The check runs in traced programs, where a signal handler
/// may have a small stack.
const DEPTH_MAX: usize = 6;

/// Results that an expression may have.
#[derive(Clone, Copy)]
struct Outcomes {
    is_true: bool,
    is_false: bool,
}

const BOTH: Outcomes = Outcomes { is_true: true, is_false: true };
const FALSE: Outcomes = Outcomes { is_true: false, is_false: true };
const TRUE: Outcomes = Outcomes { is_true: true, is_false: false };

impl Outcomes {
    fn not(self) -> Outcomes {
        Outcomes { is_true: self.is_false, is_false: self.is_true }
    }

    fn and(self, other: Outcomes) -> Outcomes {
        Outcomes {
            is_true: self.is_true && other.is_true,
            is_false: self.is_false || other.is_false,
        }
    }

    fn or(self, other: Outcomes) -> Outcomes {
        self.not().and(other.not()).not()
    }
}

impl Filter {
    /// Returns false if the filter holds for no event of a kind. `is_present` returns false for an
    /// operand that no event of the kind has.
    pub fn may_hold(&self, is_present: impl Fn(&Operand) -> bool) -> bool {
        let is_present = |index: usize| self.operands().get(index).is_some_and(&is_present);
        outcomes(self.root(), &is_present, DEPTH_MAX).is_true
    }
}

fn outcomes(node: &Node, is_present: &impl Fn(usize) -> bool, depth: usize) -> Outcomes {
    let Some(below) = depth.checked_sub(1) else { return BOTH };
    match &node.expr {
        Expr::Not(child) => outcomes(child, is_present, below).not(),
        Expr::All(children) => children
            .iter()
            .map(|child| outcomes(child, is_present, below))
            .fold(TRUE, Outcomes::and),
        Expr::Any(children) => children
            .iter()
            .map(|child| outcomes(child, is_present, below))
            .fold(FALSE, Outcomes::or),
        Expr::Compare(_, left, right)
            if is_absent(left, is_present, below) || is_absent(right, is_present, below) =>
        {
            FALSE
        }
        Expr::Has(operand) if !is_present(*operand) => FALSE,
        _ if is_absent(node, is_present, below) => FALSE,
        _ => BOTH,
    }
}

/// Returns whether an expression has no value, as a field that it needs is missing.
fn is_absent(node: &Node, is_present: &impl Fn(usize) -> bool, depth: usize) -> bool {
    let Some(below) = depth.checked_sub(1) else { return false };
    let of = |child| is_absent(child, is_present, below);
    match &node.expr {
        Expr::Operand(operand) => !is_present(*operand),
        Expr::Negate(child) | Expr::BitNot(child) => of(child),
        Expr::Binary(_, left, right) => of(left) || of(right),
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
            let may_hold = filter.may_hold(|operand| ["a", "b"].contains(&&*operand.to_string()));
            assert_eq!(may_hold, expected, "{text}");
            let mut values = [[0, 0], [0, 1], [1, 0], [1, 1]].into_iter();
            let holds = values.any(|values| filter.eval(&Fields(&filter, values)));
            assert!(may_hold || !holds, "{text}");
        }
    }

    /// Each part is looked at once. What is too deep may hold.
    #[test]
    fn deep_filters_take_little_time() {
        let mut text = "a".to_owned();
        for _ in 0..15 {
            text = format!("!has(x) && (has(x) || ({text}))");
        }
        let filter = Filter::parse(&text).expect("within the limits");
        let calls = std::cell::Cell::new(0);
        assert!(filter.may_hold(|_| {
            calls.set(calls.get() + 1);
            false
        }));
        assert!(calls.get() < 100, "{}", calls.get());
    }
}
