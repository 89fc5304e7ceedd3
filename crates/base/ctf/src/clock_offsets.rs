//! Measurements of a machine's clocks against a reference clock, made while the machine recorded
//! traces: their text in a file beside a trace, and the correction of times by them.

use crate::clock::TimeScale;
use crate::schema::{Clock, Uuid};
use std::fmt::Write;

#[cfg(test)]
mod tests;

/// Name of the file with the measurements, in the directory of a trace. Readers of CTF ignore
/// hidden files.
pub const FILE: &str = ".clock-offsets";

/// Maximum size of the file in bytes: about four months of constant recording.
pub const FILE_SIZE_MAX: u64 = 64 << 20;

/// Readings of a machine's clocks, and of the reference clock at the same moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Measurement {
    /// Monotonic clock, in nanoseconds.
    pub monotonic_ns: u64,
    /// Counter of the processor.
    pub tsc: u64,
    /// Reference clock, in nanoseconds since 1970.
    pub reference_ns: u64,
    /// Maximum distance of the moments of the readings, in nanoseconds.
    pub error_ns: u64,
}

/// Measurements of one machine between two boots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measurements {
    /// Identity of the boot, by which the machine's clocks are known.
    pub boot: Uuid,
    /// Measurements in their order.
    pub list: Vec<Measurement>,
}

/// Word at the start of a file, and version of its format.
const TITLE: &str = "blkkin-clock-offsets 1";

/// Returns the UUID of the processor's counter as a clock in metadata: the boot's, with its last
/// three bytes XORed with `Tsc`. The monotonic clock has the boot's own UUID, as in LTTng's
/// metadata.
pub fn tsc_uuid(boot: Uuid) -> Uuid {
    let Uuid(mut bytes) = boot;
    for (byte, letter) in bytes.iter_mut().rev().zip(b"csT") {
        *byte ^= letter;
    }
    Uuid(bytes)
}

impl Measurement {
    /// Returns the line of the measurement in a file.
    pub fn line(&self) -> String {
        let Measurement { monotonic_ns, tsc, reference_ns, error_ns } = self;
        format!("{monotonic_ns} {tsc} {reference_ns} {error_ns}\n")
    }

    fn parse(line: &str) -> Option<Measurement> {
        let mut numbers = line.split(' ').map(|field| field.parse().ok());
        let mut next = || numbers.next().flatten();
        let measurement = Measurement {
            monotonic_ns: next()?,
            tsc: next()?,
            reference_ns: next()?,
            error_ns: next()?,
        };
        numbers.next().is_none().then_some(measurement)
    }
}

impl Measurements {
    /// Returns the text of the file.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{TITLE} {}", self.boot);
        self.list.iter().for_each(|one| text.push_str(&one.line()));
        text
    }

    /// Reads the text of a file, whose lines may be in any order. A last line without a line feed
    /// is ignored: the file may be growing. Fails with the number of the first invalid line.
    pub fn parse(text: &[u8]) -> Result<Measurements, usize> {
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
        let text = str::from_utf8(text.get(..whole).unwrap_or_default()).map_err(|error| {
            let before = text.get(..error.valid_up_to()).unwrap_or_default();
            before.iter().filter(|byte| **byte == b'\n').count() + 1
        })?;
        let mut lines = text.lines();
        let title = lines.next().and_then(|line| line.strip_prefix(TITLE));
        let boot = title.and_then(|rest| rest.strip_prefix(' ')?.parse().ok()).ok_or(1_usize)?;
        let line = |(number, line)| Measurement::parse(line).ok_or(number);
        let list: Result<_, usize> = (2..).zip(lines).map(line).collect();
        let mut measurements = Measurements { boot, list: list? };
        measurements.sort();
        Ok(measurements)
    }

    fn sort(&mut self) {
        self.list.sort_unstable();
        self.list.dedup();
    }

    /// Adds measurements that are later than those in the list, and drops the earliest ones beyond
    /// `max`. If the processor's counter has begun anew, for instance when the machine was
    /// suspended, what was measured before says nothing of it and is dropped, too.
    pub fn extend(&mut self, later: &[Measurement], max: usize) {
        if self.list.last().zip(later.first()).is_some_and(|(last, first)| first.tsc < last.tsc) {
            self.list.clear();
        }
        self.list.extend(later);
        self.list.drain(..self.list.len().saturating_sub(max));
    }

    /// Adds the measurements of another file of the same boot.
    pub fn merge(&mut self, other: Measurements) {
        if other.boot == self.boot {
            self.list.extend(other.list);
            self.sort();
        }
    }

    /// Returns the correction of a trace's clock; `None` if it is not a clock of this machine and
    /// boot, if there are no measurements, or if the clock was reset between them.
    pub fn correction(&self, clock: &Clock) -> Option<Correction> {
        let reading: fn(&Measurement) -> u64 = match clock.uuid? {
            uuid if uuid == self.boot => |one| one.monotonic_ns,
            uuid if uuid == tsc_uuid(self.boot) => |one| one.tsc,
            _ => return None,
        };
        let scale = TimeScale::checked(clock)?;
        let mut points: Vec<Point> = Vec::new();
        for one in &self.list {
            let at_ns = scale.ns(reading(one));
            let offset_ns = i128::from(one.reference_ns) - i128::from(at_ns);
            let Ok(offset_ns) = i64::try_from(offset_ns) else { continue };
            let point = Point { at_ns, offset_ns, error_ns: one.error_ns };
            match points.last_mut() {
                // The clock has begun anew: times of both periods look alike.
                Some(last) if at_ns < last.at_ns => return None,
                Some(last) if at_ns.abs_diff(last.at_ns) < NEAR_NS => {
                    if point.error_ns < last.error_ns {
                        *last = point;
                    }
                }
                _ => points.push(point),
            }
        }
        (!points.is_empty()).then_some(Correction { boot: self.boot, points })
    }
}

/// Correction of the times that one clock of a trace shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Correction {
    boot: Uuid,
    /// Offsets in the order of their times; not empty.
    points: Vec<Point>,
}

/// Offset at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Point {
    /// Time that the trace's clock shows, in nanoseconds since 1970.
    at_ns: i64,
    /// Time to add, in nanoseconds.
    offset_ns: i64,
    error_ns: u64,
}

/// Time to add to a time of a trace, with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offset {
    /// Time to add, in nanoseconds.
    pub ns: i64,
    /// Maximum error, in nanoseconds, unless a clock was set after the last measurement.
    pub error_ns: u64,
}

/// Time within which only the best measurement counts.
const NEAR_NS: u64 = 1_000_000_000;
/// Time after a measurement from which it is used. Until then, all readers of a live trace know it:
/// an event has the same time for those that read it at once and for those that read it later.
const DELAY_NS: i64 = 1_000_000_000;
/// Number of measurements from which the drift of a clock is known.
const DRIFT_POINTS: usize = 8;
/// Longest time between two measurements for the drift. Nothing is known of a longer one: the
/// machine may have been suspended.
const GAP_MAX_NS: u64 = 300_000_000_000;
/// Highest drift of two clocks, in parts per million: kernels correct clocks by at most 500. A
/// larger difference is a clock that was set.
const DRIFT_MAX_PPM: u64 = 500;
/// Drift that is assumed if it is not known better: crystals are off by up to 100 from each other.
const DRIFT_UNKNOWN_PPM: u64 = 100;
/// Change of the drift that is assumed within [`STEADY_NS`] after it was measured: crystals change
/// by about 1 with their temperature.
const DRIFT_CHANGE_PPM: u64 = 2;
const STEADY_NS: u64 = 60_000_000_000;
const MILLION: u64 = 1_000_000;

/// Drift of a clock.
#[derive(Clone, Copy, Debug)]
struct Drift {
    /// Change of the offset within `length_ns`, in nanoseconds.
    change_ns: i128,
    length_ns: u64,
    /// Maximum error of that change.
    error_ns: u64,
}

impl Correction {
    /// Returns the identity of the boot of the machine whose clock this is.
    pub fn boot(&self) -> Uuid {
        self.boot
    }

    /// Returns the offset for a time of the trace, in nanoseconds since 1970.
    ///
    /// It follows from the last measurement at least a second before that time, and from the drift
    /// that this one and those before it show. Until then, the offset of the first measurement is
    /// used. Later measurements do not change it.
    pub fn at(&self, at_ns: i64) -> Offset {
        let until = at_ns.saturating_sub(DELAY_NS);
        let known = self.points.partition_point(|point| point.at_ns <= until).max(1);
        let known = self.points.get(known.saturating_sub(DRIFT_POINTS)..known).unwrap_or_default();
        let Some(last) = known.last() else { return Offset::default() };
        let distance = i128::from(at_ns) - i128::from(last.at_ns);
        let passed = u64::try_from(distance.unsigned_abs()).unwrap_or(u64::MAX);
        let Some(drift) = drift(known) else {
            let error = share(passed, DRIFT_UNKNOWN_PPM, MILLION);
            return Offset { ns: last.offset_ns, error_ns: last.error_ns.saturating_add(error) };
        };
        let length = i128::from(drift.length_ns);
        let ns = i128::from(last.offset_ns) + drift.change_ns * distance / length;
        let steady = passed.min(STEADY_NS);
        let errors = [
            share(passed, drift.error_ns, drift.length_ns),
            share(steady, DRIFT_CHANGE_PPM, MILLION),
            share(passed - steady, DRIFT_UNKNOWN_PPM, MILLION),
        ];
        Offset {
            ns: ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64,
            error_ns: errors.into_iter().fold(last.error_ns, u64::saturating_add),
        }
    }

    /// Returns the corrected time.
    pub fn correct(&self, at_ns: i64) -> i64 {
        at_ns.saturating_add(self.at(at_ns).ns)
    }

    /// Returns a time of the trace whose correction is about `ns`.
    pub fn uncorrect(&self, ns: i64) -> i64 {
        let guess = ns.saturating_sub(self.at(ns).ns);
        ns.saturating_sub(self.at(guess).ns)
    }
}

/// Returns the drift that the last points show; `None` if it is not known better than without them.
fn drift(points: &[Point]) -> Option<Drift> {
    let last = *points.last()?;
    let pairs = points.windows(2).rev();
    let steady = pairs.take_while(|pair| matches!(pair, [a, b] if is_steady(*a, *b))).count();
    let steady = points.get(points.len() - 1 - steady..)?;
    let first = *steady.first()?;
    let length_ns = last.at_ns.abs_diff(first.at_ns);
    let change_ns = i128::from(last.offset_ns) - i128::from(first.offset_ns);
    // If a clock was set by less than a drift explains, the points in between are off the line, by
    // a third of that or more.
    let off = steady.iter().map(|point| {
        let passed = i128::from(point.at_ns) - i128::from(first.at_ns);
        let line = i128::from(first.offset_ns) + change_ns * passed / i128::from(length_ns.max(1));
        let off = (i128::from(point.offset_ns) - line).unsigned_abs();
        u64::try_from(off).unwrap_or(u64::MAX).saturating_sub(point.error_ns)
    });
    let set_ns = off.max()?.saturating_mul(3);
    let error_ns = last.error_ns.saturating_add(first.error_ns).saturating_add(set_ns);
    let is_better = share(error_ns, MILLION, length_ns) < DRIFT_UNKNOWN_PPM;
    // A point with a large error in between may hide that a clock was set.
    let is_plausible = is_plausible(first, last);
    (length_ns > 0 && is_better && is_plausible).then_some(Drift { change_ns, length_ns, error_ns })
}

/// Returns whether two points may be of clocks that were neither set nor stopped in between.
fn is_steady(a: Point, b: Point) -> bool {
    a.at_ns.abs_diff(b.at_ns) <= GAP_MAX_NS && is_plausible(a, b)
}

/// Returns whether a drift explains the change between two points.
fn is_plausible(a: Point, b: Point) -> bool {
    let drifted = share(a.at_ns.abs_diff(b.at_ns), DRIFT_MAX_PPM, MILLION);
    let errors = a.error_ns.saturating_add(b.error_ns);
    a.offset_ns.abs_diff(b.offset_ns) <= drifted.saturating_add(errors)
}

/// Returns `of * part / whole`; saturates.
fn share(of: u64, part: u64, whole: u64) -> u64 {
    let product = u128::from(of) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(product).unwrap_or(u64::MAX)
}
