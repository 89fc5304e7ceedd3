//! Events that the kernel of this machine has, and the selections that record them.

use super::plan::Group;
use crate::btf::Btf;
use crate::error::Error;
use crate::recorder::Selection;
use crate::tracefs::{SystemCall, TraceFs};

/// Names of the moments in the life of processes.
const PROCESS_NAMES: [&str; 3] = ["process:fork", "process:exec", "process:exit"];
const CALL: &str = "syscall:";

/// Lists and types of this kernel.
#[derive(Debug)]
pub(super) struct Machine {
    tracefs: TraceFs,
    pub(super) btf: Btf,
    calls: Vec<SystemCall>,
    /// Names of all events that patterns select.
    pub(super) events: Vec<String>,
}

/// Selection of a group's events, and the reasons why some cannot be recorded.
#[derive(Debug)]
pub(super) struct Selected {
    pub(super) selection: Selection,
    pub(super) unavailable: Vec<String>,
}

impl Machine {
    /// Reads the kernel's lists of events, and its types.
    pub(super) fn read() -> Result<Machine, Error> {
        let tracefs = TraceFs::open()?;
        let calls = tracefs.system_calls()?;
        let tracepoints = tracefs.events()?;
        let tracepoints = tracepoints.iter().map(|one| format!("{}:{}", one.subsystem, one.event));
        let events = calls.iter().map(|call| format!("{CALL}{}", call.name));
        let events = events.chain(PROCESS_NAMES.map(str::to_owned)).chain(tracepoints).collect();
        Ok(Machine { tracefs, btf: Btf::of_kernel()?, calls, events })
    }

    /// Returns the selection for a group, with packets of the stream with this identity.
    pub(super) fn select(&self, group: &Group, uuid: [u8; 16], stream: u32) -> Selected {
        let mut selection = Selection { uuid, stream, ..Selection::default() };
        let mut unavailable = Vec::new();
        for name in &group.names {
            if let Err(reason) = self.add(name, &mut selection) {
                unavailable.push(format!("`{name}`: {reason}"));
            }
        }
        Selected { selection, unavailable }
    }

    fn add(&self, name: &str, to: &mut Selection) -> Result<(), String> {
        if let Some(moment) = PROCESS_NAMES.iter().position(|one| *one == name) {
            to.process_events[moment] = true;
            return Ok(());
        }
        if let Some(call) = name.strip_prefix(CALL) {
            let found = self.calls.iter().find(|one| one.name == call);
            to.calls.push(found.ok_or("this kernel has no such system call")?.clone());
            return Ok(());
        }
        let (subsystem, event) = name.split_once(':').ok_or("not the name of an event")?;
        let format = self.tracefs.format(subsystem, event).map_err(|error| error.to_string())?;
        to.tracepoints.push((subsystem.to_owned(), format));
        Ok(())
    }
}
