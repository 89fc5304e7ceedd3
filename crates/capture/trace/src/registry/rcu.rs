//! The rules of all channels, as a read-copy-update structure: every thread reads them, also in
//! signal handlers, and one thread changes them.
//!
//! There are 32 copies, and an index names the current one. A change writes a modified copy into a
//! slot without readers and then makes that copy the current one. Readers pin a copy with a read
//! lock, which they only try to lock, so they never wait. A reader that never finishes (stopped,
//! jumped out of by `siglongjmp`, cut off by `fork`) pins only its own copy. When all copies but
//! the current one are pinned, rules can no longer change.

use super::channel_rules::ChannelRules;
use crate::channels::CHANNELS_MAX;
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::{Duration, Instant};

/// One copy of the rules of all channels.
#[derive(Debug)]
pub(crate) struct RuleTable([Option<Arc<ChannelRules>>; CHANNELS_MAX]);

impl RuleTable {
    const EMPTY: RuleTable = RuleTable([const { None }; CHANNELS_MAX]);

    /// Returns the rules of a channel; `None` if the channel records nothing.
    pub(crate) fn rules_of(&self, channel: usize) -> Option<&ChannelRules> {
        self.0.get(channel)?.as_deref()
    }

    /// Iterates over the numbers and rules of the channels that have rules.
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

/// Maximum number of a reader's attempts to lock the current copy. An attempt fails only if a
/// change has replaced the copy meanwhile.
const READ_TRIES_MAX: usize = 1000;

/// How long a change waits for the readers of the replaced copy.
const PATIENCE: Duration = Duration::from_secs(1);

/// Calls `use_table` with the current rules. Never waits, because locks are only tried. Returns
/// `None` if the current copy changed during each of [`READ_TRIES_MAX`] attempts.
pub(crate) fn with_rules<R>(use_table: impl FnOnce(&RuleTable) -> R) -> Option<R> {
    for _ in 0..READ_TRIES_MAX {
        // Sequentially consistent: pairs with the store and the fence in `update`.
        let current = CURRENT.load(Ordering::SeqCst);
        let Some(table) = COPIES.get(current).and_then(try_read) else { continue };
        // A change may have found the replaced copy without readers; it relies on no reader
        // starting later.
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

/// Index of a copy of the rules that a change has replaced. Readers may still use the copy.
pub(super) struct ReplacedCopy(usize);

/// Makes a changed copy the current one. Returns `None`, and changes nothing, if all other copies
/// are pinned.
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
    /// Waits until the replaced copy has no readers (the grace period), and clears it. Returns
    /// false after a timeout.
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
