//! Comparison of servers, each started anew in each round: blockstack with inactive
//! instrumentation, twice; blockstack without instrumentation; and nbdkit with and without its log
//! of requests. Start at [`measure`].

use super::figures::{Quartiles, less};
use super::fio::{self, Fio, Load};
use super::servers::Server;
use super::stage::Setup;
use crate::bench::recipe::Output;
use serde_json::{Value, json};
use std::time::Duration;

/// A server that is compared with the others.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Candidate {
    /// blockstack, compiled with instrumentation. The agent has no active session.
    Off,
    /// A second candidate equal to [`Candidate::Off`], whose difference measures the noise.
    OffAgain,
    /// blockstack, compiled without instrumentation.
    Untraced,
    Nbdkit,
    /// nbdkit with its filter that logs requests.
    NbdkitLog,
}

const ALL: [Candidate; 5] = [
    Candidate::Off,
    Candidate::OffAgain,
    Candidate::Untraced,
    Candidate::Nbdkit,
    Candidate::NbdkitLog,
];

/// Unmeasured time after the first requests, in which the rate settles.
const SETTLE: Duration = Duration::from_millis(250);

impl Candidate {
    pub(super) fn name(self) -> &'static str {
        match self {
            Candidate::Off => "blockstack, tracing off",
            Candidate::OffAgain => "the same again",
            Candidate::Untraced => "without instrumentation",
            Candidate::Nbdkit => "nbdkit, memory",
            Candidate::NbdkitLog => "nbdkit, with its log",
        }
    }

    /// Returns the server with which this one is compared; `None` for [`Candidate::Untraced`] and
    /// [`Candidate::Nbdkit`].
    pub(super) fn baseline(self) -> Option<Candidate> {
        match self {
            Candidate::Off => Some(Candidate::Untraced),
            Candidate::OffAgain => Some(Candidate::Off),
            Candidate::NbdkitLog => Some(Candidate::Nbdkit),
            Candidate::Untraced | Candidate::Nbdkit => None,
        }
    }

    pub(super) fn is_ours(self) -> bool {
        !matches!(self, Candidate::Nbdkit | Candidate::NbdkitLog)
    }
}

/// Results of one server in each round.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) who: Candidate,
    rates: Vec<f64>,
    /// Processor time of the server for one request in each round, in microseconds.
    cpu_us: Vec<f64>,
}

/// Results of all compared servers under one load.
#[derive(Debug)]
pub(super) struct Beside {
    pub(super) load: Load,
    pub(super) measured: Vec<Measured>,
}

impl Measured {
    pub(super) fn rate(&self) -> Quartiles {
        Quartiles::of(&self.rates).unwrap_or_default()
    }

    /// Returns the median processor time of the server for one request, in microseconds.
    pub(super) fn cpu_us(&self) -> f64 {
        Quartiles::of(&self.cpu_us).unwrap_or_default().median
    }
}

impl Beside {
    pub(super) fn of(&self, who: Candidate) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.who == who)
    }

    /// Returns the slowdown of a server against its baseline in per cent, for each round; `None` if
    /// the server has no baseline, or one of the two was not measured.
    pub(super) fn cost(&self, who: Candidate) -> Option<Vec<f64>> {
        let (own, other) = (self.of(who)?, self.of(who.baseline()?)?);
        Some(own.rates.iter().zip(&other.rates).map(|(rate, than)| less(*rate, *than)).collect())
    }

    pub(super) fn json(&self) -> Value {
        let each = self.measured.iter().map(|measured| {
            let cost = self.cost(measured.who);
            json!({
                "server": measured.who.name(),
                "iops": measured.rate().json(),
                "server_cpu_us": measured.cpu_us(),
                "than": measured.who.baseline().map(Candidate::name),
                "less_percent": cost.as_deref().and_then(Quartiles::of).map(Quartiles::json),
                "less_percent_by_round": cost,
            })
        });
        json!({"table": "beside", "load": self.load.name, "servers": each.collect::<Vec<_>>()})
    }
}

/// Measures all servers in turn, or only blockstack if nbdkit is not installed.
pub(super) fn measure(setup: &Setup, load: Load, has_nbdkit: bool) -> Result<Beside, String> {
    let there = ALL.into_iter().filter(|who| has_nbdkit || who.is_ours());
    let mut measured: Vec<Measured> =
        there.map(|who| Measured { who, rates: Vec::new(), cpu_us: Vec::new() }).collect();
    for round in 0..setup.rounds {
        let count = measured.len();
        for turn in 0..count {
            let one = &mut measured[(turn + round) % count];
            let (rate, cpu_us) = run(setup, one.who, &load)?;
            one.rates.push(rate);
            one.cpu_us.push(cpu_us);
        }
    }
    Ok(Beside { load, measured })
}

/// Measures a server in one round. Returns the requests a second, and the server's processor time
/// for one request in microseconds.
fn run(setup: &Setup, who: Candidate, load: &Load) -> Result<(f64, f64), String> {
    let place = Output::below(&setup.stage.memory.0, "beside")?;
    let log = Output::below(&setup.stage.disk, "log")?;
    let log = log.0.join("requests.log");
    let server = match who {
        Candidate::Off | Candidate::OffAgain => {
            Server::alone(&setup.stage.blockstack, Some(&setup.stage.agent), &place.0)?
        }
        Candidate::Untraced => Server::alone(&setup.untraced, None, &place.0)?,
        Candidate::Nbdkit => Server::nbdkit(&place.0, None)?,
        Candidate::NbdkitLog => Server::nbdkit(&place.0, Some(&log))?,
    };
    fio::fill(&server, &place.0)?;
    let mut fio = Fio::start(&server, load, &place.0)?;
    fio.wait_for_requests(&server)?;
    std::thread::sleep(SETTLE);
    let (begin_ms, cpu, begin) = (fio::now_ms(), server.run_seconds()?, std::time::Instant::now());
    std::thread::sleep(2 * setup.slice);
    let (end_ms, cpu_seconds) = (fio::now_ms(), server.run_seconds()? - cpu);
    let seconds = begin.elapsed().as_secs_f64();
    let rate = fio.end()?.between(begin_ms, end_ms)?;
    Ok((rate, cpu_seconds / (rate * seconds) * 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::blockstack::fio::LOADS;

    #[test]
    fn servers_are_compared_round_by_round() {
        let one = |who, rates: &[f64]| Measured { who, rates: rates.to_vec(), cpu_us: vec![2.0] };
        let measured = vec![
            one(Candidate::Off, &[99.0, 49.5]),
            one(Candidate::Untraced, &[100.0, 50.0]),
            one(Candidate::NbdkitLog, &[1.0, 1.0]),
        ];
        let beside = Beside { load: LOADS[0], measured };
        let cost = beside.cost(Candidate::Off).expect("both are there");
        assert!(cost.iter().all(|cost| (cost - 1.0).abs() < 1e-9), "{cost:?}");
        assert_eq!(beside.cost(Candidate::NbdkitLog), None);
        assert_eq!(beside.cost(Candidate::Untraced), None);
        assert_eq!(beside.of(Candidate::Off).map(Measured::cpu_us), Some(2.0));
    }
}
