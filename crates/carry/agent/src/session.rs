//! Sessions, as users know them: channels, and which events of which processes they record.

use crate::bound::Bound;
use crate::clock::Rates;
use crate::output::Output;
use crate::owner::Owner;
use crate::process::{Executable, Process};
use crate::quota::{Account, Quota, QuotaError, Share};
use blkkin_control::rules;
use blkkin_control::{
    Activity, Channel, Context, EventRule, Level, Processes, Purpose, Rule, Selection,
    SessionState, limits,
};
use jiff::Zoned;
use std::path::Path;
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
    pub(crate) output: Output,
    pub(crate) activity: Activity,
    pub(crate) created: Zoned,
    pub(crate) channels: Vec<SessionChannel>,
    /// Snapshots so far.
    pub(crate) snapshots: u32,
    /// How much it may write.
    pub(crate) bound: Arc<Bound>,
    /// How its programs' clocks run.
    pub(crate) rates: Rates,
    pub(crate) _bytes: Share,
}

/// A channel of a session, and what is enabled and disabled in it, in this order.
#[derive(Debug)]
pub(crate) struct SessionChannel {
    pub(crate) channel: Channel,
    rules: Vec<SessionRule>,
    /// All of them together.
    all: Orders,
    _bytes: Share,
}

/// What is enabled or disabled.
#[derive(Debug)]
pub(crate) struct SessionRule {
    processes: Processes,
    executables: Vec<Executable>,
    order: Arc<Order>,
}

/// A rule as programs are sent it. All programs that it is meant for share it.
#[derive(Debug)]
pub(crate) struct Order {
    rule: EventRule,
    patterns: Arc<Patterns>,
    _bytes: Share,
}

/// A rule as it is held against types of events. Programs keep it when the rule is no more, since events may come
/// that were recorded by it.
#[derive(Debug)]
pub(crate) struct Patterns {
    rule: rules::Rule,
    _bytes: Share,
}

/// Rules that are in force together.
#[derive(Clone, Debug)]
pub(crate) struct Orders {
    orders: Arc<[Arc<Order>]>,
    matcher: Matcher,
}

/// The patterns of rules that are, or were, in force together.
#[derive(Clone, Debug)]
pub(crate) struct Matcher(Arc<[Arc<Patterns>]>);

impl FromIterator<Arc<Order>> for Orders {
    fn from_iter<I: IntoIterator<Item = Arc<Order>>>(orders: I) -> Orders {
        let orders: Arc<[Arc<Order>]> = orders.into_iter().collect();
        let matcher = Matcher(orders.iter().map(|order| order.patterns.clone()).collect());
        Orders { orders, matcher }
    }
}

impl Default for Orders {
    fn default() -> Orders {
        Orders::from_iter([])
    }
}

/// Compares which rules they are, not what these say.
impl PartialEq for Orders {
    fn eq(&self, other: &Orders) -> bool {
        let (own, other) = (&self.orders, &other.orders);
        let is_same = |(one, other): (&Arc<Order>, &Arc<Order>)| Arc::ptr_eq(one, other);
        Arc::ptr_eq(own, other) || own.len() == other.len() && own.iter().zip(&**other).all(is_same)
    }
}

impl Orders {
    /// As programs are sent them.
    pub(crate) fn rules(&self) -> impl Iterator<Item = &EventRule> {
        self.orders.iter().map(|order| &order.rule)
    }

    /// Whether no event is recorded at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.orders.iter().all(|order| !order.rule.enabled)
    }

    pub(crate) fn matcher(&self) -> &Matcher {
        &self.matcher
    }
}

impl Matcher {
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether events of that name and level may be recorded: the last rule that fits enables them.
    pub(crate) fn may_record(&self, name: &str, level: Level) -> bool {
        let mut rules = self.0.iter().rev().map(|patterns| &patterns.rule);
        rules.find(|rule| rule.fits(name, level)).is_some_and(rules::Rule::is_enabled)
    }
}

impl SessionRule {
    /// One of a user's, if there is room for it.
    pub(crate) fn new(
        account: &Arc<Account>,
        enabled: bool,
        selection: Selection,
    ) -> Result<SessionRule, QuotaError> {
        // Before it is compiled, which takes several times as much.
        let bytes = account.take(Quota::RuleBytes, size_of_selection(&selection))?;
        let room = account.take(Quota::RuleBytes, 0)?;
        SessionRule::compile((bytes, room), enabled, selection, Share::grow)
    }

    /// One that was there before, and had room.
    pub(crate) fn restore(
        account: &Arc<Account>,
        enabled: bool,
        selection: Selection,
    ) -> Option<SessionRule> {
        let bytes = account.owe(Quota::RuleBytes, size_of_selection(&selection));
        let room = account.owe(Quota::RuleBytes, 0);
        let owe = |room: &mut Share, more| {
            room.owe(more);
            Ok(())
        };
        SessionRule::compile((bytes, room), enabled, selection, owe).ok()
    }

    fn compile(
        (bytes, mut room): (Share, Share),
        enabled: bool,
        selection: Selection,
        grow: impl Fn(&mut Share, u64) -> Result<(), QuotaError>,
    ) -> Result<SessionRule, QuotaError> {
        let Selection { names, excluded, levels, filter, processes } = selection;
        let executables: Vec<Executable> =
            processes.executables.iter().map(|text| Executable::new(text)).collect();
        let sent = EventRule { enabled, names, excluded, levels, filter };
        let rule = rules::Rule::new(&sent);
        let size = executables.iter().map(|one| EXECUTABLE_SIZE + one.size());
        grow(&mut room, (size.sum::<usize>() + rule.size()) as u64)?;
        let patterns = Arc::new(Patterns { rule, _bytes: room });
        let order = Arc::new(Order { rule: sent, patterns, _bytes: bytes });
        Ok(SessionRule { processes, executables, order })
    }

    /// Whether another one selects the same events of the same processes.
    fn selects_as(&self, other: &SessionRule) -> bool {
        let (one, two) = (&self.order.rule, &other.order.rule);
        self.processes == other.processes
            && (&one.names, &one.excluded, one.levels, &one.filter)
                == (&two.names, &two.excluded, two.levels, &two.filter)
    }

    fn selection(&self) -> Selection {
        let EventRule { names, excluded, levels, filter, .. } = self.order.rule.clone();
        Selection { names, excluded, levels, filter, processes: self.processes.clone() }
    }
}

impl SessionChannel {
    pub(crate) fn new(channel: Channel, _bytes: Share) -> SessionChannel {
        SessionChannel { channel, rules: Vec::new(), all: Orders::default(), _bytes }
    }

    /// Adds a rule. One that was there before moves to the end, so that nobody can fill the list with one
    /// rule; false if there are too many.
    #[must_use]
    pub(crate) fn add(&mut self, rule: SessionRule) -> bool {
        self.rules.retain(|other| !other.selects_as(&rule));
        self.rules.push(rule);
        let has_room = self.rules.len() <= limits::RULES_MAX || self.rules.pop().is_none();
        self.all = self.rules.iter().map(|rule| rule.order.clone()).collect();
        has_room
    }

    /// What is to be recorded of a process.
    pub(crate) fn rules_for(&self, process: &Process) -> Orders {
        let is_meant = |rule: &&SessionRule| process.is_among(&rule.processes, &rule.executables);
        let meant = self.rules.iter().filter(is_meant).map(|rule| rule.order.clone());
        let meant: Vec<Arc<Order>> = meant.collect();
        match meant.len() == self.rules.len() {
            true => self.all.clone(),
            false => meant.into_iter().collect(),
        }
    }

    /// As users are told.
    pub(crate) fn rule_messages(&self) -> impl Iterator<Item = Rule> {
        self.rules.iter().map(|rule| Rule {
            channel: self.channel.name.clone(),
            enabled: rule.order.rule.enabled,
            selection: rule.selection(),
        })
    }
}

/// Bytes that a session takes without its channels.
pub(crate) fn size_of_session(name: &str, output: &Path) -> u64 {
    (size_of::<Session>() + name.len() + output.as_os_str().len()) as u64
}

/// Rules of sampling of a user.
#[derive(Debug)]
pub(crate) struct SamplingRules {
    pub(crate) rules: String,
    pub(crate) _bytes: Share,
}

/// Bytes that rules of sampling take.
pub(crate) fn size_of_sampling(rules: &str) -> u64 {
    (size_of::<(u32, SamplingRules)>() + rules.len()) as u64
}

/// Bytes that a channel takes without its rules.
pub(crate) fn size_of_channel(channel: &Channel) -> u64 {
    let name_size = |context: &Context| match context {
        Context::Supplied { name } => name.len(),
        _ => 0,
    };
    let contexts = channel.contexts.iter().map(|one| size_of::<Context>() + name_size(one));
    (size_of::<SessionChannel>() + channel.name.len() + contexts.sum::<usize>()) as u64
}

/// Bytes that a rule takes as text.
fn size_of_selection(selection: &Selection) -> u64 {
    let names = selection.names.iter().chain(&selection.excluded).chain(&selection.filter);
    let texts = names.chain(&selection.processes.executables);
    let text_size: usize = texts.map(|text| size_of::<String>() + text.len()).sum();
    let pids_size = size_of_val(&selection.processes.pids[..]);
    (size_of::<SessionRule>() + size_of::<Order>() + text_size + pids_size) as u64
}

/// What a pattern for executables counts at least, as it is held against all that started a program, whenever one
/// comes.
const EXECUTABLE_SIZE: usize = 1 << 10;

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
