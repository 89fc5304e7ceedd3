//! Empty programs of the kernel at the places where recorders attach theirs: the part of their cost
//! that the kernel takes. Start at [`Empty`].

use super::case::{Call, Case, Subject};
use super::load::Load;
use super::recorder::{Recorder, Run, Workspace};
use blkkin_sys::bpf::{AttachPoint, Link, Program, UserInstruction};
use std::ffi::{CStr, CString};
use std::io;
use std::os::unix::ffi::OsStrExt;

pub(super) const EMPTY: &str = "empty programs";

/// Instructions of a program that returns 0: `r0 = 0` and `exit`.
const CODE: [u64; 2] = [0xb7, 0x95];

/// A program that does nothing, at each place.
pub(super) struct Empty;

impl Recorder for Empty {
    fn name(&self) -> &'static str {
        EMPTY
    }

    fn records(&self, _call: &Call) -> bool {
        true
    }

    fn measure(&self, workspace: &Workspace<'_>, case: &Case) -> Result<Run, String> {
        let _links = attach(workspace.load, case.call.subject)?;
        Ok(Run::bare(workspace.load.run(case)?, case))
    }
}

fn attach(load: &Load, subject: Subject) -> Result<Vec<Link>, String> {
    let offsets = load.offsets()?;
    let attached = match subject {
        Subject::SystemCalls => at_tracepoints([c"sys_enter", c"sys_exit"]),
        Subject::Waits => at_tracepoints([c"sched_switch", c"sched_waking"]),
        Subject::Function => at_instruction(load, offsets.function),
        Subject::Usdt => at_instruction(load, offsets.usdt),
    };
    attached.map_err(|error| format!("an empty program cannot be attached: {error}"))
}

fn at_tracepoints(names: [&CStr; 2]) -> io::Result<Vec<Link>> {
    let attach = |name| program(AttachPoint::UntypedTracepoint)?.attach_to_tracepoint(name);
    names.into_iter().map(attach).collect()
}

fn at_instruction(load: &Load, offset: u64) -> io::Result<Vec<Link>> {
    let file = CString::new(load.program().as_os_str().as_bytes())?;
    let instruction = UserInstruction { offset, counter: 0, cookie: 0 };
    let program = program(AttachPoint::UserInstruction)?;
    Ok(vec![program.attach_to_user_instruction(&file, instruction, false)?])
}

fn program(place: AttachPoint) -> io::Result<Program> {
    Program::load("empty", &CODE, place).map_err(|failure| failure.error)
}
