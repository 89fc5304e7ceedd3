//! The decision which probes the guard detaches: the costliest ones, once all probes together were
//! above the budget in several successive windows of measurement.

use crate::cpu_share::CpuShare;
use std::collections::BTreeMap;

/// Number of successive windows above the budget after which probes are detached. A single window
/// may have met a moment of unusual load, or a processor that the hypervisor had taken away.
pub(super) const WINDOWS: usize = 3;

/// Probes that were attached together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct GroupId {
    /// Number of the channel.
    pub(super) channel: u32,
    /// Number of the group in the channel. A group that is attached again has another one.
    pub(super) serial: u64,
}

/// Successive windows above the budget so far.
#[derive(Debug)]
pub(super) struct Overload {
    budget: CpuShare,
    windows: Vec<Window>,
}

/// A window, with what each group took of it.
#[derive(Debug)]
struct Window {
    /// Time of all processors, in nanoseconds.
    available_ns: u64,
    /// Processor time of each group, in nanoseconds.
    costs: BTreeMap<GroupId, u64>,
}

impl Window {
    fn share(&self) -> CpuShare {
        CpuShare::of(sum(self.costs.values()), self.available_ns)
    }
}

fn sum<'n>(numbers: impl Iterator<Item = &'n u64>) -> u64 {
    numbers.fold(0, |sum, number| sum.saturating_add(*number))
}

/// Probes to be detached, and the shares of the processor time for which they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Excess {
    pub(super) group: GroupId,
    /// Share of the group.
    pub(super) share: CpuShare,
    /// Share of all probes.
    pub(super) total: CpuShare,
    pub(super) budget: CpuShare,
}

impl Overload {
    pub(super) fn new(budget: CpuShare) -> Overload {
        Overload { budget, windows: Vec::new() }
    }

    /// Returns true if the probes may take all processor time.
    pub(super) fn permits_all(&self) -> bool {
        self.budget >= CpuShare::ALL
    }

    /// Adds a window in which all processors together had `available_ns`, and each group took its
    /// cost in nanoseconds. Returns the costliest group of the last [`WINDOWS`] windows if all were
    /// above the budget, and counts from 0 again.
    pub(super) fn add_window(
        &mut self,
        available_ns: u64,
        costs: &[(GroupId, u64)],
    ) -> Option<Excess> {
        let window = Window { available_ns, costs: costs.iter().copied().collect() };
        if window.share() <= self.budget {
            self.windows.clear();
            return None;
        }
        self.windows.push(window);
        if self.windows.len() < WINDOWS {
            return None;
        }
        let windows = std::mem::take(&mut self.windows);
        let available_ns = sum(windows.iter().map(|window| &window.available_ns));
        let mut costs: BTreeMap<GroupId, u64> = BTreeMap::new();
        for (group, cost) in windows.iter().flat_map(|window| &window.costs) {
            let of_group = costs.entry(*group).or_default();
            *of_group = of_group.saturating_add(*cost);
        }
        let (group, cost) = costs.iter().max_by_key(|(_, cost)| **cost)?;
        Some(Excess {
            group: *group,
            share: CpuShare::of(*cost, available_ns),
            total: CpuShare::of(sum(costs.values()), available_ns),
            budget: self.budget,
        })
    }

    /// Forgets what groups took that are no longer attached, and the windows that were above the
    /// budget only because of them.
    pub(super) fn keep(&mut self, is_attached: impl Fn(GroupId) -> bool) {
        for window in &mut self.windows {
            window.costs.retain(|group, _| is_attached(*group));
        }
        let budget = self.budget;
        let last = self.windows.iter().rposition(|window| window.share() <= budget);
        self.windows.drain(..last.map_or(0, |last| last + 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AVAILABLE_NS: u64 = 40_000_000;

    fn group(serial: u64) -> GroupId {
        GroupId { channel: 7, serial }
    }

    /// Returns the cost of a share in a window.
    fn percent(share: u64) -> u64 {
        AVAILABLE_NS / 100 * share
    }

    fn overload(budget: &str) -> Overload {
        Overload::new(budget.parse().unwrap())
    }

    fn share(text: &str) -> CpuShare {
        text.parse().unwrap()
    }

    #[test]
    fn three_successive_windows_detach_the_costliest_group() {
        let mut overload = overload("5%");
        let costs = [(group(1), percent(1)), (group(2), percent(6)), (group(3), percent(2))];
        assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
        assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
        let excess =
            Excess { group: group(2), share: share("6%"), total: share("9%"), budget: share("5%") };
        assert_eq!(overload.add_window(AVAILABLE_NS, &costs), Some(excess));
        // The rest is below the budget.
        let rest = [(group(1), percent(1)), (group(3), percent(2))];
        for _ in 0..10 {
            assert_eq!(overload.add_window(AVAILABLE_NS, &rest), None);
        }
    }

    /// No group alone is above the budget, but all together are.
    #[test]
    fn the_budget_is_for_all_groups_together() {
        let mut overload = overload("5%");
        let mut costs: Vec<_> = (1..=4).map(|serial| (group(serial), percent(2))).collect();
        costs[2].1 += 1;
        let mut windows = 0;
        let excess = loop {
            windows += 1;
            if let Some(excess) = overload.add_window(AVAILABLE_NS, &costs) {
                break excess;
            }
        };
        assert_eq!((windows, excess.group, excess.total), (3, group(3), share("8%")));
        // After the detachment, three windows more are needed.
        costs.remove(2);
        let results = [(); 3].map(|()| overload.add_window(AVAILABLE_NS, &costs).is_some());
        assert_eq!(results, [false, false, true]);
    }

    #[test]
    fn a_window_within_the_budget_begins_anew() {
        let mut overload = overload("5%");
        for cost in [6, 6, 5, 6, 6, 0, 6, 6, 5] {
            assert_eq!(overload.add_window(AVAILABLE_NS, &[(group(1), percent(cost))]), None);
        }
        assert_eq!(overload.add_window(AVAILABLE_NS, &[]), None);
    }

    /// Rules that change do not protect the probes that stay attached.
    #[test]
    fn windows_count_for_the_groups_that_stay() {
        let mut overload = overload("5%");
        let costs = [(group(1), percent(6)), (group(2), percent(50))];
        assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
        overload.keep(|_| true);
        assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
        overload.keep(|kept| kept == group(1));
        let excess = overload.add_window(AVAILABLE_NS, &costs[..1]).unwrap();
        assert_eq!((excess.group, excess.total), (group(1), share("6%")));
        // Without the group that has gone, the windows are within the budget.
        let costs = [(group(1), percent(1)), (group(2), percent(50))];
        for _ in 0..10 {
            assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
            assert_eq!(overload.add_window(AVAILABLE_NS, &costs), None);
            overload.keep(|kept| kept == group(1));
        }
    }

    /// The costs of the windows add up: a group that is the costliest in one only stays attached.
    #[test]
    fn the_costliest_group_is_that_of_all_windows() {
        let mut overload = overload("5%");
        let windows = [(20, 1), (20, 1), (1, 30)];
        let excess = windows.map(|(first, second)| {
            let costs = [(group(1), percent(first)), (group(2), percent(second))];
            overload.add_window(AVAILABLE_NS, &costs).map(|excess| excess.group)
        });
        assert_eq!(excess, [None, None, Some(group(1))]);
    }

    #[test]
    fn unusual_windows_do_no_harm() {
        assert!(overload("100%").permits_all());
        for available_ns in [0, u64::MAX] {
            let mut small = overload("0.0001%");
            assert!(!small.permits_all());
            let costs = [(group(1), u64::MAX), (group(2), 0)];
            let [first, second, third] = [(); 3].map(|()| small.add_window(available_ns, &costs));
            assert!(first.is_none() && second.is_none());
            let excess = third.expect("all windows were above the budget");
            assert_eq!(excess.group, group(1));
            assert!(excess.share >= CpuShare::ALL && excess.total >= CpuShare::ALL);
        }
    }
}
