//! Partial evaluation of conditions for a group of spans with the same service, name and remote
//! service. [`Residual`] is the part of a condition that the group leaves undecided.

use crate::files::index::NO_DURATION;
use blkkin_store::{Case, Condition, Durations, TextField};

/// Texts that the spans of a group share. A field is `None` if the text differs or is unknown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupTexts<'a> {
    pub(crate) service: Option<&'a str>,
    pub(crate) name: Option<&'a str>,
    pub(crate) remote: Option<&'a str>,
}

/// Residual condition after the evaluation of a group's texts.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Residual {
    /// Decided condition, with the result.
    Decided(bool),
    All(Vec<Residual>),
    Any(Vec<Residual>),
    Not(Box<Residual>),
    Duration(u64, u64),
    Error,
    /// Condition that only the span itself decides.
    Unknown,
}

/// Result of a partial evaluation. The condition does not hold, may hold, or holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Truth {
    No,
    Maybe,
    Yes,
}

impl Residual {
    /// Evaluates the parts of a condition that the texts of a group decide.
    pub(crate) fn of(condition: &Condition, common: GroupTexts<'_>) -> Residual {
        match condition {
            Condition::All(parts) => {
                let mut left = Vec::new();
                for part in parts {
                    match Residual::of(part, common) {
                        Residual::Decided(true) => {}
                        Residual::Decided(false) => return Residual::Decided(false),
                        residual => left.push(residual),
                    }
                }
                one_or(left, true, Residual::All)
            }
            Condition::Any(parts) => {
                let mut left = Vec::new();
                for part in parts {
                    match Residual::of(part, common) {
                        Residual::Decided(false) => {}
                        Residual::Decided(true) => return Residual::Decided(true),
                        residual => left.push(residual),
                    }
                }
                one_or(left, false, Residual::Any)
            }
            Condition::Not(part) => match Residual::of(part, common) {
                Residual::Decided(holds) => Residual::Decided(!holds),
                residual => Residual::Not(Box::new(residual)),
            },
            Condition::Text(field, test) => {
                let text = match field {
                    TextField::Service => common.service,
                    TextField::Name => common.name,
                    TextField::RemoteService => common.remote,
                };
                text.map_or(Residual::Unknown, |text| {
                    Residual::Decided(test.matches(text, Case::Insensitive))
                })
            }
            Condition::Duration(least, greatest) => Residual::Duration(*least, *greatest),
            Condition::Error => Residual::Error,
            Condition::Kind(_)
            | Condition::Root
            | Condition::StatusOk
            | Condition::TraceId(_)
            | Condition::Start(..)
            | Condition::Tag(..)
            | Condition::Annotation(_)
            | Condition::Event(_)
            | Condition::EventAttribute(..)
            | Condition::Link(_)
            | Condition::LinkAttribute(..)
            | Condition::AnyText(_) => Residual::Unknown,
        }
    }

    /// Evaluates the residual condition for a span with a duration code and an error flag.
    #[inline]
    pub(crate) fn truth(&self, code: u16, is_error: bool) -> Truth {
        match self {
            Residual::Decided(holds) => Truth::of(*holds),
            Residual::All(parts) => {
                let truths = parts.iter().map(|part| part.truth(code, is_error));
                truths.min().unwrap_or(Truth::Yes)
            }
            Residual::Any(parts) => {
                let truths = parts.iter().map(|part| part.truth(code, is_error));
                truths.max().unwrap_or(Truth::No)
            }
            Residual::Not(part) => match part.truth(code, is_error) {
                Truth::No => Truth::Yes,
                Truth::Maybe => Truth::Maybe,
                Truth::Yes => Truth::No,
            },
            Residual::Duration(least, greatest) => truth_of_code(code, *least, *greatest),
            Residual::Error => Truth::of(is_error),
            Residual::Unknown => Truth::Maybe,
        }
    }

    /// Returns whether the condition depends on more than the duration and the error flag of a
    /// span.
    pub(crate) fn needs_span(&self) -> bool {
        match self {
            Residual::All(parts) | Residual::Any(parts) => parts.iter().any(Residual::needs_span),
            Residual::Not(part) => part.needs_span(),
            Residual::Unknown => true,
            Residual::Decided(_) | Residual::Duration(..) | Residual::Error => false,
        }
    }
}

fn one_or(mut left: Vec<Residual>, of_none: bool, many: fn(Vec<Residual>) -> Residual) -> Residual {
    match left.len() {
        0 => Residual::Decided(of_none),
        1 => left.remove(0),
        _ => many(left),
    }
}

fn truth_of_code(code: u16, least: u64, greatest: u64) -> Truth {
    if code == NO_DURATION {
        return Truth::No;
    }
    let (first, last) = (Durations::least(code), Durations::greatest(code));
    if last < least || greatest < first {
        Truth::No
    } else if least <= first && last <= greatest {
        Truth::Yes
    } else {
        Truth::Maybe
    }
}

impl Truth {
    fn of(holds: bool) -> Truth {
        if holds { Truth::Yes } else { Truth::No }
    }
}

#[cfg(test)]
mod tests {
    use super::{GroupTexts, Residual, Truth};
    use crate::files::index::NO_DURATION;
    use blkkin_store::{Condition, Durations, TagTest, TextField, TextTest};

    fn service(text: &str) -> Condition {
        Condition::Text(TextField::Service, TextTest::Is(text.to_owned()))
    }

    #[test]
    fn shared_texts_decide_conditions() {
        let common = GroupTexts { service: Some("Disk"), name: None, remote: Some("") };
        let of = |condition| Residual::of(&condition, common);
        assert_eq!(of(service("disk")), Residual::Decided(true));
        assert_eq!(of(Condition::Not(service("disk").into())), Residual::Decided(false));
        let slow = || Condition::Duration(1000, u64::MAX);
        assert_eq!(
            of(Condition::All(vec![service("disk"), slow()])),
            Residual::Duration(1000, u64::MAX)
        );
        assert_eq!(of(Condition::All(vec![service("nbd"), slow()])), Residual::Decided(false));
        assert_eq!(of(Condition::Any(vec![service("nbd"), Condition::Error])), Residual::Error);
        let named = Condition::Text(TextField::Name, TextTest::Present);
        assert_eq!(of(named), Residual::Unknown);
        assert!(of(Condition::Tag("a".to_owned(), TagTest::Present)).needs_span());
        assert_eq!(of(Condition::All(vec![])), Residual::Decided(true));
        assert_eq!(of(Condition::Any(vec![])), Residual::Decided(false));
    }

    #[test]
    fn durations_are_known_by_their_codes() {
        let residual = Residual::Duration(1003, 1_000_000);
        let truth = |duration| residual.truth(Durations::code(duration), false);
        assert_eq!(truth(10), Truth::No);
        assert_eq!(truth(1003), Truth::Maybe);
        assert_eq!(truth(50_000), Truth::Yes);
        assert_eq!(truth(2_000_000), Truth::No);
        assert_eq!(residual.truth(NO_DURATION, false), Truth::No);
        let not = Residual::Not(Box::new(residual));
        assert_eq!(not.truth(NO_DURATION, false), Truth::Yes);
        assert_eq!(not.truth(Durations::code(1003), false), Truth::Maybe);
        let both = Residual::All(vec![not, Residual::Error]);
        assert_eq!(both.truth(Durations::code(10), true), Truth::Yes);
        assert_eq!(both.truth(Durations::code(10), false), Truth::No);
    }
}
