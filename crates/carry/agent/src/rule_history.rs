//! History of the rules that were in force for a channel of a program. A ring may hold events that
//! any of these rules selected, so the trace must describe their types.

use crate::quota::Account;
use crate::session::{Matcher, RuleSet};
use crate::trace::Trace;
use blkkin_control::{EventType, limits};
use std::time::Instant;

/// Maximum number of sets of rules. Beyond it, the trace describes all event types.
const SETS_MAX: usize = 16;
/// Maximum number of rules in all sets together. Beyond it, the trace describes all event types.
const RULES_MAX: usize = 2 * limits::RULES_MAX;

/// Sets of rules that were in force, and the progress of matching the catalog's types against each
/// set.
#[derive(Debug, Default)]
pub(crate) struct RuleHistory {
    /// Each set of rules, with the number of types that were matched against it.
    sets: Vec<(Matcher, usize)>,
    /// Set if the rings may hold events of all types, because unknown rules were in force or the
    /// rules were dropped.
    has_unknown: bool,
    /// Number of types described so far. Used only while `has_unknown` is set.
    described: usize,
}

impl RuleHistory {
    /// Adds a set of rules that comes into force now.
    pub(crate) fn add(&mut self, rules: &RuleSet) {
        if rules.is_empty() || self.has_unknown {
            return;
        }
        self.sets.push((rules.matcher().clone(), 0));
        let count: usize = self.sets.iter().map(|(matcher, _)| matcher.len()).sum();
        if self.sets.len() > SETS_MAX || count > RULES_MAX {
            self.drop_rules();
        }
    }

    /// Records that rules of an earlier agent may have been in force. This agent does not know
    /// them.
    pub(crate) fn add_unknown(&mut self) {
        self.has_unknown = true;
    }

    /// Drops all sets of rules, so that all types are described. Descriptions without events do no
    /// harm.
    fn drop_rules(&mut self) {
        self.has_unknown = true;
        self.sets = Vec::new();
    }

    /// Resets the progress of matching, because the next trace describes no types yet.
    pub(crate) fn restart(&mut self) {
        self.described = 0;
        self.sets.iter_mut().for_each(|(_, described)| *described = 0);
    }

    /// Adds to a trace's stream all types whose events may be in the rings. Matching takes at most
    /// the time in the `account`'s token bucket; after that, all types are added.
    pub(crate) fn describe(
        &mut self,
        types: &[EventType],
        trace: &mut Trace,
        stream: u32,
        account: &Account,
    ) {
        let is_new = self.sets.iter().any(|(_, described)| *described < types.len());
        if is_new && !self.has_unknown {
            let begun = Instant::now();
            let room = account.matching_time(begun);
            'all: for (matcher, described) in &mut self.sets {
                while let Some(event_type) = types.get(*described) {
                    if begun.elapsed() > room {
                        self.has_unknown = true;
                        break 'all;
                    }
                    *described += 1;
                    if !trace.has_event(stream, event_type.index)
                        && matcher.may_record(&event_type.name, event_type.level)
                    {
                        trace.add_event(stream, event_type);
                    }
                }
            }
            account.spend_matching(begun.elapsed());
        }
        if self.has_unknown {
            self.drop_rules();
            for event_type in &types[self.described.min(types.len())..] {
                trace.add_event(stream, event_type);
            }
            self.described = types.len();
        }
    }
}
