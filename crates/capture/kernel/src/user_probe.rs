//! Probes on code of programs: the instructions in a file that a probe's text means, and attaching
//! programs to them.

use crate::chosen::ChosenCode;
use crate::error::Error;
use crate::event_type::EventTypes;
use crate::filter_code::{FilterCode, ScratchCode};
use crate::function_point::ProcessScope;
use crate::load::load;
use crate::probe::{Probe, UserPlace};
use crate::program::{Symbol, UserProgram, matches_pattern, resolve};
use crate::ring_code::RingCode;
use crate::user_code::{EventId, UserCode, filter_fields};
use crate::user_refusal::{INSTRUCTIONS_MAX, UserRefusal};
use crate::user_type::{
    UserValue, cut_name, entry_values, return_values, usdt_values, user_event_type,
};
use blkkin_control::EventType;
use blkkin_filter::{Filter, PseudoField};
use blkkin_sys::bpf::{AttachPoint, Link, UserInstruction};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Probe on instructions of a file, which are already found. It records all processes that have
/// mapped the file, or those of them that are chosen.
#[derive(Clone, Debug)]
pub struct UserProbe {
    /// Text of the probe.
    text: String,
    path: CString,
    scope: ProcessScope,
    is_return: bool,
    groups: Vec<Group>,
    /// Set if each instruction is attached on its own.
    is_single: bool,
    /// Filter of all events; `None` to record all.
    filter: Option<Filter>,
}

/// Instructions at which the same values are recorded.
#[derive(Clone, Debug)]
struct Group {
    values: Vec<UserValue>,
    targets: Vec<Target>,
}

impl Group {
    /// Returns the name of the first event.
    fn event(&self) -> &str {
        self.targets.first().map_or("", |target| &target.event)
    }

    /// Returns a group for each name of the events.
    fn by_event(&self) -> Vec<Group> {
        let mut by_event: BTreeMap<&str, Vec<Target>> = BTreeMap::new();
        for target in &self.targets {
            by_event.entry(&target.event).or_default().push(target.clone());
        }
        let group = |targets| Group { values: self.values.clone(), targets };
        by_event.into_values().map(group).collect()
    }
}

/// Instruction at which an event is recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Target {
    /// Name of the event.
    event: String,
    /// Offset in the file.
    offset: u64,
    /// Offset in the file of the counter of attached probes; 0 for none.
    counter: u64,
}

impl UserProbe {
    /// Finds the instructions of a probe whose kind is `uprobe`, `uretprobe` or `usdt`.
    pub fn find(probe: &Probe, scope: ProcessScope) -> Result<UserProbe, Error> {
        let refused = |refusal| Error::UserProbe { probe: probe.to_string(), refusal };
        let (Probe::UserInstruction { program, .. }
        | Probe::UserReturn { program, .. }
        | Probe::Usdt { program, .. }) = probe
        else {
            return Err(refused(UserRefusal::NotUser));
        };
        let path = resolve(program).map_err(|error| refused(UserRefusal::Resolve(error)))?;
        let file = UserProgram::open(&path).map_err(|error| refused(error.into()))?;
        let groups = groups(probe, &file, &event_prefix(probe, &path)).map_err(refused)?;
        let path = CString::new(path.as_os_str().as_bytes())
            .map_err(|_| refused(UserRefusal::Nothing("file")))?;
        let is_return = matches!(probe, Probe::UserReturn { .. });
        let text = probe.to_string();
        Ok(UserProbe { text, path, scope, is_return, groups, is_single: false, filter: None })
    }

    /// Records only the events that pass a filter. It can use the values, which are integers, and
    /// what all events have.
    pub fn set_filter(&mut self, filter: Filter) {
        // A program knows the name of its events only if they have the same.
        if filter.operands().iter().any(|one| one.pseudo() == Some(PseudoField::Name)) {
            self.groups = self.groups.iter().flat_map(Group::by_event).collect();
        }
        self.filter = Some(filter);
    }

    /// Returns true if the probe has a filter.
    pub(crate) fn has_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Returns the code of the filter for a group; `None` if the probe has no filter.
    fn filter_code(
        &self,
        group: &Group,
        scratch: Option<ScratchCode>,
    ) -> Result<Option<FilterCode>, Error> {
        let Some(filter) = &self.filter else { return Ok(None) };
        let scratch = scratch.ok_or_else(|| Error::FilterWithoutEvent(self.text.clone()))?;
        let code = FilterCode::new(filter, &filter_fields(group.event(), &group.values), scratch);
        let refused = |error| Error::Filter { event: self.text.clone(), error: Box::new(error) };
        code.map(Some).map_err(refused)
    }

    /// Attaches each instruction on its own, as kernels before Linux 6.6 need it. This takes a
    /// program and a descriptor for each instruction.
    pub fn with_single_attachments(self) -> UserProbe {
        UserProbe { is_single: true, ..self }
    }

    /// Returns the descriptions of the events, without ids.
    pub(crate) fn event_types(&self) -> impl Iterator<Item = EventType> {
        self.groups.iter().flat_map(|group| {
            group.targets.iter().map(|target| user_event_type(&target.event, &group.values))
        })
    }

    /// Returns the names of the events, in the order of the file; a name for each instruction.
    pub fn events(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().flat_map(|group| &group.targets).map(|target| &*target.event)
    }
}

/// Returns the start of the names of a probe's events: the kind and the name of the program.
fn event_prefix(probe: &Probe, path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    format!("{}:{}", probe.kind(), name.to_string_lossy())
}

fn groups(probe: &Probe, file: &UserProgram, prefix: &str) -> Result<Vec<Group>, UserRefusal> {
    match probe {
        Probe::UserInstruction { place: UserPlace::Function { symbol, offset }, .. } => {
            let targets = function_targets(file, prefix, symbol, *offset)?;
            Ok(vec![Group { values: entry_values(), targets }])
        }
        Probe::UserInstruction { place: UserPlace::Address(address), .. } => {
            let offset = file.code_offset(*address);
            let offset = offset.ok_or(UserRefusal::NoCode { address: *address })?;
            let event = cut_name(format!("{prefix}:{address:#x}"));
            let target = Target { event, offset, counter: 0 };
            Ok(vec![Group { values: entry_values(), targets: vec![target] }])
        }
        Probe::UserReturn { symbol, .. } => {
            let targets = function_targets(file, prefix, symbol, 0)?;
            Ok(vec![Group { values: return_values(), targets }])
        }
        Probe::Usdt { provider, name, .. } => usdt_groups(file, prefix, provider, name),
        _ => Err(UserRefusal::NotUser),
    }
}

/// Returns the instructions at a distance from the start of the functions that a pattern matches.
fn function_targets(
    file: &UserProgram,
    prefix: &str,
    pattern: &str,
    distance: u64,
) -> Result<Vec<Target>, UserRefusal> {
    let symbols = file.symbols(pattern)?;
    check_count(symbols.len(), "function")?;
    let target = |symbol: Symbol| {
        let Symbol { name, demangled, file_offset, size, .. } = symbol;
        if distance > 0 && distance >= size {
            return Err(UserRefusal::OutsideFunction { size });
        }
        let name = demangled.unwrap_or(name);
        let event = cut_name(match distance {
            0 => format!("{prefix}:{name}"),
            _ => format!("{prefix}:{name}+{distance}"),
        });
        let offset = file_offset.checked_add(distance);
        let offset = offset.ok_or(UserRefusal::OutsideFunction { size })?;
        Ok(Target { event, offset, counter: 0 })
    };
    symbols.into_iter().map(target).collect()
}

fn usdt_groups(
    file: &UserProgram,
    prefix: &str,
    provider: &str,
    name: &str,
) -> Result<Vec<Group>, UserRefusal> {
    let is_match = matches_pattern(provider, name);
    let mut probes = file.usdt()?;
    probes.retain(|probe| is_match(&probe.provider, &probe.name));
    check_count(probes.len(), "USDT probe")?;
    let mut groups: Vec<Group> = Vec::new();
    for probe in probes {
        let target = Target {
            event: cut_name(format!("{prefix}:{}:{}", probe.provider, probe.name)),
            offset: probe.file_offset,
            counter: probe.semaphore_offset.unwrap_or(0),
        };
        let values = usdt_values(&probe.arguments);
        match groups.iter_mut().find(|group| group.values == values) {
            Some(group) if group.targets.contains(&target) => {}
            Some(group) => group.targets.push(target),
            None => groups.push(Group { values, targets: vec![target] }),
        }
    }
    Ok(groups)
}

fn check_count(count: usize, subject: &'static str) -> Result<(), UserRefusal> {
    match count {
        0 => Err(UserRefusal::Nothing(subject)),
        1..=INSTRUCTIONS_MAX => Ok(()),
        _ => Err(UserRefusal::TooMany { count }),
    }
}

/// Loads and attaches the programs of a probe, and adds the types of its events to `types`.
/// `scratch` is for the filter.
pub(crate) fn attach(
    rings: &RingCode<'_>,
    chosen: ChosenCode,
    probe: &UserProbe,
    scratch: Option<ScratchCode>,
    types: &mut EventTypes,
) -> Result<Vec<Link>, Error> {
    let mut links = Vec::new();
    for group in &probe.groups {
        let filter = probe.filter_code(group, scratch)?;
        if filter.as_ref().is_some_and(FilterCode::is_never) {
            continue;
        }
        let instruction = |target: &Target| {
            let cookie = types.add(user_event_type(&target.event, &group.values))?.into();
            Ok(UserInstruction { offset: target.offset, counter: target.counter, cookie })
        };
        let instructions: Vec<UserInstruction> =
            group.targets.iter().map(instruction).collect::<Result<_, Error>>()?;
        let chosen = chosen.for_scope(probe.scope);
        let filter = filter.as_ref().map(|filter| (filter, group.event()));
        let code = UserCode { rings, chosen, values: &group.values, filter };
        let together = (!probe.is_single).then(|| attach_together(probe, code, &instructions));
        match together {
            Some(Ok(link)) => links.push(link),
            Some(Err(error)) if error.is_permission() => return Err(error),
            // Kernels before Linux 6.6.
            _ => {
                let single = |instruction| attach_single(probe, code, instruction);
                for link in instructions.into_iter().map(single) {
                    links.push(link?);
                }
            }
        }
    }
    Ok(links)
}

/// Attaches one program to all instructions.
fn attach_together(
    probe: &UserProbe,
    code: UserCode<'_>,
    instructions: &[UserInstruction],
) -> Result<Link, Error> {
    // A constant saves the call of a helper at each event.
    let first = instructions.first().map_or(0, |instruction| instruction.cookie);
    let id = match instructions.iter().all(|instruction| instruction.cookie == first) {
        true => EventId::Constant(first as u16),
        false => EventId::Cookie,
    };
    let program = load(&probe.text, code.program(id), AttachPoint::UserInstructions)?;
    program
        .attach_to_user_instructions(&probe.path, instructions, probe.is_return)
        .map_err(|error| Error::Attach(probe.text.clone(), error))
}

/// Attaches a program to an instruction.
fn attach_single(
    probe: &UserProbe,
    code: UserCode<'_>,
    instruction: UserInstruction,
) -> Result<Link, Error> {
    let id = EventId::Constant(instruction.cookie as u16);
    let program = load(&probe.text, code.program(id), AttachPoint::UserInstruction)?;
    let refused = |refusal| Error::UserProbe { probe: probe.text.clone(), refusal };
    program.attach_to_user_instruction(&probe.path, instruction, probe.is_return).map_err(|error| {
        match error.kind() {
            io::ErrorKind::PermissionDenied => Error::Attach(probe.text.clone(), error),
            io::ErrorKind::Unsupported => refused(UserRefusal::NoUprobes),
            _ => refused(UserRefusal::NotProbed(error)),
        }
    })
}
