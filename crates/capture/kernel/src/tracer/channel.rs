//! A channel of the kernel: its rings, its rules, and the probes that fulfil them.

use super::machine::{Machine, Selected};
use super::overload::GroupId;
use super::plan::{Group, Plan};
use super::redactions;
use super::state::{self, OwnEvent};
use crate::chosen::{ChosenProcesses, kernel_name};
use crate::error::Error;
use crate::event_type::EventTypes;
use crate::recorder::Probes;
use crate::redaction::{FieldRedactions, HashKey};
use crate::rings::{Contexts, KernelRings, RingOptions};
use crate::state::{StateKind, StateRedaction};
use blkkin_control::rules::Pattern;
use blkkin_control::{KernelRule, Processes};
use blkkin_ring::Shape;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

/// Channel that the agent has added.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) number: u32,
    rings: KernelRings,
    uuid: [u8; 16],
    stream: u32,
    /// Key of the hashes of redacted fields.
    hash_key: HashKey,
    /// Wakes the agent.
    eventfd: OwnedFd,
    /// Rules that come into force with the next `Apply`.
    pending: Vec<KernelRule>,
    attached: Vec<Attached>,
    /// Number of the next group to be attached.
    next_serial: u64,
}

/// Probes that were attached together.
#[derive(Debug)]
struct Attached {
    /// Number of the group in its channel.
    serial: u64,
    group: Group,
    chosen: ChosenProcesses,
    /// `None` if only state is recorded.
    probes: Option<Probes>,
    /// Kinds of state to record, with the ids of their events.
    states: Vec<(StateKind, u16)>,
    /// Set if the state is still to be recorded.
    is_state_due: bool,
}

impl Channel {
    /// Makes rings with the identity and the sizes of `shape`. Channels of the same trace among
    /// `others` have the same key, so that equal texts have equal hashes.
    pub(super) fn new(
        number: u32,
        shape: &Shape,
        eventfd: OwnedFd,
        others: &[Channel],
    ) -> Result<Channel, Error> {
        let Shape { uuid, stream, .. } = *shape;
        let rings = KernelRings::create(&RingOptions {
            ring_size: Some(shape.ring_size()),
            subbuffer_size: Some(shape.subbuffer_size),
            uuid,
            stream,
            contexts: Contexts::All,
            has_own_ring: true,
        })?;
        let of_trace = others.iter().find(|channel| channel.uuid == uuid);
        let hash_key = of_trace.map_or_else(HashKey::random, |channel| Ok(channel.hash_key))?;
        let (pending, attached, next_serial) = (Vec::new(), Vec::new(), 0);
        Ok(Channel {
            number,
            rings,
            uuid,
            stream,
            hash_key,
            eventfd,
            pending,
            attached,
            next_serial,
        })
    }

    /// Returns the descriptor of the rings' memory.
    pub(super) fn memory(&self) -> BorrowedFd<'_> {
        self.rings.memory()
    }

    /// Returns the descriptor that becomes readable when the agent must be woken.
    pub(super) fn waker(&self) -> BorrowedFd<'_> {
        self.rings.waker().map().as_fd()
    }

    /// Passes a wake-up by a program in the kernel on to the agent.
    pub(super) fn wake(&self) -> io::Result<()> {
        self.rings.waker().clear();
        match rustix::io::write(&self.eventfd, &1u64.to_ne_bytes()) {
            // A full eventfd wakes the agent, too.
            Ok(_) | Err(rustix::io::Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Adds a rule that comes into force with the next `Apply`.
    pub(super) fn add_rule(&mut self, rule: KernelRule) {
        self.pending.push(rule);
    }

    /// Attaches the probes of the rules received since the last call, and detaches all others.
    /// Probes of the last call that are still wanted stay attached. Returns the reasons why some
    /// events cannot be recorded. `ignored` are processes whose events are recorded only if rules
    /// name them.
    pub(super) fn apply(
        &mut self,
        machine: &Machine,
        types: &mut EventTypes,
        ignored: &[u32],
    ) -> Vec<String> {
        let mut rules = std::mem::take(&mut self.pending);
        let mut unavailable = Vec::new();
        for rule in &mut rules {
            // The reason why an event has no types is reported when it is attached.
            let types_of = |name: &str| machine.event_types(name).unwrap_or_default();
            if let Err(reason) = redactions::check(rule, &machine.events, types_of) {
                unavailable.push(reason);
                // Earlier rules would record the events without the redaction.
                rule.enabled = false;
            }
        }
        let plan = Plan::new(&rules, &machine.events);
        let unmatched = plan.unmatched.iter();
        unavailable
            .extend(unmatched.map(|text| format!("`{text}`: this kernel has no such event")));
        let mut wanted = plan.groups;
        let detached = self.attached.extract_if(.., |one| !keep(&mut wanted, &one.group));
        let missed: u64 = detached.filter_map(|one| one.probes).map(|one| one.missed()).sum();
        unavailable.extend(missed_reason(missed));
        for group in wanted.into_iter().filter(|group| !group.names.is_empty()) {
            let attached = self.attach(machine, types, ignored, &group, &mut unavailable);
            let Err(error) = attached else { continue };
            if group.names.len() == 1 {
                unavailable.push(format!("`{}`: {error}", group.names[0]));
                continue;
            }
            // Each on its own, so that one that fails does not keep the others from being recorded.
            for name in &group.names {
                let single = Group { names: vec![name.clone()], ..group.clone() };
                if let Err(error) = self.attach(machine, types, ignored, &single, &mut unavailable)
                {
                    unavailable.push(format!("`{name}`: {error}"));
                }
            }
        }
        unavailable
    }

    /// Records the state of the machine for rules that have come into force since the last call.
    /// The agent must know the events' types.
    pub(super) fn record_state(&mut self) -> Result<(), Error> {
        for attached in &mut self.attached {
            if !std::mem::take(&mut attached.is_state_due) || attached.states.is_empty() {
                continue;
            }
            let redaction = StateRedaction::new(&attached.group.redactions, self.hash_key);
            let (eventfd, states) = (self.eventfd.as_fd(), &attached.states);
            state::record(&self.rings, eventfd, &attached.chosen, states, &redaction)?;
        }
        Ok(())
    }

    /// Records the state of the machine once more, for all rules in force: the channel's events
    /// continue in a trace that does not contain it.
    pub(super) fn repeat_state(&mut self) -> Result<(), Error> {
        self.attached.iter_mut().for_each(|attached| attached.is_state_due = true);
        self.record_state()
    }

    /// Returns the groups of attached probes.
    pub(super) fn probes(&self) -> impl Iterator<Item = (GroupId, &Probes)> {
        let channel = self.number;
        self.attached.iter().filter_map(move |attached| {
            Some((GroupId { channel, serial: attached.serial }, attached.probes.as_ref()?))
        })
    }

    /// Detaches the probes of a group until the next `apply`. Returns their names, and a reason why
    /// some of their events are missing; `None` if the group is not attached.
    pub(super) fn detach(&mut self, serial: u64) -> Option<(Vec<String>, Option<String>)> {
        let at = self.attached.iter().position(|attached| attached.serial == serial)?;
        let Attached { group, probes, .. } = self.attached.swap_remove(at);
        let missed = probes.map_or(0, |probes| probes.missed());
        Some((group.names, missed_reason(missed)))
    }

    /// Records an event of the tracer itself. The agent must know the event's type.
    pub(super) fn record(&self, event: &OwnEvent<'_>) -> Result<(), Error> {
        state::record_event(&self.rings, self.eventfd.as_fd(), event)
    }

    /// Attaches the probes of a group. Adds the reasons why some of them cannot be attached.
    fn attach(
        &mut self,
        machine: &Machine,
        types: &mut EventTypes,
        ignored: &[u32],
        group: &Group,
        unavailable: &mut Vec<String>,
    ) -> Result<(), Error> {
        let Selected { mut selection, states, unavailable: mut missing } =
            machine.select(group, self.uuid, self.stream);
        selection.hash_key = Some(self.hash_key);
        if missing.len() == group.names.len() {
            unavailable.append(&mut missing);
            return Ok(());
        }
        let (chosen, unchosen) = choose(&group.processes, ignored)?;
        // Probes follow forks and exits, too, which state does not need.
        let attach = || Probes::attach(&selection, &chosen, &machine.btf, &self.rings, types);
        let probes = (!group.is_state).then(attach).transpose()?;
        let of_state = |kind: StateKind| {
            let redactions = FieldRedactions::of(&group.redactions, kind.event_name());
            redactions.redact(kind.event_type(0))
        };
        let states = states.into_iter().map(|kind| Ok((kind, types.add(of_state(kind))?)));
        let states = states.collect::<Result<_, Error>>()?;
        let (serial, is_state_due) = (self.next_serial, true);
        self.next_serial += 1;
        self.attached.push(Attached {
            serial,
            group: group.clone(),
            chosen,
            probes,
            states,
            is_state_due,
        });
        unavailable.append(&mut missing);
        unavailable.extend(unchosen);
        Ok(())
    }
}

/// Returns the reason why events are missing that the kernel did not pass to probes.
fn missed_reason(missed: u64) -> Option<String> {
    (missed > 0).then(|| {
        format!("{missed} events: the kernel did not run their probes inside of other probes")
    })
}

/// Returns true if all probes of an attached group are still wanted, and removes them from the
/// groups to attach.
fn keep(wanted: &mut [Group], attached: &Group) -> bool {
    let Some(group) = wanted.iter_mut().find(|group| group.fits(attached)) else { return false };
    let is_wanted = attached.names.iter().all(|name| group.names.contains(name));
    if is_wanted {
        group.names.retain(|name| !attached.names.contains(name));
    }
    is_wanted
}

/// Chooses the processes of a group. Returns also the reasons why some cannot be chosen.
fn choose(processes: &Processes, ignored: &[u32]) -> Result<(ChosenProcesses, Vec<String>), Error> {
    let Processes { pids, executables, .. } = processes;
    if pids.is_empty() && executables.is_empty() {
        return Ok((ChosenProcesses::all_except(ignored)?, Vec::new()));
    }
    let mut chosen = ChosenProcesses::new()?;
    let mut unavailable = Vec::new();
    pids.iter().for_each(|pid| chosen.follow(*pid));
    let (patterns, names): (Vec<&String>, Vec<&String>) =
        executables.iter().partition(|text| text.contains(['*', '/', '\\']));
    let names: BTreeSet<_> = names.into_iter().map(|name| kernel_name(name)).collect();
    chosen.set_names(names).map_err(|error| Error::Map("chosen", error))?;
    for text in patterns {
        follow_matching(&chosen, text);
        unavailable.push(format!(
            "processes with the executable `{text}` that start later are not recorded; give names \
             without `*` and `/`"
        ));
    }
    Ok((chosen, unavailable))
}

/// Follows the processes whose executable matches a pattern: the whole path if the pattern has a
/// `/`, otherwise its last component.
fn follow_matching(chosen: &ChosenProcesses, text: &str) {
    let pattern = Pattern::new(text);
    for entry in fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(path) = fs::read_link(entry.path().join("exe")) else { continue };
        let compared = match text.contains('/') {
            true => Some(path.as_os_str()),
            false => path.file_name(),
        };
        if compared.is_some_and(|name| pattern.fits(name.as_bytes())) {
            chosen.follow(pid);
        }
    }
}
