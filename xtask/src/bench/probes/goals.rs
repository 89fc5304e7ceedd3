//! Goals for recording system calls. [`report`] searches the candidates for the figures.

use super::blkkin::{NOT_CHOSEN, RECORDED};
use super::bpftrace;
use super::candidate::Candidate;
use super::case::{Call, Case, HIT, READ, SWITCH, SWITCH_EVENTS, USDT};
use super::empty::EMPTY;
use super::preload::PRELOAD;
use super::recorder::BARE;
use super::session::SESSION;
use crate::bench::goal::{Goal, Rival};
use crate::bench::report::Report;

/// Reports the goals. The added costs are those of the one-byte read in one thread, the cheapest
/// call of all. Absolute ones depend on the machine, and have a limit of twice the wanted figure.
pub(super) fn report(report: &mut Report, cases: &[Case], candidates: &[Candidate]) {
    let find = |name: &'static str| candidates.iter().find(|one| one.recorder.name() == name);
    let added_to = |call: &Call, name: &'static str| {
        let is_case = |case: &Case| case.call.name == call.name && case.threads == 1;
        find(name)?.added_ns(find(BARE)?, cases.iter().position(is_case)?)
    };
    let added = |name: &'static str| added_to(&READ, name);
    let beside_empty = |call: &Call, events: f64| Rival {
        name: EMPTY,
        measured: added_to(call, EMPTY).map(|ns| ns / events),
        times_min: None,
    };
    let at_most = |wanted: f64, what: &str| Goal::at_most(wanted, " ns", what).limit(2.0 * wanted);

    let recorded = added(RECORDED);
    report.goal(at_most(130.0, "recording adds to a read").measured(recorded));
    if let Some(other) = added(bpftrace::PRINTING) {
        let rival = Rival { name: bpftrace::PRINTING, measured: Some(other), times_min: None };
        let goal = Goal::times(3.0, "recording adds to a read, compared", rival);
        report.goal(goal.measured(recorded));
    }
    let attached = at_most(35.0, "attached probes add to a read").measured(added(NOT_CHOSEN));
    report.goal(attached.rival(beside_empty(&READ, 1.0)));
    if find(PRELOAD).is_some() {
        report.goal(at_most(30.0, "--preload adds to a read").measured(added(PRELOAD)));
    }
    for (call, what) in
        [(&HIT, "a uprobe, of an empty one"), (&USDT, "a USDT probe, of an empty one")]
    {
        let share =
            added_to(call, SESSION).zip(added_to(call, EMPTY)).map(|(own, empty)| own / empty);
        report.goal(Goal::at_most(1.1, " ×", what).measured(share));
    }
    let waits = added_to(&SWITCH, SESSION).map(|ns| ns / SWITCH_EVENTS);
    let waits = at_most(40.0, "an event of the scheduler without a request").measured(waits);
    report.goal(waits.rival(beside_empty(&SWITCH, SWITCH_EVENTS)));

    let Some(recorder) = find(RECORDED) else { return };
    let percent = |one: &Candidate, case| one.delivery(case).map(|delivery| delivery.percent());
    let own = [Some(recorder), find(SESSION)].into_iter().flatten();
    let least = own.flat_map(|one| (0..cases.len()).filter_map(move |case| percent(one, case)));
    let least = least.min_by(f64::total_cmp);
    report.goal(Goal::at_least(100.0, " %", "recorded events, fewest").measured(least));
    let most = (0..cases.len()).filter_map(|case| recorder.rss_bytes_max(case)).max();
    let mib = most.map(|bytes| bytes as f64 / f64::from(1 << 20));
    report.goal(Goal::at_most(32.0, " MiB", "memory of the recorder").measured(mib));
}
