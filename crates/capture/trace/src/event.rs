//! Kinds of events, and how one is recorded: a look at whether anybody wants it, fields onto the
//! stack, and from there into the rings of those who do.

use crate::channels::{self, CHANNELS_MAX};
use crate::daemon;
use crate::registry;
use crate::{Level, value::Fields};
use blkkin_control::{Scalar, Width, catalog::Label};
use blkkin_filter::Integer;
use blkkin_ring::{Brief, BriefRoom, Encoder, Event, Pen, Room, with_long_event};
use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A kind of event: a name, a level and fields. A `static`, made by [`event!`](crate::event!) or by
/// hand.
#[derive(Debug)]
pub struct EventType {
    name: &'static str,
    level: Level,
    field_names: &'static [&'static str],
    /// Source file and line.
    place: (&'static str, u32),
    /// Bits for the channels that want such events, or [`UNKNOWN`]. In the lower half: those that want all
    /// of them just as they are. In the upper half: those that want them with care: with contexts
    /// before their fields, or only if a filter is true.
    ///
    /// An event at the moment of a change may go either way. But who sees a bit sees the id: stores
    /// of bits release, and loads before the id is used acquire.
    wanted_by: AtomicU64,
    /// What the events' headers say.
    id: AtomicU32,
}

/// Nobody has said whether such events are wanted: the type is not known yet, or there is nobody to say it.
const UNKNOWN: u64 = 1 << 63;
const _: () = assert!(CHANNELS_MAX < 32);
/// How far the upper half is from the lower one.
const WITH_CARE: usize = 32;

/// The bit for a channel.
pub(crate) fn bit(channel: usize, with_care: bool) -> u64 {
    1 << (channel + if with_care { WITH_CARE } else { 0 })
}

/// No id yet.
const NO_ID: u32 = u32::MAX;
/// It will never have one.
const REFUSED: u32 = u32::MAX - 1;

/// What a field holds. All are as a little-endian machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Kind {
    U8,
    U16,
    U32,
    U64,
    I8,
    I16,
    I32,
    I64,
    F32,
    F64,
    /// A byte of 0 or 1.
    Bool,
    /// UTF-8, and a NUL.
    String,
    /// An unsigned integer of that size, which people want to see in hexadecimal.
    Hex(Width),
    /// So many numbers.
    Array(Scalar, u32),
    /// A count of four bytes, and so many numbers.
    Sequence(Scalar),
    /// An integer of that kind, of which values have labels.
    Enum(Scalar, &'static Labels),
}

/// The labels of an enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Labels(pub &'static [Label<'static>]);

impl blkkin_filter::Labels for Labels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        let mut labels = self.0.iter().filter(|label| label.value == value.bits());
        labels.any(|label| test(label.name.as_bytes()))
    }
}

impl Kind {
    /// Bytes of such a field; `None` if they depend on its value.
    pub const fn size(self) -> Option<usize> {
        Some(match self {
            Kind::U8 | Kind::I8 | Kind::Bool => 1,
            Kind::U16 | Kind::I16 => 2,
            Kind::U32 | Kind::I32 | Kind::F32 => 4,
            Kind::U64 | Kind::I64 | Kind::F64 => 8,
            Kind::Hex(width) => width.bytes(),
            Kind::Array(of, count) => of.bytes() * count as usize,
            Kind::Enum(of, _) => of.bytes(),
            Kind::String | Kind::Sequence(_) => return None,
        })
    }

    /// Bytes of the field that `bytes` start with; more than these, if it is not whole.
    pub(crate) fn size_in(self, bytes: &[u8]) -> usize {
        match self {
            Kind::String => {
                bytes.iter().position(|byte| *byte == 0).map_or(bytes.len(), |at| at + 1)
            }
            Kind::Sequence(of) => {
                let count = bytes.first_chunk().map_or(0, |count| u32::from_le_bytes(*count));
                4 + of.bytes() * count as usize
            }
            kind => kind.size().unwrap_or(0),
        }
    }

    /// The number that such a field is; `None` for strings, arrays and sequences.
    pub const fn scalar(self) -> Option<Scalar> {
        const fn unsigned(width: Width) -> Scalar {
            Scalar::Unsigned { width, hex: false }
        }
        const fn signed(width: Width) -> Scalar {
            Scalar::Signed { width, hex: false }
        }
        Some(match self {
            Kind::U8 => unsigned(Width::Bits8),
            Kind::U16 => unsigned(Width::Bits16),
            Kind::U32 => unsigned(Width::Bits32),
            Kind::U64 => unsigned(Width::Bits64),
            Kind::I8 => signed(Width::Bits8),
            Kind::I16 => signed(Width::Bits16),
            Kind::I32 => signed(Width::Bits32),
            Kind::I64 => signed(Width::Bits64),
            Kind::F32 => Scalar::F32,
            Kind::F64 => Scalar::F64,
            Kind::Bool => Scalar::Bool,
            Kind::Hex(width) => Scalar::Unsigned { width, hex: true },
            Kind::Enum(of, _) => of,
            Kind::String | Kind::Array(..) | Kind::Sequence(_) => return None,
        })
    }
}

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

    /// Whether it is worth getting the fields together: somebody wants such events, or could say so
    /// if the type were known.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        match self.wanted_by.load(Ordering::Relaxed) {
            0 => false,
            UNKNOWN => !registry::is_quiet(),
            _ => true,
        }
    }

    /// Whether anybody could have said that such events are wanted.
    #[inline(always)]
    pub fn is_known(&self) -> bool {
        self.wanted_by.load(Ordering::Relaxed) != UNKNOWN
    }

    /// Records an event with these fields, if somebody wants it.
    #[inline]
    pub fn record<F: Fields>(&'static self, fields: F) {
        self.record_with(F::KINDS, |encoder| fields.encode(encoder));
    }

    /// Records an event whose fields, of these kinds, `encode` encodes: each time that it is called the same ones.
    #[inline]
    pub fn record_with(&'static self, kinds: &'static [Kind], encode: impl Fn(&mut Encoder<'_>)) {
        let mut wanted_by = self.wanted_by.load(Ordering::Acquire);
        if wanted_by == UNKNOWN {
            wanted_by = self.make_known(kinds);
        }
        if wanted_by == 0 {
            return;
        }
        let mut room = Room::new();
        if wanted_by >> WITH_CARE == 0 {
            let mut encoder = Encoder::new(&mut room, self.header_id());
            encode(&mut encoder);
            if !encoder.lacks_field() {
                return record_as_it_is(&mut encoder.event(), wanted_by as u32);
            }
        }
        // By value: passed on by reference, what it encodes would have to be in memory also where it is not
        // called.
        self.record_any_of(encode, wanted_by, &mut room);
    }

    #[cold]
    #[inline(never)]
    fn record_any_of(
        &'static self,
        encode: impl Fn(&mut Encoder<'_>),
        wanted_by: u64,
        room: &mut Room,
    ) {
        self.record_any(&encode, wanted_by, Encoder::new(room, self.header_id()));
    }

    /// The same, for events that [`record_brief`](Self::record_brief) cannot take.
    #[inline(never)]
    pub(crate) fn record_carefully(
        &'static self,
        kinds: &'static [Kind],
        encode: &dyn Fn(&mut Encoder<'_>),
        room: &mut BriefRoom,
    ) {
        let mut wanted_by = self.wanted_by.load(Ordering::Acquire);
        if wanted_by == UNKNOWN {
            wanted_by = self.make_known(kinds);
        }
        if wanted_by != 0 {
            self.record_any(encode, wanted_by, room.encoder(self.header_id()));
        }
    }

    /// Records an event with these fields, if they are brief and all who want it want it just as it is; nothing
    /// is to be done if nobody wants it. Else it returns false, and nothing has happened.
    #[inline(always)]
    pub(crate) fn record_brief(
        &'static self,
        payload: &impl Payload,
        room: &mut BriefRoom,
    ) -> bool {
        let wanted_by = self.wanted_by.load(Ordering::Acquire);
        // By somebody, and no bits in the upper half.
        let is_simple = wanted_by.wrapping_sub(1) < (1 << WITH_CARE) - 1;
        let mut brief = Brief::new(room, self.header_id());
        let is_simple = is_simple && payload.encode(&mut brief).is_some();
        if is_simple {
            record_as_it_is(&mut brief.event(), wanted_by as u32);
        }
        is_simple || wanted_by == 0
    }

    /// The id of a type that is wanted.
    #[inline(always)]
    fn header_id(&self) -> u16 {
        // One of `registry`, where there are fewer than 65,536.
        self.id.load(Ordering::Relaxed) as u16
    }

    /// Records an event of any size into channels of which some may have filters or contexts.
    ///
    /// # Stack
    ///
    /// Signal handlers may have 8 KiB of stack, of which the kernel takes a part, and record events of any size.
    /// So the stack has room for small events, the one that the first try had, and all others are encoded in
    /// [rooms](blkkin_ring::rooms).
    fn record_any(
        &'static self,
        encode: &dyn Fn(&mut Encoder<'_>),
        wanted_by: u64,
        mut encoder: Encoder<'_>,
    ) {
        encode(&mut encoder);
        if !encoder.lacks_field() {
            record_as_it_is(&mut encoder.event(), wanted_by as u32);
        } else {
            for channel in channels_in(wanted_by as u32) {
                self.record_long(encode, channel, None);
            }
        }
        let with_care = (wanted_by >> WITH_CARE) as u32;
        if with_care == 0 {
            return;
        }
        // What channels want is held meanwhile, so that nobody gives their rings to a channel that wants
        // something else.
        registry::with_book(|book| {
            for channel in channels_in(with_care) {
                let Some(orders) = book.orders(channel) else { continue };
                if encoder.lacks_field() {
                    self.record_long(encode, channel, Some(orders));
                } else if !orders.want(self, encoder.fields()) {
                } else if orders.sources.is_empty() {
                    channels::slot(channel).record(&mut encoder.event());
                } else if !self.record_with_contexts(&encoder, channel, orders) {
                    self.record_long(encode, channel, Some(orders));
                }
            }
        });
    }

    /// Records a small event behind contexts. False, and nothing has happened, if it is not small with them.
    #[inline(never)]
    fn record_with_contexts(
        &self,
        encoder: &Encoder<'_>,
        channel: usize,
        orders: &registry::Orders,
    ) -> bool {
        let mut room = Room::<WITH_CONTEXTS_SIZE>::of_size();
        let mut whole = Encoder::new(&mut room, self.header_id());
        orders.encode_contexts(&mut whole);
        whole.put_bytes(encoder.fields());
        let fits = !whole.lacks_field();
        if fits {
            channels::slot(channel).record(&mut whole.event());
        }
        fits
    }

    /// Records an event that is not small, if the channel's filters want it.
    #[inline(never)]
    fn record_long(
        &self,
        encode: &dyn Fn(&mut Encoder<'_>),
        channel: usize,
        orders: Option<&registry::Orders>,
    ) {
        let fields_at = Cell::new(0);
        let whole = |encoder: &mut Encoder<'_>| {
            if let Some(orders) = orders {
                orders.encode_contexts(encoder);
            }
            fields_at.set(encoder.size());
            encode(encoder);
        };
        let size_max = channels::event_size_max(channel);
        with_long_event(self.header_id(), size_max, &whole, |encoder, is_cut| {
            let fields = encoder.fields_from(fields_at.get());
            if orders.is_some_and(|orders| !orders.want(self, fields)) {
                return;
            }
            let slot = channels::slot(channel);
            match is_cut {
                true => slot.record_cut(&mut encoder.event()),
                false => slot.record(&mut encoder.event()),
            };
        });
    }

    /// Makes the type known, and so one that somebody may want events of; by whom they are wanted now.
    ///
    /// Several threads may do so at once, and a signal handler in between: each finds a place for it, and
    /// the first one's counts. So nobody waits for another, and no event of theirs is lost.
    #[cold]
    pub fn make_known(&'static self, kinds: &'static [Kind]) -> u64 {
        if daemon::is_undecided() {
            if registry::is_quiet() {
                return 0;
            }
            daemon::heed();
        }
        if self.id.load(Ordering::Acquire) == NO_ID {
            let id = registry::add(self, kinds).map_or(REFUSED, u32::from);
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            let is_first = self.id.compare_exchange(NO_ID, id, release, relaxed).is_ok();
            if is_first && id == REFUSED {
                registry::count_refused();
                self.wanted_by.store(0, Ordering::Relaxed);
            }
        }
        if self.id().is_some() {
            registry::decide(self);
        }
        match self.wanted_by.load(Ordering::Acquire) {
            UNKNOWN => 0,
            wanted_by => wanted_by,
        }
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

    /// The fields' names and kinds; none before the type is known.
    pub fn fields(&self) -> impl Iterator<Item = (&'static str, Kind)> + Clone + use<> {
        self.fields_of_kinds(registry::entry(self).map_or(&[], |entry| entry.kinds))
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

/// Fields that either encoder can take.
pub(crate) trait Payload {
    /// Writes them, as far as the pen takes them. To be inlined always, as what is inlined into that; closures
    /// cannot say so of themselves.
    fn encode(&self, pen: &mut impl Pen) -> Option<()>;

    /// Does what could panic, if something is wrong with the tracer itself.
    fn guard(work: impl FnOnce()) {
        work();
    }
}

/// Size of the largest event that is put behind contexts on the stack.
const WITH_CONTEXTS_SIZE: usize = 512;

/// Records an encoded event into these channels.
#[inline(always)]
fn record_as_it_is(event: &mut Event<'_>, channels: u32) {
    channels_in(channels).for_each(|channel| {
        channels::slot(channel).record(event);
    });
}

/// The channels of a set's bits.
#[inline(always)]
fn channels_in(mut channels: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let channel = (channels != 0).then_some(channels.trailing_zeros() as usize)?;
        channels &= channels - 1;
        Some(channel)
    })
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

/// Records an event, if somebody wants it: `event!(Level::Info, "osd:write", oid = name, bytes = n)`.
///
/// Fields are integers, floats, `bool`, strings, arrays and slices of numbers, and enumerations that
/// [`event_enum!`](crate::event_enum) has made known; at most sixteen. They are evaluated only if somebody
/// wants the event, which costs a load and a branch to find out.
///
/// ```
/// use blkkin_trace::{Level, event, event_enum};
///
/// #[derive(Clone, Copy)]
/// enum State {
///     Idle,
///     Busy = 7,
/// }
/// event_enum!(State as u8 { Idle, Busy });
///
/// let latencies: Vec<u32> = vec![12, 7, 9];
/// event!(Level::Info, "osd:flush", state = State::Busy, latencies = latencies, id = [1u8, 2, 3]);
/// ```
#[macro_export]
macro_rules! event {
    ($level:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        static EVENT: $crate::EventType = $crate::EventType::new(
            $name,
            $level,
            &[$(stringify!($field)),*],
            (file!(), line!()),
        );
        if EVENT.is_enabled() {
            EVENT.record(($($value,)*));
        }
    }};
}
