//! The fifteen levels of severity of LTTng, which are syslog's with finer ones for debugging.

use crate::eval::{Integer, Labels, Value};

/// How severe an event is; the smaller the number, the more.
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

/// Every word that a filter accepts; of several for one level, the first is the one to print.
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

impl Severity {
    /// The level for a word, in lower or upper case.
    pub fn from_word(word: &str) -> Option<Severity> {
        let (_, level) = WORDS.iter().find(|(known, _)| known.eq_ignore_ascii_case(word))?;
        Some(*level)
    }

    /// The level for a number.
    pub fn from_number(number: u64) -> Option<Severity> {
        WORDS.iter().map(|(_, level)| *level).find(|level| level.number() == number)
    }

    /// The shortest word for the level.
    pub fn word(self) -> &'static str {
        WORDS.iter().find(|(_, level)| *level == self).map_or("", |(word, _)| word)
    }

    /// All words for all levels.
    pub fn words() -> impl Iterator<Item = &'static str> {
        WORDS.iter().map(|(word, _)| *word)
    }

    /// From 0, the most severe, to 14.
    pub fn number(self) -> u64 {
        self as u64
    }

    /// The value by which a host should answer for [`crate::Pseudo::Severity`]: it compares with
    /// numbers, and with words also where they are written as strings.
    pub fn value(self) -> Value<'static> {
        Value::Enum(Integer::Unsigned(self.number()), &SeverityLabels)
    }
}

/// The words as an enumeration's labels.
#[derive(Debug)]
struct SeverityLabels;

impl Labels for SeverityLabels {
    fn any(&self, value: Integer, test: &mut dyn FnMut(&[u8]) -> bool) -> bool {
        WORDS.iter().any(|(word, level)| {
            value == Integer::Unsigned(level.number()) && test(word.as_bytes())
        })
    }
}
