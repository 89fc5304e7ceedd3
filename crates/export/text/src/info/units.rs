//! Formatting of numbers with units, rounded for human readers.

/// Unit of time: length in nanoseconds, name, and number of decimals to print.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TimeUnit {
    pub(crate) ns: f64,
    pub(crate) name: &'static str,
    decimals: usize,
}

impl TimeUnit {
    const NS: TimeUnit = TimeUnit { ns: 1.0, name: "ns", decimals: 0 };
    const US: TimeUnit = TimeUnit { ns: 1e3, name: "us", decimals: 1 };
    const MS: TimeUnit = TimeUnit { ns: 1e6, name: "ms", decimals: 3 };
    const S: TimeUnit = TimeUnit { ns: 1e9, name: "s", decimals: 3 };

    /// Returns the unit for a column of times up to `span_ns` from the origin. The option `--begin`
    /// accepts all of these units.
    pub(crate) fn for_table(span_ns: u64) -> TimeUnit {
        match span_ns {
            0..10_000 => TimeUnit::NS,
            10_000..10_000_000 => TimeUnit::US,
            10_000_000..10_000_000_000 => TimeUnit::MS,
            _ => TimeUnit::S,
        }
    }

    /// Returns the unit for a time axis whose farther end is `span_ns` from the origin.
    pub(crate) fn for_axis(span_ns: f64) -> TimeUnit {
        let longer = |name, ns| TimeUnit { ns, name, decimals: 0 };
        match span_ns {
            ..2e3 => TimeUnit::NS,
            ..2e6 => TimeUnit::US,
            ..2e9 => TimeUnit::MS,
            ..180e9 => TimeUnit::S,
            ..10_800e9 => longer("min", 60e9),
            ..172_800e9 => longer("h", 3600e9),
            _ => longer("d", 86_400e9),
        }
    }

    /// Formats the difference between two times in this unit, without the unit's name.
    pub(crate) fn distance(self, from: i64, to: i64) -> String {
        let ns = i128::from(to) - i128::from(from);
        format!("{:+.*}", self.decimals, ns as f64 / self.ns)
    }
}

/// Formats a number with separators: `1,234,567`
pub(crate) fn grouped(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a number with three digits and a decimal prefix, or a whole number below 1,000 in full:
/// `12.3 M`, `7`
pub(crate) fn si(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T", "P", "E"])
}

/// Formats a size with a binary prefix: `12.3 MiB`
pub fn bytes(value: u64) -> String {
    scaled(value as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut unit = 0;
    // A value that would be rounded up to the next unit has that unit.
    while value >= step - 0.5 && unit + 1 < units.len() {
        value /= step;
        unit += 1;
    }
    format!("{} {}", three_digits(value, unit == 0), units[unit]).trim_end().to_owned()
}

fn three_digits(value: f64, whole: bool) -> String {
    let decimals = match value {
        _ if whole && value.fract() == 0.0 => 0,
        ..9.995 => 2,
        ..99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

/// Formats a duration: `450 ns`, `12.3 ms`, `1.23 s`, `3 min 12.5 s`, `2 h 03 min`,
/// `1,234 d 05 h`
pub(crate) fn duration(ns: u64) -> String {
    let seconds = ns / 1_000_000_000;
    match ns {
        0..1_000 => format!("{ns} ns"),
        1_000..60_000_000_000 => scaled(ns as f64, 1000.0, &["ns", "us", "ms", "s"]),
        60_000_000_000..3_600_000_000_000 => {
            format!("{} min {:.1} s", seconds / 60, (ns % 60_000_000_000) as f64 / 1e9)
        }
        _ if seconds < 86_400 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{} d {:02} h", grouped(seconds / 86_400), seconds / 3600 % 24),
    }
}

/// Formats a percentage: `12.3 %`. A part above 0 is never printed as 0 %, and a part less than the
/// whole never as 100 %. Empty if the whole is 0.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return String::new();
    }
    let percent = part as f64 * 100.0 / whole as f64;
    match percent {
        _ if part > 0 && percent < 0.05 => "<0.1 %".to_owned(),
        _ if part < whole && percent >= 99.95 => ">99.9 %".to_owned(),
        _ => format!("{percent:.1} %"),
    }
}

/// Formats a count with its noun: `1 event`, `2,000 events`
pub(crate) fn plural(count: u64, word: &str) -> String {
    format!("{} {word}{}", grouped(count), if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures() {
        let check = |text: String, expected: &str| assert_eq!(text, expected);
        check(grouped(0), "0");
        check(grouped(999), "999");
        check(grouped(1000), "1,000");
        check(grouped(u64::MAX), "18,446,744,073,709,551,615");
        check(si(0.0), "0");
        check(si(3.25), "3.25");
        check(si(512.0), "512");
        check(si(999.4), "999");
        check(si(999.6), "1.00 k");
        check(si(12_345_678.0), "12.3 M");
        check(si(999_999_999.0), "1.00 G");
        check(si(5e21), "5000 E");
        check(bytes(0), "0 B");
        check(bytes(1023), "1023 B");
        check(bytes(4096), "4.00 KiB");
        check(bytes(199_229_440), "190 MiB");
        check(duration(0), "0 ns");
        check(duration(450), "450 ns");
        check(duration(4_712_717), "4.71 ms");
        check(duration(999_999), "1.00 ms");
        check(duration(1_500_000_000), "1.50 s");
        check(duration(192_500_000_000), "3 min 12.5 s");
        check(duration(7_380_000_000_000), "2 h 03 min");
        check(duration(u64::MAX), "213,503 d 23 h");
        check(percent(1, 3), "33.3 %");
        check(percent(1, 1_000_000), "<0.1 %");
        check(percent(999_999, 1_000_000), ">99.9 %");
        check(percent(7, 7), "100.0 %");
        check(percent(0, 7), "0.0 %");
        check(percent(0, 0), "");
        check(plural(1, "event"), "1 event");
        check(plural(2000, "event"), "2,000 events");
        check(TimeUnit::for_table(5_000_000).distance(1_000, 287_432), "+286.4");
        check(TimeUnit::for_table(2_000_000_000).distance(0, 1_234_567_890), "+1234.568");
        check(TimeUnit::for_table(0).distance(5, 2), "-3");
    }
}
