//! Cost of sampled requests: one server under one load, while sessions of the agent are started and
//! stopped. Every slice with a session is between two slices without one, and is compared with the
//! mean of these two. Start at [`measure`].

use super::figures::{Quartiles, less};
use super::fio::{self, Fio, Load};
use super::recorded::{Recorded, count};
use super::servers::Server;
use super::stage::Setup;
use crate::bench::agent::Agent;
use crate::process::Process;
use crate::tools::at;
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Mode of tracing: which requests are sampled, and where their events are stored.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// Tracing is compiled in, and no session is active.
    Off,
    /// One request of 100 is sampled. Events are written to files.
    Sampled,
    /// All requests are sampled. Events stay in memory, where new events overwrite the oldest.
    Flight,
    /// All requests are sampled. Events are written to files.
    Written,
    /// All requests are sampled. Their events, and those of the kernel's work for them, are written
    /// to files.
    Kernel,
}

/// Modes that are compared with [`Mode::Off`]. The comparison of [`Mode::Off`] with itself measures
/// the noise.
pub(super) const MODES: [Mode; 5] =
    [Mode::Off, Mode::Sampled, Mode::Flight, Mode::Written, Mode::Kernel];

/// Returns the modes that this user can measure: only root records events of the kernel.
fn modes() -> &'static [Mode] {
    let is_root = nix::unistd::geteuid().is_root();
    if is_root { &MODES } else { &MODES[..MODES.len() - 1] }
}

/// Unmeasured time after the start or stop of a session, in which the rate settles.
const SETTLE: Duration = Duration::from_millis(150);

impl Mode {
    pub(super) fn name(self) -> &'static str {
        match self {
            Mode::Off => "off",
            Mode::Sampled => "1/100, to files",
            Mode::Flight => "all, in memory",
            Mode::Written => "all, to files",
            Mode::Kernel => "all, and kernel",
        }
    }

    /// Returns the name of the session that is active in this mode; `None` for [`Mode::Off`].
    fn session(self) -> Option<&'static str> {
        match self {
            Mode::Off => None,
            Mode::Sampled => Some("sampled"),
            Mode::Flight => Some("flight"),
            Mode::Written => Some("written"),
            Mode::Kernel => Some("kernel"),
        }
    }
}

/// A server whose requests are traced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Target {
    /// blockstack's NBD server alone, with a volume in memory.
    Alone,
    /// The whole chain of servers.
    Chain,
}

pub(super) const TARGETS: [Target; 2] = [Target::Alone, Target::Chain];

impl Target {
    pub(super) fn name(self) -> &'static str {
        match self {
            Target::Alone => "NBD server",
            Target::Chain => "chain",
        }
    }

    /// Returns the number of rounds. The server alone has more rounds, because goals refer to each
    /// of its loads and its slowdowns are smaller.
    pub(super) fn rounds(self, setup: &Setup) -> usize {
        match self {
            Target::Alone => 3 * setup.rounds,
            Target::Chain => setup.rounds,
        }
    }

    /// Returns the name by which `--phase` selects this target.
    pub(super) fn phase(self) -> &'static str {
        match self {
            Target::Alone => "alone",
            Target::Chain => "chain",
        }
    }
}

/// Figures that were measured in one slice.
#[derive(Clone, Copy, Debug, Default)]
struct Slice {
    rate: f64,
    /// Processor time of the server for a request, in microseconds.
    cpu_us: f64,
    /// Processor time of the agent, as a fraction of one CPU.
    agent_share: f64,
}

/// Results of a mode, over all its slices.
#[derive(Debug)]
pub(super) struct Measured {
    pub(super) mode: Mode,
    /// Quartiles of the rate, in requests a second.
    pub(super) rate: Quartiles,
    /// Slowdown against the neighbouring slices in per cent, for each slice of the mode.
    pub(super) cost: Vec<f64>,
    /// Additional processor time of the server for one request, against the neighbouring slices, in
    /// microseconds. There is one figure for each slice of the mode.
    pub(super) cpu_us: Vec<f64>,
    pub(super) agent_share: f64,
    /// Counts of the mode's trace; `None` for [`Mode::Off`] and [`Mode::Flight`].
    pub(super) recorded: Option<Recorded>,
}

/// Results of all modes, for one load and one server.
#[derive(Debug)]
pub(super) struct Cell {
    pub(super) target: Target,
    pub(super) load: Load,
    /// Rate in the slices that modes are compared with, in requests a second. These slices have no
    /// session.
    pub(super) off: Quartiles,
    /// Median processor time of the server for a request in the same slices, in microseconds.
    pub(super) off_cpu_us: f64,
    pub(super) measured: Vec<Measured>,
}

impl Measured {
    pub(super) fn cost(&self) -> Quartiles {
        Quartiles::of(&self.cost).unwrap_or_default()
    }

    pub(super) fn cpu_us(&self) -> f64 {
        Quartiles::of(&self.cpu_us).unwrap_or_default().median
    }
}

impl Cell {
    pub(super) fn of(&self, mode: Mode) -> Option<&Measured> {
        self.measured.iter().find(|measured| measured.mode == mode)
    }

    pub(super) fn json(&self) -> Value {
        let modes = self.measured.iter().map(|measured| {
            json!({
                "mode": measured.mode.name(),
                "iops": measured.rate.json(),
                "less_percent": measured.cost().json(),
                "less_percent_by_round": measured.cost,
                "server_cpu_us_more": measured.cpu_us(),
                "agent_cpu_share": measured.agent_share,
                "events": measured.recorded.map(|recorded| recorded.events),
                "requests": measured.recorded.map(|recorded| recorded.requests),
                "events_lost": measured.recorded.map(|recorded| recorded.lost),
            })
        });
        json!({
            "table": "followed",
            "target": self.target.name(),
            "load": self.load.name,
            "off_iops": self.off.json(),
            "off_server_cpu_us": self.off_cpu_us,
            "modes": modes.collect::<Vec<_>>(),
        })
    }
}

/// Measures all modes of a server under one load.
pub(super) fn measure(setup: &Setup, target: Target, load: Load) -> Result<Cell, String> {
    let sessions = Sessions::create(&setup.stage.agent, &setup.stage.disk.join("traces"))?;
    let place = setup.stage.memory.0.join("servers");
    remove(&place)?;
    fs::create_dir_all(&place).map_err(at(&place))?;
    let server = match target {
        Target::Alone => Server::alone(&setup.stage.blockstack, Some(&setup.stage.agent), &place)?,
        Target::Chain => {
            Server::chain(&setup.stage.blockstack, &setup.stage.agent, &place.join("chain"))?
        }
    };
    fio::fill(&server, &setup.stage.memory.0)?;
    let mut fio = Fio::start(&server, &load, &setup.stage.memory.0)?;
    fio.wait_for_requests(&server)?;
    std::thread::sleep(Duration::from_secs(1));

    // Each slice with a session is between two slices without a session.
    let order = order(target.rounds(setup), modes());
    let mut slices = Vec::with_capacity(order.len());
    for &mode in &order {
        slices.push((mode, sessions.slice(&server, mode, setup.slice)?));
        fio.check()?;
    }
    let rates = fio.end()?;
    drop(server);
    let slices: Vec<(Mode, Slice)> = slices
        .into_iter()
        .map(|(mode, timed)| Ok((mode, timed.slice(rates.between(timed.begin_ms, timed.end_ms)?))))
        .collect::<Result<_, String>>()?;
    let mut cell = summed_up(target, load, &slices, modes()).ok_or("there was no round")?;
    for measured in &mut cell.measured {
        measured.recorded = sessions.recorded(setup, measured.mode)?;
    }
    sessions.destroy()?;
    remove(&place)?;
    Ok(cell)
}

/// Returns the mode of each slice. Every second slice is off. The other slices have each mode once
/// in a round, in rotating order.
fn order(rounds: usize, modes: &[Mode]) -> Vec<Mode> {
    let mut order = vec![Mode::Off];
    for round in 0..rounds {
        for turn in 0..modes.len() {
            order.extend([modes[(turn + round) % modes.len()], Mode::Off]);
        }
    }
    order
}

fn summed_up(target: Target, load: Load, slices: &[(Mode, Slice)], modes: &[Mode]) -> Option<Cell> {
    let off: Vec<Slice> = slices.iter().step_by(2).map(|(_, slice)| *slice).collect();
    let rates = |slices: &[Slice]| {
        Quartiles::of(&slices.iter().map(|slice| slice.rate).collect::<Vec<_>>())
    };
    let of_mode = |mode: Mode| {
        let mut own = Vec::new();
        let (mut cost, mut cpu_us) = (Vec::new(), Vec::new());
        for beside in slices.windows(3).step_by(2) {
            let [(_, before), (between, slice), (_, after)] = beside else { continue };
            if *between == mode {
                own.push(*slice);
                cost.push(less(slice.rate, (before.rate + after.rate) / 2.0));
                cpu_us.push(slice.cpu_us - (before.cpu_us + after.cpu_us) / 2.0);
            }
        }
        let agent_share =
            own.iter().map(|slice| slice.agent_share).sum::<f64>() / own.len().max(1) as f64;
        let rate = rates(&own)?;
        Some(Measured { mode, rate, cost, cpu_us, agent_share, recorded: None })
    };
    let off_cpu_us = Quartiles::of(&off.iter().map(|slice| slice.cpu_us).collect::<Vec<_>>())?;
    Some(Cell {
        target,
        load,
        off: rates(&off)?,
        off_cpu_us: off_cpu_us.median,
        measured: modes.iter().map(|&mode| of_mode(mode)).collect::<Option<_>>()?,
    })
}

/// Sessions of the agent, one for each mode except [`Mode::Off`]. All are created before the first
/// slice; each is active only in the slices of its mode.
struct Sessions<'a> {
    agent: &'a Agent,
    folder: PathBuf,
}

/// Measurements of a slice, except the rate, which is read from fio's log later.
struct Timed {
    begin_ms: u64,
    end_ms: u64,
    seconds: f64,
    cpu_seconds: f64,
    agent_seconds: f64,
}

impl Timed {
    fn slice(&self, rate: f64) -> Slice {
        Slice {
            rate,
            cpu_us: self.cpu_seconds / (rate * self.seconds) * 1e6,
            agent_share: self.agent_seconds / self.seconds,
        }
    }
}

impl<'a> Sessions<'a> {
    fn create(agent: &'a Agent, folder: &Path) -> Result<Sessions<'a>, String> {
        remove(folder)?;
        fs::create_dir_all(folder).map_err(at(folder))?;
        for mode in modes() {
            let Some(name) = mode.session() else { continue };
            let output = folder.join(name).to_string_lossy().into_owned();
            let mut create = vec!["session", "create", name, "--output", &output];
            if *mode == Mode::Flight {
                create.push("--snapshot");
            }
            agent.command(&create)?;
            agent.command(&["event", "enable", "--session", name, "*"])?;
            if *mode == Mode::Kernel {
                agent.command(&["event", "enable", "--session", name, "--kernel", "request:*"])?;
            }
        }
        Ok(Sessions { agent, folder: folder.to_owned() })
    }

    /// Runs one slice of duration `length` in a mode.
    fn slice(&self, server: &Server, mode: Mode, length: Duration) -> Result<Timed, String> {
        let tell = |words: &[&str]| self.agent.command(words);
        if mode == Mode::Sampled {
            tell(&["sampling", "1/100"])?;
        }
        if let Some(session) = mode.session() {
            tell(&["session", "start", session])?;
        }
        std::thread::sleep(SETTLE);
        let agent = Process(self.agent.id());
        let agent_seconds = || agent.cpu_seconds().map(|(user, system)| user + system);
        let (begin_ms, cpu, own) = (fio::now_ms(), server.run_seconds()?, agent_seconds()?);
        let begin = std::time::Instant::now();
        std::thread::sleep(length);
        let seconds = begin.elapsed().as_secs_f64();
        let timed = Timed {
            begin_ms,
            end_ms: fio::now_ms(),
            seconds,
            cpu_seconds: server.run_seconds()? - cpu,
            agent_seconds: agent_seconds()? - own,
        };
        if let Some(session) = mode.session() {
            tell(&["session", "stop", session])?;
        }
        if mode == Mode::Sampled {
            tell(&["sampling", "--default"])?;
        }
        if matches!(mode, Mode::Written | Mode::Kernel) {
            // Otherwise write-back would slow down the next slice.
            sync(&self.folder)?;
        }
        Ok(timed)
    }

    /// Returns the counts of a mode's trace; `None` for [`Mode::Off`] and [`Mode::Flight`]. Fails
    /// if the mode's session has recorded no request.
    fn recorded(&self, setup: &Setup, mode: Mode) -> Result<Option<Recorded>, String> {
        let Some(name) = mode.session() else { return Ok(None) };
        if mode == Mode::Flight {
            // The snapshot has the newest requests only. It shows that the session has recorded.
            self.agent.command(&["session", "snapshot", name])?;
        }
        let recorded = count(&setup.stage.blkkin, &self.folder.join(name))?;
        if recorded.requests == 0 {
            return Err(format!("the session `{name}` has recorded no request"));
        }
        Ok((mode != Mode::Flight).then_some(recorded))
    }

    fn destroy(self) -> Result<(), String> {
        for name in modes().iter().filter_map(|mode| mode.session()) {
            self.agent.command(&["session", "destroy", name])?;
        }
        remove(&self.folder)
    }
}

/// Waits until all data of the file system with `folder` is on disk.
fn sync(folder: &Path) -> Result<(), String> {
    let status = Command::new("sync").arg("--file-system").arg(folder).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        _ => Err(format!("cannot sync {}", folder.display())),
    }
}

fn remove(folder: &Path) -> Result<(), String> {
    match fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(at(folder)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::blockstack::fio::LOADS;

    /// Every second slice is off. In as many rounds as there are modes, each mode has each place in
    /// a round once.
    #[test]
    fn modes_take_turns() {
        let count = MODES.len();
        let order = order(count, &MODES);
        assert_eq!(order.len(), 1 + count * 2 * count);
        assert!(order.iter().step_by(2).all(|mode| *mode == Mode::Off));
        for place in 0..count {
            let at_place: Vec<Mode> =
                (0..count).map(|round| order[1 + 2 * (round * count + place)]).collect();
            assert!(MODES.iter().all(|mode| at_place.contains(mode)), "{at_place:?}");
        }
    }

    /// A machine that becomes slower all the time causes no slowdown of a mode. A mode whose rate
    /// is a tenth lower has a slowdown of 10 %.
    #[test]
    fn slices_are_compared_with_those_beside_them() {
        let mut slices = Vec::new();
        for (place, mode) in order(3, &MODES).into_iter().enumerate() {
            let rate = 1000.0 - place as f64;
            let factor = if mode == Mode::Written { 0.9 } else { 1.0 };
            let slice = Slice { rate: rate * factor, cpu_us: 5.0, agent_share: 0.5 };
            slices.push((mode, slice));
        }
        let cell = summed_up(Target::Alone, LOADS[0], &slices, &MODES).expect("rounds");
        for mode in MODES {
            let measured = cell.of(mode).expect("measured");
            assert_eq!((measured.cost.len(), measured.agent_share), (3, 0.5));
            let expected = if mode == Mode::Written { 10.0 } else { 0.0 };
            assert!((measured.cost().median - expected).abs() < 1e-9, "{measured:?}");
            assert!(measured.cpu_us().abs() < 1e-9);
        }
        assert!(summed_up(Target::Chain, LOADS[0], &[], &MODES).is_none());
    }
}
