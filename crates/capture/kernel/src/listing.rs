//! Lists of the probes that this machine has, by pattern, with their arguments. Start at
//! [`Listing`].
//!
//! ```text
//! syscall:openat            system call
//! block:block_rq_issue      tracepoint, SUBSYSTEM:EVENT
//! process:fork              start of a process; also process:exec and process:exit
//! request:wait              wait of a thread of a request; also request:disk
//! request:syscall:openat    system call of such a thread
//! state:process             processes, files, threads, maps and disks at the start
//! raw:sched_switch          raw tracepoint, with the kernel's own types
//! kprobe:vfs_unlink         function of the kernel, by a breakpoint
//! fentry:vfs_unlink         function of the kernel, with the types of its parameters
//! uprobe:PROGRAM:SYMBOL     function of a program or library
//! usdt:PROGRAM:PROVIDER:NAME  probe that a program's authors have put in
//! profile:HZ                clock of each processor
//! ```
//!
//! A pattern matches whole names; `*` stands for any number of characters. Lists are read when a
//! pattern needs them.

mod arguments;
mod kind;
mod nearest;
mod pattern;
mod probe;
mod programs;

pub use kind::ProbeKind;
pub use probe::{ArgumentRole, ListedArgument, ListedProbe};

use pattern::matcher;

use crate::abilities;
use crate::btf::Btf;
use crate::call_type::REQUEST_CALL_PREFIX;
use crate::inability::{Inability, InabilityKind};
use crate::state::StateKind;
use crate::tracefs::TraceFs;
use crate::tracer::needs_explicit_pattern;
use crate::{process_code, request_code};
use std::cell::OnceCell;
use std::fs;

/// Maximum number of runs of a profile in a second that kernels permit by default.
const SAMPLE_RATE_MAX: u32 = 100_000;
/// Subsystem of the kernel's own records, to which no probe can be attached.
const NO_PROBES: &str = "ftrace";

/// Probes of this machine.
#[derive(Debug, Default)]
pub struct Listing {
    tracefs: OnceCell<Result<TraceFs, Inability>>,
    btf: OnceCell<Result<Btf, Inability>>,
    functions: OnceCell<Vec<String>>,
    typed_functions: OnceCell<Result<(), Inability>>,
}

/// Result of a search.
#[derive(Clone, Debug, Default)]
pub struct FoundProbes {
    /// Matching probes: by kind, and in alphabetical order.
    pub probes: Vec<ListedProbe>,
    /// Kinds that the pattern may have matched, but that cannot be listed.
    pub inabilities: Vec<(ProbeKind, Inability)>,
}

impl Listing {
    /// Creates a listing that has read nothing yet.
    pub fn new() -> Listing {
        Listing::default()
    }

    /// Finds the probes whose names the pattern matches.
    /// The word `tracepoint:` in front of a subsystem is optional.
    pub fn find(&self, pattern: &str) -> FoundProbes {
        let tracepoint = pattern.strip_prefix("tracepoint:");
        let pattern = tracepoint.unwrap_or(pattern);
        let mut found = FoundProbes::default();
        for kind in ProbeKind::ALL {
            let is_wanted = tracepoint.is_none() || kind == ProbeKind::Tracepoint;
            if !is_wanted || !kind.may_match(pattern) {
                continue;
            }
            match self.find_kind(kind, pattern) {
                Ok(probes) => found.probes.extend(probes),
                Err(inability) => found.inabilities.push((kind, inability)),
            }
        }
        found
    }

    fn find_kind(&self, kind: ProbeKind, pattern: &str) -> Result<Vec<ListedProbe>, Inability> {
        match kind {
            ProbeKind::UserFunction | ProbeKind::Usdt => match kind.is_named_by(pattern) {
                true => programs::find(kind, pattern),
                // Programs cannot be enumerated.
                false => Ok(Vec::new()),
            },
            ProbeKind::Profile => Ok(profiles(pattern)),
            _ => {
                let is_match = matcher(pattern);
                let is_asked = |name: &String| {
                    kind != ProbeKind::Request || !needs_explicit_pattern(name, pattern)
                };
                let names = self.names(kind)?.into_iter();
                let names = names.filter(|name| is_match(name) && is_asked(name));
                Ok(names.map(|name| ListedProbe::new(kind, name)).collect())
            }
        }
    }

    /// Returns the names of all probes of a kind, in alphabetical order. Kinds whose probes cannot
    /// be enumerated have none: functions and probes of programs, and profiles.
    pub fn names(&self, kind: ProbeKind) -> Result<Vec<String>, Inability> {
        let with_prefix = |names: &[String]| -> Vec<String> {
            names.iter().map(|name| format!("{}:{name}", kind.word())).collect()
        };
        match kind {
            ProbeKind::SystemCall => {
                let names = self.tracefs()?.system_call_names();
                names.map(|names| with_prefix(&names)).map_err(Inability::from)
            }
            ProbeKind::Tracepoint => self.tracepoints(),
            // The programs for these two kinds of probes need the kernel's types.
            ProbeKind::Process => {
                self.btf()?;
                Ok(sorted(process_code::event_types().map(|one| one.name).into_iter()))
            }
            ProbeKind::Request => {
                self.btf()?;
                let calls = self.tracefs()?.system_call_names()?.into_iter();
                let calls = calls.map(|call| format!("{REQUEST_CALL_PREFIX}{call}"));
                Ok(sorted(request_code::NAMES.map(str::to_owned).into_iter().chain(calls)))
            }
            ProbeKind::State => {
                let names = StateKind::ALL.map(|kind| kind.event_name().to_owned());
                Ok(sorted(names.into_iter()))
            }
            ProbeKind::RawTracepoint => {
                Ok(with_prefix(&sorted(self.btf()?.raw_tracepoints().map(str::to_owned))))
            }
            ProbeKind::KernelFunction => match abilities::has_kernel_functions() {
                true => Ok(with_prefix(self.functions()?)),
                false => {
                    Err(Inability::absent("the kernel was built without CONFIG_KPROBE_EVENTS"))
                }
            },
            ProbeKind::TypedFunction => Ok(with_prefix(&self.typed_functions()?)),
            ProbeKind::UserFunction | ProbeKind::Usdt | ProbeKind::Profile => Ok(Vec::new()),
        }
    }

    fn tracepoints(&self) -> Result<Vec<String>, Inability> {
        let events = self.tracefs()?.events()?;
        let is_listed =
            |subsystem: &str| subsystem != NO_PROBES && ProbeKind::of_word(subsystem).is_none();
        let events = events.iter().filter(|event| is_listed(&event.subsystem));
        Ok(events.map(|event| format!("{}:{}", event.subsystem, event.event)).collect())
    }

    /// Returns the functions with types that can have probes.
    fn typed_functions(&self) -> Result<Vec<String>, Inability> {
        let btf = self.btf()?;
        let attempt = self.typed_functions.get_or_init(|| abilities::typed_function(btf));
        match attempt {
            // Names are public, and root may be able to use them.
            Err(inability) if inability.kind == InabilityKind::NoRight => {}
            result => result.clone()?,
        }
        let traceable = self.traceable_functions();
        let is_traceable = |name: &&str| match &traceable {
            Some(names) => names.binary_search_by(|known| known.as_str().cmp(name)).is_ok(),
            None => true,
        };
        Ok(sorted(btf.functions().filter(is_traceable).map(str::to_owned)))
    }

    /// Returns the functions that can have probes by a breakpoint.
    fn functions(&self) -> Result<&[String], Inability> {
        if let Some(names) = self.functions.get() {
            return Ok(names);
        }
        let names = match self.traceable_functions() {
            Some(names) => names,
            None => {
                let text = fs::read_to_string("/proc/kallsyms").map_err(|error| {
                    Inability::of_call("/proc/kallsyms, the list of functions", &error)
                })?;
                sorted(functions_in(&text).map(str::to_owned))
            }
        };
        Ok(self.functions.get_or_init(|| names))
    }

    /// Returns the kernel's own list of functions; `None` if it has none for this process.
    fn traceable_functions(&self) -> Option<Vec<String>> {
        let list = self.tracefs().ok()?.traceable_functions().ok()?;
        // The name of a module follows the name of its function.
        let names = list.lines().filter_map(|line| line.split_ascii_whitespace().next());
        Some(sorted(names.map(str::to_owned))).filter(|names| !names.is_empty())
    }

    fn tracefs(&self) -> Result<&TraceFs, Inability> {
        let open = || TraceFs::open().map_err(Inability::from);
        self.tracefs.get_or_init(open).as_ref().map_err(Inability::clone)
    }

    fn btf(&self) -> Result<&Btf, Inability> {
        let read = || Btf::of_kernel().map_err(Inability::from);
        self.btf.get_or_init(read).as_ref().map_err(Inability::clone)
    }
}

/// Returns the maximum number of runs of a profile in a second.
pub fn sample_rate_max() -> u32 {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    text.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(SAMPLE_RATE_MAX)
}

/// Returns the form of profiles if the pattern matches it, or the profile that the pattern names.
fn profiles(pattern: &str) -> Vec<ListedProbe> {
    let kind = ProbeKind::Profile;
    let form = kind.example();
    let rate = pattern.strip_prefix("profile:");
    let rate = rate.map(|rate| rate.strip_suffix("hz").unwrap_or(rate));
    let rate = rate.and_then(|rate| rate.parse::<u32>().ok());
    let is_rate = rate.is_some_and(|rate| (1..=sample_rate_max()).contains(&rate));
    match is_rate {
        true => vec![ListedProbe::new(kind, pattern.to_owned())],
        false if matcher(pattern)(form) && kind.is_named_by(pattern) => {
            vec![ListedProbe::new(kind, form.to_owned())]
        }
        false => Vec::new(),
    }
}

/// Sorts names, and removes repeated ones.
fn sorted(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the functions in the text of `/proc/kallsyms`: address, type, name, and for functions of
/// modules the module.
fn functions_in(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter_map(|line| {
        let mut parts = line.split_ascii_whitespace().skip(1);
        let is_code = matches!(parts.next()?, "t" | "T" | "w" | "W");
        // Compilers give names with dots to parts of functions.
        parts.next().filter(|name| is_code && !name.contains('.'))
    })
}

#[cfg(test)]
mod tests;
