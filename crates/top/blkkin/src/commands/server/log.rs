//! Log lines on standard error: as text for people and for systemd's journal, or as JSON for
//! programs.

use serde_json::json;
use std::io::Write;

/// Format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum LogFormat {
    /// Time, level, program and message.
    #[default]
    Text,
    /// One JSON object a line, with `time`, `level`, `program` and `message`.
    Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    Info,
    Warn,
    Error,
}

impl Level {
    fn name(self) -> &'static str {
        match self {
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }
}

/// Writer of log lines, usable from all threads.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    format: LogFormat,
}

impl Log {
    pub(super) fn new(format: LogFormat) -> Log {
        Log { format }
    }

    pub(super) fn line(self, level: Level, message: &str) {
        let line = self.written(level, message, jiff::Timestamp::now());
        // One write for each line, so that lines of several threads do not mix.
        let _ = crate::output::styled_stderr().write_all(line.as_bytes());
    }

    fn written(self, level: Level, message: &str, time: jiff::Timestamp) -> String {
        let (time, level) = (format!("{time:.3}"), level.name());
        match self.format {
            LogFormat::Text => {
                let level = level.to_ascii_uppercase();
                // Messages may contain line breaks in text from clients.
                let message = message.replace(['\n', '\r'], " ");
                format!("{time} {level} blkkin server: {message}\n")
            }
            LogFormat::Json => {
                let line = json!({
                    "time": time, "level": level, "program": "blkkin server", "message": message,
                });
                format!("{line}\n")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_time_and_level() {
        let time = jiff::Timestamp::from_millisecond(1_795_341_792_005).expect("a time");
        let check = |format, expected| {
            assert_eq!(Log::new(format).written(Level::Warn, "a \"b\"\nc", time), expected);
        };
        check(LogFormat::Text, "2026-11-22T10:03:12.005Z WARN blkkin server: a \"b\" c\n");
        check(
            LogFormat::Json,
            "{\"time\":\"2026-11-22T10:03:12.005Z\",\"level\":\"warn\",\"program\":\"blkkin server\",\
             \"message\":\"a \\\"b\\\"\\nc\"}\n",
        );
    }
}
