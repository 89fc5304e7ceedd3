//! Printing of probes, as users write them.

use super::parse::{is_plain_program, is_subsystem};
use super::types::{Probe, ProcessMoment, TimerRate, UserPlace};
use std::fmt;

impl fmt::Display for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = self.kind();
        match self {
            Probe::SystemCall { name } | Probe::RawTracepoint { name } => {
                write!(f, "{kind}:{name}")
            }
            Probe::Tracepoint { subsystem, name } => match is_subsystem(subsystem) {
                true => write!(f, "{subsystem}:{name}"),
                false => write!(f, "{kind}:{subsystem}:{name}"),
            },
            Probe::Process(moment) => write!(f, "{kind}:{moment}"),
            Probe::KernelFunction { function, offset, .. } => {
                write!(f, "{kind}:{function}")?;
                put_offset(f, *offset)
            }
            Probe::UserInstruction { program, place } => {
                write!(f, "{kind}:{}:", ProgramText(program))?;
                match place {
                    UserPlace::Function { symbol, offset } => {
                        f.write_str(symbol)?;
                        put_offset(f, *offset)
                    }
                    UserPlace::Address(address) => write!(f, "{address:#x}"),
                }
            }
            Probe::UserReturn { program, symbol } => {
                write!(f, "{kind}:{}:{symbol}", ProgramText(program))
            }
            Probe::Usdt { program, provider, name } => {
                write!(f, "{kind}:{}:{provider}:{name}", ProgramText(program))
            }
            Probe::Timer(rate) => write!(f, "{kind}:{rate}"),
        }
    }
}

impl fmt::Display for ProcessMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProcessMoment::Fork => "fork",
            ProcessMoment::Exec => "exec",
            ProcessMoment::Exit => "exit",
        })
    }
}

impl fmt::Display for TimerRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TimerRate::Hertz(hertz) => write!(f, "{hertz}hz"),
            TimerRate::Period(period) => match period.as_micros() {
                micros if micros % 1_000_000 == 0 => write!(f, "{}s", micros / 1_000_000),
                micros if micros % 1_000 == 0 => write!(f, "{}ms", micros / 1_000),
                micros => write!(f, "{micros}us"),
            },
        }
    }
}

fn put_offset(f: &mut fmt::Formatter<'_>, offset: u64) -> fmt::Result {
    match offset {
        0 => Ok(()),
        offset => write!(f, "+{offset}"),
    }
}

/// Program's path or name, in quotes if it would else be read differently.
struct ProgramText<'t>(&'t str);

impl fmt::Display for ProgramText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ProgramText(program) = self;
        if is_plain_program(program) {
            return f.write_str(program);
        }
        write!(f, "\"{}\"", program.replace('\\', "\\\\").replace('"', "\\\""))
    }
}
