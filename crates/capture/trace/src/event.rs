//! Recording of an event: checks whether a channel wants the event, encodes the fields, and copies
//! the event into the rings of each channel that wants it. Small events are encoded on the stack,
//! larger ones in [large_event_memory](blkkin_ring::large_event_memory).

use crate::channels;
use crate::daemon;
use crate::daemon::{catalog, state};
use crate::event_type::{CONDITIONAL_SHIFT, EventType, NO_ID, REFUSED, UNKNOWN, bit};
use crate::kind::Kind;
use crate::registry::channel_rules::ChannelRules;
use crate::registry::{self, decision, rcu, types};
use crate::start;
use crate::value::Fields;
use blkkin_ring::{Brief, BriefRoom, Encoder, Event, Pen, Room, with_long_event};
use std::cell::Cell;
use std::sync::atomic::Ordering;

impl EventType {
    /// Returns true if the fields of an event of this type are worth computing: a channel wants the
    /// event, or may want it while the type is undecided.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        match self.wanted_by.load(Ordering::Relaxed) {
            0 => false,
            UNKNOWN => !registry::is_quiet(),
            _ => true,
        }
    }

    /// Records an event with these fields, if a channel wants it.
    #[inline]
    pub fn record<F: Fields>(&'static self, fields: F) {
        self.record_with(F::KINDS, |encoder| fields.encode(encoder));
    }

    /// Records an event whose fields `encode` writes, if a channel wants the event. `encode` may be
    /// called several times, and must write the same fields, of the kinds `kinds`, each time.
    #[inline]
    pub fn record_with(&'static self, kinds: &'static [Kind], encode: impl Fn(&mut Encoder<'_>)) {
        let mut wanted_by = self.wanted_by.load(Ordering::Acquire);
        if wanted_by == UNKNOWN {
            wanted_by = self.register(kinds);
        }
        if wanted_by == 0 {
            return;
        }
        let mut room = Room::new();
        if wanted_by >> CONDITIONAL_SHIFT == 0 {
            let mut encoder = Encoder::new(&mut room, self.header_id());
            encode(&mut encoder);
            if !encoder.lacks_field() {
                return record_unchanged(&mut encoder.event(), wanted_by as u32);
            }
        }
        // `encode` is passed by value: by reference, its captures would be spilled to memory even
        // where this is not called.
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

    /// Records an event for which [`record_brief`](Self::record_brief) returned false, if a channel
    /// wants the event.
    #[inline(never)]
    pub(crate) fn record_slowly(
        &'static self,
        kinds: &'static [Kind],
        encode: &dyn Fn(&mut Encoder<'_>),
        room: &mut BriefRoom,
    ) {
        let mut wanted_by = self.wanted_by.load(Ordering::Acquire);
        if wanted_by == UNKNOWN {
            wanted_by = self.register(kinds);
        }
        if wanted_by != 0 {
            self.record_any(encode, wanted_by, room.encoder(self.header_id()));
        }
    }

    /// Records an event with short fields on the fast path, for channels without filters and
    /// contexts. Returns false, and records nothing, if the event needs another path. Returns true
    /// if the event is recorded or no channel wants it.
    #[inline(always)]
    pub(crate) fn record_brief(
        &'static self,
        payload: &impl Payload,
        room: &mut BriefRoom,
    ) -> bool {
        let wanted_by = self.wanted_by.load(Ordering::Acquire);
        // At least one channel wants the event, and no bit is set in the upper half.
        let is_simple = wanted_by.wrapping_sub(1) < (1 << CONDITIONAL_SHIFT) - 1;
        let mut brief = Brief::new(room, self.header_id());
        let is_simple = is_simple && payload.encode(&mut brief).is_some();
        if is_simple {
            record_unchanged(&mut brief.event(), wanted_by as u32);
        }
        is_simple || wanted_by == 0
    }

    /// Records an event of any size into channels that may have filters or contexts.
    ///
    /// # Stack
    ///
    /// A signal handler may have only 8 KiB of stack, part of which the kernel uses, and may record
    /// events of any size. So the stack holds small events only: in the memory of the first
    /// attempt, and with contexts in [`WITH_CONTEXTS_SIZE`] further bytes. Larger events are
    /// encoded in [large_event_memory](blkkin_ring::large_event_memory).
    fn record_any(
        &'static self,
        encode: &dyn Fn(&mut Encoder<'_>),
        wanted_by: u64,
        mut encoder: Encoder<'_>,
    ) {
        let conditional = (wanted_by >> CONDITIONAL_SHIFT) as u32;
        if wanted_by as u32 == 0 && conditional.is_power_of_two() {
            // The usual case: the fields are encoded once, behind the contexts.
            let channel = conditional.trailing_zeros() as usize;
            let is_done = rcu::with_rules(|table| match table.rules_of(channel) {
                Some(rules) if rules.has_filters() => false,
                Some(rules) if self.is_wanted_by(channel) => {
                    if !self.record_with_contexts(encode, channel, rules) {
                        self.record_long(encode, channel, Some(rules));
                    }
                    true
                }
                _ => true,
            });
            if is_done != Some(false) {
                return;
            }
        }
        encode(&mut encoder);
        if !encoder.lacks_field() {
            record_unchanged(&mut encoder.event(), wanted_by as u32);
        } else {
            for channel in channels_in(wanted_by as u32) {
                self.record_long(encode, channel, None);
            }
        }
        if conditional == 0 {
            return;
        }
        // The rules stay pinned meanwhile, so that the numbers of these channels are not reused for
        // channels with other rules.
        rcu::with_rules(|table| {
            for channel in channels_in(conditional) {
                let Some(rules) = table.rules_of(channel) else { continue };
                if encoder.lacks_field() {
                    self.record_long(encode, channel, Some(rules));
                } else if !self.is_accepted(channel, rules, encoder.fields()) {
                } else if rules.sources.is_empty() {
                    channels::slot(channel).record(&mut encoder.event());
                } else if !self.record_with_contexts(
                    &|whole| whole.put_bytes(encoder.fields()),
                    channel,
                    rules,
                ) {
                    self.record_long(encode, channel, Some(rules));
                }
            }
        });
    }

    /// Returns true if a channel with filters or contexts wants events of this type now. While the
    /// rules are pinned, this is the decision by the channel's rules, and not by those of an
    /// earlier channel with the same number.
    fn is_wanted_by(&self, channel: usize) -> bool {
        self.wanted_by.load(Ordering::Acquire) & bit(channel, true) != 0
    }

    /// Returns true if a channel records an event with these fields.
    fn is_accepted(&self, channel: usize, rules: &ChannelRules, fields: &[u8]) -> bool {
        match rules.has_filters() {
            true => rules.match_event(self, fields),
            false => self.is_wanted_by(channel),
        }
    }

    /// Records a small event with a channel's contexts before the event's fields, which `encode`
    /// writes. Returns false, and records nothing, if header, contexts and fields together exceed
    /// [`WITH_CONTEXTS_SIZE`].
    #[inline(never)]
    fn record_with_contexts(
        &self,
        encode: &dyn Fn(&mut Encoder<'_>),
        channel: usize,
        rules: &ChannelRules,
    ) -> bool {
        let mut room = Room::<WITH_CONTEXTS_SIZE>::of_size();
        let mut whole = Encoder::new(&mut room, self.header_id());
        rules.encode_contexts(&mut whole);
        encode(&mut whole);
        let fits = !whole.lacks_field();
        if fits {
            channels::slot(channel).record(&mut whole.event());
        }
        fits
    }

    /// Records into `channel` an event that does not fit on the stack, with the contexts in `rules`
    /// before the fields. Strings are shortened if the event exceeds the channel's maximum size. An
    /// event that the filters in `rules` do not accept is not recorded.
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

    /// Registers the type and returns the bitmap of the channels that want its events now. Returns
    /// 0 if the type is refused or remains undecided, and without registration while no event can
    /// be wanted.
    ///
    /// Several threads may register a type at once, and a signal handler in between. Each reserves
    /// an entry for the type, and the first id that is stored is final. So no thread waits for
    /// another, and no event is lost.
    #[cold]
    pub fn register(&'static self, kinds: &'static [Kind]) -> u64 {
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

/// Adds a type to the table of event types and returns the entry's index, the id to store. Returns
/// `None` if the table or the catalog is full, or if the type's description is invalid or exceeds a
/// limit.
fn register(event: &'static EventType, kinds: &'static [Kind]) -> Option<u16> {
    start::link();
    let described_at = catalog::reserve(event, kinds)?;
    types::add(event, kinds, described_at)
}

/// Fields that both [`Brief`] and [`Encoder`] can encode.
pub(crate) trait Payload {
    /// Writes the fields. Returns `None` as soon as the pen refuses a field. Implementations and
    /// the functions that they call need `#[inline(always)]`, so that the pen's state stays in
    /// registers. Closures cannot have that attribute, so implementations avoid them.
    fn encode(&self, pen: &mut impl Pen) -> Option<()>;

    /// Runs recording code, which panics only on a bug in the tracer. An implementation may catch
    /// the panic.
    fn guard(work: impl FnOnce()) {
        work();
    }
}

/// Maximum size in bytes of an event that is encoded on the stack together with contexts.
const WITH_CONTEXTS_SIZE: usize = 512;

/// Records an encoded event into each channel of a bitmap.
#[inline(always)]
fn record_unchanged(event: &mut Event<'_>, channels: u32) {
    channels_in(channels).for_each(|channel| {
        channels::slot(channel).record(event);
    });
}

/// Iterates over the numbers of the channels in a bitmap.
#[inline(always)]
fn channels_in(mut channels: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let channel = (channels != 0).then_some(channels.trailing_zeros() as usize)?;
        channels &= channels - 1;
        Some(channel)
    })
}

/// Records an event, if a channel wants it: `event!(Level::Info, "osd:write", oid = name, bytes =
/// n)`. Also a USDT probe, which fires if a tracer is attached.
///
/// An event has at most sixteen fields: integers, floats, `bool`, strings, arrays and slices of
/// numbers, and enumerations declared with [`event_enum!`](crate::event_enum). Fields are evaluated
/// only if a channel wants the event, or may want it while the type is undecided, or a tracer is
/// attached. For a decided type, the check costs two loads from one cache line and a branch.
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
///
/// # USDT probes
///
/// On x86-64 and ARM64, `perf`, `bpftrace` and SystemTap attach to the events of a program as to
/// its USDT probes, with or without an agent:
///
/// ```text
/// bpftrace -e 'usdt:./osd:osd:write { printf("%s %d\n", str(arg0), arg1); }'
/// ```
///
/// The fields are the arguments: integers, `bool` and enumerations by value, floats as the integer
/// with the same bits, strings as the address of bytes with a NUL at the end, arrays as the address
/// of the first element. Slices are two arguments, the address of the first element and the number
/// of elements: `buf(arg2, arg3)`. The first twelve arguments are passed. If the event exceeds
/// 4 KiB, strings are shortened as in a ring, and all arguments are 0 if arrays and slices alone
/// are too large.
///
/// `bpftrace` and other tools that use BCC attach to only one of several `event!` with the same
/// name, as the semaphores of the others remain 0.
#[macro_export]
macro_rules! event {
    ($level:expr, $name:literal $(, $field:ident = $value:expr)* $(,)?) => {{
        $crate::usdt_static!(
            static EVENT: $crate::EventSite = $crate::EventSite::new(
                $name,
                $level,
                &[$(stringify!($field)),*],
                (file!(), line!()),
            )
        );
        struct BlkkinProbe;
        impl $crate::Probe for BlkkinProbe {
            const NAME: &'static str = $name;

            #[cold]
            #[inline(never)]
            fn fire<F: $crate::Fields>(arguments: &$crate::UsdtArguments) {
                $crate::usdt_probe!(
                    $crate::ProbeText::<Self, F>::TEXT,
                    EVENT,
                    arguments,
                    <Self as $crate::Probe>::fire::<F>
                );
            }
        }
        if EVENT.is_enabled() {
            EVENT.record::<BlkkinProbe, _>(($($value,)*));
        }
    }};
}
