//! All kinds of events that the program is known to have, and which channels want which.
//!
//! A type becomes known when its place in the program is first come by, on whatever thread, maybe in a
//! signal handler: so adding one takes no lock that it would wait for and allocates nothing. Who wants
//! its events is then decided by the rules that are in force, at once, so that the first event counts.
//!
//! # Why no type is missed
//!
//! A type is there once it has its id, which is stored when all else of it is. Whoever gives it one, or
//! finds one there before anybody has decided, then looks at the [catalog](crate::daemon) and at the
//! rules; whoever makes a catalog, or changes the rules, then looks at all types. Between what either
//! did and what it looks at is a sequentially consistent fence, so at least one of the two sees the
//! other. Both tell the type before they let anybody record its events. Telling a type twice writes the
//! same bytes to the same place. Deciding twice does no harm either: the one who changes rules stores,
//! the others only replace that nobody has decided.

mod book;
mod orders;

pub use blkkin_control::{EventRule, Levels};
pub(crate) use book::with_book;
pub(crate) use orders::{Orders, Source};

pub use crate::daemon::bell::CALL;
use crate::daemon::{self, catalog};
use crate::event::{EventType, Kind};
use blkkin_control::rules::Verdict;
use book::Book;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, fence};

/// Most types of one program. Ids have 16 bits.
pub const TYPES_MAX: usize = blkkin_control::limits::EVENT_TYPES_MAX;

/// A type at its place. Of several for one type, that of which the place is its id counts.
#[derive(Debug)]
pub(crate) struct Entry {
    event: &'static EventType,
    /// What its fields hold.
    pub(crate) kinds: &'static [Kind],
    /// Where in catalogs its description goes.
    pub(crate) described_at: usize,
}

static TYPES: [OnceLock<Entry>; TYPES_MAX] = [const { OnceLock::new() }; TYPES_MAX];
/// How many places of `TYPES` are taken; more than there are, if types were refused.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Types for which there was no room, or that do not keep to what types may be.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Finds a place for a type, which is there once it has this as its id. `None` if there cannot be one.
pub(crate) fn add(event: &'static EventType, kinds: &'static [Kind]) -> Option<u16> {
    crate::start::link();
    let described_at = catalog::reserve(event, kinds)?;
    let place = COUNT.fetch_add(1, Ordering::Relaxed);
    // Nobody else ever sets this one, so nobody waits.
    TYPES.get(place)?.set(Entry { event, kinds, described_at }).ok()?;
    u16::try_from(place).ok()
}

/// Counts a type that has found no place.
pub(crate) fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
    catalog::tell_refused();
}

/// What there is of a type that has an id.
pub(crate) fn entry(event: &EventType) -> Option<&'static Entry> {
    TYPES.get(usize::from(event.id()?))?.get()
}

/// The type of this id.
pub fn type_of(id: u16) -> Option<&'static EventType> {
    let entry = TYPES.get(usize::from(id))?.get()?;
    (entry.event.id() == Some(id)).then_some(entry.event)
}

/// Decides who wants the events of a type that has an id, if anybody decides now.
pub(crate) fn decide(event: &'static EventType) {
    // With the one in `look_at_all`: see above.
    fence(Ordering::SeqCst);
    catalog::tell(event);
    if !daemon::is_undecided() {
        with_book(|book| event.decide(book.who_wants(event)));
    }
}

/// After a change: tells all types, and decides anew about them.
pub(crate) fn look_at_all() {
    fence(Ordering::SeqCst);
    let is_undecided = daemon::is_undecided();
    for event in types() {
        catalog::tell(event);
        if !is_undecided {
            with_book(|book| event.set_wanted_by(book.who_wants(event)));
        }
    }
}

/// Decides about all event types once a child has its rules.
pub(crate) fn decide_all() {
    look_at_all();
    tell_change();
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
    with_book(|book| book.channels().next().is_some()) == Some(true)
}

impl Book {
    /// Channels that want such events: bits as in an [`EventType`].
    fn who_wants(&self, event: &EventType) -> u64 {
        let mut channels = 0;
        for (number, orders) in self.channels() {
            let with_care = match orders.rules.verdict(event.name(), event.level()) {
                Verdict::No => continue,
                Verdict::Yes => !orders.sources.is_empty(),
                Verdict::Filtered => true,
            };
            channels |= crate::event::bit(number, with_care);
        }
        channels
    }
}

/// Puts rules in force for a channel, in place of those that it had. To be called by one thread only, and
/// not beside [`daemon`], which has a thread that does.
pub fn set_rules(channel: usize, rules: &[EventRule]) {
    daemon::bell::listen();
    let orders = (!rules.is_empty()).then(|| Orders::new(rules, Vec::new()));
    set_orders(channel, orders);
}

/// What a channel is to record from now on, and how. True if no thread goes by what it was to record
/// before any more; else one may still be about to record an event so.
pub(crate) fn set_orders(channel: usize, orders: Option<Orders>) -> bool {
    change(|book| book.set(channel, orders))
}

/// Nobody wants anything any more, and nothing is done for what was wanted before: for a child process.
pub(crate) fn forget_all() {
    change(Book::clear);
}

fn change(change: impl FnOnce(&mut Book)) -> bool {
    let Some(before) = book::change(change) else { return false };
    look_at_all();
    let is_unused = before.forget();
    tell_change();
    is_unused
}

fn tell_change() {
    for on_change in ON_CHANGE.iter().filter_map(OnceLock::get) {
        on_change();
    }
}

/// Whether somebody wants events of a type, known or not.
pub fn is_wanted(event: &EventType) -> bool {
    with_book(|book| book.who_wants(event) != 0).unwrap_or(false)
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
    daemon::is_undecided()
}

/// True if no event can be wanted: there is no connection to a daemon, and none has called this program.
#[inline(always)]
pub fn is_quiet() -> bool {
    daemon::bell::is_quiet()
}

/// To be called with an event, not ahead of it, while it [is undecided](is_undecided) who wants it: finds out
/// whether there is a daemon by now, which may take the time that a child waits for it. Whether it is still
/// undecided. Costs next to nothing as long as no daemon has come.
#[inline]
pub fn stays_undecided() -> bool {
    is_quiet() || heeds_in_vain()
}

#[cold]
#[inline(never)]
fn heeds_in_vain() -> bool {
    if daemon::is_undecided() || daemon::is_deciding() {
        daemon::heed();
    }
    daemon::is_undecided()
}

/// Registers a function that is called after each change of the rules, and at once unless events are still
/// undecided. At most eight functions; more are ignored.
pub fn on_change(on_change: fn()) {
    static PLACE: AtomicUsize = AtomicUsize::new(0);
    if let Some(place) = ON_CHANGE.get(PLACE.fetch_add(1, Ordering::Relaxed)) {
        let _ = place.set(on_change);
    }
    fence(Ordering::SeqCst);
    if has_rules() || !daemon::is_undecided() {
        on_change();
    }
}

/// All types so far, in the order of their ids.
pub fn types() -> impl Iterator<Item = &'static EventType> {
    let count = COUNT.load(Ordering::Relaxed).min(TYPES_MAX);
    // Places may be empty, or of a type that has another one.
    (0..count).filter_map(|place| type_of(u16::try_from(place).ok()?))
}

/// How many types were refused: there are too many, or their names or fields are not what they may be,
/// or too long. Nobody gets their events.
pub fn types_refused() -> usize {
    REFUSED.load(Ordering::Relaxed)
}
