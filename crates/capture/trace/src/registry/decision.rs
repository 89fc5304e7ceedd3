//! Decisions which channels record the events of a type, and changes of their rules.

use super::channel_rules::ChannelRules;
use super::rcu::{self, RuleTable, with_rules};
use super::types::types;
use crate::daemon::{bell, catalog, state};
use crate::event_type::{self, EventType};
use blkkin_control::EventRule;
use blkkin_control::rules::Verdict;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Decides who wants the events of a type that has an id, if anybody decides now.
pub(crate) fn decide(event: &'static EventType) {
    // With the one in `refresh_all`: see above.
    fence(Ordering::SeqCst);
    catalog::publish(event);
    if !state::is_undecided() {
        with_rules(|table| event.decide(table.channels_wanting(event)));
    }
}

/// After a change: tells all types, and decides anew about them.
pub(crate) fn refresh_all() {
    fence(Ordering::SeqCst);
    let is_undecided = state::is_undecided();
    for event in types() {
        catalog::publish(event);
        if !is_undecided {
            with_rules(|table| event.set_wanted_by(table.channels_wanting(event)));
        }
    }
}

/// Decides about all event types once a child has its rules.
pub(crate) fn decide_all() {
    refresh_all();
    notify_change();
}

/// Has each event ask again: for a child, on its only thread.
pub(crate) fn undecide_all() {
    types().for_each(EventType::undecide);
    for on_undecided in ON_UNDECIDED.iter().filter_map(OnceLock::get) {
        on_undecided();
    }
}

/// True if any channel has rules.
pub(crate) fn has_rules() -> bool {
    with_rules(|table| table.channels().next().is_some()) == Some(true)
}

impl RuleTable {
    /// Channels that want such events: bits as in an [`EventType`].
    fn channels_wanting(&self, event: &EventType) -> u64 {
        let mut channels = 0;
        for (number, rules) in self.channels() {
            let with_care = match rules.rules.verdict(event.name(), event.level()) {
                Verdict::No => continue,
                Verdict::Yes => !rules.sources.is_empty(),
                Verdict::Filtered => true,
            };
            channels |= event_type::bit(number, with_care);
        }
        channels
    }
}

/// Puts rules in force for a channel, in place of those that it had. To be called by one thread only, and
/// not beside [`daemon`](crate::daemon), which has a thread that does.
pub fn set_rules(channel: usize, rules: &[EventRule]) {
    bell::listen();
    let rules = (!rules.is_empty()).then(|| ChannelRules::new(rules, Vec::new()));
    set_channel_rules(channel, rules);
}

/// What a channel is to record from now on, and how. True if no thread goes by what it was to record
/// before any more; else one may still be about to record an event so.
pub(crate) fn set_channel_rules(channel: usize, rules: Option<ChannelRules>) -> bool {
    change(|table| table.set(channel, rules))
}

/// Nobody wants anything any more, and nothing is done for what was wanted before: for a child process.
pub(crate) fn clear_rules() {
    change(RuleTable::clear);
}

fn change(change: impl FnOnce(&mut RuleTable)) -> bool {
    let Some(replaced) = rcu::update(change) else { return false };
    refresh_all();
    let is_unused = replaced.reclaim();
    notify_change();
    is_unused
}

fn notify_change() {
    for on_change in ON_CHANGE.iter().filter_map(OnceLock::get) {
        on_change();
    }
}

/// Whether somebody wants events of a type, known or not.
pub fn is_wanted(event: &EventType) -> bool {
    with_rules(|table| table.channels_wanting(event) != 0).unwrap_or(false)
}

/// To be called when somebody may want other events than before.
static ON_CHANGE: [OnceLock<fn()>; 8] = [const { OnceLock::new() }; 8];

/// Called when all event types become undecided again.
static ON_UNDECIDED: [OnceLock<fn()>; 8] = [const { OnceLock::new() }; 8];

/// Has `on_undecided`, too, called when [`is_undecided`] becomes true again, in a child of `fork`: it may take
/// no lock. At most eight can be.
pub fn on_undecided(on_undecided: fn()) {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    if let Some(place) = ON_UNDECIDED.get(PLACE.fetch_add(1, Ordering::Relaxed)) {
        let _ = place.set(on_undecided);
    }
}

/// True if it is not known yet which events are wanted, so that each event has to ask: there has been no daemon,
/// or this is a child without an event so far.
pub fn is_undecided() -> bool {
    state::is_undecided()
}

/// True if no event can be wanted: there is no connection to a daemon, and none has called this program.
#[inline(always)]
pub fn is_quiet() -> bool {
    bell::is_quiet()
}

/// Registers a function that is called after each change of the rules, and at once unless events are still
/// undecided. At most eight functions; more are ignored.
pub fn on_change(on_change: fn()) {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    if let Some(place) = ON_CHANGE.get(PLACE.fetch_add(1, Ordering::Relaxed)) {
        let _ = place.set(on_change);
    }
    fence(Ordering::SeqCst);
    if has_rules() || !state::is_undecided() {
        on_change();
    }
}
