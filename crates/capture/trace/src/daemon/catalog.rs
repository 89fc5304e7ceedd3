//! The program's [`catalog`]: shared memory with the descriptions of its event types, read by
//! agents.
//!
//! Each process has its own catalog, created when an agent first accepts the process and used until
//! the process ends. A word that the kernel wipes in forked children shows a child that it has no
//! catalog; the parent's is not mapped there. If the program has closed the catalog's file, the
//! process creates another catalog for the next agent.

use crate::event_type::EventType;
use crate::kind::Kind;
use crate::registry::types;
use blkkin_control::catalog::{
    COUNT, CURRENT_SPAN, DESCRIPTIONS, Description, IDENTITY, MAGIC, REFUSED, SIZE, encode_word,
    word_of,
};
use blkkin_control::current_span::SlotOffset;
use blkkin_control::{Scalar, catalog};
use blkkin_sys::{SharedMemory, WipedOnFork, thread_slot};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Maximum number of catalogs, created by this process or by the processes from which it was
/// forked.
const CATALOGS_MAX: usize = 256;
static CATALOGS: [OnceLock<SharedMemory>; CATALOGS_MAX] = [const { OnceLock::new() }; CATALOGS_MAX];
/// Number of reserved catalogs. Reservations are never undone, so a forked child skips a catalog
/// that its parent had reserved and not created yet.
static RESERVED_CATALOGS: AtomicUsize = AtomicUsize::new(0);

/// Index of this process's catalog, plus 1; 0 without a catalog, as in a forked child.
static CURRENT: WipedOnFork = WipedOnFork::new();

fn current() -> Option<&'static SharedMemory> {
    let [current] = CURRENT.words();
    // Sequentially consistent: see "Why no type is missed" in `registry`.
    let place = current.load(Ordering::SeqCst).checked_sub(1)?;
    CATALOGS.get(usize::try_from(place).ok()?)?.get()
}

/// Returns true if this process, or one from which it was forked, has made a catalog. An agent can
/// know the place of threads' current spans only then.
#[inline(always)]
pub(crate) fn has_been_made() -> bool {
    RESERVED_CATALOGS.load(Ordering::Relaxed) != 0
}

/// Registers [`CURRENT`] with the kernel, which clears it in forked children. Fails if the kernel
/// cannot do that.
pub(super) fn prepare() -> io::Result<()> {
    if CURRENT.arm() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Makes `memory`, which is all zeros, the current catalog.
pub(super) fn install(memory: SharedMemory) -> io::Result<()> {
    let none = || io::Error::from(io::ErrorKind::OutOfMemory);
    for (place, word) in [0, 8].into_iter().zip(MAGIC) {
        memory.word(place).store(word, Ordering::Relaxed);
    }
    let current_span = SlotOffset::encode(thread_slot::offset().and_then(SlotOffset::new));
    memory.word(CURRENT_SPAN).store(current_span, Ordering::Relaxed);
    let [identity] = blkkin_sys::random_words().unwrap_or_default();
    memory.word(IDENTITY).store(identity, Ordering::Relaxed);
    let place = RESERVED_CATALOGS.fetch_add(1, Ordering::Relaxed);
    // No other call has this index, so the lock inside is never contended.
    CATALOGS.get(place).ok_or_else(none)?.set(memory).map_err(|_| none())?;
    let [current] = CURRENT.words();
    current.store(place as u64 + 1, Ordering::SeqCst);
    Ok(())
}

/// Number of bytes reserved for descriptions, the same in all catalogs.
static RESERVED_BYTES: AtomicU64 = AtomicU64::new(0);

/// Reserves room for the description of an event type, and returns its offset, the same in all
/// catalogs. Returns `None` if there is no room, or if the type exceeds a limit.
pub(crate) fn reserve(event: &EventType, kinds: &'static [Kind]) -> Option<usize> {
    let size = description(event, kinds, 0).size()? as u64;
    let taken = RESERVED_BYTES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
        (taken + size <= (SIZE - DESCRIPTIONS) as u64).then_some(taken + size)
    });
    Some(DESCRIPTIONS + usize::try_from(taken.ok()?).ok()?)
}

/// Writes the description of a registered event type into the current catalog, if there is one.
pub(crate) fn publish(event: &EventType) {
    let (Some(memory), Some(id)) = (current(), event.id()) else { return };
    let place_of_word = memory.word(word_of(id.into()));
    if place_of_word.load(Ordering::Acquire) != 0 {
        return;
    }
    let Some(entry) = types::entry(event) else { return };
    let start = entry.described_at;
    let mut end = start;
    let described = description(event, entry.kinds, id).encode(|piece| {
        memory.copy_in(end, piece);
        end += piece.len();
    });
    if described.is_some() {
        place_of_word.store(encode_word(&(start..end)), Ordering::Release);
        memory.word(COUNT).fetch_max(u64::from(id) + 1, Ordering::Release);
    }
}

/// Writes the number of refused event types into the current catalog, if there is one. Called after
/// a new catalog became current, and after a refusal was counted. So at least one of two concurrent
/// calls sees both changes.
pub(crate) fn publish_refused() {
    fence(Ordering::SeqCst);
    if let Some(memory) = current() {
        let refused = types::types_refused() as u64;
        memory.word(REFUSED).fetch_max(refused, Ordering::Relaxed);
    }
}

fn description(
    event: &EventType,
    kinds: &'static [Kind],
    id: u16,
) -> Description<'static, impl Iterator<Item = (&'static str, catalog::Kind<'static>)> + Clone> {
    let (file, line) = event.place();
    Description {
        index: id.into(),
        name: event.name(),
        level: event.level(),
        file,
        line,
        fields: event.fields_of_kinds(kinds).map(|(name, kind)| (name, field_kind(kind))),
    }
}

fn field_kind(kind: Kind) -> catalog::Kind<'static> {
    match kind {
        Kind::String => catalog::Kind::String,
        Kind::Array(of, count) => catalog::Kind::Array(of, count),
        Kind::Sequence(of) => catalog::Kind::Sequence(of),
        Kind::Bytes => catalog::Kind::Bytes,
        Kind::Enum(Scalar::Signed { width, .. }, labels) => {
            catalog::Kind::Enum(true, width, labels.0)
        }
        Kind::Enum(Scalar::Unsigned { width, .. }, labels) => {
            catalog::Kind::Enum(false, width, labels.0)
        }
        // All other kinds are numbers.
        kind => kind.scalar().map_or(catalog::Kind::String, catalog::Kind::Scalar),
    }
}
