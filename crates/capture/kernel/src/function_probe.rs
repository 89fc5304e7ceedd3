//! Attaches probes on functions of the kernel and on raw tracepoints.

use crate::btf::Btf;
use crate::chosen::ChosenCode;
use crate::error::{Error, ProbeRefusal};
use crate::event_type::EventTypes;
use crate::filter_code::FilterCode;
use crate::function_code;
use crate::function_point::{FunctionPoint, FunctionProbe};
use crate::function_type::FunctionType;
use crate::ring_code::RingCode;
use blkkin_control::Redaction;
use blkkin_sys::bpf::{Instruction, Link, LoadError, Program};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::CString;
use std::io;
use std::path::Path;

/// Attached probe.
#[derive(Debug)]
pub(crate) struct AttachedProbe {
    link: Link,
}

impl AttachedProbe {
    /// Returns the number of times that the kernel did not run the probe's program.
    pub(crate) fn missed(&self) -> u64 {
        self.link.program().missed().unwrap_or(0)
    }

    pub(crate) fn link(&self) -> &Link {
        &self.link
    }
}

/// Returns the types of probes with their redactions. Their ids are those of their event types in
/// `types`. A repeated point is left out.
pub(crate) fn types(
    probes: &[FunctionProbe],
    redactions: &[Redaction],
    btf: &Btf,
    types: &mut EventTypes,
) -> Result<Vec<FunctionType>, Error> {
    let mut found: Vec<FunctionType> = Vec::new();
    let mut points = BTreeSet::new();
    for probe in probes.iter().filter(|probe| points.insert(&probe.point)) {
        let mut function = FunctionType::new(probe, redactions, btf)?;
        function.id = types.add(function.event_type())?;
        found.push(function);
    }
    Ok(found)
}

/// Loads the program of a probe, which records the events that pass the filter.
pub(crate) fn load(
    rings: &RingCode<'_>,
    chosen: ChosenCode,
    function: &FunctionType,
    filter: Option<&FilterCode>,
) -> Result<Program, Error> {
    let program = || function.point.to_string();
    let code = function_code::program(rings, chosen, function, filter);
    let functions = code.described_functions();
    let code = code.assemble().ok_or_else(|| Error::TooLong(program()))?;
    Program::load_with_functions(&program(), &code, &functions, function.attach_point).map_err(
        |failure| match load_refusal(&function.point, &failure) {
            Some(refusal) => Error::Probe { probe: program(), refusal },
            None => Error::Load { program: program(), error: failure.error, log: failure.log },
        },
    )
}

/// Loads and attaches the program of a probe, which records the events that pass the filter.
pub(crate) fn attach(
    rings: &RingCode<'_>,
    chosen: ChosenCode,
    function: &FunctionType,
    filter: Option<&FilterCode>,
) -> Result<AttachedProbe, Error> {
    let refused = |refusal| Error::Probe { probe: function.point.to_string(), refusal };
    let program = load(rings, chosen, function, filter)?;
    let target =
        CString::new(function.point.name()).map_err(|_| refused(function.point.missing()))?;
    let kprobe = |offset, is_return| {
        program.attach_to_instruction(Instruction { function: &target, offset, is_return })
    };
    let link = match function.point {
        FunctionPoint::RawTracepoint(_) => program.attach_to_tracepoint(&target),
        FunctionPoint::Entry(_) | FunctionPoint::Exit(_) => program.attach(),
        FunctionPoint::Kprobe { offset, .. } => kprobe(offset, false),
        FunctionPoint::Kretprobe(_) => kprobe(0, true),
    };
    let link = link.map_err(|error| match attach_refusal(&function.point, &error) {
        Some(refusal) => refused(refusal),
        None => Error::Attach(function.point.to_string(), error),
    })?;
    Ok(AttachedProbe { link })
}

/// Errors of the kernel that are not in the list of the C library.
const ENOTSUPP: i32 = 524;

/// Returns the reason for which the kernel did not load a program, if users can act on it.
fn load_refusal(point: &FunctionPoint, failure: &LoadError) -> Option<ProbeRefusal> {
    let LoadError { error, log } = failure;
    let is_entry = matches!(point, FunctionPoint::Entry(_) | FunctionPoint::Exit(_));
    // A user without rights cannot create the maps, which come first.
    if is_entry && error.raw_os_error() == Some(Errno::PERM.raw_os_error()) && log.is_empty() {
        return Some(ProbeRefusal::Forbidden);
    }
    if log.contains("unknown#") {
        return Some(ProbeRefusal::OldKernel);
    }
    let is_unsupported = log.contains("unsupported arg") || log.contains("is not supported");
    (is_unsupported || error.raw_os_error() == Some(ENOTSUPP)).then_some(ProbeRefusal::Arguments)
}

/// Returns the reason for which the kernel did not attach a program, if users can act on it.
fn attach_refusal(point: &FunctionPoint, error: &io::Error) -> Option<ProbeRefusal> {
    let errno = Errno::from_io_error(error);
    let is_entry = matches!(point, FunctionPoint::Entry(_) | FunctionPoint::Exit(_));
    match point {
        _ if error.raw_os_error() == Some(ENOTSUPP) => Some(ProbeRefusal::Arguments),
        FunctionPoint::RawTracepoint(_) if errno == Some(Errno::NOENT) => {
            Some(ProbeRefusal::NoTracepoint)
        }
        FunctionPoint::RawTracepoint(_) => None,
        _ if is_entry && errno == Some(Errno::PERM) => None,
        _ if is_entry && !has_function_tracer() => Some(ProbeRefusal::NoFunctionTracer),
        _ if is_entry => Some(ProbeRefusal::NotTraceable),
        _ if error.kind() == io::ErrorKind::Unsupported => Some(ProbeRefusal::NoKprobes),
        _ => match errno {
            Some(Errno::NOENT) => Some(ProbeRefusal::NoFunction),
            Some(Errno::INVAL | Errno::ILSEQ | Errno::OPNOTSUPP) => Some(ProbeRefusal::NotProbed),
            Some(Errno::ADDRNOTAVAIL) => Some(ProbeRefusal::Ambiguous),
            _ => None,
        },
    }
}

/// Returns true if the kernel can trace functions, or if that cannot be found out.
fn has_function_tracer() -> bool {
    let folder = Path::new("/sys/kernel/tracing");
    !folder.join("events").exists() || folder.join("available_filter_functions").exists()
}
