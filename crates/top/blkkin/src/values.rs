//! Parsers of command line values (sizes, durations, levels, contexts, servers) and the
//! matching formatters.

use blkkin_control::{Context, EVENT_SIZES, Level, WAIT_FOREVER, WAIT_MAX_US};
use blkkin_filter::{Severity, suggest};
use std::time::Duration;

/// Parses a severity level: a word or a number.
pub(crate) fn level(text: &str) -> Result<Level, String> {
    text.parse().map_err(|_| unknown("level", text, Severity::words()))
}

/// Parses a timeout in seconds; 0 means no timeout.
pub(crate) fn patience(text: &str) -> Result<Duration, String> {
    let duration = seconds(text)?;
    Ok(if duration.is_zero() { Duration::MAX } else { duration })
}

/// Parses seconds, with an optional fraction.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok();
    let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    duration.ok_or_else(|| "not a number of seconds, such as 1 or 0.5".into())
}

/// Parses an age or duration with a unit (s, m, h, d, w); without a unit, seconds.
pub(crate) fn age(text: &str) -> Result<Duration, String> {
    let wrong = || "not a time, such as 90s, 30m, 12h, 30d or 4w".to_owned();
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86400,
        "w" => 7 * 86400,
        _ => return Err(wrong()),
    };
    let number = plain_number(digits).ok_or_else(wrong)?;
    let seconds = number.checked_mul(unit).ok_or_else(|| "more than there can be".to_owned())?;
    Ok(Duration::from_secs(seconds))
}

/// Units of [`retention`] in milliseconds, in descending order. The first name of each is shown.
const KEEP_UNITS: [(&[&str], u64); 5] = [
    (&["d"], 86_400_000),
    (&["h"], 3_600_000),
    (&["min", "m"], 60_000),
    (&["s"], 1000),
    (&["ms"], 1),
];

/// Parses the time for which a session retains events; returns milliseconds.
pub(crate) fn retention(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = KEEP_UNITS.iter().find(|(names, _)| names.contains(&&text[digits.len()..]));
    let number = plain_number(digits).filter(|number| *number > 0);
    let (Some(number), Some((_, unit))) = (number, unit) else {
        return Err("not a time with its unit, such as 30s, 2min or 1h".into());
    };
    number.checked_mul(*unit).ok_or_else(|| "more than there can be".into())
}

/// Formats a time in the syntax of [`retention`].
pub(crate) fn retention_text(keep_ms: u64) -> String {
    let fits = KEEP_UNITS.iter().find(|(_, ms)| keep_ms > 0 && keep_ms.is_multiple_of(*ms));
    let (names, ms) = fits.copied().unwrap_or((&["ms"], 1));
    format!("{}{}", keep_ms / ms, names[0])
}

/// Formats an age in its two largest units.
pub(crate) fn span_text(span: Duration) -> String {
    let seconds = span.as_secs();
    match seconds {
        0 if span.as_millis() == 0 => format!("{}us", span.as_micros()),
        0 => format!("{}ms", span.as_millis()),
        1..10 => format!("{seconds}.{}s", span.subsec_millis() / 100),
        10..60 => format!("{seconds}s"),
        60..3600 => format!("{}min {}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h {}min", seconds / 3600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3600 % 24),
    }
}

/// Units of [`blocking`] in microseconds, in descending order.
const WAIT_UNITS: [(&str, u64); 4] = [("m", 60_000_000), ("s", 1_000_000), ("ms", 1000), ("us", 1)];

/// Parses the maximum time for which an event waits for space in a ring; returns microseconds, or
/// [`WAIT_FOREVER`] for `inf`.
pub(crate) fn blocking(text: &str) -> Result<u32, String> {
    if text == "inf" {
        return Ok(WAIT_FOREVER);
    }
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = WAIT_UNITS.iter().find(|(unit, _)| *unit == &text[digits.len()..]);
    let number = plain_number(digits).filter(|number| *number > 0);
    let (Some(number), Some((_, unit))) = (number, unit) else {
        return Err("not a time with its unit, such as 500us, 20ms or 2s, nor inf".into());
    };
    let wait_us = number.checked_mul(*unit).and_then(|us| u32::try_from(us).ok());
    let most = || format!("more than {}, the longest time but inf", blocking_text(WAIT_MAX_US));
    wait_us.filter(|us| *us <= WAIT_MAX_US).ok_or_else(most)
}

/// Formats a time in the syntax of [`blocking`].
pub(crate) fn blocking_text(wait_us: u32) -> String {
    if wait_us == WAIT_FOREVER {
        return "inf".into();
    }
    let wait_us = u64::from(wait_us);
    let fits = WAIT_UNITS.iter().find(|(_, us)| wait_us > 0 && wait_us.is_multiple_of(*us));
    let (unit, us) = fits.copied().unwrap_or(("us", 1));
    format!("{}{unit}", wait_us / us)
}

/// Parses the maximum size of an event; returns bytes.
pub(crate) fn string_max(text: &str) -> Result<u32, String> {
    let size = u32::try_from(bytes(text)?).ok().filter(|size| EVENT_SIZES.contains(size));
    let [min, max] = [EVENT_SIZES.start(), EVENT_SIZES.end()].map(|size| size_text((*size).into()));
    size.ok_or_else(|| format!("not within {min} and {max}"))
}

/// Parses a size in bytes that must be a power of two.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    power_of_two(bytes(text)?, size_text)
}

/// Parses a size in bytes with an optional unit (K, M, G, T).
pub(crate) fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || "not a size in bytes, such as 4096, 256K or 1M".to_owned();
    let (digits, shift) = match text.as_bytes() {
        [.., b'k' | b'K'] => (&text[..text.len() - 1], 10),
        [.., b'm' | b'M'] => (&text[..text.len() - 1], 20),
        [.., b'g' | b'G'] => (&text[..text.len() - 1], 30),
        [.., b't' | b'T'] => (&text[..text.len() - 1], 40),
        _ => (text, 0),
    };
    let number = plain_number(digits).ok_or_else(wrong)?;
    number.checked_mul(1 << shift).ok_or_else(|| "more than there can be".to_owned())
}

/// Parses a count that must be a power of two.
pub(crate) fn count(text: &str) -> Result<u32, String> {
    let wrong = || "not a number, such as 4".to_owned();
    let number = plain_number(text).ok_or_else(wrong)?;
    let count = power_of_two(number, |count| count.to_string())?;
    u32::try_from(count).map_err(|_| "more than there can be".into())
}

/// Parses a percentage, such as 25%.
pub(crate) fn percent(text: &str) -> Result<u32, String> {
    let number = plain_number(text.strip_suffix('%').unwrap_or(text).trim_end());
    let percent = number.and_then(|number| u32::try_from(number).ok());
    percent.filter(|percent| (1..=100).contains(percent)).ok_or_else(|| "not 1% to 100%".to_owned())
}

/// Parses decimal digits without a sign; `None` for any other text and for numbers above
/// `u64::MAX`.
fn plain_number(text: &str) -> Option<u64> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| digits)
}

fn power_of_two(number: u64, shown: impl Fn(u64) -> String) -> Result<u64, String> {
    if number.is_power_of_two() {
        return Ok(number);
    }
    let near = match number.checked_next_power_of_two() {
        Some(above) if number > 0 => format!("{} and {} are", shown(above / 2), shown(above)),
        _ => format!("{} is", shown(1)),
    };
    Err(format!("not a power of two, as {near}"))
}

/// Formats a size in the syntax of [`size`].
pub(crate) fn size_text(size: u64) -> String {
    match size.trailing_zeros() {
        30.. if size > 0 => format!("{}G", size >> 30),
        20.. if size > 0 => format!("{}M", size >> 20),
        10.. if size > 0 => format!("{}K", size >> 10),
        _ => size.to_string(),
    }
}

/// Formats a size in the syntax of [`bytes`].
pub(crate) fn bytes_text(bytes: u64) -> String {
    let units = [(40, "T"), (30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.is_multiple_of(1 << shift));
    unit.map_or_else(|| bytes.to_string(), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

/// Formats an age in the syntax of [`age`].
pub(crate) fn age_text(age: Duration) -> String {
    let seconds = age.as_secs();
    let units = [(86400, "d"), (3600, "h"), (60, "m")];
    let unit = units.into_iter().find(|(unit, _)| seconds > 0 && seconds.is_multiple_of(*unit));
    unit.map_or_else(|| format!("{seconds}s"), |(of, unit)| format!("{}{unit}", seconds / of))
}

/// Parses a context: its name or LTTng's name for it; for a context that a program supplies,
/// `provider:name` or LTTng's form `$app.provider:name`.
pub(crate) fn context(text: &str) -> Result<Context, String> {
    let word = match text {
        "vpid" => "pid",
        "vtid" => "tid",
        text => text,
    };
    if let Some(context) = Context::ALL.into_iter().find(|context| context.name() == word) {
        return Ok(context);
    }
    let name = text.strip_prefix("$app.").unwrap_or(text);
    match name.contains(':') {
        true => Ok(Context::Supplied { name: name.to_owned() }),
        false => Err(unknown("context", text, contexts())),
    }
}

/// Returns the names of all contexts except those that programs supply.
pub(crate) fn contexts() -> impl Iterator<Item = &'static str> {
    Context::ALL.iter().map(Context::word)
}

/// Parses a URL of Scribe's protocol; returns `host:port`.
pub(crate) fn scribe_server(text: &str) -> Result<String, String> {
    let wrong = || format!("`{text}` is not of the form scribe://HOST[:PORT]");
    let rest = text.strip_prefix("scribe://").ok_or_else(wrong)?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let (host, port) = match rest.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            let port: u16 = port.parse().map_err(|_| format!("there is no port `{port}`"))?;
            (host, port)
        }
        _ => (rest, blkkin_scribe::PORT),
    };
    let is_bare_v6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || is_bare_v6 || host.contains(['/', '@', ' ']) {
        return Err(wrong());
    }
    Ok(format!("{host}:{port}"))
}

fn unknown(what: &str, text: &str, known: impl Iterator<Item = &'static str>) -> String {
    let known: Vec<&str> = known.collect();
    match suggest(text, known.iter().copied()) {
        Some(near) => format!("no such {what}; did you mean `{near}`?"),
        None => format!("no such {what}; there are {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        let check = |text: &str, expected: Result<u64, &str>| {
            assert_eq!(size(text), expected.map_err(str::to_owned), "{text}");
        };
        check("4096", Ok(4096));
        check("256K", Ok(256 << 10));
        check("256k", Ok(256 << 10));
        check("1M", Ok(1 << 20));
        check("2G", Ok(2 << 30));
        check("1", Ok(1));
        let no_size = Err("not a size in bytes, such as 4096, 256K or 1M");
        check("", no_size);
        check("K", no_size);
        check("+4K", no_size);
        check("-1", no_size);
        check("1.5M", no_size);
        check("4 K", no_size);
        check("ä", no_size);
        check("300K", Err("not a power of two, as 256K and 512K are"));
        check("3000", Err("not a power of two, as 2K and 4K are"));
        check("0", Err("not a power of two, as 1 is"));
        check("99999999999G", Err("more than there can be"));
        check("18446744073709551615", Err("not a power of two, as 1 is"));
        for size_shown in [1, 512, 1 << 10, 3 << 20, 1 << 40] {
            let text = size_text(size_shown);
            let read = size(&text);
            assert!(read == Ok(size_shown) || !size_shown.is_power_of_two(), "{text}");
        }
        assert_eq!((size_text(0), size_text(3 << 20)), ("0".into(), "3M".into()));
    }

    #[test]
    fn counts() {
        assert_eq!(count("4"), Ok(4));
        assert_eq!(count("5"), Err("not a power of two, as 4 and 8 are".into()));
        assert_eq!(count("4K"), Err("not a number, such as 4".into()));
        assert_eq!(count("8589934592"), Err("more than there can be".into()));
    }

    #[test]
    fn times() {
        assert_eq!(patience("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(patience("0"), Ok(Duration::MAX));
        assert_eq!(seconds("0"), Ok(Duration::ZERO));
        for bad in ["", "x", "-1", "nan", "inf", "1e99"] {
            assert_eq!(seconds(bad), Err("not a number of seconds, such as 1 or 0.5".into()));
        }
    }

    #[test]
    fn times_to_wait() {
        let check = |text: &str, wait_us: u32, shown: &str| {
            assert_eq!(blocking(text), Ok(wait_us), "{text}");
            assert_eq!(blocking_text(wait_us), shown);
        };
        check("500us", 500, "500us");
        check("20ms", 20_000, "20ms");
        check("1500ms", 1_500_000, "1500ms");
        check("2s", 2_000_000, "2s");
        check("60s", 60_000_000, "1m");
        check("10m", WAIT_MAX_US, "10m");
        check("inf", WAIT_FOREVER, "inf");
        assert_eq!(blocking_text(0), "0us");
        let no_time = "not a time with its unit, such as 500us, 20ms or 2s, nor inf";
        for wrong in ["", "0", "0s", "500", "ms", "-1s", "1.5s", "2h", "2 s", "1ä"] {
            assert_eq!(blocking(wrong), Err(no_time.into()), "{wrong}");
        }
        for long in ["11m", "601s", "18446744073709551615us", "18446744073709551615m"] {
            let most = "more than 10m, the longest time but inf";
            assert_eq!(blocking(long), Err(most.into()), "{long}");
        }
    }

    #[test]
    fn times_to_retain() {
        let check = |text: &str, keep_ms: u64, shown: &str| {
            assert_eq!(retention(text), Ok(keep_ms), "{text}");
            assert_eq!(retention_text(keep_ms), shown);
            assert_eq!(retention(shown), Ok(keep_ms));
        };
        check("500ms", 500, "500ms");
        check("90s", 90_000, "90s");
        check("2min", 120_000, "2min");
        check("120s", 120_000, "2min");
        check("5m", 300_000, "5min");
        check("36h", 129_600_000, "36h");
        check("48h", 172_800_000, "2d");
        for wrong in ["", "0s", "2", "min", "-1s", "1.5s", "2 min", "2w", "2mins"] {
            let error = "not a time with its unit, such as 30s, 2min or 1h";
            assert_eq!(retention(wrong), Err(error.into()), "{wrong}");
        }
        assert_eq!(retention("18446744073709551615d"), Err("more than there can be".into()));
    }

    #[test]
    fn ages_in_two_units() {
        let check = |ms: u64, shown: &str| {
            assert_eq!(span_text(Duration::from_millis(ms)), shown);
        };
        check(0, "0us");
        check(41, "41ms");
        check(4170, "4.1s");
        check(41_700, "41s");
        check(200_000, "3min 20s");
        check(7_500_000, "2h 5min");
        check(100_000_000, "1d 3h");
    }

    #[test]
    fn bounds_of_strings() {
        assert_eq!(string_max("512"), Ok(512));
        assert_eq!(string_max("3000"), Ok(3000));
        assert_eq!(string_max("1M"), Ok(1 << 20));
        for wrong in ["511", "1048577", "2G", "4G"] {
            assert_eq!(string_max(wrong), Err("not within 512 and 1M".into()));
        }
    }

    #[test]
    fn levels_and_contexts() {
        assert_eq!(level("TRACE_WARNING"), Ok(Level::Warning));
        assert_eq!(level("waring"), Err("no such level; did you mean `warning`?".into()));
        let none = level("loud").expect_err("no level");
        assert!(none.starts_with("no such level; there are emerg, emergency, alert"), "{none}");
        assert_eq!(context("pid"), Ok(Context::Pid));
        assert_eq!(context("vtid"), Ok(Context::Tid));
        let supplied = || Ok(Context::Supplied { name: "p:n".into() });
        assert_eq!(context("p:n"), supplied());
        assert_eq!(context("$app.p:n"), supplied());
        assert_eq!(context("procnam"), Err("no such context; did you mean `procname`?".into()));
        assert_eq!(
            context("xyzzy"),
            Err("no such context; there are pid, tid, procname, cpu, pid_ns, mnt_ns, user_ns, \
                 net_ns, time_ns, uts_ns, ipc_ns, cgroup_ns, cgroup_id"
                .into())
        );
    }

    #[test]
    fn scribe_servers() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(scribe_server(text).ok().as_deref(), expected, "{text}");
        };
        check("scribe://localhost", Some("localhost:1463"));
        check("scribe://localhost/", Some("localhost:1463"));
        check("scribe://10.0.0.1:9410", Some("10.0.0.1:9410"));
        check("scribe://[::1]:9410", Some("[::1]:9410"));
        check("scribe://[::1]", Some("[::1]:1463"));
        check("scribe://::1", None);
        check("scribe://", None);
        check("scribe://:1463", None);
        check("scribe://a:port", None);
        check("scribe://a:99999", None);
        check("scribe://a/b", None);
        check("http://localhost", None);
        check("localhost:1463", None);
    }
}
