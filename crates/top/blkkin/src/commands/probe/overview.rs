//! Overview of `blkkin probe ls` without a pattern: kinds of probes, their number, and why some are
//! not available.

use crate::conversation::print;
use crate::exit::{Error, Exit, note};
use crate::output::{message, width, wrap};
use crate::table::{Align, Table};
use blkkin_kernel::{Inability, Listing, ProbeKind, sample_rate_max};
use serde_json::{Value, json};

/// Kind of probes of this machine.
struct Row {
    kind: ProbeKind,
    /// Names; `None` for kinds whose probes cannot be enumerated.
    names: Option<Result<Vec<String>, Inability>>,
}

pub(super) fn run(listing: &Listing, is_json: bool) -> Result<Exit, Error> {
    let rows: Vec<Row> = ProbeKind::ALL.into_iter().map(|kind| Row::of(listing, kind)).collect();
    if is_json {
        print(&rows.iter().map(|row| format!("{}\n", row.to_json())).collect::<String>())?;
        return Ok(Exit::Ok);
    }
    let mut table = Table::new(&[
        ("KIND", Align::Left),
        ("COUNT", Align::Right),
        ("EXAMPLE", Align::Left),
        ("PROBES", Align::Left),
    ]);
    for row in &rows {
        let count = match &row.names {
            None => "any".to_owned(),
            Some(names) => names.as_ref().map_or(String::new(), |names| names.len().to_string()),
        };
        let example = message(row.example()).into_owned();
        table.row(vec![row.kind.word().into(), count.into(), example.into(), row.what().into()]);
    }
    let mut text = table.print(false);
    let reasons = rows.iter().filter_map(|row| Some((row.kind, row.inability()?)));
    let reasons: Vec<String> = reasons
        .map(|(kind, inability)| {
            wrap(&format!("{}: {inability}", kind.word()), width() - 2, "    ")
        })
        .collect();
    if !reasons.is_empty() {
        text += "\nNot available:\n";
        reasons.iter().for_each(|reason| text += &format!("  {reason}\n"));
    }
    print(&text)?;
    note("\nNames: blkkin probe ls 'syscall:*at'   Missing kinds: blkkin doctor");
    Ok(Exit::Ok)
}

impl Row {
    fn of(listing: &Listing, kind: ProbeKind) -> Row {
        let is_open =
            matches!(kind, ProbeKind::UserFunction | ProbeKind::Usdt | ProbeKind::Profile);
        Row { kind, names: (!is_open).then(|| listing.names(kind)) }
    }

    fn inability(&self) -> Option<&Inability> {
        self.names.as_ref()?.as_ref().err()
    }

    /// Returns the usual example if this machine has it, or else another one.
    fn example(&self) -> &str {
        let usual = self.kind.example();
        let Some(Ok(names)) = &self.names else { return usual };
        match names.iter().any(|name| name == usual) {
            true => usual,
            false => names.first().map_or(usual, String::as_str),
        }
    }

    fn what(&self) -> String {
        let what = match self.kind {
            ProbeKind::SystemCall => "system calls",
            ProbeKind::Tracepoint => "tracepoints",
            ProbeKind::Process => "starts and ends of processes",
            ProbeKind::Request => "waits, disks, calls of requests",
            ProbeKind::State => "processes, files, maps, disks",
            ProbeKind::RawTracepoint => "tracepoints, kernel's types",
            ProbeKind::KernelFunction => "kernel functions, breakpoints",
            ProbeKind::TypedFunction => "kernel functions, with types",
            ProbeKind::UserFunction => "functions of programs",
            ProbeKind::Usdt => "probes of programs",
            ProbeKind::Profile => return format!("1 to {} times a second", sample_rate_max()),
        };
        what.to_owned()
    }

    fn to_json(&self) -> Value {
        let count = self.names.as_ref().and_then(|names| names.as_ref().ok()).map(Vec::len);
        json!({
            "kind": self.kind.word(),
            "count": count,
            "example": self.example(),
            "available": self.inability().is_none(),
            "reason": self.inability().map(|inability| &inability.reason),
        })
    }
}
