//! Delay from sending a span until a search finds it, while another client loads the server to its
//! maximum rate. Start at [`run`].

use super::ingest;
use super::state::{Bench, clear};
use crate::bench::goal::Goal;
use crate::bench::serving::program::{SendResult, finish, read};
use crate::bench::serving::running::Running;
use crate::measure::{Table, show_duration};
use serde_json::{Value, json};
use std::time::Duration;

const MS_MAX: f64 = 1000.0;

/// Time from the start of the loading client until searches begin.
const LEAD: Duration = Duration::from_millis(1500);

const FORMATS: [&str; 2] = ["proto3", "json"];

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), String> {
    let seconds = if bench.options.quick { 4.0 } else { 15.0 };
    let mut table = Table::new(&["beside", "spans/s", "found", "lost", "p50", "p99", "longest"]);
    for format in FORMATS {
        let room = bench.room("data")?;
        let server = bench.start(&room)?;
        let (sent, seen) = measure(bench, &server, format, seconds)?;
        bench.note_memory(format!("searches beside {format}"), server.rss_bytes_max()?);
        server.stop();
        clear(&room)?;
        let number = |name: &str| seen["visible"][name].as_f64();
        let lost = seen["lost"].as_u64().ok_or("nobody counts what is lost")?;
        let show = |name: &str| {
            number(name)
                .map_or_else(String::new, |ns| show_duration(Duration::from_nanos(ns as u64)))
        };
        table.row(vec![
            format.to_owned(),
            format!("{:.0}", sent.rate()),
            format!("{:.0}", number("count").unwrap_or(0.0)),
            lost.to_string(),
            show("p50_ns"),
            show("p99_ns"),
            show("max_ns"),
        ]);
        bench.report.row(json!({
            "table": "visible",
            "format": format,
            "spans_per_second": sent.rate(),
            "visible": seen["visible"],
            "lost": lost,
        }));
        // If a span was never found, the goal is missed.
        let p99 = if lost > 0 { Some(f64::INFINITY) } else { number("p99_ns").map(|ns| ns / 1e6) };
        let goal =
            Goal::at_most(MS_MAX, " ms", format!("from sent to found, p99, beside {format}"));
        bench.report.goal(goal.measured(p99));
    }
    let table = table.render();
    bench.report.say(table);
    Ok(())
}

fn measure(
    bench: &Bench<'_>,
    server: &Running,
    format: &str,
    seconds: f64,
) -> Result<(SendResult, Value), String> {
    let sender = bench.program.start("ingest", &ingest::arguments(server, format, seconds))?;
    let looking = json!({
        "address": server.web(),
        "seconds": seconds - 1.5 * LEAD.as_secs_f64(),
    });
    // The loading client first encodes its batches.
    std::thread::sleep(LEAD);
    let seen = bench.program.run("visible", &looking);
    let sent = read(&finish(sender)?)?;
    let sent = SendResult::of(&sent).ok_or_else(|| format!("`{sent}` says too little"))?;
    Ok((sent, seen?))
}
