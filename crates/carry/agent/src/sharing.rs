//! Sharing of a channel's memory: channels join a shared one with a part of its rings, and leave it
//! while the session records.
//!
//! A shared channel has the rings' mode, contexts and sizes, and no rings of its own. Each channel
//! that joins it has rings of its own, so no event of one pushes out an event of another, and
//! events cost no more than in other channels.

use crate::attachment::ChannelKey;
use crate::channel::{power_of_two_within, shape_for};
use crate::command::Requester;
use crate::quota::Account;
use crate::requests::{Answer, FollowUp, Outcome, RequestHandler, Scope, failed};
use crate::session::{Session, SessionChannel};
use blkkin_control::{Channel, ChannelName, Failed, Mode, NewPart, Sharing, code};
use blkkin_ring::SUBBUFFER_SIZE_MIN;

impl RequestHandler<'_> {
    /// Makes a channel without events a shared one.
    pub(crate) fn share_channel(&mut self, who: Requester, named: &ChannelName) -> Outcome {
        let at = self.find(who, &named.session)?;
        let account = self.accounts.of(self.sessions.list[at].owner.uid);
        let session = &mut self.sessions.list[at];
        let id = session.id;
        let index = find(session, &named.channel)?;
        let channel = &mut session.channels[index];
        let key = ChannelKey { session: id, channel: index };
        let has_rings =
            self.programs.all().any(|one| one.attachments.iter().any(|one| one.key() == key));
        if channel.has_rules() || has_rings || channel.sharing.is_some() {
            let what = format!("channel `{}` is in use", named.channel);
            return Err(failed(code::WRONG_STATE, what));
        }
        share(channel, &account);
        Ok(Answer::Done(vec![]))
    }

    /// Adds a channel that uses a part of a shared channel's memory.
    pub(crate) fn join_channel(&mut self, who: Requester, new: &NewPart) -> Outcome {
        let at = self.find(who, &new.session)?;
        let session = &self.sessions.list[at];
        let shared = &session.channels[find(session, &new.shared)?];
        if shared.sharing != Some(Sharing::Shared) {
            let what = format!("channel `{}` is not shared", new.shared);
            let hint = Some("`blkkin channel create NAME --shared` makes a shared one".to_owned());
            return Err(Failed { hint, ..failed(code::BAD_VALUE, what) });
        }
        let channel = part(&shared.channel, &new.channel, new.percent)?;
        let rest = size_of(&shared.channel).saturating_sub(size_of_parts(session, &new.shared));
        if size_of(&channel) > rest {
            return Err(has_no_room(session, &new.shared, rest));
        }
        let is_kernel = shared.is_kernel;
        self.create_channel(at, channel, is_kernel)?;
        let session = &mut self.sessions.list[at];
        let index = find(session, &new.channel)?;
        let (of, percent) = (new.shared.clone(), new.percent);
        session.channels[index].sharing = Some(Sharing::Part { of, percent });
        Ok(Answer::Done(vec![]))
    }

    /// Removes a channel, and its rings in all programs.
    pub(crate) fn remove_channel(&mut self, who: Requester, named: &ChannelName) -> Outcome {
        let at = self.find(who, &named.session)?;
        let session = &mut self.sessions.list[at];
        let index = find(session, &named.channel)?;
        let parts = names_of_parts(session, &named.channel);
        if !parts.is_empty() {
            let what = format!("channel `{}` is shared by {}", named.channel, parts.join(", "));
            let hint = Some("remove these first".to_owned());
            return Err(Failed { hint, ..failed(code::WRONG_STATE, what) });
        }
        session.channels[index].remove();
        let key = ChannelKey { session: session.id, channel: index };
        Ok(Answer::Settle(FollowUp::Remove(key), Scope::of(session)))
    }
}

/// Returns the index of the channel with a name.
fn find(session: &Session, name: &str) -> Result<usize, Failed> {
    let found = session.channels.iter().position(|one| one.is_named(name));
    found.ok_or_else(|| {
        let present = session.channels.iter().filter(|one| !one.is_removed);
        let names: Vec<&str> = present.map(|one| &*one.channel.name).collect();
        let hint = (!names.is_empty()).then(|| format!("its channels: {}", names.join(", ")));
        let what = format!("session `{}` has no channel `{name}`", session.name);
        Failed { hint, ..failed(code::NO_SUCH_CHANNEL, what) }
    })
}

fn share(channel: &mut SessionChannel, account: &Account) {
    // The size must be the same for all programs, so that parts of it are known.
    let shape = shape_for(&channel.channel, 0, account, || None);
    channel.channel.subbuffer_count = Some(shape.subbuffer_count as u32);
    channel.sharing = Some(Sharing::Shared);
}

/// Returns the size of a channel's ring in bytes.
fn size_of(channel: &Channel) -> u64 {
    let count = u64::from(channel.subbuffer_count.unwrap_or(0));
    channel.subbuffer_size.unwrap_or(0).saturating_mul(count)
}

fn parts<'s>(session: &'s Session, shared: &'s str) -> impl Iterator<Item = (&'s Channel, u32)> {
    let part = |one: &'s SessionChannel| Some((&one.channel, one.part_of(shared)?));
    session.channels.iter().filter_map(part)
}

fn size_of_parts(session: &Session, shared: &str) -> u64 {
    parts(session, shared).map(|(channel, _)| size_of(channel)).sum()
}

fn names_of_parts(session: &Session, shared: &str) -> Vec<String> {
    parts(session, shared)
        .map(|(channel, percent)| format!("{} ({percent} %)", channel.name))
        .collect()
}

fn has_no_room(session: &Session, shared: &str, rest: u64) -> Failed {
    let all = session.channels.iter().find(|one| one.is_named(shared));
    let all = all.map_or(1, |one| size_of(&one.channel)).max(1);
    let percent = rest * 100 / all;
    let what = format!("{percent} % of channel `{shared}` are left");
    let names = names_of_parts(session, shared).join(", ");
    let hint = format!("`blkkin channel remove NAME` takes a share back: {names}");
    Failed { hint: Some(hint), ..failed(code::QUOTA, what) }
}

/// Returns a channel whose rings have at most `percent` of the size of a shared channel's. Sizes
/// are powers of two, so that they may have less.
fn part(shared: &Channel, name: &str, percent: u32) -> Result<Channel, Failed> {
    if !(1..=100).contains(&percent) {
        return Err(failed(code::BAD_VALUE, format!("a share is 1 to 100 %, not {percent} %")));
    }
    let all = size_of(shared);
    let ring = power_of_two_within(all * u64::from(percent) / 100);
    let count_min = if shared.mode == Mode::Overwrite { 4 } else { 2 };
    let smallest = SUBBUFFER_SIZE_MIN as u64 * count_min;
    if ring < smallest {
        let percent_min = (smallest * 100).div_ceil(all.max(1));
        let what = format!("{percent} % of channel `{}` are too few for a ring", shared.name);
        let hint = match percent_min {
            0..=100 => format!("a share is at least {percent_min} %"),
            _ => "make the shared channel with a larger --num-subbuf".to_owned(),
        };
        return Err(Failed { hint: Some(hint), ..failed(code::BAD_VALUE, what) });
    }
    let own = shared.subbuffer_size.unwrap_or(0);
    let size = own.min(ring / count_min);
    Ok(Channel {
        name: name.to_owned(),
        subbuffer_size: Some(size),
        subbuffer_count: u32::try_from(ring / size).ok(),
        event_size: shared.event_size.filter(|_| size == own),
        ..shared.clone()
    })
}

#[cfg(test)]
mod tests {
    use super::{part, size_of};
    use blkkin_control::{Channel, Mode};

    fn shared(mode: Mode, size: u64, count: u32) -> Channel {
        let (subbuffer_size, subbuffer_count) = (Some(size), Some(count));
        Channel { mode, subbuffer_size, subbuffer_count, ..Channel::named("all") }
    }

    #[test]
    fn parts_are_never_larger_than_their_shares() {
        for (mode, count_min) in [(Mode::Discard, 2), (Mode::Overwrite, 4)] {
            for (size, count) in [(4096, 4), (4096, 64), (64 << 10, 4), (512 << 10, 64)] {
                let all = shared(mode, size, count);
                for percent in 1..=100 {
                    let share = size_of(&all) * percent / 100;
                    let Ok(part) = part(&all, "part", percent as u32) else {
                        assert!(share < 4096 * count_min);
                        continue;
                    };
                    let own = size_of(&part);
                    assert!(own <= share && own > share / 2, "{percent} %: {part:?}");
                    assert!(u64::from(part.subbuffer_count.unwrap()) >= count_min);
                    assert!((4096..=size).contains(&part.subbuffer_size.unwrap()));
                }
                assert_eq!(size_of(&part(&all, "part", 100).unwrap()), size_of(&all));
            }
        }
        assert!(part(&shared(Mode::Discard, 4096, 4), "part", 0).is_err());
        assert!(part(&shared(Mode::Discard, 4096, 4), "part", 101).is_err());
    }
}
