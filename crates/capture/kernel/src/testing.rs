//! Support for tests of filters and redactions: events of chosen contents that the real programs
//! record, filter and redact in the kernel, and random filters. Start at [`EventProbe`].

mod random;
mod recorded;

use crate::assembler::Register::{R0, R1, R6};
use crate::assembler::{Address, Assembler, Helper, Size};
use crate::call_type::CallType;
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_format::EventFormat;
use crate::filter_code::{FieldTable, FilterCode, FilterScratch, Functions};
use crate::frame::{DURATION, PROCESS, RESULT};
use crate::load::load;
use crate::record_code;
use crate::record_type::RecordType;
use crate::redaction::HashKey;
use crate::redaction_code::RedactionMemory;
use crate::ring_code::RingCode;
use crate::rings::{Contexts, KernelRings, RingOptions};
use crate::syscall_code::{self, SyscallPlaces};
use crate::tracefs::SystemCall;
use blkkin_control::{EventType, Redaction};
use blkkin_filter::Filter;
use blkkin_ring::{Clock, Reader, TakeOutcome};
use blkkin_sys::bpf::{AttachPoint, Program};
use blkkin_sys::testing::Random;
pub use random::{EventContext, RandomFilters};
pub use recorded::RecordedEvent;
use std::io;

/// Probe for events of one type, whose program runs when it is called. Its context is the record of
/// a tracepoint, or 8 words for a system call: six arguments, the result and the duration.
#[derive(Debug)]
pub struct EventProbe {
    kind: Kind,
    event_type: EventType,
    program: Program,
    scratch: FilterScratch,
    rings: Rings,
    _redaction: Option<RedactionMemory>,
}

#[derive(Debug)]
enum Kind {
    Record(RecordType),
    Call(CallType),
}

/// Filter that runs in the kernel.
#[derive(Debug)]
pub struct KernelFilter(Program);

/// Rings with their readers.
#[derive(Debug)]
struct Rings {
    rings: KernelRings,
    readers: Vec<Reader>,
}

/// Creates small rings for programs that run anywhere.
pub(crate) fn small_rings(uuid: [u8; 16]) -> Result<KernelRings, Error> {
    KernelRings::create(&RingOptions {
        ring_size: Some(128 << 10),
        subbuffer_size: None,
        uuid,
        stream: 0,
        contexts: Contexts::All,
        has_own_ring: false,
    })
}

impl Rings {
    fn new(uuid: [u8; 16]) -> Result<Rings, Error> {
        let rings = small_rings(uuid)?;
        let reader = |ring| Reader::new(rings.shape(), ring, Clock::Monotonic);
        let readers = (0..rings.shape().rings).map(reader).collect();
        Ok(Rings { rings, readers })
    }
}

impl EventProbe {
    /// Creates a probe for the events of a tracepoint.
    pub fn of_tracepoint(
        subsystem: &str,
        format: &EventFormat,
        uuid: [u8; 16],
    ) -> Result<EventProbe, Error> {
        EventProbe::new(Kind::Record(RecordType::new(subsystem, format, 0)), uuid, None)
    }

    /// Creates a probe for a system call.
    pub fn of_call(call: &SystemCall, uuid: [u8; 16]) -> Result<EventProbe, Error> {
        EventProbe::new(Kind::Call(CallType::new(call, 0)), uuid, None)
    }

    /// Returns a probe for the same events with redactions, whose hashes have this key.
    pub fn redacted(&self, redactions: &[Redaction], key: HashKey) -> Result<EventProbe, Error> {
        let kind = match &self.kind {
            Kind::Record(record) => Kind::Record(record.clone().redacted(redactions)),
            Kind::Call(call) => Kind::Call(call.clone().redacted(redactions)),
        };
        EventProbe::new(kind, self.rings.rings.shape().uuid, Some(key))
    }

    fn new(kind: Kind, uuid: [u8; 16], key: Option<HashKey>) -> Result<EventProbe, Error> {
        let rings = Rings::new(uuid)?;
        let scratch = FilterScratch::new(rings.rings.processors())?;
        let memory = |key| RedactionMemory::new(rings.rings.shape().rings, key);
        let _redaction = key.map(memory).transpose()?;
        let redaction = _redaction.as_ref().map(RedactionMemory::block);
        let code = RingCode { redaction, ..rings.rings.code() };
        let (event_type, program) = match &kind {
            Kind::Record(record) => {
                (record.event_type(), record_code::program(&code, None, record, None))
            }
            Kind::Call(call) => (call.event_type(), call_program(&code, call)),
        };
        let program = load("record", program, AttachPoint::Run)?;
        Ok(EventProbe { kind, event_type, program, scratch, rings, _redaction })
    }

    /// Returns the description of the events.
    pub fn event_type(&self) -> &EventType {
        &self.event_type
    }

    /// Records an event, and returns the packet that contains it.
    pub fn record(&mut self, context: &mut [u8]) -> io::Result<Vec<u8>> {
        self.program.run(context)?;
        let mut packet = Vec::new();
        let Rings { rings, readers } = &mut self.rings;
        for reader in readers {
            let taken = reader.take(rings.cells(), rings.shape(), true, &mut packet);
            if let TakeOutcome::Packet(_) = taken {
                return Ok(packet);
            }
        }
        Err(io::Error::other("no event was recorded"))
    }

    /// Loads a filter of the events.
    pub fn filter(&self, filter: &Filter) -> Result<KernelFilter, Error> {
        let fields = match &self.kind {
            Kind::Record(record) => record_code::filter_fields(record),
            Kind::Call(call) => syscall_code::filter_fields(SyscallPlaces::of_array(), call, true),
        };
        let compiled = FilterCode::new(filter, &fields, self.scratch.code()).map_err(|error| {
            Error::Filter { event: self.event_type.name.clone(), error: Box::new(error) }
        })?;
        let code = filter_program(&compiled, &fields, matches!(self.kind, Kind::Call(_)));
        load("filter", code, AttachPoint::Run).map(KernelFilter)
    }
}

impl KernelFilter {
    /// Returns true if an event passes the filter.
    pub fn passes(&self, context: &mut [u8]) -> io::Result<bool> {
        match self.0.run(context)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(io::Error::other(format!("the filter has returned {other}"))),
        }
    }
}

/// Generator of the contexts of a probe.
pub type MakeContext = Box<dyn Fn(&mut Random) -> EventContext>;

/// Returns [`random_probes`]; `None` if this machine or user does not permit them, and the test
/// counts as skipped.
#[cfg(test)]
pub(crate) fn permitted_probes(test: &str) -> Option<Vec<(EventProbe, MakeContext)>> {
    match random_probes([7; 16]) {
        Ok(probes) => Some(probes),
        Err(error) if error.is_permission() => {
            blkkin_sys::testing::skip(test, &error.to_string());
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// Returns probes for a tracepoint and two system calls, each with a generator of events.
pub fn random_probes(uuid: [u8; 16]) -> Result<Vec<(EventProbe, MakeContext)>, Error> {
    let record: MakeContext = Box::new(EventContext::record);
    let mut probes =
        vec![(EventProbe::of_tracepoint("test", &EventContext::format(), uuid)?, record)];
    for call in EventContext::calls() {
        let probe = EventProbe::of_call(&call, uuid)?;
        let context: MakeContext = Box::new(move |random| EventContext::call(random, &call));
        probes.push((probe, context));
    }
    Ok(probes)
}

/// Begins a program: sets `R6` and the slots of the frame that a probe sets.
fn begin(code: &mut Assembler, is_call: bool) {
    code.copy(R6, R1);
    code.call(Helper::GetCurrentPidTgid);
    code.store(Size::Bits64, PROCESS, R0);
    if is_call {
        for (slot, at) in [(RESULT, 48), (DURATION, 56)] {
            code.load(Size::Bits64, R1, Address(R6, at));
            code.store(Size::Bits64, slot, R1);
        }
    }
}

fn call_program(rings: &RingCode<'_>, call: &CallType) -> Assembler {
    let mut program = EventCode::new(rings);
    begin(&mut program.code, true);
    let event = EventSize { id: call.id, fields_max: call.size_max() };
    program.record(event, |code, fields| {
        syscall_code::write_fields(code, SyscallPlaces::of_array(), call, true, fields);
    });
    program.finish()
}

/// Returns a program whose result is that of a filter.
fn filter_program(filter: &FilterCode, fields: &FieldTable<'_>, is_call: bool) -> Assembler {
    let mut code = Assembler::default();
    let function = code.label();
    begin(&mut code, is_call);
    FilterCode::call(&mut code, function);
    code.exit();
    let mut functions = Functions::default();
    filter.define(&mut code, function, &mut functions, fields);
    functions.define(&mut code);
    code
}
