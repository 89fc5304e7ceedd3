//! Losses by cause, and counters of a channel summed over rings, for the replies to commands and
//! the notes for the next agent.

use blkkin_control::{Cause, Loss, RingTotals, limits};
use std::collections::BTreeMap;
use std::io;

/// Losses by cause, of a session, a program or a channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Losses(BTreeMap<Cause, Amount>);

/// Size of a loss in events, packets and uncounted sources.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Amount {
    pub(crate) events: u64,
    /// Number of lost packets. `events` does not include the events in them.
    pub(crate) packets: u64,
    /// Number of programs, traces, rings or types that have lost an unknown number of events.
    pub(crate) uncounted: u64,
    /// Last error that caused a part of the loss; `None` if no error caused it.
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

    /// Sets the error that caused the loss, and returns the amount.
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
        // Programs report some of these counts, and a hostile program may report any number.
        total.events = total.events.saturating_add(amount.events);
        total.packets = total.packets.saturating_add(amount.packets);
        total.uncounted = total.uncounted.saturating_add(amount.uncounted);
        total.reason = amount.reason.or(total.reason.take());
    }

    pub(crate) fn add_all(&mut self, other: &Losses) {
        other.0.iter().for_each(|(cause, amount)| self.add(*cause, amount.clone()));
    }

    /// Sets the loss of one cause to the amount that an earlier agent has saved.
    pub(crate) fn set(&mut self, loss: Loss) {
        let Loss { cause, events, packets, uncounted, reason, .. } = loss;
        self.0.insert(cause, Amount { events, packets, uncounted, reason });
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether there is a loss of `cause`.
    pub(crate) fn has(&self, cause: Cause) -> bool {
        self.0.contains_key(&cause)
    }

    #[cfg(test)]
    pub(crate) fn uncounted(&self, cause: Cause) -> u64 {
        self.0[&cause].uncounted
    }

    /// Returns the losses as messages about the session named `session`, one for each cause.
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

/// Returns a text for a message: control characters become spaces, and the text is cut to the
/// maximum size.
fn shortened(text: &str) -> String {
    let plain = |letter: char| if letter.is_control() { ' ' } else { letter };
    let mut text: String = text.chars().map(plain).collect();
    while text.len() > limits::MESSAGE_SIZE_MAX {
        text.pop();
    }
    text
}

/// Returns the error for a write that would exceed the session's size limit, or use the space that
/// traces leave free on the file system.
pub(crate) fn no_space(reason: String) -> io::Error {
    io::Error::new(io::ErrorKind::StorageFull, reason)
}

/// Returns the cause under which losses by a failed write are counted.
pub(crate) fn cause_of(error: &io::Error) -> Cause {
    match error.kind() {
        // Only errors of system calls have an error number. The agent's own errors have none, and
        // are distinguished by their kind.
        _ if error.raw_os_error().is_some() => Cause::Output,
        io::ErrorKind::QuotaExceeded => Cause::Quota,
        io::ErrorKind::StorageFull => Cause::Size,
        _ => Cause::Output,
    }
}

/// Numbers of evicted rings and of their lost packets. Only rings kept for snapshots are evicted.
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
    /// Converts the totals that an earlier agent has saved.
    pub(crate) fn of(ended: &RingTotals) -> Totals {
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

    /// Returns the totals as a message about the channel named `channel`.
    pub(crate) fn message(self, session: &str, channel: &str) -> RingTotals {
        RingTotals {
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
