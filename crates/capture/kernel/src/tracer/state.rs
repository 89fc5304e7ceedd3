//! Recording of the state of the machine, and of other events of the tracer itself, into its own
//! ring of a channel.

use crate::chosen::{ChosenProcesses, processes};
use crate::error::Error;
use crate::rings::KernelRings;
use crate::state::{StateEvent, StateKind, StateRedaction, of_disks, of_process};
use blkkin_ring::{Encoder, Outcome, Writer, with_long_event};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::thread;
use std::time::Duration;

/// Maximum time to wait for the agent while the ring is full, for all events together. Events that
/// find the ring full after it are lost, and counted.
const PATIENCE: Duration = Duration::from_secs(2);
/// Time between two attempts to record in a full ring.
const PAUSE: Duration = Duration::from_millis(1);

/// Records kinds of state, in ascending order and with the ids of their events, for the chosen
/// processes, with redactions. `eventfd` wakes the agent.
pub(super) fn record(
    rings: &KernelRings,
    eventfd: BorrowedFd<'_>,
    chosen: &ChosenProcesses,
    states: &[(StateKind, u16)],
    redaction: &StateRedaction,
) -> Result<(), Error> {
    let writer = rings.writer(eventfd.as_raw_fd())?;
    let mut patience = PATIENCE;
    let kinds: Vec<StateKind> = states.iter().map(|(kind, _)| *kind).collect();
    let mut put = |event: &StateEvent<'_>| {
        let id = states.iter().find(|(kind, _)| *kind == event.kind).map_or(0, |(_, id)| *id);
        let event = OwnEvent { id, pid: event.pid, fields: event.fields };
        put(&writer, &event, &mut patience);
    };
    let pids = processes().map_err(|error| Error::Map("chosen", error))?;
    for pid in pids.into_iter().filter(|pid| chosen.has(*pid)) {
        of_process(pid, &kinds, redaction, &mut put);
    }
    if kinds.contains(&StateKind::Disk) {
        of_disks(redaction, &mut put);
    }
    Ok(())
}

/// Event that the tracer itself records.
pub(super) struct OwnEvent<'e> {
    pub(super) id: u16,
    /// Process that the event is about; 0 for none.
    pub(super) pid: u32,
    pub(super) fields: &'e [u8],
}

/// Records an event, or counts it as lost if the ring is full. `eventfd` wakes the agent.
pub(super) fn record_event(
    rings: &KernelRings,
    eventfd: BorrowedFd<'_>,
    event: &OwnEvent<'_>,
) -> Result<(), Error> {
    let writer = rings.writer(eventfd.as_raw_fd())?;
    let mut patience = Duration::ZERO;
    put(&writer, event, &mut patience);
    Ok(())
}

/// Records an event, and waits while the ring is full. The time that it waits is taken from
/// `patience`.
fn put(writer: &Writer, event: &OwnEvent<'_>, patience: &mut Duration) {
    let encode = |encoder: &mut Encoder<'_>| {
        // The context of the kernel's events: process and thread.
        encoder.put(event.pid.to_le_bytes());
        encoder.put(event.pid.to_le_bytes());
        encoder.put_bytes(event.fields);
    };
    with_long_event(event.id, writer.event_size_max(), &encode, |encoder, _| {
        loop {
            let may_wait = *patience > Duration::ZERO;
            let outcome = writer.record_in_last_ring(&mut encoder.event(), may_wait);
            if outcome != Outcome::Full || !may_wait {
                break;
            }
            thread::sleep(PAUSE);
            *patience = patience.saturating_sub(PAUSE);
        }
    });
}
