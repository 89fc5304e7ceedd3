//! Timers: a program that records the stacks of what a processor executes, at a fixed rate.

use crate::assembler::Register::{R1, R2, R3, R6, R10};
use crate::assembler::{Alu, Assembler, Helper};
use crate::chosen::{ChosenCode, NAME_SIZE};
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_type::{EventTypes, Integer, event_type};
use crate::frame::{NAME, PROCESS};
use crate::function_point::ProcessScope;
use crate::load::load;
use crate::probe::TimerRate;
use crate::redaction::FieldRedactions;
use crate::ring_code::RingCode;
use blkkin_control::{EventType, FieldKind, Redaction};
use blkkin_sys::bpf::{AttachPoint, Link};
use std::fs;
use std::io;

/// Name of the events.
pub(crate) const EVENT: &str = "profile";
/// Name of the field with the name of the thread, the only text.
const TEXT: &str = "name";
/// Maximum number of addresses of a stack.
const ADDRESSES_MAX: usize = 64;
/// Flag of the helper for stacks: the stack of the program instead of the kernel's.
const USER_STACK: u64 = 1 << 8;
/// File with the numbers of the processors that are in use, such as `0-3,5`.
const PROCESSORS: &str = "/sys/devices/system/cpu/online";
/// Maximum number of a processor.
const PROCESSOR_MAX: u32 = 8191;

/// Probe that records what each processor executes, at a fixed rate. Idle processors are not
/// recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimerProbe {
    /// Rate on each processor.
    pub rate: TimerRate,
    /// Processes that are recorded.
    pub scope: ProcessScope,
}

/// Returns the description of the events, without an id.
pub(crate) fn timer_event_type() -> EventType {
    let stack = || Integer::pointer().sequence();
    let fields = [(TEXT, FieldKind::String), ("kernel_stack", stack()), ("user_stack", stack())];
    event_type(0, EVENT.to_owned(), fields)
}

/// Returns the program of a timer. In it, `R6` holds the context that the kernel passes.
fn program(
    rings: &RingCode<'_>,
    chosen: Option<ChosenCode>,
    redactions: &FieldRedactions,
    id: u16,
) -> Assembler {
    let mut program = EventCode::new(rings);
    let (code, end) = (&mut program.code, program.end);
    code.copy(R6, R1);
    ChosenCode::within(chosen, code, PROCESS, end);
    code.copy(R1, R10);
    code.alu_number(Alu::Add, R1, NAME.into());
    code.number(R2, NAME_SIZE as u64);
    code.call(Helper::GetCurrentComm);
    let fields_max = NAME_SIZE + 2 * (4 + 8 * ADDRESSES_MAX);
    program.record(EventSize { id, fields_max }, |code, fields| {
        code.copy(R3, R10);
        code.alu_number(Alu::Add, R3, NAME.into());
        fields.string(code, redactions.method(TEXT), NAME_SIZE, Helper::ProbeReadKernelStr);
        fields.stack(code, ADDRESSES_MAX, R6, 0);
        fields.stack(code, ADDRESSES_MAX, R6, USER_STACK);
    });
    program.finish()
}

/// Loads the program of a timer and attaches it to all processors that are in use now. Adds the
/// type of its events to `types`.
pub(crate) fn attach(
    rings: &RingCode<'_>,
    chosen: ChosenCode,
    probe: &TimerProbe,
    redactions: &[Redaction],
    types: &mut EventTypes,
) -> Result<Vec<Link>, Error> {
    let redactions = FieldRedactions::of(redactions, EVENT);
    let id = types.add(redactions.redact(timer_event_type()))?;
    let code = program(rings, chosen.for_scope(probe.scope), &redactions, id);
    let program = load(EVENT, code, AttachPoint::Timer)?;
    let failed = |error| Error::Attach(EVENT.to_owned(), error);
    let processors = online_processors().map_err(failed)?;
    let period_ns = probe.rate.period_ns();
    let attach = |processor| program.attach_to_timer(processor, period_ns).map_err(failed);
    processors.into_iter().map(attach).collect()
}

/// Returns the numbers of the processors that are in use now.
pub(crate) fn online_processors() -> io::Result<Vec<u32>> {
    let numbers = fs::read_to_string(PROCESSORS)?;
    processors(&numbers).ok_or_else(|| io::ErrorKind::InvalidData.into())
}

/// Parses numbers and ranges of processors.
fn processors(text: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if first > last || last > PROCESSOR_MAX {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::processors;

    #[test]
    fn numbers_and_ranges_of_processors() {
        assert_eq!(processors("0\n"), Some(vec![0]));
        assert_eq!(processors("0-2,5,7-8\n"), Some(vec![0, 1, 2, 5, 7, 8]));
        for text in ["", "a", "0-", "3-1", "0-4000000000", "1,,2"] {
            assert_eq!(processors(text), None, "{text}");
        }
    }
}
