//! Latencies of the lines that a viewer prints, and processor time meanwhile. Start at [`measure`].

use super::chain::Chain;
use super::processes::run_seconds;
use crate::measure::monotonic_ns;
use crate::process::{Process, end};
use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Result of a measurement.
pub(super) struct Measurement {
    /// Time from the record to the viewer's output for each event, in milliseconds, sorted.
    pub(super) latencies_ms: Vec<f64>,
    /// Number of events that the viewer did not print. babeltrace2 ends when an event is late.
    pub(super) missing: u64,
    pub(super) load: Load,
}

/// Processor time, in percent of one processor.
#[derive(Clone, Copy)]
pub(super) struct Load {
    pub(super) daemons: f64,
    pub(super) viewer: f64,
}

/// Time for a viewer to attach, and for a program's streams to appear at it. Events of this time
/// are not measured.
const SETTLING: Duration = Duration::from_secs(3);
/// Maximum time for the last events to be printed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A viewer's process, ended on drop, and the lines that it has printed with the times of their
/// arrival.
struct Viewer {
    child: Child,
    lines: Receiver<(u64, String)>,
}

impl Viewer {
    fn start(chain: &dyn Chain) -> Result<Viewer, String> {
        let mut child = chain.view()?;
        let stdout = child.stdout.take().ok_or("the viewer has no output")?;
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if sender.send((monotonic_ns(), line)).is_err() {
                    return;
                }
            }
        });
        Ok(Viewer { child, lines })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

/// Processor time since its start.
struct LoadMeter<'c> {
    chain: &'c dyn Chain,
    viewer: u32,
    start: Instant,
    seconds: (f64, f64),
}

impl LoadMeter<'_> {
    fn start(chain: &dyn Chain, viewer: u32) -> Result<LoadMeter<'_>, String> {
        let (start, seconds) = (Instant::now(), seconds_of(chain, viewer)?);
        Ok(LoadMeter { chain, viewer, start, seconds })
    }

    fn load(&self) -> Result<Load, String> {
        let elapsed = self.start.elapsed().as_secs_f64();
        let (daemons, viewer) = seconds_of(self.chain, self.viewer)?;
        let percent = |seconds: f64| seconds / elapsed * 100.0;
        let (daemons, viewer) = (daemons - self.seconds.0, viewer - self.seconds.1);
        Ok(Load { daemons: percent(daemons), viewer: percent(viewer) })
    }
}

fn seconds_of(chain: &dyn Chain, viewer: u32) -> Result<(f64, f64), String> {
    Ok((run_seconds(&chain.daemons())?, Process(viewer).run_seconds()?))
}

/// Records events at a rate, and reads what the viewer prints.
pub(super) fn measure(chain: &dyn Chain, rate: u64, seconds: u64) -> Result<Measurement, String> {
    let viewer = Viewer::start(chain)?;
    thread::sleep(SETTLING / 2);
    let seconds = seconds + SETTLING.as_secs();
    let mut program = chain.program();
    program.args(["time", &rate.to_string(), &seconds.to_string(), "1"]).stdout(Stdio::null());
    let failed = |error| format!("the paced program: {error}");
    let mut program = program.spawn().map_err(failed)?;
    thread::sleep(SETTLING);
    let (from, meter) = (monotonic_ns(), LoadMeter::start(chain, viewer.child.id())?);
    let mut load = None;
    let (mut latencies_ms, mut seen) = (Vec::new(), 0);
    let mut deadline = None;
    while seen < rate * seconds && deadline.is_none_or(|deadline| Instant::now() < deadline) {
        let has_ended = program.try_wait().map_err(failed)?.is_some();
        if has_ended && deadline.is_none() {
            load = Some(meter.load()?);
            deadline = Some(Instant::now() + PATIENCE);
        }
        match viewer.lines.recv_timeout(Duration::from_millis(100)) {
            Ok((arrival, line)) => {
                let Some(recorded) = recorded_ns(&line) else { continue };
                seen += 1;
                if recorded >= from {
                    latencies_ms.push(arrival.saturating_sub(recorded) as f64 / 1e6);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    let status = program.wait().map_err(failed)?;
    if !status.success() {
        return Err(format!("the paced program: {status}"));
    }
    latencies_ms.sort_by(f64::total_cmp);
    let load = load.map_or_else(|| meter.load(), Ok)?;
    Ok(Measurement { latencies_ms, missing: rate * seconds - seen, load })
}

/// Measures the processor time while a session with a viewer records nothing.
pub(super) fn idle(chain: &dyn Chain, duration: Duration) -> Result<Load, String> {
    let viewer = Viewer::start(chain)?;
    thread::sleep(SETTLING);
    let meter = LoadMeter::start(chain, viewer.child.id())?;
    thread::sleep(duration);
    meter.load()
}

/// Returns the time in a line that a viewer has printed for `bench:time`.
fn recorded_ns(line: &str) -> Option<u64> {
    let (_, fields) = line.split_once("ns = ")?;
    let digits = fields.find(|character: char| !character.is_ascii_digit())?;
    fields.get(..digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::recorded_ns;

    #[test]
    fn times_are_read_from_lines() {
        let line = "[12:00:00.5] (+0.1) node bench:time: { cpu_id = 1 }, { ns = 1234567 }";
        assert_eq!(recorded_ns(line), Some(1_234_567));
        assert_eq!(recorded_ns("[12:00:00.5] other: { }"), None);
        assert_eq!(recorded_ns("ns = x"), None);
    }
}
