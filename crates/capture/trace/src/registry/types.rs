//! The table of the event types that the program has reached.

use crate::event_type::EventType;
use crate::kind::Kind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

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
pub(crate) fn add(
    event: &'static EventType,
    kinds: &'static [Kind],
    described_at: usize,
) -> Option<u16> {
    let place = COUNT.fetch_add(1, Ordering::Relaxed);
    // Nobody else ever sets this one, so nobody waits.
    TYPES.get(place)?.set(Entry { event, kinds, described_at }).ok()?;
    u16::try_from(place).ok()
}

/// Counts a type that has found no place.
pub(crate) fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
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

impl EventType {
    /// The fields' names and kinds; none before the type is known.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Kind)> + Clone + use<> {
        self.fields_of_kinds(entry(self).map_or(&[], |entry| entry.kinds))
    }
}
