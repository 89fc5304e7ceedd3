//! Callsites: instrumentation points of the program that send spans or events to `tracing`.
//!
//! A callsite and its data live as long as the program, so the number of callsites is limited. A
//! hash table without removal finds a callsite by the address of its metadata.

use crate::fields::{FIELDS_MAX, FieldKinds, FieldValues};
use crate::names;
use blkkin_trace::{Endpoint, EventType, Kind, Level, registry};
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use tracing_core::Metadata;

/// Number of entries of the hash table: a power of two, twice [`CALLSITES_MAX`].
const TABLE_SIZE: usize = 8192;
const CALLSITES_MAX: usize = TABLE_SIZE / 2;
/// Value of `Callsite::interest` without a decision; with one it is `UNWANTED` or `WANTED`.
const UNDECIDED: u8 = 0;
const UNWANTED: u8 = 1;
const WANTED: u8 = 2;
/// Maximum number of combinations of field kinds with separate event types, for each
/// [`EventVariants`]. In events with further combinations, all fields of the program are strings.
const VARIANTS_MAX: usize = 7;

static TABLE: [OnceLock<(usize, &'static Callsite)>; TABLE_SIZE] =
    [const { OnceLock::new() }; TABLE_SIZE];
/// Number of callsites in the table; locked while a callsite is added.
static COUNT: Mutex<usize> = Mutex::new(0);
static REFUSED: AtomicUsize = AtomicUsize::new(0);

pub(crate) struct Callsite {
    name: &'static str,
    level: Level,
    place: (&'static str, u32),
    metadata: &'static Metadata<'static>,
    /// Event type by which the registry decides whether this callsite's events are wanted; never
    /// recorded.
    probe: EventType,
    interest: AtomicU8,
    /// Event types by the kinds of their fields, because values may be missing or have another kind
    /// in each event.
    variants: EventVariants,
    /// Event types that also have the fields of a service, for layers made by
    /// [`layer_of`](crate::layer_of).
    with_service: OnceLock<Box<EventVariants>>,
}

/// Event types of a callsite, by the kinds of their fields.
struct EventVariants {
    by_kinds: [OnceLock<&'static EventVariant>; VARIANTS_MAX],
    all_strings: OnceLock<&'static EventVariant>,
}

/// Event type of one combination of field kinds.
struct EventVariant {
    field_kinds: FieldKinds,
    event: EventType,
    kinds: &'static [Kind],
}

const SPAN_NAMES: [&str; 6] =
    ["trace_id", "trace_id_high", "span_id", "parent_span_id", "start", "duration"];
const SPAN_KINDS: [Kind; 6] = [Kind::I64, Kind::I64, Kind::I64, Kind::I64, Kind::U64, Kind::U64];
const EVENT_FIELDS: usize = 3;
const SERVICE_NAMES: [&str; 3] = ["service_name", "port_no", "ip"];
const SERVICE_KINDS: [Kind; 3] = [Kind::String, Kind::I32, Kind::String];

/// Returns the number of times that a callsite was refused because the table was full; 0 if no
/// callsite was refused. A registered callsite counts again whenever `tracing` rebuilds its
/// interest cache. Spans and events of a refused callsite are not recorded.
pub fn refused() -> usize {
    REFUSED.load(Relaxed)
}

/// Returns the hash key of a callsite, and the table indexes to probe, in order.
fn places(metadata: &Metadata<'_>) -> (usize, impl Iterator<Item = usize>) {
    let key = std::ptr::from_ref(metadata).addr();
    // Fibonacci hashing: the upper bits of the product depend on all bits of the key.
    let hash = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (key, (0..TABLE_SIZE).map(move |step| (hash as usize + step) % TABLE_SIZE))
}

/// Returns the callsite with this metadata; `None` if it is not in the table.
#[inline]
pub(crate) fn find(metadata: &Metadata<'_>) -> Option<&'static Callsite> {
    let (key, places) = places(metadata);
    for place in places {
        let (found, callsite) = TABLE[place].get()?;
        if *found == key {
            return Some(callsite);
        }
    }
    None
}

/// Returns the callsite with this metadata if its events are wanted. Adds the callsite if it is not
/// in the table: `tracing` does not block other threads while the first one registers it, and
/// callsites of the `log` crate are never registered.
#[inline]
pub(crate) fn find_wanted(metadata: &'static Metadata<'static>) -> Option<&'static Callsite> {
    find(metadata).or_else(|| add_unregistered(metadata)).filter(|callsite| callsite.is_wanted())
}

#[cold]
fn add_unregistered(metadata: &'static Metadata<'static>) -> Option<&'static Callsite> {
    // Each event of a refused callsite gets here, and the lock would stall all threads.
    if REFUSED.load(Relaxed) > 0 {
        return None;
    }
    add(metadata)
}

/// Decides for each callsite again whether its events are wanted.
pub(crate) fn decide_all() {
    for (_, callsite) in TABLE.iter().filter_map(OnceLock::get) {
        callsite.decide();
    }
}

/// Returns the callsite with this metadata, added if necessary; `None` if there are too many.
pub(crate) fn add(metadata: &'static Metadata<'static>) -> Option<&'static Callsite> {
    if let Some(callsite) = find(metadata) {
        return Some(callsite);
    }
    let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(callsite) = find(metadata) {
        return Some(callsite);
    }
    if *count == CALLSITES_MAX {
        REFUSED.fetch_add(1, Relaxed);
        return None;
    }
    let callsite: &'static Callsite = Box::leak(Box::new(Callsite::new(metadata)));
    let (key, mut places) = places(metadata);
    // No other thread adds a callsite meanwhile, and half of the table is free.
    places.find(|place| TABLE[*place].set((key, callsite)).is_ok())?;
    *count += 1;
    Some(callsite)
}

impl Callsite {
    fn new(metadata: &'static Metadata<'static>) -> Callsite {
        let name: &'static str = names::event_name(metadata).leak();
        let level = names::level(metadata.level());
        let place = (metadata.file().unwrap_or_default(), metadata.line().unwrap_or_default());
        Callsite {
            name,
            level,
            place,
            metadata,
            probe: EventType::new(name, level, &[], place),
            interest: AtomicU8::new(UNDECIDED),
            variants: EventVariants::new(),
            with_service: OnceLock::new(),
        }
    }

    /// Decides whether events of this callsite are wanted, and caches the decision. Returns `None`,
    /// and clears the cached decision, while the tracer is undecided.
    pub(crate) fn decide(&self) -> Option<bool> {
        if registry::is_undecided() {
            self.interest.store(UNDECIDED, Relaxed);
            return None;
        }
        let is_wanted = registry::is_wanted(&self.probe);
        self.interest.store(if is_wanted { WANTED } else { UNWANTED }, Relaxed);
        Some(is_wanted)
    }

    /// Returns true if events of this callsite are wanted. Uses the cached decision if there is
    /// one.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        match self.interest.load(Relaxed) {
            UNDECIDED => !registry::stays_undecided() && self.decide() == Some(true),
            interest => interest == WANTED,
        }
    }

    pub(crate) fn fields_count(&self) -> usize {
        self.metadata.fields().len()
    }

    /// Records an event: the layer's `N` own fields, the fields of `service` if there is one, then
    /// the program's fields. Spans and events have different numbers of own fields.
    #[inline]
    pub(crate) fn record<const N: usize>(
        &'static self,
        values: &FieldValues,
        own: [u64; N],
        service: Option<&Endpoint<'_>>,
    ) {
        if let Some(service) = service {
            return self.record_with_service(values, own, service);
        }
        let variant = self.variants.find(values.kinds(), self, false);
        variant.event.record_with(variant.kinds, |encoder| {
            encoder.put_words(own);
            values.encode(&variant.field_kinds, encoder);
        });
    }

    /// Records an event with the layer's own fields, followed by the fields of a service and the
    /// program's fields.
    #[inline(never)]
    fn record_with_service<const N: usize>(
        &'static self,
        values: &FieldValues,
        own: [u64; N],
        service: &Endpoint<'_>,
    ) {
        let variants = self.with_service.get_or_init(|| Box::new(EventVariants::new()));
        let variant = variants.find(values.kinds(), self, true);
        variant.event.record_with(variant.kinds, |encoder| {
            encoder.put_words(own);
            encoder.put_string(service.service_name());
            encoder.put(service.port().to_le_bytes());
            encoder.put_string(service.ip());
            values.encode(&variant.field_kinds, encoder);
        });
    }

    #[cold]
    fn make_variant(&self, field_kinds: FieldKinds, has_service: bool) -> &'static EventVariant {
        let own = if self.metadata.is_span() { SPAN_NAMES.len() } else { EVENT_FIELDS };
        let mut names = SPAN_NAMES[..own].to_vec();
        let mut kinds = SPAN_KINDS[..own].to_vec();
        if has_service {
            names.extend(SERVICE_NAMES);
            kinds.extend(SERVICE_KINDS);
        }
        let fields: Vec<_> = self.metadata.fields().iter().take(FIELDS_MAX).collect();
        for (index, kind) in field_kinds.fields() {
            let name = fields.get(index).map_or("_", |field| field.name());
            names.push(names::field_name(name, &names).leak());
            kinds.push(kind);
        }
        let event = EventType::new(self.name, self.level, names.leak(), self.place);
        let variant: &'static EventVariant =
            Box::leak(Box::new(EventVariant { field_kinds, event, kinds: kinds.leak() }));
        // Registered now, while other threads at this callsite wait: otherwise one of their events
        // would be lost.
        variant.event.register(variant.kinds);
        variant
    }
}

impl EventVariants {
    const fn new() -> EventVariants {
        EventVariants {
            by_kinds: [const { OnceLock::new() }; VARIANTS_MAX],
            all_strings: OnceLock::new(),
        }
    }

    #[inline]
    fn find(
        &self,
        field_kinds: &FieldKinds,
        callsite: &Callsite,
        has_service: bool,
    ) -> &'static EventVariant {
        for place in &self.by_kinds {
            let variant = place.get_or_init(|| callsite.make_variant(*field_kinds, has_service));
            if variant.field_kinds == *field_kinds {
                return variant;
            }
        }
        let kinds = || FieldKinds::all_strings(callsite.fields_count());
        self.all_strings.get_or_init(|| callsite.make_variant(kinds(), has_service))
    }
}
