//! Writer of `docs/evaluation.md` and its pictures. In the template, the file `evaluation.md` in
//! this folder, `{{name}}` stands for a figure, a text or a table. Start at [`write()`].

use super::bytes::{BYTES_MAX, BYTES_WANTED};
use super::figures::{Quartiles, grouped};
use super::plot;
use super::recorded::Recorded;
use super::results::{FULL_MAX, FULL_WANTED, Results, SAMPLED_MAX, goals};
use super::server_comparison::{Beside, Candidate};
use super::stage::Setup;
use super::tracing_switch::{Cell, Measured, Mode, Target};
use crate::bench::goal;
use crate::bench::machine::LOAD_AVERAGE_MAX;
use crate::measure::show_bytes;
use crate::tools::{at, workspace_root};
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

const TEMPLATE: &str = include_str!("evaluation.md");

const BUSY: &str =
    "\n**The machine had other things to do during this run: its figures are not to be quoted.**\n";

/// Writes the document and its pictures to `docs`.
pub(super) fn write(found: &Results, setup: &Setup, machine: &Value) -> Result<(), String> {
    let docs = workspace_root().join("docs");
    let text = filled(TEMPLATE, &facts(found, setup, machine)?)?;
    let bytes = found.bytes.as_ref().ok_or("bytes were not measured")?;
    let pictures = [
        ("evaluation-cost.svg", plot::cost(&found.cells, FULL_WANTED, FULL_MAX)),
        ("evaluation-rates.svg", plot::rates(&found.beside, &found.cells)),
        ("evaluation-bytes.svg", plot::bytes(&bytes.all(), BYTES_MAX)),
    ];
    for (name, picture) in pictures {
        let path = docs.join("pictures").join(name);
        fs::write(&path, picture).map_err(at(&path))?;
    }
    let path = docs.join("evaluation.md");
    fs::write(&path, text).map_err(at(&path))
}

/// Replaces each `{{name}}` in the template by its value. Fails if a name has no value, or if the
/// template does not use a value.
fn filled(template: &str, facts: &[(&str, String)]) -> Result<String, String> {
    let mut text = template.to_owned();
    for (name, value) in facts {
        let name = format!("{{{{{name}}}}}");
        if !template.contains(&name) {
            return Err(format!("the document does not say {name}"));
        }
        text = text.replace(&name, value);
    }
    match text.split_once("{{") {
        Some((_, rest)) => {
            let name = rest.split("}}").next().unwrap_or_default();
            Err(format!("nobody knows the document's {{{{{name}}}}}"))
        }
        None => Ok(text),
    }
}

fn facts(
    found: &Results,
    setup: &Setup,
    machine: &Value,
) -> Result<Vec<(&'static str, String)>, String> {
    let bytes = found.bytes.as_ref().ok_or("bytes were not measured")?;
    let of_machine = |name: &str| {
        machine.get(name).map(|value| value.as_str().map_or(value.to_string(), str::to_owned))
    };
    let machine = |name: &str| of_machine(name).unwrap_or_else(|| "unknown".to_owned());
    let cells = |target| found.cells.iter().filter(move |cell| cell.target == target);
    let medians = |target: Target, mode: Mode| {
        let measured = cells(target).filter_map(move |cell| cell.of(mode));
        range(measured.map(|measured| measured.cost().median), 1)
    };
    let is_busy = machine("load_average").parse().is_ok_and(|load: f64| load > LOAD_AVERAGE_MAX);
    let skipped = match found.skipped.is_empty() {
        true => "Nothing was skipped.".to_owned(),
        false => format!("Skipped, as it was not there: {}.", found.skipped.join("; ")),
    };
    let (rows, with_index) = bytes.a_span().ok_or("there are no spans on disk")?;
    let alone: Vec<&Cell> = cells(Target::Alone).collect();
    let flight: Vec<(&Cell, &Measured)> =
        alone.iter().filter_map(|cell| Some((*cell, cell.of(Mode::Flight)?))).collect();
    let events = |target: Target| {
        let measured = cells(target).filter_map(|cell| cell.of(Mode::Written)?.recorded);
        range(measured.map(|recorded| recorded.events_a_request()), 1)
    };
    let ns = flight.iter().filter_map(|(cell, measured)| {
        let recorded = cell.of(Mode::Written)?.recorded?;
        Some(1000.0 * measured.cpu_us() / recorded.events_a_request())
    });
    let lost = found.cells.iter().flat_map(|cell| &cell.measured);
    let lost: u64 = lost.filter_map(|measured| Some(measured.recorded?.lost)).sum();
    let written = found.cells.iter().filter_map(|cell| cell.of(Mode::Written));
    let agent = written.map(|measured| 100.0 * measured.agent_share);
    let chance = cells(Target::Alone)
        .chain(cells(Target::Chain))
        .filter_map(|cell| Some(cell.of(Mode::Off)?.cost()));
    let chance: Vec<Quartiles> = chance.collect();
    let Recorded { requests, events: trace_events, lost: trace_lost } = bytes.recorded;
    Ok(vec![
        ("date", date()?),
        ("cpu", machine("cpu")),
        ("cpus", machine("cpus")),
        ("memory", memory(&machine("memory"))),
        ("kernel", machine("kernel")),
        ("rustc", machine("rustc")),
        ("load_average", machine("load_average")),
        ("busy", if is_busy { BUSY } else { "" }.to_owned()),
        ("disk", filesystem(&setup.stage.disk)?),
        ("in_memory", filesystem(&setup.stage.memory.0)?),
        ("fio", found.fio.clone()),
        ("nbdkit", found.nbdkit.clone().unwrap_or_else(|| "not there".to_owned())),
        ("skipped", skipped),
        ("minutes", format!("{:.0}", found.took.as_secs_f64() / 60.0)),
        ("rounds", setup.rounds.to_string()),
        ("rounds_alone", Target::Alone.rounds(setup).to_string()),
        ("slice", format!("{}", setup.slice.as_secs_f64())),
        ("slice_beside", format!("{}", 2.0 * setup.slice.as_secs_f64())),
        ("full_wanted", format!("{FULL_WANTED}")),
        ("full_max", format!("{FULL_MAX}")),
        ("sampled_max", format!("{SAMPLED_MAX}")),
        ("bytes_wanted", format!("{BYTES_WANTED}")),
        ("bytes_max", format!("{BYTES_MAX}")),
        ("alone", table(&alone)),
        ("chain", table(&cells(Target::Chain).collect::<Vec<_>>())),
        ("beside", found.beside.iter().map(table_beside).collect::<Vec<_>>().join("\n")),
        ("bytes", table_bytes(&bytes.all())),
        ("alone_flight", medians(Target::Alone, Mode::Flight)),
        ("alone_written", medians(Target::Alone, Mode::Written)),
        ("alone_sampled", medians(Target::Alone, Mode::Sampled)),
        ("chain_flight", medians(Target::Chain, Mode::Flight)),
        ("chain_written", medians(Target::Chain, Mode::Written)),
        ("chain_sampled", medians(Target::Chain, Mode::Sampled)),
        ("chance", range(chance.iter().map(|chance| chance.median), 1)),
        ("chance_doubt", range(chance.iter().map(Quartiles::interval_width), 1)),
        ("alone_events", events(Target::Alone)),
        ("chain_events", events(Target::Chain)),
        ("event_ns", range(ns, 0)),
        ("agent", range(agent, 0)),
        ("lost", lost.to_string()),
        ("off", off(&found.beside)),
        ("log", log(&found.beside)),
        ("trace_requests", grouped(requests as f64)),
        ("trace_events", grouped(trace_events as f64)),
        ("trace_lost", trace_lost.to_string()),
        ("spans", grouped(bytes.spans)),
        ("spans_in_files", grouped(bytes.disk.spans as f64)),
        ("files", bytes.disk.files.to_string()),
        ("span_rows", format!("{rows:.1}")),
        ("span_bytes", format!("{with_index:.1}")),
        ("rest", if bytes.is_at_rest { "had" } else { "had not" }.to_owned()),
        ("goals", goal::render(&goals(found))),
    ])
}

/// Formats the machine's memory, given as in `24684092 kB`, for people.
fn memory(told: &str) -> String {
    let kib = told.split(' ').next().and_then(|word| word.parse::<u64>().ok());
    kib.map_or_else(|| told.to_owned(), |kib| show_bytes(kib << 10))
}

/// Formats the minimum and the maximum of figures as `1.2 to 3.4`, or as `1.2` if both look the
/// same. Returns `unknown` if there are no figures.
fn range(figures: impl Iterator<Item = f64>, digits: usize) -> String {
    let figures: Vec<f64> = figures.collect();
    let (least, most) = (
        figures.iter().copied().fold(f64::INFINITY, f64::min),
        figures.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    );
    if figures.is_empty() {
        return "unknown".to_owned();
    }
    let (least, most) = (format!("{least:.digits$}"), format!("{most:.digits$}"));
    if least == most { least } else { format!("{least} to {most}") }
}

fn off(beside: &[Beside]) -> String {
    let each = beside.iter().filter_map(|one| {
        let (cost, chance) = (one.cost(Candidate::Off)?, one.cost(Candidate::OffAgain)?);
        let (cost, chance) = (Quartiles::of(&cost)?, Quartiles::of(&chance)?);
        Some(format!(
            "{:.2} % at {} (surely {}; the same program twice: {:.2}, {})",
            cost.median,
            one.load.name,
            cost.bounds(),
            chance.median,
            chance.bounds()
        ))
    });
    each.collect::<Vec<_>>().join(", and ")
}

fn log(beside: &[Beside]) -> String {
    let costs = beside.iter().filter_map(|one| Quartiles::of(&one.cost(Candidate::NbdkitLog)?));
    let costs: Vec<f64> = costs.map(|cost| cost.median).collect();
    match costs.is_empty() {
        true => "an unknown part".to_owned(),
        false => format!("{} %", range(costs.into_iter(), 0)),
    }
}

fn table(cells: &[&Cell]) -> String {
    let mut text = "| load | followed | IOPS | less than off | surely between | processor time a request | agent | \
                    events a request | lost |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
        .to_owned();
    for cell in cells {
        for measured in &cell.measured {
            let cost = measured.cost();
            let (median, bounds) = (cost.median, cost.bounds());
            let recorded = measured.recorded;
            let events = recorded.map(|it| format!("{:.2}", it.events_a_request()));
            let lost = recorded.map(|it| it.lost.to_string());
            text += &format!(
                "| {} | {} | {} | {median:.2} % | {bounds} % | {:.2} {:+.3} µs | {:.1} % | {} | {} |\n",
                cell.load.name,
                measured.mode.name(),
                grouped(measured.rate.median),
                cell.off_cpu_us,
                measured.cpu_us(),
                100.0 * measured.agent_share,
                events.unwrap_or_default(),
                lost.unwrap_or_default(),
            );
        }
    }
    text
}

fn table_beside(beside: &Beside) -> String {
    let mut text = format!(
        "| {} | IOPS | processor time a request | less | surely between | than |\n\
         | --- | ---: | ---: | ---: | ---: | --- |\n",
        beside.load.name
    );
    for measured in &beside.measured {
        let cost = beside.cost(measured.who).as_deref().and_then(Quartiles::of);
        text += &format!(
            "| {} | {} | {:.2} µs | {} | {} | {} |\n",
            measured.who.name(),
            grouped(measured.rate().median),
            measured.cpu_us(),
            cost.map(|cost| format!("{:.2} %", cost.median)).unwrap_or_default(),
            cost.map(|cost| format!("{} %", cost.bounds())).unwrap_or_default(),
            measured.who.baseline().map(Candidate::name).unwrap_or_default(),
        );
    }
    text
}

fn table_bytes(all: &[(String, f64)]) -> String {
    let rows = all.iter().map(|(name, bytes)| format!("| {name} | {bytes:.1} |\n"));
    "| who | bytes a span |\n| --- | ---: |\n".to_owned() + &rows.collect::<String>()
}

fn filesystem(folder: &Path) -> Result<String, String> {
    let told = told(Command::new("df").arg("--output=fstype").arg(folder))?;
    Ok(told.lines().last().unwrap_or_default().to_owned())
}

fn date() -> Result<String, String> {
    told(Command::new("date").args(["--utc", "+%Y-%m-%d"]))
}

fn told(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(format!("{command:?} fails")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_in() {
        let facts = [("a", "1".to_owned()), ("b", "{2}".to_owned())];
        assert_eq!(filled("{{a}} {{b}}{{a}}", &facts), Ok("1 {2}1".to_owned()));
        assert!(filled("{{a}}", &facts).is_err_and(|why| why.contains("{{b}}")));
        assert!(filled("{{a}} {{b}} {{c}}", &facts).is_err_and(|why| why.contains("{{c}}")));
    }

    #[test]
    fn ranges_are_short() {
        assert_eq!(range([2.04, -0.5, 1.0].into_iter(), 1), "-0.5 to 2.0");
        assert_eq!(range([1.0, 1.01].into_iter(), 1), "1.0");
        assert_eq!(range([].into_iter(), 1), "unknown");
    }
}
