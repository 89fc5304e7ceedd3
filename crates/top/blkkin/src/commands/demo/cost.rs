//! What tracing costs: the same load with tracing off, of one request in a hundred, and of all, in turn. Start at
//! [`measure`].

use super::chain::Chain;
use crate::exit::Error;
use crate::interrupt::Interrupt;
use crate::table::{Align, Table};
use blkkin_blockstack::Load;
use blkkin_control::{Purpose, Request};
use serde_json::{Value, json};
use std::time::Duration;

/// How requests are followed, as users would say it.
const MODES: [(&str, Option<&str>, bool); 3] = [
    ("off", None, false),
    ("one request of 100", Some("1/100"), true),
    ("every request", None, true),
];

/// So often each of them.
const ROUNDS: usize = 5;

/// For so long.
const TIME: Duration = Duration::from_millis(500);

/// The session that records meanwhile.
const SESSION: &str = "cost";

/// The load's part of the disk.
const REGION: u64 = 16 << 20;

/// Requests a second of each mode, in the order of the rounds.
pub(super) struct Cost {
    iops: [Vec<f64>; MODES.len()],
}

/// Measures. Ctrl-C ends it early, with what there is by then.
pub(super) fn measure(chain: &mut Chain, interrupt: &Interrupt) -> Result<Cost, Error> {
    let mut cost = Cost { iops: Default::default() };
    chain.start_session(SESSION, Purpose::Snapshot, None)?;
    // The first requests have objects made.
    run(chain)?;
    for round in 0..ROUNDS {
        for turn in 0..MODES.len() {
            if interrupt.is_asked() {
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
    Ok(cost)
}

/// Requests a second, as many as are answered.
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

    /// What it was less than without tracing in the same round, in per cent: the least of the rounds, the median, the most.
    fn less(&self, mode: usize) -> Option<[f64; 3]> {
        let rounds = self.iops[0].iter().zip(&self.iops[mode]);
        let mut less: Vec<f64> =
            rounds.map(|(off, on)| (1.0 - on / off.max(1e-9)) * 100.0).collect();
        less.sort_by(f64::total_cmp);
        Some([*less.first()?, less[less.len() / 2], *less.last()?])
    }

    pub(super) fn table(&self) -> String {
        let mut table = Table::new(&[
            ("FOLLOWED", Align::Left),
            ("IOPS", Align::Right),
            ("LESS BY", Align::Right),
            ("IN ROUNDS", Align::Right),
        ]);
        for (mode, (name, ..)) in MODES.iter().enumerate() {
            let less = self.less(mode).filter(|_| mode > 0);
            let (less, rounds) = less.map_or_else(Default::default, |[least, median, most]| {
                (format!("{median:.1} %"), format!("{least:.1} to {most:.1} %"))
            });
            let iops = format!("{:.0}", self.median(mode));
            table.row(vec![(*name).into(), iops.into(), less.into(), rounds.into()]);
        }
        table.print(false)
    }

    pub(super) fn json(&self) -> Value {
        let modes = MODES.iter().enumerate().map(|(mode, (name, ..))| {
            let [least, median, most] = self.less(mode).unwrap_or_default();
            json!({
                "followed": name,
                "iops": self.median(mode),
                "lessPercent": median,
                "lessPercentLeast": least,
                "lessPercentMost": most,
            })
        });
        modes.collect()
    }
}
