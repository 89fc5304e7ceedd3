//! Sessions, as users know them: channels, and which events of which processes they record.

use crate::clock::Rates;
use crate::owner::Owner;
use crate::process::Process;
use crate::quota::{Account, Exceeded, Share, What};
use blkkin_control::{
    Activity, Channel, EventRule, Purpose, Rule, Selection, SessionState, limits,
};
use jiff::Zoned;
use std::path::PathBuf;
use std::sync::Arc;

/// A number that no other session of this daemon has, nor gets.
pub(crate) type SessionId = u64;

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: String,
    pub(crate) owner: Owner,
    /// Whether it may record programs of all users.
    pub(crate) is_privileged: bool,
    pub(crate) purpose: Purpose,
    pub(crate) output: PathBuf,
    pub(crate) activity: Activity,
    pub(crate) created: Zoned,
    pub(crate) channels: Vec<SessionChannel>,
    /// Snapshots so far.
    pub(crate) snapshots: u32,
    /// How its programs' clocks run.
    pub(crate) rates: Rates,
}

/// A channel of a session, and what is enabled and disabled in it, in this order.
#[derive(Debug)]
pub(crate) struct SessionChannel {
    pub(crate) channel: Channel,
    rules: Vec<SessionRule>,
}

/// What is enabled or disabled.
#[derive(Debug)]
pub(crate) struct SessionRule {
    enabled: bool,
    selection: Selection,
    _bytes: Share,
}

impl SessionRule {
    /// One of a user's, if there is room for it.
    pub(crate) fn new(
        account: &Arc<Account>,
        enabled: bool,
        selection: Selection,
    ) -> Result<SessionRule, Exceeded> {
        let _bytes = account.take(What::RuleBytes, size_of_selection(&selection))?;
        Ok(SessionRule { enabled, selection, _bytes })
    }

    /// One that was there before, and had room.
    pub(crate) fn again(
        account: &Arc<Account>,
        enabled: bool,
        selection: Selection,
    ) -> SessionRule {
        let _bytes = account.owe(What::RuleBytes, size_of_selection(&selection));
        SessionRule { enabled, selection, _bytes }
    }
}

impl SessionChannel {
    pub(crate) fn new(channel: Channel) -> SessionChannel {
        SessionChannel { channel, rules: Vec::new() }
    }

    /// Adds a rule. One that was there before moves to the end, so that nobody can fill the list with one
    /// rule; false if there are too many.
    #[must_use]
    pub(crate) fn add(&mut self, rule: SessionRule) -> bool {
        self.rules.retain(|other| other.selection != rule.selection);
        self.rules.push(rule);
        self.rules.len() <= limits::RULES_MAX || self.rules.pop().is_none()
    }

    /// What is to be recorded of a process.
    pub(crate) fn rules_for(&self, process: &Process) -> Vec<EventRule> {
        let meant = self.rules.iter().filter(|rule| process.is_among(&rule.selection.processes));
        let rules = meant.map(|SessionRule { enabled, selection, .. }| EventRule {
            enabled: *enabled,
            names: selection.names.clone(),
            excluded: selection.excluded.clone(),
            levels: selection.levels,
            filter: selection.filter.clone(),
        });
        rules.collect()
    }

    /// As users are told.
    pub(crate) fn told_rules(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().map(|SessionRule { enabled, selection, .. }| Rule {
            channel: self.channel.name.clone(),
            enabled: *enabled,
            selection: selection.clone(),
        })
    }
}

/// Bytes that a rule takes.
fn size_of_selection(selection: &Selection) -> u64 {
    let names = selection.names.iter().chain(&selection.excluded).chain(&selection.filter);
    let texts = names.chain(&selection.processes.executables);
    let text_size: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
    let pids_size = size_of_val(&selection.processes.pids[..]);
    (size_of::<SessionRule>() + text_size + pids_size) as u64
}

impl Session {
    /// Whether it may record a process.
    pub(crate) fn may_record(&self, process: &Process) -> bool {
        self.is_privileged || process.uid == self.owner.uid
    }

    /// As users are told.
    pub(crate) fn state(&self) -> SessionState {
        SessionState {
            session: blkkin_control::Session {
                name: self.name.clone(),
                purpose: self.purpose,
                output: Some(self.output.clone()),
            },
            activity: self.activity,
            owner: self.owner.uid,
            created_ns: u64::try_from(self.created.timestamp().as_nanosecond()).unwrap_or(0),
        }
    }

    pub(crate) fn is_active(&self) -> bool {
        self.activity == Activity::Active
    }
}
