//! Functions and USDT probes of programs, whose names begin with that of the program.

use super::kind::ProbeKind;
use super::pattern::matcher;
use super::probe::{ListedArgument, ListedProbe};
use crate::inability::{Inability, InabilityKind};
use crate::program::{ProgramError, ProgramErrorKind, UsdtArgument, UserProgram, resolve};
use std::collections::BTreeMap;
use std::io;

/// Finds the functions or USDT probes of the program that the pattern names.
pub(super) fn find(kind: ProbeKind, pattern: &str) -> Result<Vec<ListedProbe>, Inability> {
    let (name, rest) = split(kind, pattern).ok_or_else(|| {
        let word = kind.word();
        Inability::absent(format!("name a program and its probes, as in `{word}:bash:*`"))
    })?;
    let path = resolve(name).map_err(|error| Inability::absent(error.to_string()))?;
    let program = UserProgram::open(&path).map_err(inability)?;
    match kind {
        ProbeKind::Usdt => usdt(&program, name, pattern),
        _ => functions(&program, name, rest),
    }
}

/// Splits a pattern into the program and the rest. The program is a name, a path, or `pid:PID`;
/// it has neither `*` nor, otherwise, a colon.
fn split(kind: ProbeKind, pattern: &str) -> Option<(&str, &str)> {
    let text = pattern.strip_prefix(kind.word())?.strip_prefix(':')?;
    let start = if text.starts_with("pid:") { "pid:".len() } else { 0 };
    let end = start + text.get(start..)?.find(':')?;
    let (program, rest) = (text.get(..end)?, text.get(end + 1..)?);
    (!program.is_empty() && !program.contains('*')).then_some((program, rest))
}

fn functions(
    program: &UserProgram,
    name: &str,
    pattern: &str,
) -> Result<Vec<ListedProbe>, Inability> {
    let symbols = program.symbols(pattern).map_err(inability)?;
    // Several functions may have the same name.
    let mut found = BTreeMap::new();
    for symbol in symbols {
        let name = format!("uprobe:{name}:{}", symbol.name);
        let demangled = symbol.demangled;
        found.entry(name).or_insert(demangled);
    }
    let probe = |(name, demangled)| ListedProbe {
        demangled,
        ..ListedProbe::new(ProbeKind::UserFunction, name)
    };
    Ok(found.into_iter().map(probe).collect())
}

fn usdt(program: &UserProgram, name: &str, pattern: &str) -> Result<Vec<ListedProbe>, Inability> {
    let is_match = matcher(pattern);
    // A probe has an entry for each of its locations, with arguments of the same types.
    let mut found = BTreeMap::new();
    for probe in program.usdt().map_err(inability)? {
        let name = format!("usdt:{name}:{}:{}", probe.provider, probe.name);
        if is_match(&name) {
            let arguments = probe.arguments.iter().enumerate();
            let argument =
                |(index, one)| ListedArgument::new(format!("arg{index}"), usdt_type(one));
            found.entry(name).or_insert_with(|| arguments.map(argument).collect());
        }
    }
    let probe = |(name, usdt_arguments)| ListedProbe {
        usdt_arguments,
        ..ListedProbe::new(ProbeKind::Usdt, name)
    };
    Ok(found.into_iter().map(probe).collect())
}

/// Returns the type of a USDT argument. Compilers record only its size and its sign; a pointer is
/// an integer of 8 bytes.
fn usdt_type(argument: &UsdtArgument) -> &'static str {
    match (argument.is_float, argument.is_signed, argument.size) {
        (true, _, 4) => "float",
        (true, ..) => "double",
        (_, true, 1) => "int8_t",
        (_, true, 2) => "int16_t",
        (_, true, 4) => "int32_t",
        (_, true, _) => "int64_t",
        (_, _, 1) => "uint8_t",
        (_, _, 2) => "uint16_t",
        (_, _, 4) => "uint32_t",
        _ => "uint64_t",
    }
}

fn inability(error: ProgramError) -> Inability {
    let kind = match error.kind() {
        ProgramErrorKind::Open(cause) | ProgramErrorKind::Read { error: cause, .. }
            if cause.kind() == io::ErrorKind::PermissionDenied =>
        {
            InabilityKind::NoRight
        }
        ProgramErrorKind::Open(_) | ProgramErrorKind::Read { .. } => InabilityKind::Failed,
        _ => InabilityKind::Absent,
    };
    Inability { kind, reason: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_in_patterns() {
        let check = |pattern: &str, expected: Option<(&str, &str)>| {
            let kind = pattern.split(':').next().and_then(ProbeKind::of_word).expect("a kind");
            assert_eq!(split(kind, pattern), expected, "{pattern}");
        };
        check("uprobe:bash:read*", Some(("bash", "read*")));
        check("uprobe:/bin/a:std::vec::*", Some(("/bin/a", "std::vec::*")));
        check("usdt:pid:1234:libc:*", Some(("pid:1234", "libc:*")));
        check("usdt:pid:1234", None);
        check("usdt:bash", None);
        check("usdt:*:x", None);
        check("uprobe::x", None);
    }
}
