//! The process's own sampler: what code or the environment says, unless a daemon says something else.

use super::{Sampler, Sampling};
use std::sync::atomic::{AtomicBool, Ordering};

static SAMPLER: Sampler = Sampler::new();
/// Holds what code or the environment has said, while a daemon says something else.
static OWN: Sampler = Sampler::new();
static IS_OVERRIDDEN: AtomicBool = AtomicBool::new(false);

/// The process's sampler: it follows every request, if neither the variable [`VARIABLE`](super::VARIABLE)
/// nor [`set_default`] nor a daemon says something else. Change it by [`set_default`], so that a daemon
/// can be heard, and can take back what it has said.
pub fn global() -> &'static Sampler {
    &SAMPLER
}

/// What the process's sampler goes by, as long as no daemon says something else.
pub fn set_default(rules: Sampling) {
    OWN.set(rules);
    if !IS_OVERRIDDEN.load(Ordering::Acquire) {
        SAMPLER.set(rules);
    }
}

/// What a daemon says; nothing any more, if there are no rules.
pub(crate) fn set_override(rules: Option<Sampling>) {
    IS_OVERRIDDEN.store(rules.is_some(), Ordering::Release);
    SAMPLER.set(rules.unwrap_or_else(|| OWN.rules()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemons_word_counts_until_it_is_taken_back() {
        assert_eq!(global().rules(), Sampling::ALL);
        let half = Sampling { one_of: 2, limit: None };
        set_default(half);
        assert_eq!(global().rules(), half);
        set_override(Some(Sampling::NONE));
        assert_eq!(global().rules(), Sampling::NONE);
        let third = Sampling { one_of: 3, limit: None };
        set_default(third);
        assert_eq!(global().rules(), Sampling::NONE);
        set_override(None);
        assert_eq!(global().rules(), third);
        set_default(Sampling::ALL);
        assert_eq!(global().rules(), Sampling::ALL);
    }
}
