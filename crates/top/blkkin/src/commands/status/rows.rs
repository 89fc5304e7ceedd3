//! Rows of the ring table: counters and rates of rings, summed by program and channel.

use super::agent_status::Status;
use blkkin_control::{EvictedRings, Loss, Purpose, Ring, RingTotals};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Set of rings that one row sums up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum RowSubject {
    /// All rings of a process in a channel.
    Process(u32),
    /// One ring of a process: the ring of a CPU or, for `None`, of threads that cannot use the
    /// rings of CPUs.
    Ring(u32, Option<u32>),
    /// Freed rings of a channel, such as those of programs that have ended.
    Ended,
}

/// Counters of one or more rings. Sums saturate, as the agent's counters may be wrong.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RingCounters {
    pub(super) rings: u64,
    /// Number of recorded events; `None` if one of the rings has no such counter.
    pub(super) events_recorded: Option<u64>,
    pub(super) events_discarded: u64,
    pub(super) packets_taken: u64,
    pub(super) packets_lost: u64,
    pub(super) bytes_written: u64,
    pub(super) bytes_waiting: u64,
    pub(super) size: u64,
    pub(super) events_cut: u64,
    pub(super) rates: Option<Rates>,
}

/// Recorded events, discarded events and written bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) events_recorded: Option<f64>,
    pub(super) events_discarded: f64,
    pub(super) bytes_written: f64,
}

/// Row of the ring table, with its sums and rates.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) session: String,
    pub(super) channel: String,
    pub(super) subject: RowSubject,
    /// Set if overwritten packets count as losses. In sessions for snapshots they do not.
    pub(super) overwriting_loses: bool,
    pub(super) counters: RingCounters,
}

/// Total losses of the displayed sessions and, if all sessions are displayed, of the destroyed
/// sessions that the agent still reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lost {
    pub(super) events: u64,
    pub(super) packets: u64,
    /// Set if there are losses of unknown size.
    pub(super) has_uncounted: bool,
}

/// Key of a ring: session, channel, process, CPU.
type Key<'r> = (&'r str, &'r str, u32, Option<u32>);

fn key(ring: &Ring) -> Key<'_> {
    (&ring.session, &ring.channel, ring.pid, ring.cpu)
}

/// Returns one row per channel and process or, if `each` is set, one row per ring. Rows are sorted
/// by session, channel and process. If a channel has freed rings, its last row sums them up.
pub(super) fn rows(status: &Status, each: bool) -> Vec<Row> {
    let before: HashMap<Key<'_>, &Ring> =
        status.before.iter().map(|ring| (key(ring), ring)).collect();
    let mut rows: BTreeMap<(&str, &str, RowSubject), RingCounters> = BTreeMap::new();
    let mut add =
        |session, channel, subject, counters| match rows.entry((session, channel, subject)) {
            Entry::Vacant(entry) => {
                entry.insert(counters);
            }
            Entry::Occupied(mut entry) => entry.get_mut().add(&counters),
        };
    for ring in &status.rings {
        let subject =
            if each { RowSubject::Ring(ring.pid, ring.cpu) } else { RowSubject::Process(ring.pid) };
        let rates = before.get(&key(ring)).and_then(|before| rates(before, ring));
        add(&ring.session, &ring.channel, subject, RingCounters::of_ring(ring, rates));
    }
    for ended in &status.ended {
        add(&ended.session, &ended.channel, RowSubject::Ended, RingCounters::of_ended(ended));
    }
    let sessions = status.sessions.iter().map(|listed| &listed.state.session);
    let keep_in_memory: HashSet<&str> = sessions
        .filter(|session| session.purpose == Purpose::Snapshot)
        .map(|session| session.name.as_str())
        .collect();
    rows.into_iter()
        .map(|((session, channel, subject), counters)| Row {
            session: session.to_owned(),
            channel: channel.to_owned(),
            subject,
            overwriting_loses: !keep_in_memory.contains(session),
            counters,
        })
        .collect()
}

/// Returns the total losses: the sum over all causes or, if the agent reports no cause (an old
/// agent never does), the sum of all rows. Packets in evicted rings are added to either sum.
pub(super) fn lost(rows: &[Row], released: &[EvictedRings], losses: &[Loss]) -> Lost {
    let mut lost = Lost::default();
    for Loss { events, packets, uncounted, .. } in losses {
        lost.events = lost.events.saturating_add(*events);
        lost.packets = lost.packets.saturating_add(*packets);
        lost.has_uncounted |= *uncounted > 0;
    }
    let rows = if losses.is_empty() { rows } else { &[] };
    for EvictedRings { packets_lost, .. } in released {
        lost.packets = lost.packets.saturating_add(*packets_lost);
    }
    for Row { counters, overwriting_loses, .. } in rows {
        lost.events = lost.events.saturating_add(counters.events_discarded);
        if *overwriting_loses {
            lost.packets = lost.packets.saturating_add(counters.packets_lost);
        }
    }
    lost
}

impl RingCounters {
    fn of_ring(ring: &Ring, rates: Option<Rates>) -> RingCounters {
        RingCounters {
            rings: 1,
            events_recorded: ring.events_recorded,
            events_discarded: ring.events_discarded,
            packets_taken: ring.packets_taken,
            packets_lost: ring.packets_lost,
            bytes_written: ring.bytes_written,
            bytes_waiting: ring.bytes_waiting,
            size: ring.size,
            events_cut: ring.events_cut,
            rates,
        }
    }

    fn of_ended(ended: &RingTotals) -> RingCounters {
        RingCounters {
            rings: ended.rings.into(),
            events_recorded: ended.events_recorded,
            events_discarded: ended.events_discarded,
            packets_taken: ended.packets_taken,
            packets_lost: ended.packets_lost,
            bytes_written: ended.bytes_written,
            events_cut: ended.events_cut,
            ..RingCounters::default()
        }
    }

    fn add(&mut self, other: &RingCounters) {
        let add = |to: &mut u64, number: u64| *to = to.saturating_add(number);
        add(&mut self.rings, other.rings);
        let both = self.events_recorded.zip(other.events_recorded);
        self.events_recorded = both.map(|(a, b)| a.saturating_add(b));
        add(&mut self.events_discarded, other.events_discarded);
        add(&mut self.packets_taken, other.packets_taken);
        add(&mut self.packets_lost, other.packets_lost);
        add(&mut self.bytes_written, other.bytes_written);
        add(&mut self.bytes_waiting, other.bytes_waiting);
        add(&mut self.size, other.size);
        add(&mut self.events_cut, other.events_cut);
        // A new ring has no rates yet.
        self.rates = match (self.rates, other.rates) {
            (Some(a), Some(b)) => Some(Rates {
                events_recorded: a.events_recorded.zip(b.events_recorded).map(|(a, b)| a + b),
                events_discarded: a.events_discarded + b.events_discarded,
                bytes_written: a.bytes_written + b.bytes_written,
            }),
            (a, b) => a.or(b),
        };
    }
}

/// Returns the rates between two samples of a ring. `None` if no time has passed, or if the
/// discarded events or written bytes have decreased, which shows that the ring was replaced.
fn rates(before: &Ring, after: &Ring) -> Option<Rates> {
    let ns = after.time_ns.checked_sub(before.time_ns).filter(|&ns| ns > 0)?;
    let rate = |before: u64, after: u64| {
        after.checked_sub(before).map(|count| count as f64 * 1e9 / ns as f64)
    };
    let recorded = before.events_recorded.zip(after.events_recorded);
    Some(Rates {
        events_recorded: recorded.and_then(|(before, after)| rate(before, after)),
        events_discarded: rate(before.events_discarded, after.events_discarded)?,
        bytes_written: rate(before.bytes_written, after.bytes_written)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ring(pid: u32, cpu: u32, count: u64) -> Ring {
        Ring {
            session: "s".into(),
            channel: "c".into(),
            pid,
            cpu: Some(cpu),
            time_ns: 1_000_000_000,
            events_recorded: Some(count),
            events_discarded: count,
            packets_taken: count,
            packets_lost: count,
            bytes_written: count,
            bytes_waiting: count,
            size: count,
            events_cut: count,
        }
    }

    fn status(before: Vec<Ring>, rings: Vec<Ring>) -> Status {
        Status {
            agent: String::new(),
            release: String::new(),
            sessions: vec![],
            applications: vec![],
            before,
            rings,
            ended: vec![],
            released: vec![],
            losses: vec![],
            quotas: vec![],
            reaches: vec![],
            forwardings: vec![],
        }
    }

    #[test]
    fn rings_of_a_process_count_together() {
        let rings = vec![ring(1, 0, 2), ring(1, 1, 3), ring(2, 0, u64::MAX - 9), ring(2, 1, 10)];
        let status = status(vec![], rings);
        let all = rows(&status, false);
        let counters: Vec<_> = all
            .iter()
            .map(|row| (row.subject, row.counters.rings, row.counters.events_recorded))
            .collect();
        let sums =
            [(RowSubject::Process(1), 2, Some(5)), (RowSubject::Process(2), 2, Some(u64::MAX))];
        assert_eq!(counters, sums);
        let expected = Lost { events: u64::MAX, packets: u64::MAX, has_uncounted: false };
        assert_eq!(lost(&all, &[], &[]), expected);
        assert_eq!(rows(&status, true).len(), 4);
        assert_eq!(rows(&status, true)[1].subject, RowSubject::Ring(1, Some(1)));
    }

    #[test]
    fn rates_of_rings_that_were_there_before() {
        let later = |ring: Ring, ns, count| Ring {
            time_ns: ring.time_ns + ns,
            events_recorded: ring.events_recorded.map(|events| events + count),
            bytes_written: ring.bytes_written + count,
            ..ring
        };
        let rate = |before: Vec<Ring>, rings| rows(&status(before, rings), false)[0].counters.rates;
        let ns = 500_000_000;
        let rates = |events_recorded, bytes_written| {
            Some(Rates { events_recorded, events_discarded: 0.0, bytes_written })
        };
        let one = ring(1, 0, 7);
        assert_eq!(rate(vec![], vec![one.clone()]), None);
        assert_eq!(rate(vec![one.clone()], vec![one.clone()]), None);
        let after = later(one.clone(), ns, 10);
        assert_eq!(rate(vec![one.clone()], vec![after.clone()]), rates(Some(20.0), 20.0));
        // The counters decreased: another process has the same id by now.
        assert_eq!(rate(vec![after.clone()], vec![later(one.clone(), 2 * ns, 0)]), None);
        // A second ring is new and has no rates.
        let two = vec![after.clone(), ring(1, 1, 9)];
        assert_eq!(rate(vec![one.clone()], two), rates(Some(20.0), 20.0));
        let uncounted = |ring: &Ring| Ring { events_recorded: None, ..ring.clone() };
        assert_eq!(rate(vec![uncounted(&one)], vec![uncounted(&after)]), rates(None, 20.0));
    }
}
