//! Programs for the tracepoints of io_uring: submissions and completions of requests by the chosen
//! processes. Workers and the polling thread of an instance belong to the process that made it, so
//! their events are those of the process.

use crate::assembler::Register::{R1, R3, R6};
use crate::assembler::{Address, Alu, Assembler, Register, Size};
use crate::btf::Btf;
use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_format::{EventFormat, FieldKind};
use crate::event_type::{Integer, event_type};
use crate::frame::PROCESS;
use crate::ring_code::{FieldWriter, RingCode};
use crate::tracefs::{TraceFs, TraceFsError};
use blkkin_control::EventType;

/// Number of types of events.
pub(crate) const URING_EVENTS: usize = 2;
/// Size in bytes of the fields of each event, at most.
const FIELDS_SIZE_MAX: usize = 64;

/// Tracepoints of io_uring's requests, and the places of what they tell.
#[derive(Clone, Debug)]
pub struct UringTracepoints {
    submit: Tracepoint<5>,
    complete: Tracepoint<5>,
    request: RequestPlaces,
}

/// Tracepoint with fields of its record.
#[derive(Clone, Debug)]
struct Tracepoint<const N: usize> {
    /// The kernel's number of the tracepoint.
    number: u32,
    fields: [RecordField; N],
}

/// Integer in a tracepoint's record.
#[derive(Clone, Copy, Debug)]
struct RecordField {
    offset: i16,
    bytes: usize,
}

/// Offsets in the kernel's structure of a request.
#[derive(Clone, Copy, Debug)]
struct RequestPlaces {
    fd: u32,
    /// Offset in the file, of reads and writes.
    offset: u32,
    /// Number of bytes or of buffers, of reads and writes.
    length: u32,
}

impl UringTracepoints {
    /// Finds the tracepoints. Returns `None` if this kernel does not have them with the necessary
    /// fields: before Linux 6.0, or without io_uring.
    pub fn find(tracefs: &TraceFs, btf: &Btf) -> Result<Option<UringTracepoints>, Error> {
        // The name before Linux 6.3 was io_uring_submit_sqe.
        let submit = match format(tracefs, "io_uring_submit_req")? {
            None => format(tracefs, "io_uring_submit_sqe")?,
            found => found,
        };
        let complete = format(tracefs, "io_uring_complete")?;
        let found = || {
            Some(UringTracepoints {
                submit: Tracepoint::of(&submit?, ["ctx", "req", "user_data", "opcode", "flags"])?,
                complete: Tracepoint::of(&complete?, ["ctx", "req", "user_data", "res", "cflags"])?,
                request: RequestPlaces::of(btf)?,
            })
        };
        Ok(found())
    }
}

/// Returns the format of an event of io_uring; `None` if the kernel lacks it.
fn format(tracefs: &TraceFs, event: &str) -> Result<Option<EventFormat>, Error> {
    match tracefs.format("io_uring", event) {
        Ok(format) => Ok(Some(format)),
        Err(TraceFsError::NoEvent { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

impl<const N: usize> Tracepoint<N> {
    fn of(format: &EventFormat, names: [&str; N]) -> Option<Tracepoint<N>> {
        let mut fields = [RecordField { offset: 0, bytes: 0 }; N];
        for (to, name) in fields.iter_mut().zip(names) {
            let field = format.own_fields().iter().find(|field| field.name == name)?;
            let bytes = field.size as usize;
            let is_integer = field.kind == FieldKind::Plain && matches!(bytes, 1 | 2 | 4 | 8);
            let offset = i16::try_from(field.offset).ok()?;
            if !is_integer || !(field.offset as usize).is_multiple_of(bytes) {
                return None;
            }
            *to = RecordField { offset, bytes };
        }
        Some(Tracepoint { number: format.id, fields })
    }
}

impl RequestPlaces {
    fn of(btf: &Btf) -> Option<RequestPlaces> {
        let offset = |structure, path| Some(btf.field(structure, path).ok()?.offset);
        let command = offset("io_kiocb", "cmd")?;
        let places = RequestPlaces {
            fd: offset("io_kiocb", "cqe.fd")?,
            offset: command + offset("io_rw", "kiocb.ki_pos")?,
            length: command + offset("io_rw", "len")?,
        };
        let end = places.fd.max(places.offset).max(places.length);
        (end < i16::MAX as u32).then_some(places)
    }
}

/// Returns the descriptions of the events of submissions and completions, without ids.
pub(crate) fn event_types() -> [EventType; URING_EVENTS] {
    let number = |bytes| Integer::unsigned(bytes).field();
    let signed = |bytes| Integer::signed(bytes).field();
    let pointer = || Integer::pointer().field();
    let names = || [("ring", pointer()), ("request", pointer()), ("user_data", pointer())];
    let submit = [
        ("opcode", number(1)),
        ("flags", number(4)),
        ("fd", signed(4)),
        ("offset", number(8)),
        ("length", number(4)),
    ];
    let complete = [("ret", signed(4)), ("flags", number(4))];
    [
        event_type(0, "uring:submit".to_owned(), names().into_iter().chain(submit)),
        event_type(0, "uring:complete".to_owned(), names().into_iter().chain(complete)),
    ]
}

/// Generator of the programs. In them, `R6` is the tracepoint's record.
pub(crate) struct UringCode<'c> {
    pub(crate) rings: &'c RingCode<'c>,
    pub(crate) chosen: ChosenCode,
    pub(crate) tracepoints: &'c UringTracepoints,
    /// Ids of the events of submissions and completions.
    pub(crate) ids: [u16; URING_EVENTS],
}

impl UringCode<'_> {
    /// Returns the programs with their names and the numbers of their tracepoints.
    pub(crate) fn programs(&self) -> [(&'static str, Assembler, u32); URING_EVENTS] {
        let UringTracepoints { submit, complete, .. } = self.tracepoints;
        [
            ("io_uring_submit", self.submit(), submit.number),
            ("io_uring_complete", self.complete(), complete.number),
        ]
    }

    fn submit(&self) -> Assembler {
        let UringTracepoints { submit, request: places, .. } = self.tracepoints;
        let [ring, request, user_data, opcode, flags] = submit.fields;
        self.program(self.ids[0], |code, fields| {
            let written = [(ring, 8), (request, 8), (user_data, 8), (opcode, 1), (flags, 4)];
            written.iter().for_each(|(field, bytes)| copy(code, fields, *field, *bytes));
            for (offset, bytes) in [(places.fd, 4), (places.offset, 8), (places.length, 4)] {
                load(code, R3, request);
                code.alu_number(Alu::Add, R3, offset as i32);
                fields.array(code, None, bytes);
            }
        })
    }

    fn complete(&self) -> Assembler {
        let [ring, request, user_data, result, flags] = self.tracepoints.complete.fields;
        self.program(self.ids[1], |code, fields| {
            let written = [(ring, 8), (request, 8), (user_data, 8), (result, 4), (flags, 4)];
            written.iter().for_each(|(field, bytes)| copy(code, fields, *field, *bytes));
        })
    }

    fn program(&self, id: u16, write: impl FnOnce(&mut Assembler, &mut FieldWriter)) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        code.copy(R6, R1);
        self.chosen.current(code, PROCESS, end);
        program.record(EventSize { id, fields_max: FIELDS_SIZE_MAX }, write);
        program.finish()
    }
}

/// Loads a field of the record.
fn load(code: &mut Assembler, to: Register, field: RecordField) {
    code.load(Size::of_bytes(field.bytes), to, Address(R6, field.offset));
}

/// Writes a field of the record in `bytes` bytes.
fn copy(code: &mut Assembler, fields: &mut FieldWriter, field: RecordField, bytes: usize) {
    load(code, R1, field);
    fields.register(code, bytes, R1);
}
