//! USDT probes of `event!`: each event is also a probe `PROVIDER:NAME`, to which `perf`, `bpftrace`
//! and SystemTap attach. A tracer's probe fires whether or not an agent records the event.
//!
//! | field | arguments |
//! | --- | --- |
//! | integer, `bool`, enumeration | value, with size and sign |
//! | float | bits, as an unsigned integer |
//! | string | address of its bytes, which end with a NUL |
//! | array | address of the first element |
//! | slice, `Vec` | address of the first element, number of elements (two arguments) |
//!
//! The first twelve arguments are passed. The addresses are those of the encoded event on the
//! stack. With more than [`LARGE_SIZE`] bytes, strings are shortened as in a ring; an event that
//! does not fit even so fires with zeros.

use crate::event_type::EventType;
use crate::kind::Kind;
use crate::value::Fields;
use crate::{Level, registry};
use blkkin_control::{Scalar, Width};
use blkkin_ring::{Encoder, Room, with_long_event};
use blkkin_sys::{USDT_ARGUMENTS_MAX, UsdtArguments, UsdtText};
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};

/// Event type with a USDT probe: the static behind each [`event!`](crate::event!).
#[derive(Debug)]
#[repr(C, align(16))]
pub struct EventSite {
    /// Semaphore of the probe, in the lower 16 bits: the number of attached tracers. The kernel
    /// changes it in the program's memory. First, because the probe's note has its address.
    semaphore: AtomicU64,
    /// Second, so that semaphore and [`wanted_by`](EventType::wanted_by) are in one cache line.
    event: EventType,
}

const _: () = assert!(std::mem::offset_of!(EventSite, semaphore) == 0);
const _: () = assert!(std::mem::offset_of!(EventType, wanted_by) == 0);

/// Probe of one [`event!`](crate::event!), implemented by the macro.
pub trait Probe {
    /// `PROVIDER:NAME`.
    const NAME: &'static str;

    /// Executes the instruction to which tracers attach.
    fn fire<F: Fields>(arguments: &UsdtArguments);
}

impl EventSite {
    /// Returns a type with the name `PROVIDER:NAME`, like [`EventType::new`].
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
    ) -> EventSite {
        let event = EventType::new(name, level, field_names, place);
        EventSite { semaphore: AtomicU64::new(0), event }
    }

    /// Returns true if the fields of an event are worth computing: a channel wants the event, or
    /// may want it while the type is undecided, or a tracer is attached to the probe.
    #[inline(always)]
    pub fn is_enabled(&self) -> bool {
        // One branch for both words: the semaphore has none of the bits of `UNKNOWN`.
        match self.event.wanted_by.load(Ordering::Relaxed) | self.semaphore.load(Ordering::Relaxed)
        {
            0 => false,
            crate::event_type::UNKNOWN => !registry::is_quiet(),
            _ => true,
        }
    }

    /// Records an event with these fields, if a channel wants it, and fires the probe, if a tracer
    /// is attached.
    #[inline]
    pub fn record<P: Probe, F: Fields>(&'static self, fields: F) {
        self.event.record_with(F::KINDS, |encoder| fields.encode(encoder));
        if self.semaphore.load(Ordering::Relaxed) != 0 {
            fire::<P, F>(fields);
        }
    }
}

/// Text of a probe's note.
#[derive(Debug)]
pub struct ProbeText<P, F>(PhantomData<(P, F)>);

impl<P: Probe, F: Fields> ProbeText<P, F> {
    /// Provider, name, and size and sign of each argument.
    pub const TEXT: UsdtText = text(P::NAME, F::KINDS);
}

const fn text(name: &str, kinds: &[Kind]) -> UsdtText {
    let mut text = UsdtText::new(name);
    let mut index = 0;
    while index < kinds.len() {
        let (size, is_signed) = size_and_sign(kinds[index]);
        text = text.with_argument(size, is_signed);
        if matches!(kinds[index], Kind::Sequence(_) | Kind::Bytes) {
            text = text.with_argument(8, false);
        }
        index += 1;
    }
    text
}

/// Returns the size of an argument in bytes, and true if it is a signed integer.
const fn size_and_sign(kind: Kind) -> (usize, bool) {
    match kind.scalar() {
        Some(Scalar::Signed { width, .. }) => (width.bytes(), true),
        Some(scalar) => (scalar.bytes(), false),
        None => (Width::Bits64.bytes(), false),
    }
}

/// Maximum size in bytes of an event whose strings are not shortened for a probe.
const LARGE_SIZE: usize = 4096;

/// Fires a probe. Small events are encoded on little stack, as in
/// [`record_any`](EventType::record_with), because the thread may be in a signal handler.
#[cold]
#[inline(never)]
fn fire<P: Probe, F: Fields>(fields: F) {
    let encode = |encoder: &mut Encoder<'_>| fields.encode(encoder);
    if !fire_within::<P, F, { blkkin_ring::ROOM_SIZE }>(&encode)
        && !fire_within::<P, F, LARGE_SIZE>(&encode)
    {
        with_long_event(0, LARGE_SIZE, &encode, |encoder, _| fire_encoded::<P, F>(encoder));
    }
}

/// Fires a probe with fields encoded in `SIZE` bytes. Returns false, and does not fire, if they do
/// not fit.
#[inline(never)]
fn fire_within<P: Probe, F: Fields, const SIZE: usize>(encode: &dyn Fn(&mut Encoder<'_>)) -> bool {
    let mut room = Room::<SIZE>::of_size();
    let mut encoder = Encoder::new(&mut room, 0);
    encode(&mut encoder);
    let fits = !encoder.lacks_field();
    if fits {
        fire_encoded::<P, F>(&mut encoder);
    }
    fits
}

fn fire_encoded<P: Probe, F: Fields>(encoder: &mut Encoder<'_>) {
    let fields = if encoder.lacks_field() { &[] } else { encoder.fields() };
    P::fire::<F>(&arguments(F::KINDS, fields));
}

/// Returns the arguments for encoded fields. Arguments of missing fields are 0.
fn arguments(kinds: &[Kind], mut fields: &[u8]) -> UsdtArguments {
    let mut arguments = [0; USDT_ARGUMENTS_MAX];
    let mut places = arguments.iter_mut();
    let mut push = |argument| {
        if let Some(place) = places.next() {
            *place = argument;
        }
    };
    for kind in kinds {
        let Some((field, rest)) = fields.split_at_checked(kind.size_in(fields)) else { break };
        fields = rest;
        match (kind, field.split_first_chunk()) {
            (Kind::Sequence(_) | Kind::Bytes, Some((count, elements))) => {
                push(elements.as_ptr() as u64);
                push(u32::from_le_bytes(*count).into());
            }
            (Kind::String | Kind::Array(..), _) => push(field.as_ptr() as u64),
            _ => {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(field).for_each(|(to, from)| *to = *from);
                push(u64::from_le_bytes(bytes));
            }
        }
    }
    arguments
}
