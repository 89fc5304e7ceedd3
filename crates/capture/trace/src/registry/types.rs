//! The table of the event types that the program has reached.

use crate::event_type::EventType;
use crate::kind::Kind;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of event types in one program. Ids have 16 bits.
pub const TYPES_MAX: usize = blkkin_control::limits::EVENT_TYPES_MAX;

/// Table entry of an event type. If a type has several entries, only the entry whose index equals
/// the type's id is valid.
#[derive(Debug)]
pub(crate) struct Entry {
    event: &'static EventType,
    /// Kinds of the type's fields, in order.
    pub(crate) kinds: &'static [Kind],
    /// Offset of the type's description in every catalog, in bytes.
    pub(crate) described_at: usize,
}

static TYPES: [OnceLock<Entry>; TYPES_MAX] = [const { OnceLock::new() }; TYPES_MAX];
/// Number of reserved entries of `TYPES`. May exceed [`TYPES_MAX`], after types were refused.
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Number of types refused because the table or the catalog is full, or because their descriptions
/// are invalid or exceed a limit.
static REFUSED: AtomicUsize = AtomicUsize::new(0);

/// Adds a type to the table and returns its index. The index becomes valid when it is stored as the
/// type's id. Returns `None` if the table is full.
pub(crate) fn add(
    event: &'static EventType,
    kinds: &'static [Kind],
    described_at: usize,
) -> Option<u16> {
    let place = COUNT.fetch_add(1, Ordering::Relaxed);
    // No other call has this index, so the lock inside is never contended.
    TYPES.get(place)?.set(Entry { event, kinds, described_at }).ok()?;
    u16::try_from(place).ok()
}

/// Counts a type that cannot be registered, for [`types_refused`].
pub(crate) fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Returns the table entry of a type; `None` if the type has no id.
pub(crate) fn entry(event: &EventType) -> Option<&'static Entry> {
    TYPES.get(usize::from(event.id()?))?.get()
}

/// Returns the type that has this id; `None` if no type has it.
pub fn type_of(id: u16) -> Option<&'static EventType> {
    let entry = TYPES.get(usize::from(id))?.get()?;
    (entry.event.id() == Some(id)).then_some(entry.event)
}

/// Iterates over the types registered so far, in the order of their ids.
pub fn types() -> impl Iterator<Item = &'static EventType> {
    let count = COUNT.load(Ordering::Relaxed).min(TYPES_MAX);
    // An entry may be empty, or a duplicate of a type that has another id.
    (0..count).filter_map(|place| type_of(u16::try_from(place).ok()?))
}

/// Returns the number of types refused because there are too many, or because their descriptions
/// are invalid or exceed a limit. Events of refused types are never recorded.
pub fn types_refused() -> usize {
    REFUSED.load(Ordering::Relaxed)
}

impl EventType {
    /// Iterates over the names and kinds of the fields; empty before the type is registered, or if
    /// it was refused.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Kind)> + Clone + use<> {
        self.fields_of_kinds(entry(self).map_or(&[], |entry| entry.kinds))
    }
}
