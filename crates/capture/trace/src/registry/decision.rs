//! Decides which channels record the events of each type, at its registration and after each change
//! of the rules.

use super::channel_rules::ChannelRules;
use super::rcu::{self, RuleTable, with_rules};
use super::types::types;
use crate::daemon::{bell, catalog, state};
use crate::event_type::{self, EventType};
use blkkin_control::EventRule;
use blkkin_control::rules::Verdict;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Writes a type that has an id into the catalog. Unless events are undecided, also decides which
/// channels record the type; an existing decision is kept.
pub(crate) fn decide(event: &'static EventType) {
    // Pairs with the fence in `refresh_all`; see "Why no type is missed" in `registry`.
    fence(Ordering::SeqCst);
    catalog::publish(event);
    if !state::is_undecided() {
        with_rules(|table| event.decide(table.channels_wanting(event)));
    }
}

/// Writes all types into the catalog. Unless events are undecided, also decides again which
/// channels record each type. Called after a change of the rules or of the catalog, and by
/// [`decide_all`].
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

/// Decides which channels record each event type, and calls the functions registered by
/// [`on_change`]. Called once a forked child has received its rules or a time limit has passed, and
/// if the library is disabled.
pub(crate) fn decide_all() {
    refresh_all();
    notify_change();
}

/// Makes all types undecided again, and calls the functions registered by [`on_undecided`]. Called
/// in a forked child, on its only thread.
pub(crate) fn undecide_all() {
    types().for_each(EventType::undecide);
    for on_undecided in ON_UNDECIDED.iter().filter_map(OnceLock::get) {
        on_undecided();
    }
}

/// Returns true if any channel has rules.
pub(crate) fn has_rules() -> bool {
    with_rules(|table| table.channels().next().is_some()) == Some(true)
}

impl RuleTable {
    /// Returns the channels that want events of a type, as a bitmap in the format of
    /// [`EventType::wanted_by`].
    fn channels_wanting(&self, event: &EventType) -> u64 {
        let mut channels = 0;
        for (number, rules) in self.channels() {
            let conditional = match rules.rules.verdict(event.name(), event.level()) {
                Verdict::No => continue,
                Verdict::Yes => !rules.sources.is_empty(),
                // A type that no filter can match costs what a disabled one costs.
                Verdict::Filtered if !rules.may_match(event) => continue,
                Verdict::Filtered => true,
            };
            channels |= event_type::bit(number, conditional);
        }
        channels
    }
}

/// Replaces a channel's rules. Only one thread may call this. The program must not run the thread
/// of [`daemon`](crate::daemon), which sets rules itself.
pub fn set_rules(channel: usize, rules: &[EventRule]) {
    bell::enable_decisions();
    let rules = (!rules.is_empty()).then(|| ChannelRules::new(rules, Vec::new()));
    set_channel_rules(channel, rules);
}

/// Replaces the rules of a channel. Returns true if no thread uses the replaced rules any more.
/// Returns false if a thread may still record an event by them, or if all other copies of the rules
/// are pinned and nothing was replaced.
pub(crate) fn set_channel_rules(channel: usize, rules: Option<ChannelRules>) -> bool {
    change(|table| table.set(channel, rules))
}

/// Removes the rules of all channels, and decides all types again unless they are undecided. Called
/// when the thread starts to serve connections, because a forked child inherits its parent's rules.
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

/// Returns true if any channel wants events of a type. The type need not be registered.
pub fn is_wanted(event: &EventType) -> bool {
    with_rules(|table| table.channels_wanting(event) != 0).unwrap_or(false)
}

/// Functions called after each change of the rules, and by [`decide_all`].
static ON_CHANGE: [OnceLock<fn()>; 8] = [const { OnceLock::new() }; 8];

/// Functions called when all event types become undecided again.
static ON_UNDECIDED: [OnceLock<fn()>; 8] = [const { OnceLock::new() }; 8];

/// Registers a function to be called when [`is_undecided`] becomes true again, in a child of
/// `fork`. The function must not acquire locks. At most eight functions; further ones are ignored.
pub fn on_undecided(on_undecided: fn()) {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    if let Some(place) = ON_UNDECIDED.get(PLACE.fetch_add(1, Ordering::Relaxed)) {
        let _ = place.set(on_undecided);
    }
}

/// Returns true while the wanted events are unknown: the program has not connected to an agent yet,
/// or this is a forked child whose thread has not started or waits for rules. Each event then has
/// to call [`stays_undecided`](super::stays_undecided).
pub fn is_undecided() -> bool {
    state::is_undecided()
}

/// Returns true if no channel can record events yet: the program has not connected to an agent, and
/// no agent has requested a connection.
#[inline(always)]
pub fn is_quiet() -> bool {
    bell::is_quiet()
}

/// Registers a function to be called after each change of the rules, and when a forked child has
/// decided about all event types. Calls the function at once if a channel has rules, or if events
/// are decided. At most eight functions; further ones are not registered.
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
