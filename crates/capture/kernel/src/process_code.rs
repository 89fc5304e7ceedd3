//! Programs for the tracepoints of processes: `fork`, `exec` and `exit` are recorded, and change
//! the choice of processes.

use crate::assembler::Register::{R0, R1, R2, R3, R6, R10};
use crate::assembler::{Address, Alu, Assembler, Helper, If, Size};
use crate::btf::Btf;
use crate::call_type::PATH_SIZE_MAX;
use crate::chosen::{ChosenCode, NAME_SIZE};
use crate::error::Error;
use crate::frame::{FIXED_SIZE, NAME, PROCESS, SCRATCH, begin_event, offset};
use crate::ring_code::RingCode;
use blkkin_control::{EventType, Field, FieldKind, Level, Width};

/// Number of types of events.
pub(crate) const PROCESS_EVENTS: usize = 3;

/// Ids of the events of processes, after those of system calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProcessIds {
    pub(crate) first: u16,
}

impl ProcessIds {
    /// Returns the descriptions of the events.
    pub(crate) fn event_types(self) -> [EventType; PROCESS_EVENTS] {
        let unsigned = || FieldKind::Unsigned { width: Width::Bits32, hex: false };
        let signed = FieldKind::Signed { width: Width::Bits32, hex: false };
        let of = |index: u16, name: &str, fields: Vec<(&str, FieldKind)>| EventType {
            index: (self.first + index).into(),
            name: format!("process:{name}"),
            level: Level::Info,
            file: String::new(),
            line: 0,
            fields: fields
                .into_iter()
                .map(|(name, kind)| Field { name: name.to_owned(), kind })
                .collect(),
        };
        let string = || FieldKind::String;
        [
            of(0, "fork", vec![("child", unsigned()), ("child_tid", unsigned())]),
            of(1, "exec", vec![("filename", string()), ("name", string())]),
            of(2, "exit", vec![("code", signed)]),
        ]
    }
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
    pub(crate) ids: ProcessIds,
}

impl ProcessCode<'_> {
    /// Returns the program for `sched_process_fork`, which passes the parent and the child.
    pub(crate) fn fork(&self) -> Assembler {
        let mut code = Assembler::default();
        let [end, is_thread, switch] = [(); 3].map(|()| code.label());
        code.load(Size::Bits64, R6, Address(R1, 8));
        self.chosen.current(&mut code, PROCESS, end);
        // The parent's bits are in R2.
        code.copy(R3, R2);
        code.load(Size::Bits32, R0, Address(R6, self.places.process_id));
        code.load(Size::Bits64, R1, PROCESS);
        code.alu_number(Alu::ShiftRight, R1, 32);
        code.jump_if(If::Equal, R0, R1, is_thread);
        self.chosen.add(&mut code);
        code.set(is_thread);
        self.rings.reserve(&mut code, FIXED_SIZE + 8, switch, end);
        let mut fields = begin_event(self.rings, &mut code, self.ids.first);
        code.load(Size::Bits32, R1, Address(R6, self.places.process_id));
        fields.register(&mut code, 4, R1);
        code.load(Size::Bits32, R1, Address(R6, self.places.thread_id));
        fields.register(&mut code, 4, R1);
        self.rings.commit(&mut code, fields.size());
        code.set(end);
        code.finish();
        self.rings.define_switch(&mut code, switch);
        code
    }

    /// Returns the program for `sched_process_exec`, which passes the thread, its previous id, and
    /// the description of the new program.
    pub(crate) fn exec(&self) -> Assembler {
        let mut code = Assembler::default();
        let (end, switch) = (code.label(), code.label());
        code.load(Size::Bits64, R6, Address(R1, 16));
        code.call(Helper::GetCurrentPidTgid);
        code.store(Size::Bits64, PROCESS, R0);
        self.chosen.choose_by_name(&mut code, PROCESS, NAME);
        code.load(Size::Bits64, R0, PROCESS);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.chosen.load(&mut code, R0, end);
        let size_max = FIXED_SIZE + PATH_SIZE_MAX + NAME_SIZE;
        self.rings.reserve(&mut code, size_max, switch, end);
        let mut fields = begin_event(self.rings, &mut code, self.ids.first + 1);
        code.load(Size::Bits64, R3, Address(R6, self.places.filename));
        fields.string(&mut code, PATH_SIZE_MAX, Helper::ProbeReadKernelStr);
        code.copy(R3, R10);
        code.alu_number(Alu::Add, R3, NAME.into());
        fields.string(&mut code, NAME_SIZE, Helper::ProbeReadKernelStr);
        self.rings.commit(&mut code, fields.size());
        code.set(end);
        code.finish();
        self.rings.define_switch(&mut code, switch);
        code
    }

    /// Returns the program for `sched_process_exit`, which passes the thread that ends.
    pub(crate) fn exit(&self) -> Assembler {
        let mut code = Assembler::default();
        let (end, switch) = (code.label(), code.label());
        code.load(Size::Bits64, R6, Address(R1, 0));
        self.chosen.current(&mut code, PROCESS, end);
        // Only the last thread ends the process.
        code.load(Size::Bits64, R1, Address(R6, self.places.signal));
        code.load(Size::Bits32, R1, Address(R1, self.places.live));
        code.jump_if_number(If::NotEqual, R1, 0, end);
        code.load(Size::Bits32, R1, Address(R6, self.places.exit_code));
        code.store(Size::Bits64, SCRATCH, R1);
        code.load(Size::Bits64, R0, PROCESS);
        code.alu_number(Alu::ShiftRight, R0, 32);
        self.chosen.forget(&mut code);
        self.rings.reserve(&mut code, FIXED_SIZE + 4, switch, end);
        let mut fields = begin_event(self.rings, &mut code, self.ids.first + 2);
        code.load(Size::Bits64, R1, SCRATCH);
        fields.register(&mut code, 4, R1);
        self.rings.commit(&mut code, fields.size());
        code.set(end);
        code.finish();
        self.rings.define_switch(&mut code, switch);
        code
    }
}
