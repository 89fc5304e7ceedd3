//! The guard of the machine: measures in short windows what the attached probes cost, and tells
//! which of them are to be detached. Run times are not measured all the time, because that costs
//! two readings of the clock for each run of a program.

use super::channel::Channel;
use super::overload::{Excess, GroupId, Overload};
use crate::cpu_share::CpuShare;
use crate::timer_probe::online_processors;
use blkkin_sys::bpf::RunTimes;
use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

/// Length of a window: a busy program makes tens of thousands of system calls in it.
const WINDOW: Duration = Duration::from_millis(20);
/// Time from the end of a window to the start of the next. Measurement thus costs 2 % of what it
/// would cost all the time.
const PAUSE: Duration = Duration::from_millis(980);

/// Time after which measuring is tried again if it failed for lack of memory or descriptors.
const RETRY: Duration = Duration::from_secs(60);

/// Guard of the machine against probes that take too much processor time.
#[derive(Debug)]
pub(super) struct Guard {
    overload: Overload,
    state: State,
    log: fn(&str),
}

#[derive(Debug)]
enum State {
    /// Nothing is attached, or the budget permits everything.
    Idle,
    /// The next window begins then.
    Waiting(Instant),
    Measuring(Window),
    /// Run times cannot be measured.
    Off,
}

/// Window in which run times are measured.
#[derive(Debug)]
struct Window {
    _run_times: RunTimes,
    begin: Instant,
    processors: u64,
    /// Cost of each group at the start, in nanoseconds.
    costs: BTreeMap<GroupId, u64>,
}

impl Guard {
    pub(super) fn new(budget: CpuShare, log: fn(&str)) -> Guard {
        Guard { overload: Overload::new(budget), state: State::Idle, log }
    }

    /// Goes on with the probes that are attached now, or ends if none are.
    pub(super) fn handle_change(&mut self, channels: &[Channel], now: Instant) {
        let groups = || channels.iter().flat_map(Channel::probes).map(|(group, _)| group);
        self.overload.keep(|known| groups().any(|group| group == known));
        let has_probes = groups().next().is_some();
        let is_needed = has_probes && !self.overload.permits_all();
        match self.state {
            State::Off => {}
            _ if !is_needed => self.state = State::Idle,
            State::Idle => self.state = State::Waiting(now + PAUSE),
            State::Waiting(_) | State::Measuring(_) => {}
        }
    }

    /// Returns the time of the next [step](Guard::step).
    pub(super) fn deadline(&self) -> Option<Instant> {
        match &self.state {
            State::Idle | State::Off => None,
            State::Waiting(begin) => Some(*begin),
            State::Measuring(window) => Some(window.begin + WINDOW),
        }
    }

    /// Begins or ends a window if it is time. Returns the probes to be detached.
    pub(super) fn step(&mut self, channels: &[Channel], now: Instant) -> Option<Excess> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return None;
        }
        let measured = match std::mem::replace(&mut self.state, State::Waiting(now + PAUSE)) {
            State::Measuring(window) => window,
            _ => {
                self.state = match Window::begin(channels) {
                    Ok(window) => State::Measuring(window),
                    Err(error) => {
                        let is_final = is_final(&error);
                        (self.log)(&format!(
                            "probes are not guarded against taking too much processor time{}, \
                             because their run times cannot be measured: {error}",
                            if is_final { "" } else { " now" }
                        ));
                        if is_final { State::Off } else { State::Waiting(now + RETRY) }
                    }
                };
                return None;
            }
        };
        let (available_ns, costs) = measured.end(channels);
        self.overload.add_window(available_ns, &costs)
    }
}

/// Returns true for an error that each try would meet: a missing right, or an older kernel.
fn is_final(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

impl Window {
    fn begin(channels: &[Channel]) -> io::Result<Window> {
        let processors = online_processors()?.len() as u64;
        // The first reading may measure the time of a breakpoint, which must not be in the window.
        costs(channels).for_each(drop);
        let run_times = RunTimes::measure()?;
        let begin = Instant::now();
        let costs = costs(channels).collect();
        Ok(Window { _run_times: run_times, begin, processors, costs })
    }

    /// Returns the time of all processors in the window, and the cost of each group that was
    /// attached during all of it, in nanoseconds.
    fn end(self, channels: &[Channel]) -> (u64, Vec<(GroupId, u64)>) {
        let Window { begin, processors, costs: at_begin, .. } = &self;
        // The costs first: an interruption between them and the clock must not raise the shares.
        let at_end: Vec<(GroupId, u64)> = costs(channels).collect();
        let elapsed = u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let taken = |(group, cost): (GroupId, u64)| {
            Some((group, cost.saturating_sub(*at_begin.get(&group)?)))
        };
        (elapsed.saturating_mul(*processors), at_end.into_iter().filter_map(taken).collect())
    }
}

/// Returns the cost of each group of attached probes so far, in nanoseconds. A group whose cost
/// cannot be read is left out.
fn costs(channels: &[Channel]) -> impl Iterator<Item = (GroupId, u64)> {
    let probes = channels.iter().flat_map(Channel::probes);
    probes.filter_map(|(group, probes)| Some((group, probes.cost_ns().ok()?)))
}
