//! Event types: name, level, field names, and the channels that record such events.

use crate::Level;
use crate::channels::CHANNELS_MAX;
use crate::kind::Kind;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A kind of event: a name, a level and fields. A `static`, made by [`event!`](crate::event!) or by
/// hand.
#[derive(Debug)]
pub struct EventType {
    pub(crate) name: &'static str,
    pub(crate) level: Level,
    pub(crate) field_names: &'static [&'static str],
    /// Source file and line.
    pub(crate) place: (&'static str, u32),
    /// Bits for the channels that want such events, or [`UNKNOWN`]. In the lower half: those that want all
    /// of them just as they are. In the upper half: those that want them with care: with contexts
    /// before their fields, or only if a filter is true.
    ///
    /// An event at the moment of a change may go either way. But who sees a bit sees the id: stores
    /// of bits release, and loads before the id is used acquire.
    pub(crate) wanted_by: AtomicU64,
    /// What the events' headers say.
    pub(crate) id: AtomicU32,
}

/// Nobody has said whether such events are wanted: the type is not known yet, or there is nobody to say it.
pub(crate) const UNKNOWN: u64 = 1 << 63;
const _: () = assert!(CHANNELS_MAX < 32);
/// How far the upper half is from the lower one.
pub(crate) const WITH_CARE: usize = 32;

/// The bit for a channel.
pub(crate) fn bit(channel: usize, with_care: bool) -> u64 {
    1 << (channel + if with_care { WITH_CARE } else { 0 })
}

/// No id yet.
pub(crate) const NO_ID: u32 = u32::MAX;
/// It will never have one.
pub(crate) const REFUSED: u32 = u32::MAX - 1;

impl EventType {
    /// Events called `PROVIDER:NAME`.
    ///
    /// # Panics
    ///
    /// At compile time: if the name has no provider, or is empty behind it.
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
            place,
            wanted_by: AtomicU64::new(UNKNOWN),
            id: AtomicU32::new(NO_ID),
        }
    }

    /// Whether anybody could have said that such events are wanted.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.wanted_by.load(Ordering::Relaxed) != UNKNOWN
    }

    /// The id of a type that is wanted.
    #[inline(always)]
    pub(crate) fn header_id(&self) -> u16 {
        // One of `registry`, where there are fewer than 65,536.
        self.id.load(Ordering::Relaxed) as u16
    }

    /// Says who wants such events, of a type that is known.
    pub(crate) fn set_wanted_by(&self, channels: u64) {
        self.wanted_by.store(channels & !UNKNOWN, Ordering::Release);
    }

    /// Has nobody know any more who wants such events.
    pub(crate) fn undecide(&self) {
        if self.id().is_some() {
            self.wanted_by.store(UNKNOWN, Ordering::Release);
        }
    }

    /// As above, if nobody has said so yet: who has may know better.
    pub(crate) fn decide(&self, channels: u64) {
        let (channels, release) = (channels & !UNKNOWN, Ordering::Release);
        let _ = self.wanted_by.compare_exchange(UNKNOWN, channels, release, Ordering::Relaxed);
    }

    /// What its events' headers say; `None` before it is known.
    pub(crate) fn id(&self) -> Option<u16> {
        let id = self.id.load(Ordering::Acquire);
        (id < REFUSED).then_some(id as u16)
    }

    /// The word that is 0 when nobody wants such events, for who looks at it without a call. Anything else if
    /// somebody does, or nobody could have said so yet.
    pub fn wanted_word(&self) -> &AtomicU64 {
        &self.wanted_by
    }

    /// `PROVIDER:NAME`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How severe such events are.
    pub fn level(&self) -> Level {
        self.level
    }

    /// As above, if they are of these kinds.
    pub fn fields_of_kinds(
        &self,
        kinds: &'static [Kind],
    ) -> impl Iterator<Item = (&'static str, Kind)> + Clone + use<> {
        self.field_names.iter().copied().zip(kinds.iter().copied())
    }

    /// Source file and line.
    pub fn place(&self) -> (&'static str, u32) {
        self.place
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
