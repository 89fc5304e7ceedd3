//! Measurement of what tracing costs. The load runs in three modes in turn: tracing off, one
//! request of 100 traced, and all requests traced. Start at [`measure`].

use super::chain::Chain;
use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::table::{Align, Table};
use blkkin_blockstack::Load;
use blkkin_control::{Purpose, Request};
use serde_json::{Value, json};
use std::time::Duration;

/// Modes of tracing: label, sampling rule, and whether the session records.
const MODES: [(&str, Option<&str>, bool); 3] = [
    ("off", None, false),
    ("one request of 100", Some("1/100"), true),
    ("every request", None, true),
];

/// Number of measurements of each mode.
const ROUNDS: usize = 5;

/// Duration of one measurement.
const TIME: Duration = Duration::from_millis(500);

/// Name of the measuring session and of its directory.
const SESSION: &str = "cost";

/// Size of the disk region that the load uses, in bytes.
const REGION: u64 = 16 << 20;

/// Requests per second of each mode, by round.
pub(super) struct Cost {
    iops: [Vec<f64>; MODES.len()],
}

/// Slowdown of the load in per cent. `percent` compares the medians of all rounds; `least` and
/// `most` are the extremes of single rounds.
#[derive(Clone, Copy, Debug, Default)]
struct Slowdown {
    percent: f64,
    least: f64,
    most: f64,
}

impl Slowdown {
    /// Returns true if tracing was slower in every round. Otherwise noise exceeds the cost.
    fn is_measurable(self) -> bool {
        self.least > 0.0
    }
}

/// Measures all modes. After Ctrl-C, returns the rounds measured so far.
pub(super) fn measure(chain: &mut Chain, interrupt: &Interrupt) -> Result<Cost, Error> {
    let mut cost = Cost { iops: Default::default() };
    let directory = chain.directory().join(SESSION);
    chain.start_session(SESSION, Purpose::Snapshot, Some(directory.clone()))?;
    // The first requests create objects in the stores, so this run is not counted.
    run(chain)?;
    for round in 0..ROUNDS {
        for turn in 0..MODES.len() {
            if interrupt.is_set() {
                break;
            }
            let mode = (turn + round) % MODES.len();
            let (_, sampling, is_on) = MODES[mode];
            chain.ask(&Request::SetSampling(sampling.map(str::to_owned)))?;
            if is_on {
                chain.ask(&Request::StartSession(SESSION.to_owned()))?;
            }
            cost.iops[mode].push(run(chain)?);
            if is_on {
                chain.ask(&Request::StopSession(SESSION.to_owned()))?;
            }
        }
    }
    chain.ask(&Request::SetSampling(None))?;
    chain.ask(&Request::DestroySession(SESSION.to_owned()))?;
    // The directory is empty, as no snapshot was taken.
    let _ = std::fs::remove_dir(directory);
    Ok(cost)
}

/// Returns the requests per second of a load without a rate limit.
fn run(chain: &Chain) -> Result<f64, Error> {
    let load = Load { clients: 1, region: Some(REGION), ..Load::new(chain.nbd(), TIME) };
    let report = load.run().map_err(|why| Error::failed(format!("the load: {why}")))?;
    Ok(report.iops())
}

impl Cost {
    fn median(&self, mode: usize) -> f64 {
        let mut iops = self.iops[mode].clone();
        iops.sort_by(f64::total_cmp);
        iops.get(iops.len() / 2).copied().unwrap_or(0.0)
    }

    /// Returns the slowdown of a mode compared with tracing off; `None` if no round has measured
    /// both.
    fn slowdown(&self, mode: usize) -> Option<Slowdown> {
        let less = |off: f64, on: f64| (1.0 - on / off.max(1e-9)) * 100.0;
        let rounds = self.iops[0].iter().zip(&self.iops[mode]);
        let mut rounds: Vec<f64> = rounds.map(|(off, on)| less(*off, *on)).collect();
        rounds.sort_by(f64::total_cmp);
        // Computed from the medians, which the table shows in the column before. The result is
        // within the range of the rounds if both modes have equally many rounds.
        let percent = less(self.median(0), self.median(mode));
        Some(Slowdown { percent, least: *rounds.first()?, most: *rounds.last()? })
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new(&[
            ("FOLLOWED", Align::Left),
            ("IOPS", Align::Right),
            ("LESS BY", Align::Right),
            ("IN ROUNDS", Align::Right),
        ]);
        for (mode, (name, ..)) in MODES.iter().enumerate() {
            let slowdown = self.slowdown(mode).filter(|_| mode > 0);
            let (less, rounds) = slowdown.map_or_else(Default::default, |slowdown| {
                let Slowdown { percent, least, most } = slowdown;
                let less = match slowdown.is_measurable() {
                    true => format!("{percent:.1} %"),
                    false => "less than can be measured here".to_owned(),
                };
                (less, format!("{least:.1} to {most:.1} %"))
            });
            let iops = format!("{:.0}", self.median(mode));
            table.row(vec![(*name).into(), iops.into(), less.into(), rounds.into()]);
        }
        table.print(false)
    }

    pub(super) fn json(&self) -> Value {
        let modes = MODES.iter().enumerate().map(|(mode, (name, ..))| {
            let slowdown = self.slowdown(mode).unwrap_or_default();
            json!({
                "followed": name,
                "iops": self.median(mode),
                "lessPercent": slowdown.percent,
                "lessPercentLeast": slowdown.least,
                "lessPercentMost": slowdown.most,
                "isMeasurable": slowdown.is_measurable(),
            })
        });
        modes.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Cost;

    fn cost(off: &[f64], some: &[f64], all: &[f64]) -> Cost {
        Cost { iops: [off.to_vec(), some.to_vec(), all.to_vec()] }
    }

    /// A mode that is slower in one round and faster in another is reported as not measurable. The
    /// rates in this test were measured on a busy machine.
    #[test]
    fn chance_is_no_figure() {
        let cost = cost(
            &[51000.0, 56429.0, 57000.0],
            &[55252.0, 57000.0, 50000.0],
            &[45000.0, 50786.1, 51300.0],
        );
        let table = cost.table();
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[1].contains("off") && !lines[1].contains('%'), "{table}");
        let chance = "55252  less than can be measured here";
        assert!(lines[2].contains(chance) && lines[2].ends_with("-8.3 to 12.3 %"), "{table}");
        // 50786 of 56429, the medians in the column before, are 10.0 % less.
        assert!(lines[3].contains("50786") && lines[3].contains(" 10.0 %  "), "{table}");
        let json = cost.json();
        let is_measurable = |mode: usize| json[mode]["isMeasurable"].as_bool().expect("a bool");
        assert!(!is_measurable(1) && is_measurable(2), "{json}");
    }

    /// Ctrl-C before the first round or within a round leaves a valid table.
    #[test]
    fn rounds_may_be_missing() {
        assert!(cost(&[], &[], &[]).table().lines().all(|line| !line.contains('%')));
        assert!(cost(&[5.0, 6.0], &[4.0], &[]).table().contains("20.0 %"));
    }
}
