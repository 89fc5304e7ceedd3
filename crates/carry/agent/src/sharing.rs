//! Sharing of a channel's memory among its parts, which come and go while the session records.
//!
//! A shared channel has the rings' mode, contexts and sizes, and no rings. Each part is a channel
//! with rings of its own, so no event of one pushes out an event of another, and events cost no
//! more than in other channels.

use crate::attachment::ChannelKey;
use crate::channel::{power_of_two_within, shape_for};
use crate::command::Requester;
use crate::notebook::SuspendedTrace;
use crate::program::Program;
use crate::requests::{Answer, FollowUp, Outcome, RequestHandler, Scope, failed, no_such_channel};
use crate::session::{Session, SessionChannel};
use blkkin_control::{
    Channel, ChannelName, Failed, Mode, NewPart, NewSharedChannel, Sharing, code,
};
use blkkin_ring::SUBBUFFER_SIZE_MIN;

impl RequestHandler<'_> {
    /// Adds a channel whose memory is divided among its parts.
    pub(crate) fn create_shared_channel(
        &mut self,
        who: Requester,
        new: NewSharedChannel,
    ) -> Outcome {
        let NewSharedChannel { session, channel, is_kernel } = new;
        let at = self.find(who, &session)?;
        if is_kernel {
            self.check_kernel(at)?;
        }
        let name = channel.name.clone();
        self.create_channel(at, channel, is_kernel)?;
        let session = &mut self.sessions.list[at];
        let account = self.accounts.of(session.owner.uid);
        let index = session.find_channel(&name).ok_or_else(|| no_such_channel(session, &name))?;
        let shared = &mut session.channels[index];
        // The size must be the same for all programs, so that parts of it are known.
        let shape = shape_for(&shared.channel, 0, &account, || None);
        shared.channel.subbuffer_count = Some(shape.subbuffer_count as u32);
        shared.sharing = Some(Sharing::Shared);
        Ok(Answer::Done(vec![]))
    }

    /// Adds a channel that has a part of a shared channel's memory.
    pub(crate) fn create_part(&mut self, who: Requester, new: &NewPart) -> Outcome {
        let at = self.find(who, &new.session)?;
        let session = &self.sessions.list[at];
        let of = session.find_channel(&new.of).ok_or_else(|| no_such_channel(session, &new.of))?;
        let SessionChannel { channel: shared, sharing, is_kernel, .. } = &session.channels[of];
        if *sharing != Some(Sharing::Shared) {
            let what = format!("channel `{}` is not shared", new.of);
            let hint = Some("`blkkin channel create NAME --shared` makes a shared one".to_owned());
            return Err(Failed { hint, ..failed(code::BAD_VALUE, what) });
        }
        let (channel, is_kernel) = (part(shared, &new.channel, new.percent)?, *is_kernel);
        let used: u64 = parts(session, &new.of).map(Channel::ring_size).sum();
        let rest = shared.ring_size().saturating_sub(used);
        if channel.ring_size() > rest {
            return Err(has_no_room(shared, rest, &names(shared, parts(session, &new.of))));
        }
        self.create_channel(at, channel, is_kernel)?;
        let session = &mut self.sessions.list[at];
        if let Some(index) = session.find_channel(&new.channel) {
            let (of, percent) = (new.of.clone(), new.percent);
            session.channels[index].sharing = Some(Sharing::Part { of, percent });
        }
        Ok(Answer::Done(vec![]))
    }

    /// Checks that a removed channel may come back with another configuration: it continues the
    /// stream in the session's traces, and programs may still have rings for it.
    pub(crate) fn check_return(
        &self,
        key: ChannelKey,
        channel: &Channel,
        is_kernel: bool,
    ) -> Result<(), Failed> {
        let session = self.sessions.get(key.session);
        let Some(removed) = session.and_then(|one| one.channels.get(key.channel)) else {
            return Ok(());
        };
        let name = &channel.name;
        if (removed.is_kernel, &removed.channel.contexts) != (is_kernel, &channel.contexts) {
            let what = format!(
                "a removed channel `{name}`, of another domain or with other contexts, is in the \
                 session's traces"
            );
            let hint = Some("choose another name".to_owned());
            return Err(Failed { hint, ..failed(code::CHANNEL_EXISTS, what) });
        }
        let shape = |one: &Channel| (one.mode, one.subbuffer_size, one.subbuffer_count);
        let has_rings = |program: &Program| program.attachments.iter().any(|one| one.key() == key);
        let may_return = |trace: &SuspendedTrace| trace.session == key.session;
        if shape(&removed.channel) != shape(channel)
            && (self.programs.all().any(has_rings)
                || self.sessions.suspended.values().any(may_return))
        {
            let what = format!("programs may still have rings of the removed channel `{name}`");
            let hint = Some("choose the sizes that it had, or another name".to_owned());
            return Err(Failed { hint, ..failed(code::WRONG_STATE, what) });
        }
        Ok(())
    }

    /// Removes a channel, and its rings in all programs.
    pub(crate) fn remove_channel(&mut self, who: Requester, named: &ChannelName) -> Outcome {
        let at = self.find(who, &named.session)?;
        let (session, name) = (&mut self.sessions.list[at], &named.channel);
        let index = session.find_channel(name).ok_or_else(|| no_such_channel(session, name))?;
        let shared = &session.channels[index].channel;
        let parts = names(shared, parts(session, name));
        if !parts.is_empty() {
            let what = format!("channel `{name}` is divided among {parts}");
            let hint = Some("`blkkin channel remove` these first".to_owned());
            return Err(Failed { hint, ..failed(code::WRONG_STATE, what) });
        }
        session.channels[index].remove();
        let key = ChannelKey { session: session.id, channel: index };
        Ok(Answer::Settle(FollowUp::Remove(key), Scope::of(session)))
    }
}

/// Returns the parts of a shared channel.
fn parts<'s>(session: &'s Session, shared: &str) -> impl Iterator<Item = &'s Channel> {
    let is_part = move |one: &&SessionChannel| {
        one.sharing.as_ref().is_some_and(|sharing| sharing.is_part_of(shared))
    };
    session.channels.iter().filter(is_part).map(|one| &one.channel)
}

/// Returns the share of a size in a shared channel's rings, in percent.
fn percent_of(size: u64, shared: &Channel) -> u64 {
    size * 100 / shared.ring_size().max(1)
}

/// Returns the names and shares of parts as a list.
fn names<'s>(shared: &Channel, parts: impl Iterator<Item = &'s Channel>) -> String {
    let name =
        |part: &Channel| format!("{} ({} %)", part.name, percent_of(part.ring_size(), shared));
    parts.map(name).collect::<Vec<_>>().join(", ")
}

fn has_no_room(shared: &Channel, rest: u64, names: &str) -> Failed {
    let percent = percent_of(rest, shared);
    let what = format!("only {percent} % of channel `{}` is free", shared.name);
    let hint = match percent {
        0 => format!("`blkkin channel remove` one of {names}"),
        _ => format!("ask for at most {percent} %, or `blkkin channel remove` one of {names}"),
    };
    Failed { hint: Some(hint), ..failed(code::QUOTA, what) }
}

/// Returns a channel whose rings have at most `percent` of the size of a shared channel's. Sizes
/// are powers of two, so that they may have less.
fn part(shared: &Channel, name: &str, percent: u32) -> Result<Channel, Failed> {
    if !(1..=100).contains(&percent) {
        return Err(failed(code::BAD_VALUE, format!("a share is 1 to 100 %, not {percent} %")));
    }
    let all = shared.ring_size();
    let ring = power_of_two_within(all * u64::from(percent) / 100);
    let count_min = if shared.mode == Mode::Overwrite { 4 } else { 2 };
    let smallest = SUBBUFFER_SIZE_MIN as u64 * count_min;
    if ring < smallest {
        let percent_min = (smallest * 100).div_ceil(all.max(1));
        let what =
            format!("{percent} % of channel `{}` is less than the smallest ring", shared.name);
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
    use super::part;
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
                    let share = all.ring_size() * percent / 100;
                    let Ok(part) = part(&all, "part", percent as u32) else {
                        assert!(share < 4096 * count_min);
                        continue;
                    };
                    let own = part.ring_size();
                    assert!(own <= share && own > share / 2, "{percent} %: {part:?}");
                    assert!(u64::from(part.subbuffer_count.unwrap()) >= count_min);
                    assert!((4096..=size).contains(&part.subbuffer_size.unwrap()));
                }
                assert_eq!(part(&all, "part", 100).unwrap().ring_size(), all.ring_size());
            }
        }
        assert!(part(&shared(Mode::Discard, 4096, 4), "part", 0).is_err());
        assert!(part(&shared(Mode::Discard, 4096, 4), "part", 101).is_err());
    }
}
