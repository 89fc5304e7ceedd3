//! LTTng's fifteen severity levels: those of syslog, with a finer division of debug levels.

use crate::value::{Integer, Labels, Value};
use std::fmt;
use std::str::FromStr;

/// Severity (log level) of an event. Smaller numbers are more severe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
#[allow(missing_docs, reason = "the names say it")]
pub enum Severity {
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    Notice,
    Info,
    DebugSystem,
    DebugProgram,
    DebugProcess,
    DebugModule,
    DebugUnit,
    DebugFunction,
    DebugLine,
    Debug,
}

use Severity::*;

/// Words for severity levels in filters. A level may have two words; the first is the one printed.
const WORDS: [(&str, Severity); 18] = [
    ("emerg", Emergency),
    ("emergency", Emergency),
    ("alert", Alert),
    ("crit", Critical),
    ("critical", Critical),
    ("err", Error),
    ("error", Error),
    ("warning", Warning),
    ("notice", Notice),
    ("info", Info),
    ("debug_system", DebugSystem),
    ("debug_program", DebugProgram),
    ("debug_process", DebugProcess),
    ("debug_module", DebugModule),
    ("debug_unit", DebugUnit),
    ("debug_function", DebugFunction),
    ("debug_line", DebugLine),
    ("debug", Debug),
];

/// LTTng's C names of the severity levels, by number.
const NAMES: [&str; 15] = [
    "TRACE_EMERG",
    "TRACE_ALERT",
    "TRACE_CRIT",
    "TRACE_ERR",
    "TRACE_WARNING",
    "TRACE_NOTICE",
    "TRACE_INFO",
    "TRACE_DEBUG_SYSTEM",
    "TRACE_DEBUG_PROGRAM",
    "TRACE_DEBUG_PROCESS",
    "TRACE_DEBUG_MODULE",
    "TRACE_DEBUG_UNIT",
    "TRACE_DEBUG_FUNCTION",
    "TRACE_DEBUG_LINE",
    "TRACE_DEBUG",
];

impl Severity {
    /// Returns the level that `word` names in filters, or `None`. The case of letters is ignored.
    pub fn from_word(word: &str) -> Option<Severity> {
        let (_, level) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?;
        Some(*level)
    }

    /// Returns the level with this number; `None` above 14.
    // A match with all numbers compiles to one comparison, which matters in the recording of
    // annotations.
    #[inline]
    pub const fn from_number(number: u64) -> Option<Severity> {
        Some(match number {
            0 => Emergency,
            1 => Alert,
            2 => Critical,
            3 => Error,
            4 => Warning,
            5 => Notice,
            6 => Info,
            7 => DebugSystem,
            8 => DebugProgram,
            9 => DebugProcess,
            10 => DebugModule,
            11 => DebugUnit,
            12 => DebugFunction,
            13 => DebugLine,
            14 => Debug,
            _ => return None,
        })
    }

    /// Returns the shortest word for the level, such as `emerg`.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }

    /// Returns LTTng's C name of the level: `TRACE_EMERG` to `TRACE_DEBUG`.
    pub fn name(self) -> &'static str {
        NAMES[self as usize]
    }

    /// Iterates over the words of all levels, including second words such as `emergency`.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(word, _)| *word)
    }

    /// Returns the number of the level, from 0 (most severe) to 14.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// Returns the value that a host should supply for [`crate::PseudoField::Severity`]. It
    /// compares with numbers, and by `==` and `!=` with strings that are words for levels.
    pub fn value(self) -> Value<'static> {
        Value::Enum(Integer::Unsigned(self.number()), &SeverityLabels)
    }
}

/// Writes the shortest word for the level, such as `emerg`.
impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Error for a text that names no severity level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownSeverity;

impl fmt::Display for UnknownSeverity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("unknown level; there are 0 to 14, which are")?;
        for name in NAMES {
            write!(f, " {name}")?;
        }
        f.write_str(", also without TRACE_ and in lower case")
    }
}

impl std::error::Error for UnknownSeverity {}

/// Parses LTTng's name (with or without `TRACE_`), any word for a level in filters, or the number.
/// Case does not count.
impl FromStr for Severity {
    type Err = UnknownSeverity;

    fn from_str(text: &str) -> Result<Severity, UnknownSeverity> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if digits {
            return text.parse().ok().and_then(Severity::from_number).ok_or(UnknownSeverity);
        }
        let name = NAMES.iter().position(|name| name.eq_ignore_ascii_case(text));
        let by_name = name.and_then(|index| Severity::from_number(index as u64));
        by_name.or_else(|| Severity::from_word(text)).ok_or(UnknownSeverity)
    }
}

/// Labels of the severity value: the words of each level.
#[derive(Debug)]
struct SeverityLabels;

impl Labels for SeverityLabels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        WORDS.iter().any(|(word, level)| {
            value == Integer::Unsigned(level.number()) && test(word.as_bytes())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_read() {
        let check = |text: &str, expected: Option<Severity>| {
            assert_eq!(text.parse(), expected.ok_or(UnknownSeverity), "{text}");
        };
        check("TRACE_EMERG", Some(Emergency));
        check("TRACE_DEBUG_FUNCTION", Some(DebugFunction));
        check("trace_debug", Some(Debug));
        check("WARNING", Some(Warning));
        check("emergency", Some(Emergency));
        check("Error", Some(Error));
        check("0", Some(Emergency));
        check("14", Some(Debug));
        check("15", None);
        check("99999999999999999999", None);
        check("-1", None);
        check("+1", None);
        check("", None);
        check("TRACE_", None);
        check("TRACE_EMERGENCY", None);
        check("debug ", None);
    }

    /// Each level has the right name and number, and can be parsed from its name, its shortest word
    /// and its number. The error for another text lists the names.
    #[test]
    fn levels_are_shown() {
        for (number, name) in NAMES.iter().enumerate() {
            let level = Severity::from_number(number as u64).expect("there are fifteen");
            assert_eq!((level.name(), level as usize), (*name, number));
            assert_eq!(*name, format!("TRACE_{}", level.to_string().to_uppercase()));
            for text in [name.to_string(), level.to_string(), number.to_string()] {
                assert_eq!(text.parse(), Ok(level));
            }
        }
        let error = "trace".parse::<Severity>().expect_err("no level").to_string();
        assert!(error.contains("TRACE_EMERG") && error.contains("TRACE_DEBUG,"), "{error}");
    }
}
