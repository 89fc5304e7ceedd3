//! Results of all phases, and the goals for them. Start at [`goals`].

use super::bytes::Bytes;
use super::figures::Quartiles;
use super::server_comparison::{Beside, Candidate};
use super::tracing_switch::{Cell, Measured, Mode, TARGETS, Target};
use crate::bench::goal::Goal;
use std::time::Duration;

/// Wanted slowdown with all requests sampled, in per cent; [`FULL_MAX`] is its limit.
/// [`SAMPLED_MAX`] is the wanted slowdown with one request of 100 sampled.
pub(super) const FULL_WANTED: f64 = 1.0;
pub(super) const FULL_MAX: f64 = 3.0;
pub(super) const SAMPLED_MAX: f64 = 0.5;
/// Wanted slowdown with all requests sampled and explained by the kernel's events, in per cent, and
/// its limit.
const KERNEL_WANTED: f64 = 2.0;
const KERNEL_MAX: f64 = 5.0;

/// Results of all phases.
pub(super) struct Results {
    pub(super) cells: Vec<Cell>,
    pub(super) beside: Vec<Beside>,
    pub(super) bytes: Option<Bytes>,
    /// Names of skipped measurements, with the reasons.
    pub(super) skipped: Vec<String>,
    pub(super) fio: String,
    pub(super) nbdkit: Option<String>,
    pub(super) took: Duration,
}

/// Returns whether the noise permits a statement. `chance` is the difference between equal modes:
/// its confidence interval must contain 0, and be no wider than [`FULL_MAX`].
fn is_small(chance: &Quartiles) -> bool {
    let is_none = chance.confidence_interval.is_some_and(|(from, to)| (from..=to).contains(&0.0));
    is_none && chance.interval_width() <= FULL_MAX
}

/// Returns the goal for a slowdown in per cent. The goal has no figure if the confidence interval
/// of `cost` is too wide, or if `chance`, the noise, is too large.
fn goal_of_cost(
    wanted: f64,
    limit: Option<f64>,
    what: &str,
    cost: Option<Quartiles>,
    chance: Option<Quartiles>,
) -> Goal {
    let cost = cost
        .filter(|cost| cost.interval_width() <= FULL_MAX && chance.as_ref().is_some_and(is_small));
    let bounds = cost.map(|cost| format!(" (surely {})", cost.bounds())).unwrap_or_default();
    let goal = Goal::at_most(wanted, " %", format!("{what}{bounds}"));
    let goal = limit.into_iter().fold(goal, Goal::limit);
    goal.measured(cost.map(|cost| cost.median))
}

/// Returns the goals for which results were found, with their figures.
pub(super) fn goals(found: &Results) -> Vec<Goal> {
    let mut goals = Vec::new();
    let of_all = |target: Target, mode: Mode| {
        let cells = found.cells.iter().filter(|cell| cell.target == target);
        let costs = cells.filter_map(|cell| cell.of(mode)).flat_map(|it| it.cost.iter().copied());
        Quartiles::of(&costs.collect::<Vec<_>>())
    };
    for cell in found.cells.iter().filter(|cell| cell.target == Target::Alone) {
        let of = |mode: Mode| cell.of(mode).map(Measured::cost);
        for mode in [Mode::Flight, Mode::Written] {
            let what = format!("{}, {}: {}", Target::Alone.name(), cell.load.name, mode.name());
            goals.push(goal_of_cost(FULL_WANTED, Some(FULL_MAX), &what, of(mode), of(Mode::Off)));
        }
    }
    let has = |target: &Target| found.cells.iter().any(|cell| cell.target == *target);
    for target in TARGETS.into_iter().filter(has) {
        for mode in [Mode::Flight, Mode::Written, Mode::Sampled, Mode::Kernel] {
            let is_measured = |cell: &Cell| cell.target == target && cell.of(mode).is_some();
            if !found.cells.iter().any(is_measured) {
                continue;
            }
            let (wanted, limit) = match mode {
                Mode::Sampled => (SAMPLED_MAX, None),
                Mode::Kernel => (KERNEL_WANTED, Some(KERNEL_MAX)),
                _ => (FULL_WANTED, Some(FULL_MAX)),
            };
            let what = format!("{}, all loads: {}", target.name(), mode.name());
            let (cost, chance) = (of_all(target, mode), of_all(target, Mode::Off));
            goals.push(goal_of_cost(wanted, limit, &what, cost, chance));
        }
    }
    if !found.cells.is_empty() {
        let measured = found.cells.iter().flat_map(|cell| &cell.measured);
        let lost = measured.filter_map(|measured| Some(measured.recorded?.lost)).sum::<u64>();
        goals.push(Goal::at_most(0.0, "", "events lost").measured(Some(lost as f64)));
    }
    for beside in &found.beside {
        // The goal is met if the cost is within the noise between two runs of the same program.
        let chance = beside.cost(Candidate::OffAgain).as_deref().and_then(Quartiles::of);
        let cost = beside.cost(Candidate::Off).as_deref().and_then(Quartiles::of);
        let Some(chance) = chance else { continue };
        let cost = cost.filter(|_| is_small(&chance));
        let what = format!("compiled in and off, within chance: {}", beside.load.name);
        let wanted = chance.confidence_interval.map_or(0.0, |(from, to)| from.abs().max(to.abs()));
        goals.push(Goal::at_most(wanted, " %", what).measured(cost.map(|cost| cost.median)));
    }
    goals.extend(found.bytes.as_ref().map(Bytes::goal));
    goals
}
