//! `cargo xtask bench wire`: cost of decoding and encoding a span in each format, compared with
//! other libraries. The program in `benches/wire` runs all candidates in turn. It measures
//! processor time, so that other processes hardly affect the ratios.

use super::goal::{Goal, Rival};
use super::options::Options;
use super::report::Report;
use crate::measure::Table;
use crate::tools::{cargo, target_dir, workspace_root};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

/// Number of runs of each candidate, and number of batches in each run; a batch has a thousand
/// spans. Runs are short, so that other processes disturb all candidates alike.
const ROUNDS: [&str; 2] = ["100", "10"];
const ROUNDS_QUICK: [&str; 2] = ["15", "3"];

/// Wanted maximum cost of decoding a span in nanoseconds: one core then decodes a million spans a
/// second.
const NS_MAX: f64 = 1000.0;

/// Figures of one library for one format and operation, as the program prints them.
#[derive(Clone, Debug, PartialEq)]
struct Cost {
    format: String,
    what: String,
    by: String,
    bytes_per_span: f64,
    ns: f64,
    ns_min: f64,
    ns_p90: f64,
}

pub(super) fn run(options: &Options, report: &mut Report) -> Result<(), String> {
    let program = build()?;
    let rounds = if options.quick { ROUNDS_QUICK } else { ROUNDS };
    let output = Command::new(&program)
        .args(rounds)
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{} failed: {}", program.display(), stderr.trim()));
    }
    let costs = parse(&String::from_utf8_lossy(&output.stdout))?;
    for (cost, line) in costs.iter().zip(String::from_utf8_lossy(&output.stdout).lines()) {
        report.row(serde_json::from_str(line).map_err(|error| error.to_string())?);
        if let Some(goal) = goal(cost, &costs) {
            report.goal(goal);
        }
    }
    report.say(table(&costs));
    Ok(())
}

/// Builds the program, which is not part of this workspace. Returns its path.
fn build() -> Result<PathBuf, String> {
    let target = target_dir().join("bench/wire");
    // Without `--locked`: the lock file also contains the dependencies of our own crates, and is
    // updated here.
    let status = cargo()
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(workspace_root().join("benches/wire/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .map_err(|error| format!("cannot start cargo: {error}"))?;
    match status.success() {
        true => Ok(target.join("release/blkkin-bench-wire")),
        false => Err("benches/wire does not build".to_owned()),
    }
}

fn parse(lines: &str) -> Result<Vec<Cost>, String> {
    lines
        .lines()
        .map(|line| {
            let cost = serde_json::from_str(line).ok().and_then(|value| Cost::of(&value));
            cost.ok_or_else(|| format!("the program says `{line}`"))
        })
        .collect()
}

impl Cost {
    fn of(value: &Value) -> Option<Cost> {
        let text = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let number = |key: &str| value.get(key)?.as_f64();
        Some(Cost {
            format: text("format")?,
            what: text("what")?,
            by: text("by")?,
            bytes_per_span: number("bytes_per_span")?,
            ns: number("ns_median")?,
            ns_min: number("ns_min")?,
            ns_p90: number("ns_p90")?,
        })
    }

    fn is_ours(&self) -> bool {
        self.by == "blkkin"
    }

    /// Returns the cost of the other library for the same format and operation.
    fn rival<'a>(&self, all: &'a [Cost]) -> Option<&'a Cost> {
        all.iter().find(|other| {
            !other.is_ours() && (&other.format, &other.what) == (&self.format, &self.what)
        })
    }
}

/// Returns the goal for decoding a span: a maximum cost, and a minimum speed-up over the other
/// library. Without the speed-up, a decoder of our own would not be worth it. Returns `None` for
/// encoding, and for the other library.
fn goal(cost: &Cost, all: &[Cost]) -> Option<Goal> {
    if !cost.is_ours() || cost.what != "decode" {
        return None;
    }
    let rival = cost.rival(all).map(|other| Rival {
        name: "others",
        measured: Some(other.ns),
        times_min: Some(2.0),
    });
    let what = format!("decoding a span of {}", cost.format);
    let goal = Goal::at_most(NS_MAX, " ns", what).measured(Some(cost.ns));
    let goal = match cost.format.as_str() {
        // The endpoint is repeated in each annotation, so a span has about three times as many
        // bytes.
        "zipkin-v1-json" => goal.limit(3.0 * NS_MAX),
        // A span has twice as many bytes as in Zipkin's JSON; most of them are type names.
        "otlp-json" => goal.limit(2.0 * NS_MAX),
        _ => goal,
    };
    Some(Goal { rival, ..goal })
}

fn table(costs: &[Cost]) -> String {
    let mut table = Table::new(&[
        "format",
        "",
        "by",
        "bytes",
        "ns/span",
        "min",
        "p90",
        "million/s",
        "MB/s",
        "times",
    ]);
    for cost in costs {
        let times = cost.rival(costs).filter(|_| cost.is_ours()).map(|other| other.ns / cost.ns);
        table.row(vec![
            cost.format.clone(),
            cost.what.clone(),
            cost.by.clone(),
            format!("{:.0}", cost.bytes_per_span),
            format!("{:.0}", cost.ns),
            format!("{:.0}", cost.ns_min),
            format!("{:.0}", cost.ns_p90),
            format!("{:.2}", 1000.0 / cost.ns),
            format!("{:.0}", cost.bytes_per_span * 1000.0 / cost.ns),
            times.map_or_else(String::new, |times| format!("{times:.2} ×")),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = r#"{"by":"blkkin","bytes_per_span":650.4,"format":"f","ns_median":500.0,"ns_min":480.0,"ns_p90":535.2,"what":"decode"}
{"by":"other","bytes_per_span":650.4,"format":"f","ns_median":2000,"ns_min":1900,"ns_p90":2100,"what":"decode"}
{"by":"other","bytes_per_span":650.4,"format":"f","ns_median":100,"ns_min":90,"ns_p90":110,"what":"encode"}"#;

    #[test]
    fn what_the_program_says_is_understood() {
        let costs = parse(LINES).expect("good");
        assert_eq!((costs.len(), costs[0].ns, costs[1].is_ours()), (3, 500.0, false));
        assert_eq!(costs[0].rival(&costs), Some(&costs[1]));
        assert!(parse("{}").expect_err("nothing").contains("`{}`"));
        let shown = table(&costs);
        assert!(shown.contains("4.00 ×") && shown.contains("2.00"), "{shown}");
    }

    #[test]
    fn goals_are_set_for_what_is_ours() {
        let costs = parse(LINES).expect("good");
        let goals: Vec<Goal> = costs.iter().filter_map(|cost| goal(cost, &costs)).collect();
        assert_eq!(goals.len(), 1);
        assert!(goals[0].is_done());
        let slow = Cost { ns: 1100.0, ..costs[0].clone() };
        assert!(!goal(&slow, &costs).expect("a goal").is_done());
    }
}
