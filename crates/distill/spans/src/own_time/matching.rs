//! Matching of activities with the spans of the tree.
//!
//! Several spans may share an id: a call's two sides, or several services. A run belongs to the
//! span of its own trace; among several spans, and for waits and disk requests, the shortest span
//! counts that lasted when the activity started.

use super::bands::Sweep;
use super::{DiskTime, OwnTime};
use crate::calls::calls;
use crate::join::Draft;
use crate::losses::Losses;
use crate::open_request::{ActivityKind, StoredActivity};
use crate::request::Step;
use crate::resolver::Resolver;
use std::collections::BTreeMap;

/// Sets the system calls of each step, and computes the own time of each step that has another
/// activity. `drafts` are those of the steps, before the correction of skew; `activities` are
/// sorted by span.
pub(crate) fn set_activities<'a>(
    steps: &mut [Step<'a>],
    drafts: &[&Draft],
    activities: &[StoredActivity],
    resolver: Resolver<'a>,
    losses: &Losses,
) {
    let groups = groups(drafts, activities);
    // Place of each step in `groups`, and the children of each group's step.
    let mut numbers = vec![usize::MAX; steps.len()];
    for (number, (step, _)) in groups.iter().enumerate() {
        numbers[*step] = number;
    }
    let mut children: Vec<Vec<(u64, u64)>> = vec![Vec::new(); groups.len()];
    for step in &*steps {
        let number = step.parent.map_or(usize::MAX, |parent| numbers[parent]);
        if let (Some(of_parent), Some(start), Some(end)) =
            (children.get_mut(number), step.span.start_ns, step.end_ns())
        {
            of_parent.push((start, end));
        }
    }
    for ((step, own), children) in groups.iter().zip(&children) {
        let draft = drafts[*step];
        let step = &mut steps[*step];
        let moved = step.moved_ns.unwrap_or(0);
        step.calls = calls(own, moved, resolver);
        let (Some(start), Some(duration)) = (step.span.start_ns, step.span.duration_ns) else {
            continue;
        };
        if step.calls.len() == own.len() {
            continue;
        }
        let runs = || own.iter().filter(|activity| activity.kind == ActivityKind::Run);
        let (from, to) = interval(draft);
        let may_be_lost = runs().any(|run| losses.has_loss_between(run.source, from, to));
        let mut sweep = Sweep::new(start, duration);
        children.iter().for_each(|(start, end)| sweep.add_child(*start, *end));
        own.iter().for_each(|activity| sweep.add(activity, moved, resolver));
        let is_complete = runs().next().is_some() && !may_be_lost;
        let (sums, bands) = sweep.divide(is_complete);
        step.own = Some(Box::new(OwnTime { sums, disks: disks(own, resolver), bands }));
    }
}

/// Returns the index of each step that has an activity, with its activities.
fn groups(drafts: &[&Draft], activities: &[StoredActivity]) -> Vec<(usize, Vec<StoredActivity>)> {
    let mut by_id: Vec<(u64, usize)> =
        drafts.iter().enumerate().map(|(step, draft)| (draft.id, step)).collect();
    by_id.sort_unstable();
    let mut groups = BTreeMap::<usize, Vec<StoredActivity>>::new();
    for of_span in activities.chunk_by(|a, b| a.span == b.span) {
        let id = of_span[0].span;
        let from = by_id.partition_point(|entry| entry.0 < id);
        let size = by_id[from..].iter().take_while(|entry| entry.0 == id).count();
        let steps = &by_id[from..from + size];
        for activity in of_span {
            if let Some(step) = step_of(steps, drafts, activity) {
                groups.entry(step).or_default().push(*activity);
            }
        }
    }
    groups.into_iter().collect()
}

/// Returns the step that an activity belongs to, among the steps with its span id.
fn step_of(steps: &[(u64, usize)], drafts: &[&Draft], activity: &StoredActivity) -> Option<usize> {
    if let [(_, step)] = steps {
        return Some(*step);
    }
    let is_own =
        |step: usize| activity.kind == ActivityKind::Run && drafts[step].source == activity.source;
    let is_any_own = steps.iter().any(|(_, step)| is_own(*step));
    let length = activity.first.saturating_add(activity.second);
    let start = activity.end.saturating_sub(length);
    let rank = |step: usize| {
        let (from, to) = interval(drafts[step]);
        (!(from..=to).contains(&start), to - from, step)
    };
    let steps = steps.iter().map(|(_, step)| *step);
    steps.filter(|step| !is_any_own || is_own(*step)).min_by_key(|step| rank(*step))
}

/// Returns start and end of a draft; a draft without a start or duration lasts for ever.
fn interval(draft: &Draft) -> (u64, u64) {
    let start = draft.start.unwrap_or(0);
    (start, draft.duration.map_or(u64::MAX, |duration| start.saturating_add(duration)))
}

/// Returns the sums over the disk requests among the activities.
fn disks<'a>(activities: &[StoredActivity], resolver: Resolver<'a>) -> Vec<DiskTime<'a>> {
    let mut disks = BTreeMap::<&str, DiskTime<'_>>::new();
    for request in activities.iter().filter(|activity| activity.kind == ActivityKind::Disk) {
        let device = resolver.get(request.detail);
        let disk = disks.entry(device).or_insert(DiskTime { device, ..DiskTime::default() });
        disk.requests += 1;
        disk.queued_ns = disk.queued_ns.saturating_add(request.first);
        disk.served_ns = disk.served_ns.saturating_add(request.second);
    }
    disks.into_values().collect()
}
