//! Writer of help, type and sample lines in Prometheus's text format. Start at [`Exposition`].

use std::fmt::{Display, Write};

/// Metrics in Prometheus's text format, as written so far.
#[derive(Debug, Default)]
pub(crate) struct Exposition(String);

/// Type of a metric in Prometheus's text format.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
}

impl Exposition {
    /// Writes the help and type lines that start a metric family.
    pub(crate) fn family(&mut self, name: &str, kind: Type, help: &str) {
        let kind = match kind {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// Writes a sample line. Label values are constants of this program, so they need no escaping.
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
