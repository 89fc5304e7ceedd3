//! Kinds of events, and how one is recorded: a look at whether anybody wants it, fields onto the
//! stack, and from there into the rings of those who do.

use crate::channels;
use crate::daemon;
use crate::daemon::{catalog, state};
use crate::event_type::{EventType, NO_ID, REFUSED, UNKNOWN, WITH_CARE};
use crate::kind::Kind;
use crate::registry::channel_rules::ChannelRules;
use crate::registry::{self, decision, rcu, types};
use crate::start;
use crate::value::Fields;
use blkkin_ring::{Brief, BriefRoom, Encoder, Event, Pen, Room, with_long_event};
use std::cell::Cell;
use std::sync::atomic::Ordering;

impl EventType {
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
                return record_unchanged(&mut encoder.event(), wanted_by as u32);
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
    pub(crate) fn record_slowly(
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
            record_unchanged(&mut brief.event(), wanted_by as u32);
        }
        is_simple || wanted_by == 0
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
            record_unchanged(&mut encoder.event(), wanted_by as u32);
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
        rcu::with_rules(|table| {
            for channel in channels_in(with_care) {
                let Some(rules) = table.rules_of(channel) else { continue };
                if encoder.lacks_field() {
                    self.record_long(encode, channel, Some(rules));
                } else if !rules.match_event(self, encoder.fields()) {
                } else if rules.sources.is_empty() {
                    channels::slot(channel).record(&mut encoder.event());
                } else if !self.record_with_contexts(&encoder, channel, rules) {
                    self.record_long(encode, channel, Some(rules));
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
        rules: &ChannelRules,
    ) -> bool {
        let mut room = Room::<WITH_CONTEXTS_SIZE>::of_size();
        let mut whole = Encoder::new(&mut room, self.header_id());
        rules.encode_contexts(&mut whole);
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
        rules: Option<&ChannelRules>,
    ) {
        let fields_at = Cell::new(0);
        let whole = |encoder: &mut Encoder<'_>| {
            if let Some(rules) = rules {
                rules.encode_contexts(encoder);
            }
            fields_at.set(encoder.size());
            encode(encoder);
        };
        let size_max = channels::event_size_max(channel);
        with_long_event(self.header_id(), size_max, &whole, |encoder, is_cut| {
            let fields = encoder.fields_from(fields_at.get());
            if rules.is_some_and(|rules| !rules.match_event(self, fields)) {
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
        if state::is_undecided() {
            if registry::is_quiet() {
                return 0;
            }
            daemon::start_for_event();
        }
        if self.id.load(Ordering::Acquire) == NO_ID {
            let id = register(self, kinds).map_or(REFUSED, u32::from);
            let (release, relaxed) = (Ordering::Release, Ordering::Relaxed);
            let is_first = self.id.compare_exchange(NO_ID, id, release, relaxed).is_ok();
            if is_first && id == REFUSED {
                types::count_refused();
                catalog::publish_refused();
                self.wanted_by.store(0, Ordering::Relaxed);
            }
        }
        if self.id().is_some() {
            decision::decide(self);
        }
        match self.wanted_by.load(Ordering::Acquire) {
            UNKNOWN => 0,
            wanted_by => wanted_by,
        }
    }
}

/// Adds a type to the table of types and returns its id; `None` if the table or the catalog is full, or
/// the type breaks a limit.
fn register(event: &'static EventType, kinds: &'static [Kind]) -> Option<u16> {
    start::link();
    let described_at = catalog::reserve(event, kinds)?;
    types::add(event, kinds, described_at)
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
fn record_unchanged(event: &mut Event<'_>, channels: u32) {
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
