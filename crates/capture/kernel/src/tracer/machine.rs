//! Events that the kernel of this machine has, and the selections that record them.

use super::plan::{self, Group};
use super::redactions::{IS_REDACTED, used_text};
use crate::btf::Btf;
use crate::call_type::{CALL_PREFIX, CallType, REQUEST_CALL_PREFIX};
use crate::error::Error;
use crate::function_point::{FunctionPoint, FunctionProbe, ProcessScope};
use crate::function_type::FunctionType;
use crate::probe::{KernelHook, Probe, ProbeError};
use crate::process_code;
use crate::record_type::RecordType;
use crate::recorder::{Selection, TracepointProbe};
use crate::request_code::{self, RequestEvents, WAIT};
use crate::span_slots::SpanSlots;
use crate::state::StateKind;
use crate::timer_probe::{self, TimerProbe};
use crate::tracefs::{SystemCall, TraceFs};
use crate::user_probe::UserProbe;
use blkkin_control::{EventType, Redaction};
use blkkin_filter::Filter;
use std::sync::Arc;

/// Names of the moments in the life of processes.
const PROCESS_NAMES: [&str; 3] = ["process:fork", "process:exec", "process:exit"];
const NO_FILTER: &str = "events of this kind cannot have a filter";
/// The processes of each group are chosen.
const SCOPE: ProcessScope = ProcessScope::Chosen;

/// Lists and types of this kernel.
#[derive(Debug)]
pub(super) struct Machine {
    tracefs: TraceFs,
    pub(super) btf: Btf,
    calls: Arc<[SystemCall]>,
    /// Processes that show the current spans of their threads.
    pub(super) slots: Arc<SpanSlots>,
    /// Names of all events that patterns select.
    pub(super) events: Vec<String>,
}

/// Selection of a group's events, and the reasons why some cannot be recorded.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) selection: Selection,
    /// Kinds of state to record.
    pub(super) states: Vec<StateKind>,
    pub(super) unavailable: Vec<String>,
}

impl Machine {
    /// Reads the kernel's lists of events, and its types.
    pub(super) fn read() -> Result<Machine, Error> {
        let tracefs = TraceFs::open()?;
        let calls = tracefs.system_calls()?;
        let tracepoints = tracefs.events()?;
        let tracepoints = tracepoints.iter().map(|one| format!("{}:{}", one.subsystem, one.event));
        let of_calls =
            |prefix: &'static str| calls.iter().map(move |call| format!("{prefix}{}", call.name));
        let events = of_calls(CALL_PREFIX).chain(of_calls(REQUEST_CALL_PREFIX));
        let states = StateKind::ALL.map(StateKind::event_name);
        let own = PROCESS_NAMES.into_iter().chain(request_code::NAMES).chain(states);
        let own = own.map(str::to_owned);
        let events = events.chain(own).chain(tracepoints).collect();
        let (btf, slots) = (Btf::of_kernel()?, Arc::new(SpanSlots::new()?));
        Ok(Machine { tracefs, btf, calls: calls.into(), slots, events })
    }

    /// Returns the selection for a group, with packets of the stream with this identity.
    pub(super) fn select(&self, group: &Group, uuid: [u8; 16], stream: u32) -> Selected {
        let redactions = group.redactions.clone();
        let mut selection = Selection { uuid, stream, redactions, ..Selection::default() };
        let mut unavailable = Vec::new();
        let mut states = Vec::new();
        let filter = match group.filter.as_deref().map(Filter::parse_for_recording).transpose() {
            Ok(filter) => filter,
            // Nothing is recorded without the filter. Filters of several rules together can be too
            // long.
            Err(error) => {
                let names = group.names.iter();
                unavailable.extend(names.map(|name| format!("`{name}`: the filter: {error}")));
                return Selected { selection, states, unavailable };
            }
        };
        let scoped: Vec<&Redaction> =
            group.redactions.iter().filter(|one| one.events.is_some()).collect();
        for name in &group.names {
            if let Some(field) = filter.as_ref().and_then(|one| used_text(one, name, &scoped)) {
                unavailable.push(format!("`{name}`: the filter uses `{field}`, {IS_REDACTED}"));
                continue;
            }
            if let Some(kind) = StateKind::of_event(name) {
                match filter {
                    None => states.push(kind),
                    Some(_) => unavailable.push(format!("`{name}`: {NO_FILTER}")),
                }
                continue;
            }
            let (functions, timers) = (selection.functions.len(), selection.timers.len());
            let users = selection.user.len();
            if let Err(reason) = self.add(name, filter.is_some(), &mut selection) {
                unavailable.push(format!("`{name}`: {reason}"));
                continue;
            }
            // A pattern of functions selects several events.
            let added = selection.functions[functions..].iter();
            let mut events: Vec<String> = added.map(|probe| probe.point.to_string()).collect();
            if selection.timers.len() > timers {
                events.push(timer_probe::EVENT.to_owned());
            }
            // Redactions for the probe's text hold for these events.
            for redaction in scoped.iter().filter(|one| one.holds_for(name)) {
                let of_event = |event: &String| Redaction {
                    events: Some(event.clone()),
                    ..(*redaction).clone()
                };
                selection.redactions.extend(events.iter().map(of_event));
            }
            let Some(filter) = &filter else { continue };
            if selection.user.len() > users {
                let added = &mut selection.user[users..];
                added.iter_mut().for_each(|probe| probe.set_filter(filter.clone()));
                continue;
            }
            if events.is_empty() {
                events.push(name.clone());
            }
            selection.filters.extend(events.into_iter().map(|event| (event, filter.clone())));
        }
        states.sort_unstable();
        Selected { selection, states, unavailable }
    }

    /// Returns the descriptions of the events that a name stands for.
    pub(super) fn event_types(&self, name: &str) -> Result<Vec<EventType>, String> {
        if let Some(kind) = StateKind::of_event(name) {
            return Ok(vec![kind.event_type(0)]);
        }
        let mut selection = Selection::default();
        self.add(name, false, &mut selection)?;
        let Selection { calls, tracepoints, process_events, functions, user, timers, .. } =
            &selection;
        let mut types: Vec<EventType> =
            calls.iter().map(|call| CallType::new(call, 0).event_type()).collect();
        let record =
            |one: &TracepointProbe| RecordType::new(&one.subsystem, &one.format, 0).event_type();
        types.extend(tracepoints.iter().map(record));
        let moments = process_code::event_types().into_iter().zip(process_events);
        types.extend(moments.filter(|(_, is_recorded)| **is_recorded).map(|(one, _)| one));
        let function = |one: &FunctionProbe| FunctionType::new(one, &[], &self.btf);
        types.extend(functions.iter().filter_map(|one| Some(function(one).ok()?.event_type())));
        types.extend(user.iter().flat_map(UserProbe::event_types));
        types.extend(timers.iter().map(|_| timer_probe::timer_event_type()));
        if let Some(requests) = &selection.requests {
            let calls = requests.recorded_calls.iter();
            types.extend(calls.map(|call| CallType::of_request(call, 0).event_type()));
            let [wait, disk] = request_code::event_types(&self.calls);
            types.extend(requests.waits.then_some(wait));
            types.extend(requests.disk.then_some(disk));
        }
        Ok(types)
    }

    fn add(&self, name: &str, has_filter: bool, to: &mut Selection) -> Result<(), String> {
        if let Some(moment) = PROCESS_NAMES.iter().position(|one| *one == name) {
            if has_filter {
                return Err(NO_FILTER.to_owned());
            }
            to.process_events[moment] = true;
            return Ok(());
        }
        if request_code::NAMES.contains(&name) {
            if has_filter {
                return Err(NO_FILTER.to_owned());
            }
            let requests = self.requests(to);
            let is_recorded = if name == WAIT { &mut requests.waits } else { &mut requests.disk };
            *is_recorded = true;
            return Ok(());
        }
        if let Some(call) = name.strip_prefix(CALL_PREFIX) {
            to.calls.push(self.call(call)?);
            return Ok(());
        }
        if let Some(call) = name.strip_prefix(REQUEST_CALL_PREFIX) {
            let call = self.call(call)?;
            self.requests(to).recorded_calls.push(call);
            return Ok(());
        }
        if let Some(probe) = explicit(name)? {
            if has_filter && matches!(probe, Probe::Timer(_)) {
                return Err(NO_FILTER.to_owned());
            }
            return self.add_probe(&probe, to).map_err(|error| error.to_string());
        }
        let (subsystem, event) = name.split_once(':').ok_or("not the name of an event")?;
        let format = self.tracefs.format(subsystem, event).map_err(|error| error.to_string())?;
        let subsystem = subsystem.to_owned();
        to.tracepoints.push(TracepointProbe { subsystem, format, scope: SCOPE });
        Ok(())
    }

    fn call(&self, name: &str) -> Result<SystemCall, &'static str> {
        let found = self.calls.iter().find(|one| one.name == name);
        found.cloned().ok_or("this kernel has no such system call")
    }

    /// Returns the events of requests that are selected, at first none.
    fn requests<'s>(&self, selection: &'s mut Selection) -> &'s mut RequestEvents {
        selection.requests.get_or_insert_with(|| RequestEvents {
            slots: Arc::clone(&self.slots),
            waits: false,
            disk: false,
            calls: Arc::clone(&self.calls),
            recorded_calls: Vec::new(),
        })
    }

    /// Adds a probe that is in no list of events.
    fn add_probe(&self, probe: &Probe, to: &mut Selection) -> Result<(), Error> {
        let point = match probe {
            Probe::RawTracepoint { name } => FunctionPoint::RawTracepoint(name.clone()),
            Probe::KernelFunction { hook, function, offset } => {
                let (function, offset) = (function.clone(), *offset);
                match hook {
                    KernelHook::Kprobe => FunctionPoint::Kprobe { function, offset },
                    KernelHook::Kretprobe => FunctionPoint::Kretprobe(function),
                    KernelHook::Fentry => FunctionPoint::Entry(function),
                    KernelHook::Fexit => FunctionPoint::Exit(function),
                }
            }
            Probe::Timer(rate) => {
                to.timers.push(TimerProbe { rate: *rate, scope: SCOPE });
                return Ok(());
            }
            _ => {
                to.user.push(UserProbe::find(probe, SCOPE)?);
                return Ok(());
            }
        };
        let points = point.matches(&self.btf, &self.tracefs)?.into_iter();
        to.functions.extend(points.map(|point| FunctionProbe { point, scope: SCOPE }));
        Ok(())
    }
}

/// Parses a probe that is in no list of events; `None` for other events.
fn explicit(name: &str) -> Result<Option<Probe>, String> {
    if !plan::is_explicit(name) {
        return Ok(None);
    }
    name.parse().map(Some).map_err(|error: ProbeError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_control::Processes;
    use blkkin_sys::testing::skip;

    /// Events are not recorded without a filter that cannot be parsed.
    #[test]
    fn an_invalid_filter_makes_all_events_unavailable() {
        let machine = match Machine::read() {
            Ok(machine) => machine,
            Err(error) => {
                return skip("an_invalid_filter_makes_all_events_unavailable", &error.to_string());
            }
        };
        let group = |filter: &str| Group {
            processes: Processes::default(),
            filter: Some(filter.to_owned()),
            redactions: Vec::new(),
            is_state: false,
            names: ["syscall:read", "syscall:write"].map(str::to_owned).into(),
        };
        let selected = machine.select(&group("ret <"), [0; 16], 0);
        assert!(selected.selection.calls.is_empty(), "{selected:?}");
        assert_eq!(selected.unavailable.len(), 2);
        assert!(selected.unavailable[1].starts_with("`syscall:write`: the filter: "));
        let selected = machine.select(&group("ret < 0"), [0; 16], 0);
        assert_eq!((selected.selection.calls.len(), selected.unavailable.len()), (2, 0));
    }
}
