//! Rules that were in force for a channel of a program, to find the event types that its trace has
//! to describe: a ring may hold events that were recorded by any of them.

use crate::quota::Account;
use crate::session::{Matcher, RuleSet};
use crate::trace::Trace;
use blkkin_control::{EventType, limits};
use std::time::Instant;

/// Sets of rules that are kept. With more, all types are described.
const SETS_MAX: usize = 16;
/// Rules in all kept sets together.
const RULES_MAX: usize = 2 * limits::RULES_MAX;

/// Sets of rules, and how far the types of the program's catalog were matched against them.
#[derive(Debug, Default)]
pub(crate) struct RuleHistory {
    /// Each set, with the number of types that were matched against it.
    sets: Vec<(Matcher, usize)>,
    /// Set if unknown rules were in force too, so that the rings may hold events of all types.
    has_unknown: bool,
    /// Number of types that are described, if the rings may hold events of all types.
    described: usize,
}

impl RuleHistory {
    /// Adds rules that are in force from now on.
    pub(crate) fn add(&mut self, rules: &RuleSet) {
        if rules.is_empty() || self.has_unknown {
            return;
        }
        self.sets.push((rules.matcher().clone(), 0));
        let count: usize = self.sets.iter().map(|(matcher, _)| matcher.len()).sum();
        if self.sets.len() > SETS_MAX || count > RULES_MAX {
            self.forget();
        }
    }

    /// Notes that events may have been recorded by rules of an earlier daemon.
    pub(crate) fn add_unknown(&mut self) {
        self.has_unknown = true;
    }

    /// Gives up the rules, so that all types are described. More descriptions than events do no
    /// harm.
    fn forget(&mut self) {
        self.has_unknown = true;
        self.sets = Vec::new();
    }

    /// Forgets which types are described, for a trace that describes none yet.
    pub(crate) fn restart(&mut self) {
        self.described = 0;
        self.sets.iter_mut().for_each(|(_, described)| *described = 0);
    }

    /// Adds all types to a stream of a trace whose events may be in the rings. Matching is limited
    /// to the time that the user's `account` has left; after that, all types are added.
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
            self.forget();
            for event_type in &types[self.described.min(types.len())..] {
                trace.add_event(stream, event_type);
            }
            self.described = types.len();
        }
    }
}
