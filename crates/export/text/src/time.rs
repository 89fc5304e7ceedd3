//! Printing of times as time of day, date, seconds or cycles; parsing of times and durations.

use crate::number;
use blkkin_reader::Text;
use jiff::civil;
use jiff::tz::TimeZone;
use std::env::VarError;
use std::fs::File;
use std::io::Read;

/// Format of printed times. A time of day or date before 1970 is printed as seconds instead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeFormat {
    /// Time of day: `12:34:56.123456789`
    #[default]
    Clock,
    /// Date and time of day: `2026-11-21 12:34:56.123456789`
    Date,
    /// Seconds: `1795165182.123456789`
    Seconds,
    /// Cycles of the stream's clock, with twenty digits.
    Cycles,
}

/// Printer of times. Most events are in the same second as the previous event, so the text before
/// the nanoseconds is cached.
#[derive(Clone, Debug)]
pub struct TimePrinter {
    format: TimeFormat,
    zone: TimeZone,
    second: i64,
    /// Text before the nanoseconds, in the first `length` bytes.
    text: [u8; TEXT_SIZE],
    length: usize,
}

const TEXT_SIZE: usize = 32;

/// Maximum number of bytes that [`TimePrinter::put`] writes.
pub(crate) const TIME_SIZE: usize = TEXT_SIZE + 9;

const NS: i64 = 1_000_000_000;

impl TimePrinter {
    /// Creates a printer for UTC or the local time zone.
    pub fn new(format: TimeFormat, utc: bool) -> TimePrinter {
        let (second, text, length) = (i64::MIN, [0; TEXT_SIZE], 0);
        TimePrinter { format, zone: zone(utc), second, text, length }
    }

    /// Returns true if times are printed in cycles.
    pub fn in_cycles(&self) -> bool {
        self.format == TimeFormat::Cycles
    }

    /// Appends a time, given in nanoseconds and in cycles, in the printer's format.
    #[inline]
    pub fn print(&mut self, out: &mut Text, ns: i64, cycles: u64) {
        out.push_with(|place: &mut [u8; TIME_SIZE]| self.put(place, 0, ns, cycles));
    }

    /// Appends a time in the printer's format, but as time of day if that format is cycles.
    pub(crate) fn print_wall(&mut self, out: &mut Text, ns: i64) {
        out.push_with(|place: &mut [u8; TIME_SIZE]| self.put_wall(place, 0, ns));
    }

    /// Writes a time at `at`; returns the position after it.
    #[inline(always)]
    pub(crate) fn put(&mut self, place: &mut [u8], at: usize, ns: i64, cycles: u64) -> usize {
        match self.format {
            TimeFormat::Cycles => put_cycles(place, at, cycles),
            _ => self.put_wall(place, at, ns),
        }
    }

    #[inline(always)]
    fn put_wall(&mut self, place: &mut [u8], at: usize, ns: i64) -> usize {
        let (second, rest) = (ns / NS, ns % NS);
        if second != self.second || ns < 0 {
            self.second = second;
            self.set_text(ns, second);
        }
        place[at..at + TEXT_SIZE].copy_from_slice(&self.text);
        number::put_nanoseconds(place, at + self.length, rest.unsigned_abs() as u32)
    }

    #[cold]
    fn set_text(&mut self, ns: i64, second: i64) {
        let seconds = || format!("{}{}.", if ns < 0 { "-" } else { "" }, second.unsigned_abs());
        let text = match self.format {
            TimeFormat::Seconds => seconds(),
            _ if ns < 0 => seconds(),
            format => self.civil(format, second).unwrap_or_else(seconds),
        };
        self.length = text.len().min(TEXT_SIZE);
        self.text[..self.length].copy_from_slice(&text.as_bytes()[..self.length]);
        if ns < 0 {
            // A time before 1970 is not cached, as only its text has a sign.
            self.second = i64::MIN;
        }
    }

    fn civil(&self, format: TimeFormat, second: i64) -> Option<String> {
        let timestamp = jiff::Timestamp::from_second(second).ok()?;
        let time = self.zone.to_datetime(timestamp);
        let text = match format {
            TimeFormat::Date => time.strftime("%Y-%m-%d %H:%M:%S."),
            _ => time.strftime("%H:%M:%S."),
        };
        Some(text.to_string())
    }
}

#[inline(never)]
fn put_cycles(place: &mut [u8], at: usize, cycles: u64) -> usize {
    let text = format!("{cycles:020}");
    place[at..at + text.len()].copy_from_slice(text.as_bytes());
    at + text.len()
}

/// Time given by a user's option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimePoint {
    /// Nanoseconds from the clock's origin.
    Absolute(i64),
    /// Nanoseconds from the start of the traces or, if negative, from their end.
    Relative(i64),
    /// Nanoseconds from midnight, on the day on which the traces start.
    OfDay(i64),
}

/// Examples of accepted times, for error messages.
pub const TIME_FORMS: &str = "12:34:56.789, '2026-11-21 12:34:56.789', 1795165182.5 (seconds), \
                              +1.5s or -200ms (from the start or the end)";

impl TimePoint {
    /// Parses a time; see [`TIME_FORMS`].
    pub fn parse(text: &str, utc: bool) -> Result<TimePoint, String> {
        let error = || format!("`{text}` is not a time; use one of {TIME_FORMS}");
        let text = text.trim();
        if text.starts_with(['+', '-']) {
            return parse_signed_duration(text).map(TimePoint::Relative).ok_or_else(error);
        }
        if let Some((date, time)) = text.split_once(['T', ' ']) {
            let date: civil::Date = date.parse().map_err(|_| error())?;
            let time = time.trim().trim_end_matches('Z');
            let of_day = parse_time_of_day(time).ok_or_else(error)?;
            let ns = midnight(date, &zone(utc || text.ends_with('Z')))
                .and_then(|midnight| midnight.checked_add(of_day));
            return ns.map(TimePoint::Absolute).ok_or_else(error);
        }
        if text.contains(':') {
            return parse_time_of_day(text).map(TimePoint::OfDay).ok_or_else(error);
        }
        parse_seconds(text).map(TimePoint::Absolute).ok_or_else(error)
    }

    /// Converts the time to nanoseconds from the clock's origin, for traces from `start` to `end`.
    pub fn resolve(self, start: i64, end: i64, utc: bool) -> i64 {
        match self {
            TimePoint::Absolute(ns) => ns,
            TimePoint::Relative(ns) if ns < 0 => end.saturating_add(ns),
            TimePoint::Relative(ns) => start.saturating_add(ns),
            TimePoint::OfDay(ns) => {
                let zone = zone(utc);
                let midnight = jiff::Timestamp::from_nanosecond(start.into())
                    .ok()
                    .and_then(|start| midnight(zone.to_datetime(start).date(), &zone));
                midnight.unwrap_or(0).saturating_add(ns)
            }
        }
    }
}

fn zone(utc: bool) -> TimeZone {
    if utc { TimeZone::UTC } else { local_zone().unwrap_or_else(TimeZone::system) }
}

/// Reads the local time zone from its file. Returns `None` if `TZDIR` is set, `TZ` has a value that
/// is no zone's name, or the file cannot be read. [`TimeZone::system`] first reads the names of all
/// zones, which takes milliseconds, as long as the start of `blkkin view`.
fn local_zone() -> Option<TimeZone> {
    match std::env::var("TZ") {
        _ if std::env::var_os("TZDIR").is_some() => None,
        Err(VarError::NotPresent) => read_zone("/etc/localtime"),
        Ok(name) if is_name(&name) => read_zone(&format!("/usr/share/zoneinfo/{name}")),
        _ => None,
    }
}

fn read_zone(path: &str) -> Option<TimeZone> {
    let mut bytes = Vec::new();
    File::open(path).ok()?.take(ZONE_SIZE_MAX).read_to_end(&mut bytes).ok()?;
    TimeZone::tzif(path, &bytes).ok()
}

/// Maximum size of a zone's file in bytes; the largest have a few thousand.
const ZONE_SIZE_MAX: u64 = 64 << 10;

/// Returns true if all components of a time zone's name consist of letters, digits, `_`, `-` and
/// `+`. Such a name is a relative path that stays within the zone directory.
fn is_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let is_letter =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'+');
        !part.is_empty() && part.bytes().all(is_letter)
    };
    name.split('/').all(is_part)
}

/// Returns the begin of a day in nanoseconds since 1970; `None` if it is out of range.
fn midnight(date: civil::Date, zone: &TimeZone) -> Option<i64> {
    let midnight = zone.to_timestamp(date.to_datetime(civil::Time::midnight())).ok()?;
    midnight.as_nanosecond().try_into().ok()
}

/// Parses `HH:MM[:SS[.fraction]]` to nanoseconds from midnight; `None` if the text has another form
/// or a number is out of range.
fn parse_time_of_day(text: &str) -> Option<i64> {
    let mut parts = text.split(':');
    let mut whole = |most: i64| {
        let part = parts.next()?;
        let value: i64 = part.parse().ok()?;
        (part.len() <= 2 && (0..=most).contains(&value)).then_some(value)
    };
    let (hours, minutes) = (whole(23)?, whole(59)?);
    let rest = parts.next().map_or(Some(0), parse_seconds)?;
    if parts.next().is_some() || !(0..61 * NS).contains(&rest) {
        return None;
    }
    Some((hours * 60 + minutes) * 60 * NS + rest)
}

/// Parses `seconds[.fraction]` to nanoseconds, without rounding by floating point.
fn parse_seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if !fraction.bytes().all(|byte| byte.is_ascii_digit()) || fraction.len() > 9 {
        return None;
    }
    if whole.is_empty() || !whole.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let whole: i64 = whole.parse().ok()?;
    let rest: i64 = format!("{fraction:0<9}").parse().ok()?;
    whole.checked_mul(NS)?.checked_add(rest)
}

/// Parses a duration, such as `1.5s`, `200ms`, or seconds without a unit, to nanoseconds.
pub fn parse_duration(text: &str) -> Result<u64, String> {
    let signed = format!("+{text}");
    let duration = parse_signed_duration(&signed).and_then(|ns| u64::try_from(ns).ok());
    duration.ok_or_else(|| "not a length of time, such as 5ms, 1.5s or 2min".into())
}

/// Parses a signed number with a unit to nanoseconds. A number without a unit is in seconds.
fn parse_signed_duration(text: &str) -> Option<i64> {
    let (sign, text) = match text.as_bytes().first()? {
        b'-' => (-1, &text[1..]),
        _ => (1, &text[1..]),
    };
    let split = text.find(|byte: char| byte.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let unit = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => NS,
        "m" | "min" => 60 * NS,
        "h" => 3600 * NS,
        _ => return None,
    };
    let ns = i128::from(parse_seconds(number)?) * i128::from(unit) / i128::from(NS);
    i64::try_from(ns).ok().map(|ns| sign * ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_what_people_write() {
        let check = |text, expected| assert_eq!(TimePoint::parse(text, true), Ok(expected));
        check("12:34:56", TimePoint::OfDay(45_296 * NS));
        check("12:34:56.5", TimePoint::OfDay(45_296 * NS + NS / 2));
        check("1970-01-02 00:00:01", TimePoint::Absolute(86_401 * NS));
        check("1970-01-02T00:00:01Z", TimePoint::Absolute(86_401 * NS));
        check("1795165182.000000007", TimePoint::Absolute(1_795_165_182_000_000_007));
        check("+1.5s", TimePoint::Relative(3 * NS / 2));
        check("-200ms", TimePoint::Relative(-NS / 5));
        check("+2", TimePoint::Relative(2 * NS));
        for wrong in ["", "noon", "25:00", "1.2.3", "+", "+5 weeks", "12:61", "1e9", "-", "::"] {
            assert!(TimePoint::parse(wrong, true).is_err(), "{wrong}");
        }
    }

    #[test]
    fn zones_are_those_of_the_database() {
        for name in ["Europe/Berlin", "America/St_Johns", "Etc/GMT+12", "UTC"] {
            assert!(is_name(name));
            let Ok(expected) = TimeZone::get(name) else { continue };
            let zone = read_zone(&format!("/usr/share/zoneinfo/{name}")).expect(name);
            for day in (-20_000..40_000).step_by(7) {
                let time = jiff::Timestamp::from_second(day * 86_400 + 5 * day).expect("in range");
                assert_eq!(zone.to_offset(time), expected.to_offset(time), "{name} {time}");
            }
        }
        for name in ["", "/etc/shadow", "../x", "a//b", "CET-1CEST,M3.5.0", ":UTC", "a/"] {
            assert!(!is_name(name), "{name}");
        }
    }

    #[test]
    fn lengths() {
        let check = |text, expected| assert_eq!(parse_duration(text), Ok(expected));
        check("5ms", 5_000_000);
        check("1.5s", 1_500_000_000);
        check("2", 2_000_000_000);
        check("0.5us", 500);
        check("7ns", 7);
        check("2min", 120_000_000_000);
        for wrong in ["", "-1", "+1", "ms", "1 ms", "1e3", "ä"] {
            assert!(parse_duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prints_as_babeltrace2() {
        let check = |format, ns, expected: &str| {
            let mut printer = TimePrinter::new(format, true);
            let out = Text::from_print(|out| printer.print(out, ns, 77));
            assert_eq!(String::from_utf8(out.to_vec()).unwrap(), expected);
        };
        check(TimeFormat::Clock, 45_296 * NS + 5, "12:34:56.000000005");
        check(TimeFormat::Date, 86_401 * NS, "1970-01-02 00:00:01.000000000");
        check(TimeFormat::Seconds, 86_401 * NS + 1, "86401.000000001");
        check(TimeFormat::Cycles, 0, "00000000000000000077");
        check(TimeFormat::Clock, -1, "-0.000000001");
        check(TimeFormat::Seconds, -NS - 1, "-1.000000001");
        let mut printer = TimePrinter::new(TimeFormat::Clock, true);
        let out = Text::from_print(|out| {
            [-5, 5, -7].into_iter().for_each(|ns| printer.print(out, ns, 0))
        });
        assert_eq!(*out, *b"-0.00000000500:00:00.000000005-0.000000007");
    }
}
