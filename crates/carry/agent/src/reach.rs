//! Reach of the rings of snapshot sessions: how far back their events go, and how much memory they
//! take.

use crate::attachment::Attachment;
use crate::clock::{Clocks, Rate};
use crate::program::Program;
use crate::session::Session;
use blkkin_control::{Purpose, Reach, Reply};
use blkkin_ring::OldestEvent;
use std::time::Duration;

/// Returns the reach of each program's rings for each channel of a session, as replies to a
/// command; nothing for a session that is not for snapshots.
pub(crate) fn replies<'p>(
    session: &mut Session,
    clocks: &mut Clocks,
    programs: impl Iterator<Item = &'p Program>,
) -> Vec<Reply> {
    let mut replies = Vec::new();
    if session.purpose != Purpose::Snapshot {
        return replies;
    }
    for program in programs {
        let own = program.attachments.iter().filter(|one| one.session == session.id);
        for attachment in own {
            let rate = clocks.rate(&mut session.rates, program.clock);
            let age = age_of(attachment, rate);
            let sizes = attachment.sets().map(|set| set.shape().memory_size() as u64);
            replies.push(Reply::Reach(Reach {
                session: session.name.clone(),
                channel: session.channels[attachment.channel].channel.name.clone(),
                pid: program.process.pid,
                is_complete: age.is_complete,
                age_ns: u64::try_from(age.age.as_nanos()).unwrap_or(u64::MAX),
                memory: attachment.sets().map(|set| set.allocated_size()).sum(),
                memory_max: sizes.sum(),
            }));
        }
    }
    replies
}

/// Age of the oldest events of an attachment's rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Age {
    /// Set if no ring has overwritten events.
    is_complete: bool,
    age: Duration,
}

/// Returns how far back an attachment's rings go. Rings that the program may not have mapped yet
/// cannot be read, and count as empty.
fn age_of(attachment: &Attachment, rate: Rate) -> Age {
    let is_sealed = attachment.rings.is_sealed();
    let count = if is_sealed { attachment.rings.count() } else { 0 };
    let oldest = (0..count).filter_map(|ring| {
        let sets = attachment.kept_sets(ring);
        let all = attachment.sets().filter(|set| ring < set.count()).count();
        let oldest = sets.iter().find_map(|set| set.oldest_event(ring))?;
        let is_after_overwritten = oldest.is_after_overwritten || sets.len() < all;
        Some(OldestEvent { is_after_overwritten, ..oldest })
    });
    combine(oldest, rate)
}

/// Combines the oldest events of several rings. A processor that has overwritten nothing has all of
/// its events, so it does not limit the reach.
fn combine(oldest: impl Iterator<Item = OldestEvent>, rate: Rate) -> Age {
    let none = Age { is_complete: true, age: Duration::ZERO };
    oldest.fold(none, |all, one| {
        let (is_complete, age) = (!one.is_after_overwritten, rate.duration(one.age));
        match (all.is_complete, is_complete) {
            (true, true) => Age { age: age.max(all.age), ..all },
            (true, false) => Age { is_complete, age },
            (false, true) => all,
            (false, false) => Age { age: age.min(all.age), ..all },
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_that_reaches_least_far_counts() {
        let rate = Rate { frequency: 1000, offset_ns: 0 };
        let check = |rings: &[(u64, bool)], is_complete, age_ms| {
            let rings = rings
                .iter()
                .map(|&(age, is_after_overwritten)| OldestEvent { age, is_after_overwritten });
            let expected = Age { is_complete, age: Duration::from_millis(age_ms) };
            assert_eq!(combine(rings, rate), expected);
        };
        check(&[], true, 0);
        check(&[(2, false), (7, false), (3, false)], true, 7);
        check(&[(2, false), (7, true), (9, false)], false, 7);
        check(&[(7, true), (5, true), (1, false)], false, 5);
    }
}
