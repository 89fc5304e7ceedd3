//! Losses by cause, and sums over rings: the figures that commands report.

use blkkin_control::{Cause, Ended, Loss, limits};
use std::collections::BTreeMap;
use std::io;

/// Losses of one session by cause.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Losses(BTreeMap<Cause, Amount>);

/// Size of a loss in events, packets and uncounted sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) events: u64,
    /// Number of lost packets, whose events are not counted in `events`.
    pub(crate) packets: u64,
    /// Number of programs, traces, rings or types that have lost an unknown number of events.
    pub(crate) uncounted: u64,
    /// Error that caused the last of these losses.
    pub(crate) reason: Option<String>,
}

impl Amount {
    pub(crate) fn events(events: u64) -> Amount {
        Amount { events, ..Amount::default() }
    }

    pub(crate) fn packets(packets: u64) -> Amount {
        Amount { packets, ..Amount::default() }
    }

    pub(crate) fn uncounted(uncounted: u64) -> Amount {
        Amount { uncounted, ..Amount::default() }
    }

    /// Sets the error that caused the loss.
    pub(crate) fn because(self, reason: Option<String>) -> Amount {
        Amount { reason, ..self }
    }

    fn is_none(&self) -> bool {
        self.events == 0 && self.packets == 0 && self.uncounted == 0
    }
}

impl Losses {
    pub(crate) fn add(&mut self, cause: Cause, amount: Amount) {
        if amount.is_none() {
            return;
        }
        let total = self.0.entry(cause).or_default();
        // Programs report these counts, and a hostile program may report any number.
        total.events = total.events.saturating_add(amount.events);
        total.packets = total.packets.saturating_add(amount.packets);
        total.uncounted = total.uncounted.saturating_add(amount.uncounted);
        total.reason = amount.reason.or(total.reason.take());
    }

    pub(crate) fn add_all(&mut self, other: &Losses) {
        other.0.iter().for_each(|(cause, amount)| self.add(*cause, amount.clone()));
    }

    /// Sets a loss that an earlier agent has saved.
    pub(crate) fn set(&mut self, loss: Loss) {
        let Loss { cause, events, packets, uncounted, reason, .. } = loss;
        self.0.insert(cause, Amount { events, packets, uncounted, reason });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a loss of that cause.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.0.contains_key(&cause)
    }

    #[cfg(test)]
    pub(crate) fn uncounted(&self, cause: Cause) -> u64 {
        self.0[&cause].uncounted
    }

    /// Returns the losses as messages about that session.
    pub(crate) fn messages(&self, session: &str, is_destroyed: bool) -> impl Iterator<Item = Loss> {
        self.0.iter().map(move |(cause, amount)| Loss {
            session: session.to_owned(),
            is_destroyed,
            cause: *cause,
            events: amount.events,
            packets: amount.packets,
            uncounted: amount.uncounted,
            reason: amount.reason.as_deref().map(shortened),
        })
    }
}

/// Returns a text without control characters, shortened to the limit of a message.
fn shortened(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut text: String = text.chars().map(plain).collect();
    while text.len() > limits::MESSAGE_SIZE_MAX {
        text.pop();
    }
    text
}

/// Returns the error of a session whose traces may not grow any more.
pub(crate) fn no_space(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, reason)
}

/// Returns the cause of a loss that follows from a failed write.
pub(crate) fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        // Errors of file systems have an error number; the agent's own errors have none.
        _ if error.raw_os_error().is_some() => Cause::Output,
        io::ErrorKind::QuotaExceeded => Cause::Quota,
        io::ErrorKind::StorageFull => Cause::Size,
        _ => Cause::Output,
    }
}

/// Numbers of evicted rings that were kept for snapshots, and of their packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Evictions {
    pub(crate) rings: u64,
    pub(crate) packets_lost: u64,
}

/// Counters of a channel, summed over rings.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rings: u32,
    /// Number of recorded events; `None` until a program was counted.
    pub(crate) recorded: Option<u64>,
    pub(crate) discarded: u64,
    pub(crate) packets: u64,
    pub(crate) packets_lost: u64,
    pub(crate) bytes: u64,
    /// Number of events with shortened strings.
    pub(crate) cut: u64,
}

impl Totals {
    /// Returns the totals that an earlier agent has saved.
    pub(crate) fn of(ended: &Ended) -> Totals {
        Totals {
            rings: ended.rings,
            recorded: ended.events_recorded,
            discarded: ended.events_discarded,
            packets: ended.packets_taken,
            packets_lost: ended.packets_lost,
            bytes: ended.bytes_written,
            cut: ended.events_cut,
        }
    }

    /// Returns the totals as a message about that channel.
    pub(crate) fn message(self, session: &str, channel: &str) -> Ended {
        Ended {
            session: session.to_owned(),
            channel: channel.to_owned(),
            rings: self.rings,
            events_recorded: self.recorded,
            events_discarded: self.discarded,
            packets_taken: self.packets,
            packets_lost: self.packets_lost,
            bytes_written: self.bytes,
            events_cut: self.cut,
        }
    }
}
