//! The process's sampler. Code or the environment sets its rules, unless an agent overrides them.

use super::{Sampler, Sampling};
use std::sync::atomic::{AtomicBool, Ordering};

static SAMPLER: Sampler = Sampler::new();
/// Rules set by code or the environment, to be restored when an agent no longer overrides them.
static DEFAULT_RULES: Sampler = Sampler::new();
static IS_OVERRIDDEN: AtomicBool = AtomicBool::new(false);

/// Returns the process's sampler. It selects every request, unless the environment variable
/// [`VARIABLE`](super::VARIABLE), [`set_default`] or an agent sets other rules. Set its rules only
/// by [`set_default`], so that an agent can override and later restore them.
pub fn global() -> &'static Sampler {
    &SAMPLER
}

/// Sets the rules of the process's sampler. They apply while no agent overrides them.
pub fn set_default(rules: Sampling) {
    DEFAULT_RULES.set(rules);
    if !IS_OVERRIDDEN.load(Ordering::Acquire) {
        SAMPLER.set(rules);
    }
}

/// Overrides the process's rules with the agent's; `None` restores the process's rules.
pub(crate) fn set_override(rules: Option<Sampling>) {
    IS_OVERRIDDEN.store(rules.is_some(), Ordering::Release);
    SAMPLER.set(rules.unwrap_or_else(|| DEFAULT_RULES.rules()));
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
