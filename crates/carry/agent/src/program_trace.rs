//! A program's trace: its directory, its UUID, its clock, and the environment in its metadata.

use crate::catalog::Catalog;
use crate::chunk_name::trace_uuid;
use crate::chunks::SessionChunks;
use crate::clock::{Rate, clock_uuid};
use crate::date;
use crate::notebook::Note;
use crate::page_cache::PageCacheTrimmer;
use crate::program::Program;
use crate::session::{Session, SessionChannel};
use crate::trace::{Trace, TraceDescription};
use blkkin_control::{Clock, RingDescription, Variable, VariableValue};
use blkkin_ctf::schema::EnvValue;
use jiff::Zoned;
use std::path::{Path, PathBuf};

/// Maximum size in bytes of a program's name within the name of a trace.
const PROGRAM_SIZE_MAX: usize = 150;

/// Returns the directory of a program's trace within a session's output, such as
/// `ust/pid/NAME-PID-DATE`, or `kernel` for the first trace of the kernel. LTTng uses the same
/// layout for buffers per process.
pub(crate) fn directory_of(output: &Path, program: &Program) -> PathBuf {
    if program.is_kernel {
        let date = date::for_names(&Zoned::now());
        return output.join("kernel").join(format!("kernel-{}-{date}", program.process.pid));
    }
    let plain = |letter: char| if letter == '/' { '_' } else { letter };
    let mut name: String = program.name.chars().map(plain).take(100).collect();
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    let date = date::for_names(&Zoned::now());
    let mut size = name.len().min(PROGRAM_SIZE_MAX);
    while !name.is_char_boundary(size) {
        size -= 1;
    }
    name.truncate(size);
    let name = format!("{name}-{}-{date}", program.process.pid);
    output.join("ust").join("pid").join(name)
}

/// Returns the clock of a program's events for the readers of its rings.
pub(crate) fn ring_clock(program: &Program) -> blkkin_ring::Clock {
    match (program.clock, program.process.monotonic_ahead_ns) {
        (Clock::Tsc, _) => blkkin_ring::Clock::Tsc,
        (Clock::Monotonic, 0) => blkkin_ring::Clock::Monotonic,
        (Clock::Monotonic, ahead_ns) => blkkin_ring::Clock::MonotonicAhead(ahead_ns),
    }
}

/// Returns the description of a program's trace for its metadata.
pub(crate) fn describe(
    rate: Rate,
    session: &Session,
    program: &Program,
    uuid: [u8; 16],
) -> TraceDescription {
    let text = |text: &str| EnvValue::Str(text.to_owned());
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let now = date::for_environment(&Zoned::now());
    let version = |part: &str| EnvValue::Int(part.parse().unwrap_or(0));
    let env = [
        ("domain", text(if program.is_kernel { "kernel" } else { "ust" })),
        ("tracer_name", text("blkkin")),
        ("tracer_major", version(env!("CARGO_PKG_VERSION_MAJOR"))),
        ("tracer_minor", version(env!("CARGO_PKG_VERSION_MINOR"))),
        ("tracer_patchlevel", version(env!("CARGO_PKG_VERSION_PATCH"))),
        ("tracer_buffering_scheme", text("pid")),
        ("tracer_buffering_id", EnvValue::Int(program.process.pid.into())),
        ("architecture_bit_width", EnvValue::Int(64)),
        ("trace_name", text(&session.name)),
        ("trace_creation_datetime", text(&date::for_environment(&session.created))),
        ("hostname", text(&host)),
        ("vpid", EnvValue::Int(program.pid_inner.into())),
        ("procname", text(&program.name)),
        ("vpid_datetime", text(&now)),
    ];
    // The forwarder measures the machine's monotonic clock. A time namespace shifts the program's.
    let is_measured = program.process.monotonic_ahead_ns == 0 || program.clock == Clock::Tsc;
    let (clock_name, rate) = match program.clock {
        Clock::Tsc => ("tsc", rate),
        Clock::Monotonic => ("monotonic", rate.ahead(program.process.monotonic_ahead_ns)),
    };
    TraceDescription {
        uuid,
        env: env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect(),
        clock_name,
        clock_uuid: clock_uuid(program.clock).filter(|_| is_measured),
        rate,
    }
}

/// Makes a new trace of a program, which will be written continuously.
pub(crate) fn new_trace(session: &Session, program: &Program, rate: Rate, note: Note) -> Trace {
    let directory = directory_of(session.trace_directory(), program);
    let chunk = session.chunks.as_ref().and_then(SessionChunks::current);
    let uuid = trace_uuid(note.uuid(), chunk.map_or(0, |chunk| chunk.sequence));
    let about = describe(rate, session, program, uuid);
    Trace::new(directory, session.output.clone(), about, Some(note))
}

/// Prepares a new or continued trace of a program for being written.
pub(crate) fn prepare(
    trace: &mut Trace,
    session: &Session,
    program: &Program,
    page_cache: &Option<PageCacheTrimmer>,
) {
    trace.trim_by(page_cache.clone());
    trace.write_by(session.direct.clone());
    trace.limit_by(session.size_limit.clone());
    trace.charge_to(program.account.clone());
    let chunk = session.chunks.as_ref().and_then(|one| one.chunk_of(trace.directory()));
    if let Some(chunk) = chunk {
        trace.count_in(chunk.meter.clone());
    }
}

/// Returns the description of a program's rings for a reader that finds only their memory. It has
/// the clock and the environment of `trace`, so that events that were written before a crash and
/// events that are found after it have the same times. `None` if the trace has no clock.
pub(crate) fn describe_rings(
    trace: &Trace,
    session: &Session,
    channel: &SessionChannel,
    program: &Program,
) -> Option<RingDescription> {
    let schema = trace.schema();
    let clock = schema.clocks.first()?;
    let environment = schema.trace.env.iter().map(|(name, value)| {
        let value = match value {
            EnvValue::Int(number) => VariableValue::Number { number: number.cast_unsigned() },
            EnvValue::Str(text) => VariableValue::Text { text: text.clone() },
        };
        Variable { name: name.clone(), value }
    });
    Some(RingDescription {
        session: session.name.clone(),
        channel: channel.channel.name.clone(),
        contexts: channel.channel.contexts.clone(),
        is_kernel: channel.is_kernel,
        program: program.name.clone(),
        pid: program.process.pid,
        catalog: program.catalog.as_ref().map_or(0, Catalog::number),
        clock: clock.name.clone(),
        frequency: clock.frequency,
        offset_seconds: clock.offset_seconds.cast_unsigned(),
        offset_ticks: clock.offset_cycles.cast_unsigned(),
        environment: environment.collect(),
    })
}

/// Returns a random UUID (version 4 of RFC 9562). If the kernel provides no random numbers, derives
/// the UUID from the ids of the agent's process and thread.
pub fn new_uuid() -> [u8; 16] {
    let mut uuid = [0; 16];
    let words = blkkin_sys::random_words().unwrap_or_else(|| {
        let [first, second, ..] = blkkin_sys::moment_identity();
        [first, second]
    });
    uuid[..8].copy_from_slice(&words[0].to_le_bytes());
    uuid[8..].copy_from_slice(&words[1].to_le_bytes());
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}
