//! Event types: name, level, field names, and the channels that record events of the type.

use crate::Level;
use crate::channels::CHANNELS_MAX;
use crate::kind::Kind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// An event type: a name, a level and fields. Usually a `static`, declared by
/// [`event!`](crate::event!) or by hand; registration needs a `'static` reference.
#[derive(Debug)]
#[repr(C)]
pub struct EventType {
    /// Bitmap of the channels that want events of this type, or [`UNKNOWN`]. Lower half: channels
    /// that record all of these events unchanged. Upper half: channels that record conditionally,
    /// by a filter, or with contexts before the fields.
    ///
    /// An event at the moment of a change may use either value. But a thread that sees a bit also
    /// sees the id: stores of bits are releases, and loads before the id is used are acquires.
    pub(crate) wanted_by: AtomicU64,
    /// Id of the type in the headers of its events; [`NO_ID`] or [`REFUSED`] if it has none.
    pub(crate) id: AtomicU32,
    pub(crate) level: Level,
    pub(crate) name: &'static str,
    pub(crate) field_names: &'static [&'static str],
    /// Source file and line of the instrumentation point; `("", 0)` if unknown.
    pub(crate) source_location: (&'static str, u32),
}

/// Value of [`wanted_by`](EventType::wanted_by) while it is undecided: the type is not registered
/// yet, or the registry [has not decided](crate::registry::is_undecided) about registered types.
pub(crate) const UNKNOWN: u64 = 1 << 63;
const _: () = assert!(CHANNELS_MAX < 32);
/// Distance in bits between a channel's bits in the lower and the upper half of the bitmap.
pub(crate) const CONDITIONAL_SHIFT: usize = 32;

/// Returns the bit of a channel in the bitmap: in the upper half if `conditional` is true,
/// otherwise in the lower half.
pub(crate) fn bit(channel: usize, conditional: bool) -> u64 {
    1 << (channel + if conditional { CONDITIONAL_SHIFT } else { 0 })
}

/// Value of [`id`](EventType::id) until the type is registered or refused.
pub(crate) const NO_ID: u32 = u32::MAX;
/// Value of [`id`](EventType::id) of a type that was refused and will never have an id.
pub(crate) const REFUSED: u32 = u32::MAX - 1;

impl EventType {
    /// Returns a type with the name `PROVIDER:NAME`.
    ///
    /// # Panics
    ///
    /// If the name has no colon, or the provider or the rest is empty; for a `static`, at compile
    /// time.
    pub const fn new(
        name: &'static str,
        level: Level,
        field_names: &'static [&'static str],
        place: (&'static str, u32),
    ) -> EventType {
        assert!(has_provider(name), "an event's name is PROVIDER:NAME");
        EventType {
            name,
            level,
            field_names,
            source_location: place,
            wanted_by: AtomicU64::new(UNKNOWN),
            id: AtomicU32::new(NO_ID),
        }
    }

    /// Returns true while the channels that want events of this type are known. Returns false in a
    /// forked child until the child's rules are applied.
    #[inline(always)]
    pub fn is_decided(&self) -> bool {
        self.wanted_by.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Returns the type's id as it appears in the headers of its events. The number has no meaning
    /// if the type is not registered.
    #[inline(always)]
    pub(crate) fn header_id(&self) -> u16 {
        // An index into the registry's table, which has fewer than 65,536 entries.
        self.id.load(Ordering::Relaxed) as u16
    }

    /// Stores the bitmap of the channels that want events of this type. The type must be
    /// registered.
    pub(crate) fn set_wanted_by(&self, channels: u64) {
        self.wanted_by.store(channels & !UNKNOWN, Ordering::Release);
    }

    /// Makes a registered type undecided again. Other types are undecided anyway, or refused.
    pub(crate) fn undecide(&self) {
        if self.id().is_some() {
            self.wanted_by.store(UNKNOWN, Ordering::Release);
        }
    }

    /// Stores the bitmap of the channels that want events of this type, if the type is undecided.
    /// An existing decision is kept, because it may be newer.
    pub(crate) fn decide(&self, channels: u64) {
        let (channels, release) = (channels & !UNKNOWN, Ordering::Release);
        let _ = self.wanted_by.compare_exchange(UNKNOWN, channels, release, Ordering::Relaxed);
    }

    /// Returns the id of the type in the headers of its events; `None` before the type is
    /// registered, or if it was refused.
    pub(crate) fn id(&self) -> Option<u16> {
        let id = self.id.load(Ordering::Acquire);
        (id < REFUSED).then_some(id as u16)
    }

    /// Returns the bitmap of channels as a word, for C macros that read it without a function call.
    /// The word is 0 if no channel wants events of this type. Any other value means wanted or
    /// undecided.
    #[inline(always)]
    pub fn wanted_word(&self) -> &AtomicU64 {
        &self.wanted_by
    }

    /// Returns the full name, `PROVIDER:NAME`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the severity, which is the same for all events of this type.
    pub fn level(&self) -> Level {
        self.level
    }

    /// Iterates over the names of the fields, each paired with its kind from `kinds`.
    pub fn fields_of_kinds(
        &self,
        kinds: &'static [Kind],
    ) -> impl Iterator<Item = (&'static str, Kind)> + Clone + use<> {
        self.field_names.iter().copied().zip(kinds.iter().copied())
    }

    /// Returns the source file and line of the instrumentation point; `("", 0)` if unknown.
    pub fn place(&self) -> (&'static str, u32) {
        self.source_location
    }
}

const fn has_provider(name: &str) -> bool {
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b':' {
            return at > 0 && at + 1 < bytes.len();
        }
        at += 1;
    }
    false
}
