//! Recovery of rings that outlived a connection to this agent, or an earlier agent that was stopped
//! or killed.
//!
//! A set of rings passes through these states. Each state has a value of its own, and a transition
//! moves the rings from one value to the next.
//!
//! | state    | value                       | event                                  | next     |
//! |----------|-----------------------------|----------------------------------------|----------|
//! | live     | `Attachment::rings`         | the connection or the agent ends       | orphaned |
//! | orphaned | [`OrphanedRings`]           | this agent still reads them            | live     |
//! |          |                             | their channel gets new rings           | adopted  |
//! |          |                             | no room, no channel, or drained before | drained  |
//! | adopted  | [`AdoptedRings`]            | packets written, cleared or evicted    | drained  |
//! | drained  | a number in [`Recovery`]    | `Release` is sent to the program       | released |
//! | released | a tombstone in [`Recovery`] | the program offers them again          | drained  |
//!
//! A tombstone is the identity of the memory. The agent keeps tombstones across connections: if a
//! connection ends before the program has received `Release`, the program offers the rings once
//! more.

use crate::deferred_close::DeferredClose;
use crate::losses::{Amount, Losses};
use crate::rings::{Identity, Rings};
use blkkin_control::{Cause, Orphan};
use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;

/// Maximum number of sets of orphaned rings of one program for which the agent keeps a descriptor.
pub(crate) const ORPHANS_MAX: usize = 64;
/// Maximum number of sets of orphaned rings of one program, including sets without a descriptor.
/// The agent has such sets mapped already, or a tombstone for them.
const ORPHANS_KNOWN_MAX: usize = 1024;
/// Maximum number of sets of one program that exceed the limits on orphaned rings. Such sets are
/// read for their losses only. Offering more sets is an error.
const ORPHANS_LOST_MAX: u64 = 256;
/// Maximum number of tombstones of one program; the oldest is dropped first.
const TOMBSTONES_MAX: usize = 256;

/// Rings that a program has offered, before an attachment adopts them.
#[derive(Debug)]
pub(crate) struct OrphanedRings {
    pub(crate) orphan: Orphan,
    pub(crate) identity: Identity,
    /// Descriptor of the memory; `None` if the descriptor exceeds a limit, and the agent has the
    /// memory mapped or a tombstone for it.
    pub(crate) memory: Option<DeferredClose<OwnedFd>>,
}

/// Rings of an earlier connection that an attachment has adopted. They are read before the rings
/// that replaced them.
#[derive(Debug)]
pub(crate) struct AdoptedRings {
    /// The program's number for the rings; `None` if the program has unmapped them.
    pub(crate) number: Option<u32>,
    pub(crate) rings: Rings,
}

impl AdoptedRings {
    /// Returns the loss of the discarded events that no agent has counted.
    pub(crate) fn losses(&self) -> Losses {
        let mut losses = Losses::default();
        losses.add(Cause::AgentAway, Amount::events(self.rings.discarded_uncounted()));
        losses
    }
}

/// Sets of rings of one program that are not live: orphaned, drained and released sets.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    orphaned: Vec<OrphanedRings>,
    /// Number of sets that were not kept because a limit was exceeded.
    lost: u64,
    /// The program's numbers of drained sets, for which `Release` must be sent.
    drained: Vec<u32>,
    /// Identities of the sets that were drained or given up last, the oldest first.
    tombstones: VecDeque<Identity>,
}

/// Outcome of [`Recovery::offer`].
#[derive(Debug)]
pub(crate) enum Offer {
    Kept,
    /// Refusal, because a limit is exceeded. The memory is only read for its losses; it may belong
    /// to an older set than the offered one.
    Lost(Option<DeferredClose<OwnedFd>>),
}

impl Recovery {
    /// Adds rings that the program offers. `is_known` is set if the agent has mapped them already,
    /// or has a tombstone for them. `reserve` reserves the quota for one more descriptor.
    pub(crate) fn offer(
        &mut self,
        mut rings: OrphanedRings,
        is_known: bool,
        reserve: impl FnOnce() -> bool,
    ) -> io::Result<Offer> {
        if self.orphaned.iter().any(|other| other.identity == rings.identity) {
            return Err(io::Error::other("it has the same rings twice"));
        }
        let held = self.orphaned.iter().filter(|one| one.memory.is_some()).count();
        let has_room = held < ORPHANS_MAX && reserve();
        if has_room || (is_known && self.orphaned.len() < ORPHANS_KNOWN_MAX) {
            rings.memory.take_if(|_| !has_room);
            self.orphaned.push(rings);
            return Ok(Offer::Kept);
        }
        self.lost += 1;
        if self.lost > ORPHANS_LOST_MAX {
            return Err(io::Error::other("it has more rings than there can be"));
        }
        // Displaces the oldest set in which the program no longer records, as it is most likely
        // drained. The newest sets are kept, because they show how far the stream was written.
        let mut others = self.orphaned.iter();
        let oldest = others.position(|one| one.memory.is_some() && one.orphan.is_spent);
        let displaced = match oldest.map(|oldest| self.orphaned.remove(oldest)) {
            Some(oldest) => {
                self.orphaned.push(rings);
                oldest
            }
            None => rings,
        };
        self.drained.push(displaced.orphan.number);
        Ok(Offer::Lost(displaced.memory))
    }

    /// Removes and returns the orphaned rings, to be adopted or released.
    pub(crate) fn take_orphaned(&mut self) -> Vec<OrphanedRings> {
        std::mem::take(&mut self.orphaned)
    }

    /// Adds rings that stay orphaned for now.
    pub(crate) fn keep_orphaned(&mut self, rings: OrphanedRings) {
        self.orphaned.push(rings);
    }

    /// Returns the number of sets that were not kept because a limit was exceeded.
    pub(crate) fn lost(&self) -> u64 {
        self.lost
    }

    /// Marks orphaned rings as drained without adopting them: this agent had them before, or their
    /// memory is missing or invalid. `number` is the program's number for the rings.
    pub(crate) fn release(&mut self, number: u32) {
        self.drained.push(number);
    }

    /// Marks adopted rings as drained, and adds tombstones for them.
    pub(crate) fn finish(&mut self, sets: impl IntoIterator<Item = AdoptedRings>) {
        for set in sets {
            self.drained.extend(set.number);
            self.add_tombstone(set.rings.identity());
        }
    }

    /// Adds a tombstone; drops the oldest one if there are too many.
    pub(crate) fn add_tombstone(&mut self, identity: Identity) {
        self.tombstones.push_back(identity);
        if self.tombstones.len() > TOMBSTONES_MAX {
            self.tombstones.pop_front();
        }
    }

    /// Returns whether there is a tombstone with this identity.
    pub(crate) fn has_tombstone(&self, identity: Identity) -> bool {
        self.tombstones.contains(&identity)
    }

    /// Returns whether there are drained rings for which `Release` was not sent yet.
    pub(crate) fn has_drained(&self) -> bool {
        !self.drained.is_empty()
    }

    /// Removes and returns the program's numbers of drained rings, for `Release` messages.
    pub(crate) fn take_drained(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.drained)
    }

    /// Drops orphaned rings and numbers of a connection that has ended. The numbers are not valid
    /// in the next connection.
    pub(crate) fn disconnect(&mut self) {
        self.orphaned.clear();
        self.drained.clear();
    }

    /// Takes over the tombstones of the program's earlier connection `before`.
    pub(crate) fn continue_from(&mut self, before: &mut Recovery) {
        self.tombstones = std::mem::take(&mut before.tombstones);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    fn rings(number: u32, is_spent: bool) -> OrphanedRings {
        let memory = memfd_create(c"rings", MemfdFlags::CLOEXEC).unwrap();
        let identity = Identity::of(&memory).unwrap();
        let memory = Some(DeferredClose::new(memory, 0));
        OrphanedRings { orphan: Orphan { number, is_spent }, identity, memory }
    }

    fn numbers(recovery: &Recovery) -> Vec<u32> {
        recovery.orphaned.iter().map(|one| one.orphan.number).collect()
    }

    #[test]
    fn the_oldest_spent_rings_make_room_for_new_ones() {
        let mut recovery = Recovery::default();
        for number in 0..ORPHANS_MAX as u32 {
            let offered = recovery.offer(rings(number, number == 1), false, || true).unwrap();
            assert!(matches!(offered, Offer::Kept));
        }
        let offered = recovery.offer(rings(100, false), false, || unreachable!()).unwrap();
        assert!(matches!(offered, Offer::Lost(Some(_))));
        assert_eq!(recovery.take_drained(), [1]);
        assert_eq!(numbers(&recovery)[..2], [0, 2]);
        assert_eq!(numbers(&recovery).last(), Some(&100));
        // No spent rings are left, so the new ones are lost.
        recovery.offer(rings(101, true), false, || true).unwrap();
        assert_eq!((recovery.take_drained(), recovery.lost()), (vec![101], 2));
        // Rings that the agent has mapped need no descriptor.
        assert!(matches!(recovery.offer(rings(102, false), true, || true).unwrap(), Offer::Kept));
        assert!(recovery.take_orphaned().pop().unwrap().memory.is_none());
        assert!(numbers(&recovery).is_empty());
    }

    #[test]
    fn rings_are_refused_twice_and_beyond_all_limits() {
        let mut recovery = Recovery::default();
        let first = rings(1, false);
        let memory = first.memory.as_ref().unwrap().try_clone().unwrap();
        let again = OrphanedRings { memory: Some(DeferredClose::new(memory, 0)), ..first };
        recovery.offer(again, false, || true).unwrap();
        let twice =
            OrphanedRings { memory: None, orphan: Orphan { number: 2, is_spent: true }, ..first };
        assert!(recovery.offer(twice, false, || true).is_err());
        for number in 0..ORPHANS_LOST_MAX as u32 {
            recovery.offer(rings(number, false), false, || false).unwrap();
        }
        assert!(recovery.offer(rings(0, false), false, || false).is_err());
    }

    #[test]
    fn tombstones_outlive_a_connection() {
        let (mut before, mut after) = (Recovery::default(), Recovery::default());
        let all: Vec<OrphanedRings> = (0..=TOMBSTONES_MAX as u32).map(|n| rings(n, true)).collect();
        all.iter().for_each(|one| before.add_tombstone(one.identity));
        before.release(7);
        before.disconnect();
        assert!(!before.has_drained());
        after.continue_from(&mut before);
        assert!(!after.has_tombstone(all[0].identity), "the oldest made room");
        assert!(all[1..].iter().all(|one| after.has_tombstone(one.identity)));
    }
}
