//! What all channels are to record: read by every thread, also in signal handlers, and changed by one.
//!
//! There are several books, of which one is current. Whoever changes something writes another one and
//! makes that current; readers hold the table that they read, without waiting. So a reader that is stopped,
//! or that a signal handler has left for ever, or that a fork has left behind in its parent, costs its
//! table, and nobody else anything. Of books that are left so there may be one less than there are: then nothing
//! can be changed any more.

use super::channel_rules::ChannelRules;
use crate::channels::CHANNELS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// What channels are to record.
#[derive(Debug)]
pub(crate) struct RuleTable([Option<Arc<ChannelRules>>; CHANNELS_MAX]);

impl RuleTable {
    const EMPTY: RuleTable = RuleTable([const { None }; CHANNELS_MAX]);

    /// What a channel is to record.
    pub(crate) fn rules_of(&self, channel: usize) -> Option<&ChannelRules> {
        self.0.get(channel)?.as_deref()
    }

    /// All channels that are to record something.
    pub(super) fn channels(&self) -> impl Iterator<Item = (usize, &ChannelRules)> {
        let channels = self.0.iter().enumerate();
        channels.filter_map(|(number, rules)| Some((number, rules.as_deref()?)))
    }

    pub(super) fn set(&mut self, channel: usize, rules: Option<ChannelRules>) {
        if let Some(place) = self.0.get_mut(channel) {
            *place = rules.map(Arc::new);
        }
    }

    pub(super) fn clear(&mut self) {
        *self = RuleTable::EMPTY;
    }
}

const COPIES_COUNT: usize = 32;
static COPIES: [RwLock<RuleTable>; COPIES_COUNT] =
    [const { RwLock::new(RuleTable::EMPTY) }; COPIES_COUNT];
static CURRENT: AtomicUsize = AtomicUsize::new(0);

/// A reader finds the table locked only if others were made current meanwhile, and this one again.
const READ_TRIES_MAX: usize = 1000;

/// How long the last reader of a table may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// What `use_table` makes of the current table. `None` only if the table changes all the time. Nothing of
/// this waits, and none of these locks is ever waited for.
pub(crate) fn with_rules<R>(use_table: impl FnOnce(&RuleTable) -> R) -> Option<R> {
    for _ in 0..READ_TRIES_MAX {
        // Sequentially consistent: with the store in `change` and the fences of its callers.
        let current = CURRENT.load(Ordering::SeqCst);
        let Some(table) = COPIES.get(current).and_then(try_read) else { continue };
        // Who has changed it, and then found nobody reading the old one, relies on that nobody starts to.
        if CURRENT.load(Ordering::SeqCst) == current {
            return Some(use_table(&table));
        }
    }
    None
}

fn try_read(table: &RwLock<RuleTable>) -> Option<RwLockReadGuard<'_, RuleTable>> {
    match table.try_read() {
        Ok(table) => Some(table),
        Err(TryLockError::Poisoned(table)) => Some(table.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

fn try_write(table: &RwLock<RuleTable>) -> Option<RwLockWriteGuard<'_, RuleTable>> {
    match table.try_write() {
        Ok(table) => Some(table),
        Err(TryLockError::Poisoned(table)) => Some(table.into_inner()),
        Err(TryLockError::WouldBlock) => None,
    }
}

/// The table that was current before a change.
pub(super) struct ReplacedCopy(usize);

/// Makes a changed table the current one. `None`, and nothing is changed, if all others are held.
pub(super) fn update(change: impl FnOnce(&mut RuleTable)) -> Option<ReplacedCopy> {
    let before = CURRENT.load(Ordering::SeqCst);
    let mut next = with_rules(|table| RuleTable(table.0.clone()))?;
    change(&mut next);
    let others = (1..COPIES_COUNT).map(|step| (before + step) % COPIES_COUNT);
    let (place, mut table) =
        others.filter_map(|place| Some((place, try_write(&COPIES[place])?))).next()?;
    *table = next;
    drop(table);
    CURRENT.store(place, Ordering::SeqCst);
    fence(Ordering::SeqCst);
    Some(ReplacedCopy(before))
}

impl ReplacedCopy {
    /// Waits until nobody reads it any more, and clears it. False if somebody does for too long.
    pub(super) fn reclaim(self) -> bool {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(mut table) = try_write(&COPIES[self.0]) {
                table.clear();
                return true;
            }
            if Instant::now() >= end {
                return false;
            }
            std::thread::sleep(Duration::from_micros(50));
        }
    }
}
