//! The program's [catalog](blkkin_control::catalog): memory in which it tells the daemon its event types.
//!
//! There is one for each process, made when the process first talks to a daemon, and in use as long as it
//! lives. A child finds that it has none, by a word that the kernel wipes, and does not touch its
//! parent's, which is not mapped there. If the program closes the file, which is known only when the next
//! daemon is to get it, there will be another one.

use crate::event_type::EventType;
use crate::kind::Kind;
use crate::registry::types;
use blkkin_control::catalog::{
    COUNT, DESCRIPTIONS, Description, MAGIC, REFUSED, SIZE, word, word_of,
};
use blkkin_control::{Scalar, catalog};
use blkkin_sys::{SharedMemory, WipedOnFork};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Catalogs of this process and of those that it descends from by forks; none is made beyond.
const CATALOGS: usize = 256;
static ALL: [OnceLock<SharedMemory>; CATALOGS] = [const { OnceLock::new() }; CATALOGS];
/// How many were begun. A child goes on behind one that its parent was about to make.
static BEGUN: AtomicUsize = AtomicUsize::new(0);

/// The place of this process's catalog, from 1; 0 if there is none, as in a child.
static CURRENT: WipedOnFork = WipedOnFork::new();

fn current() -> Option<&'static SharedMemory> {
    let [current] = CURRENT.words();
    // Sequentially consistent: see `registry`.
    let place = current.load(Ordering::SeqCst).checked_sub(1)?;
    ALL.get(usize::try_from(place).ok()?)?.get()
}

/// Has the kernel clear the number of the current catalog in children; an error if it cannot.
pub(super) fn prepare() -> io::Result<()> {
    if CURRENT.arm() { Ok(()) } else { Err(io::ErrorKind::Unsupported.into()) }
}

/// Makes `memory`, which is all zeros, the current catalog.
pub(super) fn install(memory: SharedMemory) -> io::Result<()> {
    let none = || io::Error::from(io::ErrorKind::OutOfMemory);
    for (place, word) in [0, 8].into_iter().zip(MAGIC) {
        memory.word(place).store(word, Ordering::Relaxed);
    }
    let place = BEGUN.fetch_add(1, Ordering::Relaxed);
    // Nobody else ever sets this one, so nobody waits.
    ALL.get(place).ok_or_else(none)?.set(memory).map_err(|_| none())?;
    let [current] = CURRENT.words();
    current.store(place as u64 + 1, Ordering::SeqCst);
    Ok(())
}

/// Bytes of catalogs that descriptions take.
static RESERVED: AtomicU64 = AtomicU64::new(0);

/// Finds room for a type's description, the same in all catalogs. `None` if there is none left, or the type
/// is not what types may be.
pub(crate) fn reserve(event: &EventType, kinds: &'static [Kind]) -> Option<usize> {
    let size = description(event, kinds, 0).size()? as u64;
    let taken = RESERVED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
        (taken + size <= (SIZE - DESCRIPTIONS) as u64).then_some(taken + size)
    });
    Some(DESCRIPTIONS + usize::try_from(taken.ok()?).ok()?)
}

/// Tells a type that has an id, if there is a catalog.
pub(crate) fn publish(event: &EventType) {
    let (Some(memory), Some(id)) = (current(), event.id()) else { return };
    let place_of_word = memory.word(word_of(id.into()));
    if place_of_word.load(Ordering::Acquire) != 0 {
        return;
    }
    let Some(entry) = types::entry(event) else { return };
    let start = entry.described_at;
    let mut end = start;
    let described = description(event, entry.kinds, id).put(|piece| {
        memory.copy_in(end, piece);
        end += piece.len();
    });
    if described.is_some() {
        place_of_word.store(word(&(start..end)), Ordering::Release);
        memory.word(COUNT).fetch_max(u64::from(id) + 1, Ordering::Release);
    }
}

/// Tells how many types were refused, if there is a catalog. Who makes one does so after that is current, and
/// who refuses a type after that is counted; so one of them tells it.
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
        Kind::Enum(Scalar::Signed { width, .. }, labels) => {
            catalog::Kind::Enum(true, width, labels.0)
        }
        Kind::Enum(Scalar::Unsigned { width, .. }, labels) => {
            catalog::Kind::Enum(false, width, labels.0)
        }
        // All others are numbers.
        kind => kind.scalar().map_or(catalog::Kind::String, catalog::Kind::Scalar),
    }
}
