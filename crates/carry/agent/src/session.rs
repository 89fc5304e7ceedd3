//! A session of a user: its channels, and the rules that select the events to record.

use crate::chunks::SessionChunks;
use crate::clock::Rates;
use crate::direct::DirectWriter;
use crate::output::Output;
use crate::owner::Owner;
use crate::process::{Executable, Process};
use crate::quota::{Account, Quota, QuotaError, Share};
use crate::size_limit::SizeLimit;
use blkkin_control::rules;
use blkkin_control::{
    Activity, Channel, Context, EventRule, KernelRule, Level, Processes, Purpose, RedactedRule,
    Redaction, Retention, Rule, Selection, SessionState, Sharing, limits,
};
use jiff::Zoned;
use std::path::Path;
use std::sync::Arc;

/// Number of a session. An agent does not reuse numbers; the next agent continues after the largest
/// number of a saved session.
pub(crate) type SessionId = u64;

/// A session: a recording of a user, with its output and its channels.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) name: String,
    pub(crate) owner: Owner,
    /// Set if the session may record programs of all users.
    pub(crate) is_privileged: bool,
    pub(crate) purpose: Purpose,
    pub(crate) retention: Retention,
    pub(crate) output: Output,
    pub(crate) activity: Activity,
    pub(crate) created: Zoned,
    pub(crate) channels: Vec<SessionChannel>,
    /// Number of snapshots that were requested so far. It is part of a snapshot's name, unless the
    /// command names the directory.
    pub(crate) snapshots: u32,
    /// Limit on the total size of the session's traces.
    pub(crate) size_limit: Arc<SizeLimit>,
    /// Writer of packets without the page cache, if that was chosen.
    pub(crate) direct: Option<Arc<DirectWriter>>,
    /// Rates of the programs' clocks, which all traces of the session share.
    pub(crate) rates: Rates,
    /// Chunks of the session's trace; `None` if the trace is not divided.
    pub(crate) chunks: Option<SessionChunks>,
    pub(crate) _bytes: Share,
}

/// Chunks of a session that is being or was destroyed.
#[derive(Debug)]
pub(crate) struct RetiredChunks {
    pub(crate) session: SessionId,
    pub(crate) name: String,
    pub(crate) uid: u32,
    pub(crate) output: Output,
    pub(crate) chunks: SessionChunks,
}

/// A channel of a session, with its rules in the order in which they were added.
#[derive(Debug)]
pub(crate) struct SessionChannel {
    pub(crate) channel: Channel,
    /// Set if the channel records events of the kernel; otherwise those of programs.
    pub(crate) is_kernel: bool,
    /// Role of the channel in sharing memory; `None` if it has memory of its own.
    pub(crate) sharing: Option<Sharing>,
    /// Set after the channel was removed. It stays in the list, as its index is the number of its
    /// stream in traces.
    pub(crate) is_removed: bool,
    rules: Vec<SessionRule>,
    /// Set of all rules of the channel. Processes that are selected by every rule share it.
    all: RuleSet,
    _bytes: Share,
}

/// A rule that enables or disables events, for all processes or for selected ones.
#[derive(Debug)]
pub(crate) struct SessionRule {
    executables: Vec<Executable>,
    sent_rule: Arc<SentRule>,
}

/// A rule in the form that is sent to programs. All programs that the rule selects share it.
#[derive(Debug)]
pub(crate) struct SentRule {
    rule: EventRule,
    /// Processes that the rule selects. Programs do not get them, the tracer of the kernel does.
    processes: Processes,
    /// Redactions of fields; only rules for events of the kernel have them.
    redactions: Vec<Redaction>,
    compiled: Arc<CompiledRule>,
    _bytes: Share,
}

/// A rule in the form that is matched against event types. Attachments keep this form after the
/// rule was deleted, since their rings may hold events that the rule selected.
#[derive(Debug)]
pub(crate) struct CompiledRule {
    rule: rules::Rule,
    _bytes: Share,
}

/// Rules that are in force together for a process, in their order.
#[derive(Clone, Debug)]
pub(crate) struct RuleSet {
    sent_rules: Arc<[Arc<SentRule>]>,
    matcher: Matcher,
}

/// Compiled rules that are or were in force together, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Matcher(Arc<[Arc<CompiledRule>]>);

impl FromIterator<Arc<SentRule>> for RuleSet {
    fn from_iter<I: IntoIterator<Item = Arc<SentRule>>>(orders: I) -> RuleSet {
        let orders: Arc<[Arc<SentRule>]> = orders.into_iter().collect();
        let matcher = Matcher(orders.iter().map(|order| order.compiled.clone()).collect());
        RuleSet { sent_rules: orders, matcher }
    }
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        RuleSet::from_iter([])
    }
}

/// Compares the rules by identity, not by content.
impl PartialEq for RuleSet {
    fn eq(&self, other: &RuleSet) -> bool {
        let (own, other) = (&self.sent_rules, &other.sent_rules);
        let is_same = |(one, other): (&Arc<SentRule>, &Arc<SentRule>)| Arc::ptr_eq(one, other);
        Arc::ptr_eq(own, other) || own.len() == other.len() && own.iter().zip(&**other).all(is_same)
    }
}

impl RuleSet {
    /// Returns the rules in the form that is sent to programs.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &EventRule> {
        self.sent_rules.iter().map(|order| &order.rule)
    }

    /// Returns the rules in the form that is sent to the tracer of the kernel, for a channel.
    pub(crate) fn kernel_rules(&self, channel: u32) -> impl Iterator<Item = KernelRule> {
        self.sent_rules.iter().map(move |order| KernelRule {
            channel,
            enabled: order.rule.enabled,
            selection: order.selection(),
            redactions: order.redactions.clone(),
        })
    }

    /// Returns whether the rules select no event, because none of them enables events.
    pub(crate) fn is_empty(&self) -> bool {
        self.sent_rules.iter().all(|order| !order.rule.enabled)
    }

    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

impl Matcher {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether events with this name and level may be recorded. The last rule that matches
    /// decides.
    pub(crate) fn may_record(&self, name: &str, level: Level) -> bool {
        let mut rules = self.0.iter().rev().map(|patterns| &patterns.rule);
        rules.find(|rule| rule.fits(name, level)).is_some_and(rules::Rule::is_enabled)
    }
}

impl SessionRule {
    /// Makes a rule. Fails if the user's quota for rules is exceeded.
    pub(crate) fn new(
        account: &Arc<Account>,
        wanted: WantedRule,
    ) -> Result<SessionRule, QuotaError> {
        // The text is charged first, because the compiled rule takes several times as much memory.
        let bytes = account.reserve(Quota::RuleBytes, wanted.size())?;
        let room = account.reserve(Quota::RuleBytes, 0)?;
        SessionRule::compile(bytes, room, wanted, Share::grow)
    }

    /// Makes a rule that an earlier agent has saved. Its memory is charged even beyond the quota.
    pub(crate) fn restore(account: &Arc<Account>, wanted: WantedRule) -> Option<SessionRule> {
        let bytes = account.reserve_unchecked(Quota::RuleBytes, wanted.size());
        let room = account.reserve_unchecked(Quota::RuleBytes, 0);
        let owe = |room: &mut Share, more| {
            room.grow_unchecked(more);
            Ok(())
        };
        SessionRule::compile(bytes, room, wanted, owe).ok()
    }

    /// Makes a rule from a selection. `bytes` is the share of the quota for the selection's text,
    /// and `room` the share for the compiled rule. `grow` increases `room` by the memory of the
    /// compiled rule.
    fn compile(
        bytes: Share,
        mut room: Share,
        wanted: WantedRule,
        grow: impl Fn(&mut Share, u64) -> Result<(), QuotaError>,
    ) -> Result<SessionRule, QuotaError> {
        let WantedRule { enabled, selection, redactions } = wanted;
        let Selection { names, excluded, levels, filter, processes } = selection;
        let executables: Vec<Executable> =
            processes.executables.iter().map(|text| Executable::new(text)).collect();
        let sent = EventRule { enabled, names, excluded, levels, filter };
        let rule = rules::Rule::new(&sent);
        let size = executables.iter().map(|one| EXECUTABLE_SIZE + one.size());
        grow(&mut room, (size.sum::<usize>() + rule.size()) as u64)?;
        let patterns = Arc::new(CompiledRule { rule, _bytes: room });
        let order =
            SentRule { rule: sent, processes, redactions, compiled: patterns, _bytes: bytes };
        Ok(SessionRule { executables, sent_rule: Arc::new(order) })
    }

    /// Returns whether `other` selects the same events of the same processes, with the same
    /// redactions. Whether the rules
    /// enable or disable these events is not compared.
    fn selects_as(&self, other: &SessionRule) -> bool {
        let (one, two) = (&self.sent_rule.rule, &other.sent_rule.rule);
        self.sent_rule.processes == other.sent_rule.processes
            && self.sent_rule.redactions == other.sent_rule.redactions
            && (&one.names, &one.excluded, one.levels, &one.filter)
                == (&two.names, &two.excluded, two.levels, &two.filter)
    }
}

impl SentRule {
    fn selection(&self) -> Selection {
        let EventRule { names, excluded, levels, filter, .. } = self.rule.clone();
        Selection { names, excluded, levels, filter, processes: self.processes.clone() }
    }
}

impl SessionChannel {
    pub(crate) fn new(channel: Channel, is_kernel: bool, _bytes: Share) -> SessionChannel {
        let (rules, all) = (Vec::new(), RuleSet::default());
        let (sharing, is_removed) = (None, false);
        SessionChannel { channel, is_kernel, sharing, is_removed, rules, all, _bytes }
    }

    /// Removes the channel with its rules.
    pub(crate) fn remove(&mut self) {
        (self.sharing, self.is_removed) = (None, true);
        (self.rules, self.all) = (Vec::new(), RuleSet::default());
    }

    /// Returns whether the channel has this name, and was not removed.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        !self.is_removed && self.channel.name == name
    }

    /// Returns whether the channel can record events: it was not removed, and is not shared.
    pub(crate) fn can_record(&self) -> bool {
        !self.is_removed && self.sharing != Some(Sharing::Shared)
    }

    /// Adds a rule; returns false if the channel has too many rules. An earlier rule with the same
    /// selection is removed, so that repeated requests do not fill the list.
    #[must_use]
    pub(crate) fn add(&mut self, rule: SessionRule) -> bool {
        self.rules.retain(|other| !other.selects_as(&rule));
        self.rules.push(rule);
        let has_room = self.rules.len() <= limits::RULES_MAX || self.rules.pop().is_none();
        self.all = self.rules.iter().map(|rule| rule.sent_rule.clone()).collect();
        has_room
    }

    /// Returns the rules that apply to a process. The tracer of the kernel gets all rules of its
    /// channels, since it selects the processes.
    pub(crate) fn rules_for(&self, process: &Process) -> RuleSet {
        if self.is_kernel {
            return self.all.clone();
        }
        let is_meant = |rule: &&SessionRule| {
            process.is_selected_by(&rule.sent_rule.processes, &rule.executables)
        };
        let meant = self.rules.iter().filter(is_meant).map(|rule| rule.sent_rule.clone());
        let meant: Vec<Arc<SentRule>> = meant.collect();
        match meant.len() == self.rules.len() {
            true => self.all.clone(),
            false => meant.into_iter().collect(),
        }
    }

    /// Returns the channel's rules as messages: `plain` makes the message of a rule without
    /// redactions, and `redacted` that of another one.
    pub(crate) fn rule_messages<M>(
        &self,
        plain: fn(Rule) -> M,
        redacted: fn(RedactedRule) -> M,
    ) -> impl Iterator<Item = M> {
        self.rules.iter().map(move |rule| {
            let SentRule { redactions, .. } = &*rule.sent_rule;
            let rule = Rule {
                channel: self.channel.name.clone(),
                enabled: rule.sent_rule.rule.enabled,
                selection: rule.sent_rule.selection(),
            };
            match redactions.is_empty() {
                true => plain(rule),
                false => redacted(RedactedRule { rule, redactions: redactions.clone() }),
            }
        })
    }
}

/// Returns the memory that a session needs without its channels, in bytes.
pub(crate) fn size_of_session(name: &str, output: &Path) -> u64 {
    (size_of::<Session>() + name.len() + output.as_os_str().len()) as u64
}

/// Sampling rules that a user has set for the user's programs.
#[derive(Debug)]
pub(crate) struct SamplingRules {
    pub(crate) rules: String,
    pub(crate) _bytes: Share,
}

/// Returns the memory that a user's sampling rules need, in bytes.
pub(crate) fn size_of_sampling(rules: &str) -> u64 {
    (size_of::<(u32, SamplingRules)>() + rules.len()) as u64
}

/// Returns the memory that a channel needs without its rules, in bytes.
pub(crate) fn size_of_channel(channel: &Channel) -> u64 {
    let name_size = |context: &Context| match context {
        Context::Supplied { name } => name.len(),
        _ => 0,
    };
    let contexts = channel.contexts.iter().map(|one| size_of::<Context>() + name_size(one));
    (size_of::<SessionChannel>() + channel.name.len() + contexts.sum::<usize>()) as u64
}

/// Rule to make.
#[derive(Debug)]
pub(crate) struct WantedRule {
    /// Set if the rule enables events.
    pub(crate) enabled: bool,
    pub(crate) selection: Selection,
    /// Redactions of the events' fields.
    pub(crate) redactions: Vec<Redaction>,
}

impl WantedRule {
    /// Returns the memory that the rule needs without its compiled patterns, in bytes.
    fn size(&self) -> u64 {
        let WantedRule { selection, redactions, .. } = self;
        let names = selection.names.iter().chain(&selection.excluded).chain(&selection.filter);
        let texts = names.chain(&selection.processes.executables);
        let text_size: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
        let pids_size = size_of_val(&selection.processes.pids[..]);
        let redaction_size = |one: &Redaction| {
            size_of::<Redaction>() + one.field.len() + one.events.as_ref().map_or(0, String::len)
        };
        let redactions_size: usize = redactions.iter().map(redaction_size).sum();
        let own_size = size_of::<SessionRule>() + size_of::<SentRule>();
        (own_size + text_size + pids_size + redactions_size) as u64
    }
}

/// Number of bytes charged for an executable pattern of a rule, in addition to its memory. The
/// charge limits the number of patterns, because each pattern may be matched against a program and
/// all its ancestors.
const EXECUTABLE_SIZE: usize = 1 << 10;

impl Session {
    /// Returns the index of the channel with a name.
    pub(crate) fn find_channel(&self, name: &str) -> Option<usize> {
        self.channels.iter().position(|one| one.is_named(name))
    }

    /// Returns whether the session may record a process. A privileged session may record any
    /// process, another session only processes of its owner.
    pub(crate) fn may_record(&self, process: &Process) -> bool {
        self.is_privileged || process.uid == self.owner.uid
    }

    /// Returns the directory to which new traces are written.
    pub(crate) fn trace_directory(&self) -> &Path {
        let current = self.chunks.as_ref().and_then(SessionChunks::current);
        current.map_or(self.output.path(), |chunk| &chunk.path)
    }

    /// Returns the session's state as a message to a command.
    pub(crate) fn state(&self) -> SessionState {
        SessionState {
            session: blkkin_control::Session {
                name: self.name.clone(),
                purpose: self.purpose,
                output: Some(self.output.path().to_owned()),
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
