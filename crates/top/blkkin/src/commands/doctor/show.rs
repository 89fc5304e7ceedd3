//! Output of `blkkin doctor`: a line for each check, with the command that enables a missing thing;
//! and the features that work.

use super::checks::{Check, State, work_for};
use super::feature::Feature;
use crate::output::{ColorChoice, locale_is_utf8, message, width, wrap};
use clap::builder::styling::{AnsiColor, Style};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::io;

/// Minimum width of the column that says what was found.
const FOUND_WIDTH_MIN: usize = 20;

impl State {
    fn word(self) -> &'static str {
        match self {
            State::Works => "works",
            State::Missing => "missing",
            State::Unknown => "unknown",
            State::Note => "note",
        }
    }

    fn mark(self, has_unicode: bool) -> char {
        match (self, has_unicode) {
            (State::Works, true) => '✓',
            (State::Works, false) => '+',
            (State::Missing, true) => '✗',
            (State::Missing, false) => 'x',
            (State::Unknown, _) => '?',
            (State::Note, _) => '-',
        }
    }

    fn style(self) -> Style {
        match self {
            State::Works => AnsiColor::Green.on_default(),
            State::Missing => AnsiColor::Red.on_default().bold(),
            State::Unknown | State::Note => AnsiColor::Yellow.on_default(),
        }
    }
}

/// Returns the checklist as text.
pub(super) fn text(checks: &[Check], features: &[Feature]) -> String {
    let layout = Layout {
        width: width(),
        has_color: ColorChoice::Auto.applies(&io::stdout()),
        has_unicode: locale_is_utf8(),
        name_width: widest(checks, |check| check.name),
        purpose_width: widest(checks, |check| check.purpose),
    };
    let mut text = String::new();
    checks.iter().for_each(|check| layout.add(check, &mut text));
    let words = |is_working: bool| {
        let chosen = features.iter().filter(|feature| work_for(checks, **feature) == is_working);
        chosen.map(|feature| feature.word()).collect::<Vec<_>>().join(", ")
    };
    for (label, words) in [("Works:         ", words(true)), ("Does not work: ", words(false))] {
        if !words.is_empty() {
            let indent = " ".repeat(label.len());
            let _ = writeln!(text, "{}", wrap(&format!("{label}{words}"), layout.width, &indent));
        }
    }
    text
}

fn widest(checks: &[Check], part: fn(&Check) -> &str) -> usize {
    checks.iter().map(|check| part(check).chars().count()).max().unwrap_or(0)
}

struct Layout {
    width: usize,
    has_color: bool,
    has_unicode: bool,
    name_width: usize,
    purpose_width: usize,
}

impl Layout {
    /// Appends the lines of a check: mark, name, what was found, purpose; then what enables it.
    fn add(&self, check: &Check, text: &mut String) {
        let Layout { name_width, purpose_width, .. } = *self;
        let taken = 2 + name_width + 2 + 2 + purpose_width;
        let found_width = self.width.saturating_sub(taken).max(FOUND_WIDTH_MIN);
        let mark = check.state.mark(self.has_unicode);
        let _ = match self.has_color {
            true => write!(text, "{0}{mark}{0:#} ", check.state.style()),
            false => write!(text, "{mark} "),
        };
        let found = message(&check.found);
        // A long reason takes its own lines, so that the columns stay.
        let is_short = found.chars().count() <= found_width;
        let shown = if is_short { &*found } else { check.state.word() };
        let line = format!("{:name_width$}  {shown:found_width$}  {}", check.name, check.purpose);
        let _ = writeln!(text, "{}", line.trim_end());
        let mut detail = |detail: &str| {
            let _ = writeln!(text, "    {}", wrap(detail, self.width - 4, "      "));
        };
        if !is_short {
            detail(&found);
        }
        if let Some(fix) = &check.fix {
            detail(&format!("{} {}", if self.has_unicode { '→' } else { '>' }, message(fix)));
        }
    }
}

/// Returns the checklist as JSON. `wanted` are the features on which the exit status depends.
pub(super) fn to_json(checks: &[Check], features: &[Feature], wanted: &[Feature]) -> Value {
    let check_json = |check: &Check| {
        json!({
            "name": check.name,
            "state": check.state.word(),
            "found": check.found,
            "needed_by": check.features.iter().map(|one| one.word()).collect::<Vec<_>>(),
            "fix": check.fix,
        })
    };
    let features =
        features.iter().map(|one| (one.word().to_owned(), work_for(checks, *one).into()));
    json!({
        "schema": "blkkin.doctor.v1",
        "release": env!("CARGO_PKG_VERSION"),
        "ok": wanted.iter().all(|feature| work_for(checks, *feature)),
        "features": Value::Object(features.collect::<Map<String, Value>>()),
        "checks": checks.iter().map(check_json).collect::<Vec<_>>(),
    })
}
