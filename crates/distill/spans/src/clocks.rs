//! Offsets of the clocks by which the times of traces were corrected, and their errors.

use blkkin_ctf::schema::Uuid;
use blkkin_reader::Alignment;
use std::collections::HashMap;

/// Correction of the clock of a span's machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpanClock {
    /// Identity of the machine's boot.
    pub node: Uuid,
    /// Time that was added to the recorded time, in nanoseconds.
    pub offset_ns: i64,
    /// Maximum error of that, in nanoseconds.
    pub error_ns: u64,
}

/// Time within which the times of a request's spans are comparable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Agreement {
    /// All spans are of one machine, or no clock's offset is known.
    Unmeasured,
    /// The clocks of its machines agree within this time in nanoseconds.
    Within(u64),
    /// The offsets of some clocks are known, and those of others are not.
    Partial,
}

/// Corrections by the reader's id of the trace.
#[derive(Debug, Default)]
pub(crate) struct Corrections(HashMap<u32, Alignment>);

impl Corrections {
    pub(crate) fn add(&mut self, source: u32, alignment: Alignment) {
        self.0.insert(source, alignment);
    }

    /// Returns the correction by which a time of a trace was made; `None` without a correction.
    pub(crate) fn of(&self, source: u32, time_ns: u64) -> Option<SpanClock> {
        let correction = self.0.get(&source)?.correction()?;
        let time_ns = i64::try_from(time_ns).ok()?;
        let offset = correction.at(correction.uncorrect(time_ns));
        let node = correction.boot();
        Some(SpanClock { node, offset_ns: offset.ns, error_ns: offset.error_ns })
    }
}

/// Returns how well times with these corrections can be compared.
pub(crate) fn agreement(clocks: impl Iterator<Item = Option<SpanClock>>) -> Agreement {
    let mut errors: Vec<(Uuid, u64)> = Vec::new();
    let mut has_unknown = false;
    for clock in clocks {
        let Some(SpanClock { node, error_ns, .. }) = clock else {
            has_unknown = true;
            continue;
        };
        match errors.iter_mut().find(|(known, _)| *known == node) {
            Some((_, error)) => *error = error_ns.max(*error),
            None => errors.push((node, error_ns)),
        }
    }
    errors.sort_unstable_by_key(|(_, error)| std::cmp::Reverse(*error));
    match errors[..] {
        [_, ..] if has_unknown => Agreement::Partial,
        [(_, first), (_, second), ..] => Agreement::Within(first.saturating_add(second)),
        _ => Agreement::Unmeasured,
    }
}

/// Returns the value of the tag with a clock: its machine's boot and its error in nanoseconds. The
/// error is rounded up to two digits: few distinct values take less space in a store.
pub(crate) fn tag_value(clock: Option<SpanClock>) -> String {
    let Some(SpanClock { node, error_ns, .. }) = clock else { return UNKNOWN.to_owned() };
    let mut unit = 1_u64;
    while error_ns / unit >= 100 {
        unit *= 10;
    }
    format!("{node} {}", error_ns.div_ceil(unit).saturating_mul(unit))
}

/// Value of the tag for a clock that was not measured.
const UNKNOWN: &str = "unknown";
