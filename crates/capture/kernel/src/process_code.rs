//! Programs for the tracepoints of processes: `fork`, `exec` and `exit` are recorded, and change
//! the choice of processes.

use crate::assembler::Register::{R0, R1, R2, R3, R6, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Size};
use crate::btf::Btf;
use crate::call_type::PATH_SIZE_MAX;
use crate::chosen::{ChosenCode, NAME_SIZE};
use crate::error::Error;
use crate::event_code::{EventCode, EventSize};
use crate::event_type::{Integer, event_type};
use crate::frame::{NAME, PROCESS, offset};
use crate::redaction::FieldRedactions;
use crate::ring_code::RingCode;
use blkkin_control::{EventType, FieldKind};

/// Number of types of events.
pub(crate) const PROCESS_EVENTS: usize = 3;
/// Name of the event that has texts.
pub(crate) const EXEC: &str = "process:exec";
/// Names of its texts: the path of the program, and the name of the process.
const EXEC_TEXTS: [&str; 2] = ["filename", "name"];

/// Returns the descriptions of the events `fork`, `exec` and `exit`, without ids.
pub(crate) fn event_types() -> [EventType; PROCESS_EVENTS] {
    let unsigned = || Integer::unsigned(4).field();
    let texts = EXEC_TEXTS.map(|name| (name, FieldKind::String));
    let fork = [("child", unsigned()), ("child_tid", unsigned())];
    [
        event_type(0, "process:fork".to_owned(), fork),
        event_type(0, EXEC.to_owned(), texts),
        event_type(0, "process:exit".to_owned(), [("code", Integer::signed(4).field())]),
    ]
}

/// Offsets in the kernel's structures that the programs need.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessPlaces {
    process_id: i16,
    thread_id: i16,
    exit_code: i16,
    signal: i16,
    /// Number of threads that have not ended, in `struct signal_struct`.
    live: i16,
    /// Path of the program, in `struct linux_binprm`.
    filename: i16,
}

impl ProcessPlaces {
    pub(crate) fn of(btf: &Btf) -> Result<ProcessPlaces, Error> {
        Ok(ProcessPlaces {
            process_id: offset(btf, "task_struct", "tgid")?,
            thread_id: offset(btf, "task_struct", "pid")?,
            exit_code: offset(btf, "task_struct", "exit_code")?,
            signal: offset(btf, "task_struct", "signal")?,
            live: offset(btf, "signal_struct", "live.counter")?,
            filename: offset(btf, "linux_binprm", "filename")?,
        })
    }
}

/// Generator of the programs.
pub(crate) struct ProcessCode<'c> {
    pub(crate) rings: &'c RingCode<'c>,
    pub(crate) chosen: ChosenCode,
    pub(crate) places: ProcessPlaces,
    /// Ids of the events `fork`, `exec` and `exit`; `None` for those that are not recorded.
    pub(crate) ids: [Option<u16>; PROCESS_EVENTS],
    /// Redactions of the events `exec`; the others have no texts.
    pub(crate) redactions: &'c FieldRedactions,
}

impl ProcessCode<'_> {
    /// Returns the program for `sched_process_fork`, which passes the parent and the child.
    pub(crate) fn fork(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        let is_thread = code.label();
        code.load(Size::Bits64, R6, Address(R1, 8));
        self.chosen.current(code, PROCESS, end);
        // The parent's bits are in R2.
        code.copy(R3, R2);
        code.load(Size::Bits32, R0, Address(R6, self.places.process_id));
        code.load(Size::Bits64, R1, PROCESS);
        code.alu_number(Alu::ShiftRight, R1, 32);
        code.jump_if(If::Equal, R0, R1, is_thread);
        self.chosen.add(code);
        code.set(is_thread);
        let Some(id) = self.ids[0] else { return program.finish_unrecorded() };
        let event = EventSize { id, fields_max: 8 };
        program.record(event, |code, fields| {
            for id in [self.places.process_id, self.places.thread_id] {
                code.load(Size::Bits32, R1, Address(R6, id));
                fields.register(code, 4, R1);
            }
        });
        program.finish()
    }

    /// Returns the program for `sched_process_exec`, which passes the thread, its previous id, and
    /// the description of the new program.
    pub(crate) fn exec(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        code.load(Size::Bits64, R6, Address(R1, 16));
        code.call(Helper::GetCurrentPidTgid);
        code.store(Size::Bits64, PROCESS, R0);
        self.chosen.choose_by_name(code, PROCESS, NAME);
        code.load(Size::Bits64, R0, PROCESS);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.chosen.load(code, R0, end);
        let Some(id) = self.ids[1] else { return program.finish_unrecorded() };
        let event = EventSize { id, fields_max: PATH_SIZE_MAX + NAME_SIZE };
        program.record(event, |code, fields| {
            code.load(Size::Bits64, R3, Address(R6, self.places.filename));
            let helper = Helper::ProbeReadKernelStr;
            fields.string(code, self.redactions.method(EXEC_TEXTS[0]), PATH_SIZE_MAX, helper);
            code.copy(R3, R10);
            code.alu_number(Alu::Add, R3, NAME.into());
            fields.string(code, self.redactions.method(EXEC_TEXTS[1]), NAME_SIZE, helper);
        });
        program.finish()
    }

    /// Returns the program for `sched_process_exit`, which passes the thread that ends.
    pub(crate) fn exit(&self) -> Assembler {
        let mut program = EventCode::new(self.rings);
        let (code, end) = (&mut program.code, program.end);
        code.load(Size::Bits64, R6, Address(R1, 0));
        self.chosen.current(code, PROCESS, end);
        // Only the last thread ends the process.
        code.load(Size::Bits64, R1, Address(R6, self.places.signal));
        code.load(Size::Bits32, R1, Address(R1, self.places.live));
        code.jump_if_number(If::NotEqual, R1, 0, end);
        code.load(Size::Bits64, R0, PROCESS);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.chosen.forget(code);
        let Some(id) = self.ids[2] else { return program.finish_unrecorded() };
        let event = EventSize { id, fields_max: 4 };
        program.record(event, |code, fields| {
            code.load(Size::Bits32, R1, Address(R6, self.places.exit_code));
            fields.register(code, 4, R1);
        });
        program.finish()
    }
}
