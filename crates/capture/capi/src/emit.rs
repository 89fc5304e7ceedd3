//! Where annotations leave this crate, and whether anybody wants them.
//!
//! To be joined to the tracer: so far they are counted, and nobody switches levels on.

use crate::layout::TraceInfo;
use std::ffi::CStr;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};

/// A checked annotation of a trace, in words that are borrowed from the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Annotation<'a> {
    /// LTTng's level, 0 to 14.
    pub level: u32,
    /// The trace's name.
    pub name: &'a CStr,
    /// The trace's ids.
    pub info: TraceInfo,
    /// The endpoint's name.
    pub service: &'a CStr,
    /// The endpoint's address.
    pub ip: &'a CStr,
    /// The endpoint's port.
    pub port: i32,
    /// What is said.
    pub what: What<'a>,
}

/// What an annotation says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum What<'a> {
    Event(&'a CStr),
    String { key: &'a CStr, val: &'a CStr },
    Integer { key: &'a CStr, val: i64 },
}

/// A bit for each level that somebody listens to, `blkkin_enabled_levels` in C, where macros read it
/// before they call anything.
///
/// Relaxed in both directions: it orders nothing, and an annotation made at the moment of a change
/// may go either way.
// SAFETY: the name is ours, and no other library defines it.
#[unsafe(export_name = "blkkin_enabled_levels")]
pub static ENABLED_LEVELS: AtomicI32 = AtomicI32::new(0);

static EMITTED: AtomicU64 = AtomicU64::new(0);

/// Whether somebody listens to this level.
pub fn is_enabled(level: u32) -> bool {
    let levels = ENABLED_LEVELS.load(Ordering::Relaxed);
    levels.checked_shr(level).is_some_and(|levels| levels & 1 != 0)
}

/// How many annotations were emitted by this process.
pub fn emitted() -> u64 {
    EMITTED.load(Ordering::Relaxed)
}

pub(crate) fn emit(_annotation: &Annotation<'_>) {
    EMITTED.fetch_add(1, Ordering::Relaxed);
}
