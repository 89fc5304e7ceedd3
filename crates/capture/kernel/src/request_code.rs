//! Programs that record what the kernel did for requests: waits of their threads ([`wait`]) and
//! requests to disks ([`disk`]), the latter also for chosen processes without spans.
//! [`current_span`] reads the current span of a thread, and [`calls`] describes its system call.
//! System calls of such threads are recorded by [`crate::syscall_code`].

mod calls;
mod current_span;
mod disk;
mod wait;

use crate::assembler::Assembler;
use crate::btf::Btf;
use crate::chosen::ChosenProcesses;
use crate::error::Error;
use crate::event_type::EventTypes;
use crate::load::{NewProgram, attach_all};
use crate::ring_code::RingCode;
use crate::span_slots::SpanSlots;
use crate::tracefs::SystemCall;
use blkkin_control::EventType;
use blkkin_sys::bpf::{AttachPoint, Link};
use disk::{CallPlaces, DiskCode, DiskPlaces, DiskTables, RequestOrigin};
use std::sync::Arc;
use wait::{WaitCode, WaitKinds, WaitPlaces, WaitTable};

pub(crate) use current_span::{CurrentSpan, SPAN_FIELDS_SIZE, span_fields, write_span};
pub(crate) use wait::WAIT;

/// Names of the events.
pub(crate) const NAMES: [&str; 2] = [WAIT, disk::DISK];

/// Returns the descriptions of the events, without ids. `calls` are the kernel's system calls.
pub(crate) fn event_types(calls: &[SystemCall]) -> [EventType; 2] {
    [wait::wait_type(calls), disk::disk_type()]
}

/// Events that tell what the kernel did for requests of the chosen processes.
#[derive(Clone, Debug)]
pub struct RequestEvents {
    /// Processes that show the current spans of their threads.
    pub slots: Arc<SpanSlots>,
    /// Set if times in which threads did not run are recorded: `request:wait`.
    pub waits: bool,
    /// Set if requests to disks are recorded: `request:disk`.
    pub disk: bool,
    /// System calls of this kernel, whose names say what a thread waits for.
    pub calls: Arc<[SystemCall]>,
    /// System calls that are recorded: `request:syscall:NAME`.
    pub recorded_calls: Vec<SystemCall>,
}

/// Attaches the programs.
pub(crate) fn attach(
    events: &RequestEvents,
    rings: &RingCode<'_>,
    chosen: &ChosenProcesses,
    btf: &Btf,
    types: &mut EventTypes,
) -> Result<Vec<Link>, Error> {
    let slots = events.slots.code();
    let mut links = Vec::new();
    if events.waits {
        let code = WaitCode {
            rings,
            chosen: chosen.code(),
            slots,
            places: WaitPlaces::of(btf)?,
            kinds: &WaitKinds::new(&events.calls)?,
            waits: &WaitTable::new()?,
            id: types.add(wait::wait_type(&events.calls))?,
        };
        links.extend(attach_named(code.programs().into(), btf)?);
    }
    if events.disk {
        let code = DiskCode {
            rings,
            chosen: chosen.code(),
            origin: RequestOrigin::Span(slots),
            places: DiskPlaces::of(btf)?,
            tables: &DiskTables::new()?,
            records_unattributed: chosen.is_all_except(),
            id: types.add(disk::disk_type())?,
        };
        links.extend(attach_named(code.programs().into(), btf)?);
    }
    Ok(links)
}

/// Attaches the programs for requests to disks of the chosen processes. `calls` are the kernel's
/// system calls.
pub(crate) fn attach_chosen_disk(
    calls: &[SystemCall],
    rings: &RingCode<'_>,
    chosen: &ChosenProcesses,
    btf: &Btf,
    types: &mut EventTypes,
) -> Result<Vec<Link>, Error> {
    let code = DiskCode {
        rings,
        chosen: chosen.code(),
        origin: RequestOrigin::Call(CallPlaces::of(btf)?),
        places: DiskPlaces::of(btf)?,
        tables: &DiskTables::new()?,
        records_unattributed: chosen.is_all_except(),
        id: types.add(disk::chosen_disk_type(calls))?,
    };
    attach_named(code.programs().into(), btf)
}

/// Attaches programs to the raw tracepoints with their names.
fn attach_named(programs: Vec<(&'static str, Assembler)>, btf: &Btf) -> Result<Vec<Link>, Error> {
    let new = |(name, code): (&str, Assembler)| {
        let place = AttachPoint::RawTracepoint(btf.raw_tracepoint(name)?.type_id);
        Ok(NewProgram { name: name.to_owned(), code, place })
    };
    attach_all(programs.into_iter().map(new).collect::<Result<_, Error>>()?)
}
