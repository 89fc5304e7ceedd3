//! Writes numbers as Prometheus reads them. Start at [`Exposition`].
//!
//! All that is told is a reading of counters that are kept elsewhere, which takes three kinds of lines.

use std::fmt::{Display, Write};

/// Numbers that have been written.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// What kind of numbers a name has.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Exposition {
    /// What follows has this name.
    pub(crate) fn family(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// A number. Values of labels are words of ours: nothing in them has to be escaped.
    pub(crate) fn number(
        &mut self,
        name: &str,
        labels: &[(&str, &dyn Display)],
        number: impl Display,
    ) {
        self.0.push_str(name);
        for (at, (label, value)) in labels.iter().enumerate() {
            let opening = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{opening}{label}=\"{value}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {number}");
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }
}
