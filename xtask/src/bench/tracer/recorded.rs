//! Accounting for the events of a run: every event is in the trace, was overwritten, or is counted
//! as lost. Start at [`delivery`].

use super::candidate::Delivery;
use super::case::{Case, Kind, Mode};
use crate::bench::{blkkin, lttng, recording};
use std::path::Path;

/// Number of sub-buffers of a large buffer, in [`Mode::Large`].
pub(super) const SUB_BUFFERS: u64 = 16;

/// Name of the event that records an annotation.
pub(super) const KEYVAL_STRING: &str = lttng::KEYVAL_STRING;

/// The event that a program records for a kind of operation.
pub(super) struct Event {
    pub(super) name: &'static str,
    /// Size of the event in bytes, with its header; the minimum if sizes differ.
    pub(super) size: u64,
    /// Name of the field with the operation's number, which is negative in the warm-up; `None` if
    /// the event has no such field.
    pub(super) number: Option<&'static str>,
}

/// Returns the sub-buffer size in bytes with which all sub-buffers together hold the events of a
/// run. It is a power of two, as tracers require.
pub(super) fn large_sub_buffer_size(case: &Case, event: &Event) -> u64 {
    let size = case.operations * case.kind.events * event.size;
    size.div_ceil(SUB_BUFFERS).next_power_of_two()
}

/// Returns the number of warm-up operations that are needed to write to each page of a buffer.
pub(super) fn warm_ups(kind: &Kind, event: &Event, buffer_size: u64) -> u64 {
    match event.size * kind.events {
        0 => 0,
        size => buffer_size.div_ceil(size),
    }
}

/// Counts the events in a trace, and checks that each event of the run is accounted for.
pub(super) fn delivery(
    blkkin: &str,
    case: &Case,
    event: &Event,
    tried: u64,
    trace: &Path,
) -> Result<Delivery, String> {
    let recorded = blkkin::count(blkkin, trace, None)?;
    let lost = recording::discarded(trace)?;
    let delivery = account(case.mode, tried, recorded, lost).ok_or_else(|| {
        format!("{case:?}: of {tried} events {recorded} are recorded, {lost} lost")
    })?;
    // If one thread has recorded without losses, the events in memory must be its last ones.
    if let (Mode::Overwrite, 1, 0, Some(number)) = (case.mode, case.threads, lost, event.number) {
        let count = |filter: String| blkkin::count(blkkin, trace, Some(&filter));
        let in_memory = count(format!("{number} >= 0"))?;
        let oldest = case.operations.saturating_sub(in_memory);
        let last = count(format!("{number} >= {oldest}"))?;
        if in_memory == 0 || last != in_memory {
            return Err(format!("{case:?}: of {in_memory} events only {last} are the last"));
        }
    }
    Ok(delivery)
}

/// Returns the numbers of events by outcome. Events that are neither recorded nor lost count as
/// overwritten. Returns `None` if there are too many events, or if events are missing in a mode
/// other than [`Mode::Overwrite`].
pub(super) fn account(mode: Mode, tried: u64, recorded: u64, lost: u64) -> Option<Delivery> {
    let overwritten = tried.checked_sub(recorded.checked_add(lost)?)?;
    let is_known = overwritten == 0 || mode == Mode::Overwrite;
    is_known.then_some(Delivery { tried, recorded, overwritten, lost })
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::tracer::case::{EVENTS, EVENTS_QUICK, KindRole, cases};

    /// Checks that large buffers have room for all events of a run. There must also be room for the
    /// packet headers, and for the unused end of each sub-buffer.
    pub(crate) fn check_large_buffers(
        event_of: impl Fn(&Kind) -> Option<Event>,
        packet_header_size: u64,
    ) {
        let large = [EVENTS, EVENTS_QUICK].into_iter().flat_map(cases);
        for case in large.filter(|case| case.mode == Mode::Large) {
            let Some(event) = event_of(case.kind) else { continue };
            // Some events are one byte larger than the minimum.
            let size = event.size + 1;
            let room = large_sub_buffer_size(&case, &event) - packet_header_size - size;
            assert!(SUB_BUFFERS * room >= case.operations * case.kind.events * size, "{case:?}");
        }
    }

    #[test]
    fn every_event_is_accounted_for() {
        fn check(mode: Mode, counts: [u64; 3], overwritten: Option<u64>) {
            let [tried, recorded, lost] = counts;
            let expected =
                overwritten.map(|overwritten| Delivery { tried, recorded, overwritten, lost });
            assert_eq!(account(mode, tried, recorded, lost), expected, "{mode:?} {counts:?}");
        }
        check(Mode::Discard, [10, 10, 0], Some(0));
        check(Mode::Discard, [10, 7, 3], Some(0));
        check(Mode::Large, [10, 7, 2], None);
        check(Mode::Large, [10, 7, 4], None);
        check(Mode::Overwrite, [10, 7, 2], Some(1));
        check(Mode::Overwrite, [10, 11, 0], None);
        check(Mode::Overwrite, [10, 1, u64::MAX], None);
    }

    #[test]
    fn warm_ups_fill_a_buffer() {
        let event = Event { name: "a:b", size: 10, number: None };
        let kind = |events| Kind { name: "", title: "", events, what: KindRole::Event };
        assert_eq!(warm_ups(&kind(1), &event, 101), 11);
        assert_eq!(warm_ups(&kind(2), &event, 100), 5);
        assert_eq!(warm_ups(&kind(0), &event, 100), 0);
    }
}
