//! `cargo xtask bench ui`: time until the web page shows results, with `blkkin server` and
//! Chromium. It is compared with Zipkin's server and page. `ui/tests/measure.mjs` measures one task
//! in each run. Start at [`run`].

use super::load::{load, rest};
use super::peers::Peers;
use super::state::{Bench, clear};
use crate::bench::goal::{Goal, Rival};
use crate::bench::options::Options;
use crate::bench::report::Report;
use crate::bench::serving::running::Running;
use crate::measure::{Table, median, show_bytes};
use crate::ui;
use serde_json::{Value, json};
use std::process::{Command, Stdio};

/// Number of spans in a request that the page shows as a whole; `WIDE` is the number in a request
/// that the page shows only in part.
const SMALL: u64 = 100_000;
const WIDE: u64 = 1_000_000;

/// Default number of stored spans that the page searches, in millions.
const MILLIONS: u64 = 10;

/// Numbers of spans in the requests that Zipkin's page is also able to show.
const BESIDE: [u64; 2] = [3_000, 10_000];
const ZIPKIN_SPANS_MAX: u64 = 500_000;

type Phase = fn(&mut Bench<'_>) -> Result<(), String>;

const PHASES: [(&str, Phase); 3] = [("trace", trace), ("search", search), ("beside", beside)];

/// Figures of one time, rate or flag, one for each round.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    what: String,
    unit: String,
    figures: Vec<f64>,
    /// Part of each time that was spent on waiting for the server; empty if it was not measured.
    server: Vec<f64>,
}

pub(in crate::bench) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    if let Some(name) = options.phase.iter().find(|name| PHASES.iter().all(|one| one.0 != **name)) {
        let known = PHASES.map(|(name, _)| name).join(", ");
        return Err(format!("no phase `{name}`; there is {known}"));
    }
    ui::browser()?;
    let mut bench = Bench::new(options, report, Peers::zipkin_alone)?;
    bench.report.say("one machine has the server and the browser; both share its processors");
    for (name, phase) in PHASES {
        if options.phase.is_empty() || options.phase.iter().any(|asked| asked == name) {
            bench.report.say(format!("\n== {name}"));
            phase(&mut bench)?;
        }
    }
    Ok(())
}

/// Measures the pages of two requests with very many spans: [`SMALL`] and [`WIDE`].
fn trace(bench: &mut Bench<'_>) -> Result<(), String> {
    let data = bench.room("data")?;
    let server = bench.start(&data)?;
    let mut task = task("trace", &server, rounds(bench));
    (task["small"], task["wide"]) = (json!(SMALL), json!(WIDE));
    let mut sending = task.clone();
    sending["task"] = json!("send");
    measure(&sending)?;
    rest(bench, &server, &data)?;
    let rows = measure(&task)?;
    bench.report.say(format!(
        "\n{SMALL} spans, and {WIDE} of which {SMALL} are shown; the server has used {}",
        show_bytes(server.rss_bytes_max()?)
    ));
    server.stop();
    clear(&data)?;
    tell(bench, "requests", &rows);
    let wanted = [
        ("paint", Goal::at_most(1000.0, " ms", "100 thousand spans: first paint")),
        ("fold", Goal::at_most(100.0, " ms", "100 thousand spans: folding all")),
        ("unfold", Goal::at_most(100.0, " ms", "100 thousand spans: unfolding all")),
        ("fold one", Goal::at_most(100.0, " ms", "100 thousand spans: folding one")),
        ("scroll", Goal::at_least(30.0, "/s", "100 thousand spans: frames while scrolling")),
    ];
    for (what, goal) in wanted {
        bench.report.goal(goal.measured(of(&rows, what)));
    }
    let marked = rows.iter().find(|row| row.what == "wide cut");
    let marked = marked.map(|row| row.figures.iter().sum::<f64>() / row.figures.len() as f64);
    let goal = Goal::at_least(1.0, " ×", "a million spans: opened with the cut marked");
    bench.report.goal(goal.measured(marked));
    Ok(())
}

/// Measures the search page, with very many spans in the store.
fn search(bench: &mut Bench<'_>) -> Result<(), String> {
    let usual = if bench.options.quick { 1 } else { MILLIONS };
    let millions = bench.options.spans.first().copied().unwrap_or(usual);
    let data = bench.room("data")?;
    let server = bench.start(&data)?;
    load(bench, &server, "otlp-http", millions * 1_000_000)?;
    let disk = rest(bench, &server, &data)?;
    let rows = measure(&task("search", &server, rounds(bench)))?;
    bench.report.say(format!(
        "\n{millions} million spans of a day, in {} files; the server has used {}",
        disk.files,
        show_bytes(server.rss_bytes_max()?)
    ));
    server.stop();
    clear(&data)?;
    tell(bench, "search", &rows);
    for row in rows.iter().filter(|row| !row.what.ends_with(": rows")) {
        let what = format!("{millions} million spans, {}", row.what);
        let goal = Goal::at_most(1000.0, " ms", what);
        bench.report.goal(goal.measured(Some(row.median())));
    }
    Ok(())
}

/// Compares the pages of requests that Zipkin's page is also able to show.
fn beside(bench: &mut Bench<'_>) -> Result<(), String> {
    let Some(jar) = bench.peers.zipkin.clone() else {
        bench.skip("there is no server of Zipkin's");
        return Ok(());
    };
    let data = bench.room("data")?;
    let ours = bench.start(&data)?;
    let theirs = Running::zipkin(&bench.folder, &jar, ZIPKIN_SPANS_MAX)?;
    let mut task = task("beside", &ours, rounds(bench));
    task["zipkin"] = json!(format!("http://{}", theirs.web()));
    task["spans"] = json!(BESIDE);
    let rows = measure(&task)?;
    ours.stop();
    theirs.stop();
    clear(&data)?;
    tell(bench, "beside Zipkin", &rows);
    for spans in BESIDE {
        let name = "Zipkin's page";
        let measured = of(&rows, &format!("{spans} spans: Zipkin"));
        let goal = Goal::at_most(1000.0, " ms", format!("{spans} spans: first paint"));
        let goal = goal.rival(Rival { name, measured, times_min: None });
        bench.report.goal(goal.measured(of(&rows, &format!("{spans} spans: blkkin"))));
    }
    Ok(())
}

fn rounds(bench: &Bench<'_>) -> u64 {
    if bench.options.quick { 1 } else { 5 }
}

fn task(name: &str, server: &Running, rounds: u64) -> Value {
    json!({"task": name, "url": format!("http://{}", server.web()), "rounds": rounds})
}

/// Runs a task of `measure.mjs`, and returns the figures that it prints.
fn measure(task: &Value) -> Result<Vec<Row>, String> {
    let mut command = Command::new("node");
    command.arg("tests/measure.mjs").arg(task.to_string()).current_dir(ui::folder());
    command.env_remove("BLKKIN_URL").stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = command.output().map_err(|error| format!("cannot start node: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        return Err(format!("measure.mjs failed at {task}"));
    }
    let value: Value = serde_json::from_str(text.trim()).map_err(|error| error.to_string())?;
    rows(&value).ok_or_else(|| format!("`{value}` are no figures"))
}

fn rows(value: &Value) -> Option<Vec<Row>> {
    let numbers = |value: &Value| -> Option<Vec<f64>> {
        value.as_array()?.iter().map(Value::as_f64).collect()
    };
    let one = |value: &Value| {
        let text = |name: &str| value[name].as_str().map(str::to_owned);
        let (what, unit) = (text("what")?, text("unit")?);
        let (figures, server) = (numbers(&value["figures"])?, numbers(&value["server"])?);
        (!figures.is_empty()).then_some(Row { what, unit, figures, server })
    };
    value.as_array()?.iter().map(one).collect()
}

impl Row {
    fn median(&self) -> f64 {
        median(self.figures.clone())
    }
}

fn of(rows: &[Row], what: &str) -> Option<f64> {
    rows.iter().find(|row| row.what == what).map(Row::median)
}

fn tell(bench: &mut Bench<'_>, title: &str, rows: &[Row]) {
    let mut table = Table::new(&[title, "median", "least", "most", "the answer"]);
    for row in rows {
        let show = |figure: f64| match row.unit.as_str() {
            "" => format!("{figure:.0}"),
            unit => format!("{figure:.0} {unit}"),
        };
        table.row(vec![
            row.what.clone(),
            show(row.median()),
            show(row.figures.iter().copied().fold(f64::INFINITY, f64::min)),
            show(row.figures.iter().copied().fold(f64::NEG_INFINITY, f64::max)),
            if row.server.is_empty() { String::new() } else { show(median(row.server.clone())) },
        ]);
        bench.report.row(json!({
            "table": title,
            "what": row.what,
            "unit": row.unit,
            "median": row.median(),
            "figures": row.figures,
            "server": row.server,
        }));
    }
    bench.report.say(table.render());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read() {
        let value = json!([{"what": "paint", "unit": "ms", "figures": [3.0, 1, 2.5], "server": [1.0]},
                           {"what": "cut", "unit": "", "figures": [1], "server": []}]);
        let found = rows(&value).expect("figures");
        assert_eq!((of(&found, "paint"), of(&found, "cut")), (Some(2.5), Some(1.0)));
        assert_eq!(of(&found, "fold"), None);
        for bad in
            [json!({}), json!([{"what": "paint", "unit": "ms", "figures": [], "server": []}])]
        {
            assert_eq!(rows(&bad), None);
        }
    }
}
