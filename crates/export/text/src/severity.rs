//! The fifteen levels of severity, LTTng's.

/// Names from 0, the most severe, to 14.
pub const NAMES: [&str; 15] = [
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug_system",
    "debug_program",
    "debug_process",
    "debug_module",
    "debug_unit",
    "debug_function",
    "debug_line",
    "debug",
];

/// The names that babeltrace2 prints.
pub(crate) const TRACE_NAMES: [&str; 15] = [
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

/// The name of a level, if it is one of the fifteen.
pub fn name(level: Option<i64>) -> Option<&'static str> {
    NAMES.get(usize::try_from(level?).ok()?).copied()
}

pub(crate) fn trace_name(level: Option<i64>) -> Option<&'static str> {
    TRACE_NAMES.get(usize::try_from(level?).ok()?).copied()
}
