//! Patterns of names of functions and raw tracepoints, with `*` for any number of characters. Each
//! match is a probe of its own.

use crate::btf::{Btf, Parameter};
use crate::error::{Error, ProbeRefusal};
use crate::function_point::FunctionPoint;
use crate::tracefs::TraceFs;
use blkkin_filter::Glob;
use std::collections::BTreeMap;

/// Maximum number of matches. Each has a program, which the kernel checks when it is attached.
const MATCHES_MAX: usize = 256;
/// Maximum number of words in the arguments of functions to which programs with types attach, on
/// kernels before Linux 6.6.
const WORDS_MAX: u32 = 6;
/// Maximum size in bytes of an argument of such functions.
const ARGUMENT_SIZE_MAX: u32 = 16;

impl FunctionPoint {
    /// Returns the points whose names match, in alphabetical order, if the name has a `*`;
    /// otherwise the point itself. Functions that cannot be traced, and names that several
    /// functions have, do not match. Fails if there is no match, or if there are more than 256.
    pub fn matches(&self, btf: &Btf, tracefs: &TraceFs) -> Result<Vec<FunctionPoint>, Error> {
        let pieces: Vec<&str> = self.name().split('*').collect();
        let Some(pattern) = Glob::new(&pieces) else { return Ok(vec![self.clone()]) };
        let refused = |refusal| Error::Probe { probe: self.to_string(), refusal };
        let is_match = |name: &str| pattern.matches(name.as_bytes());
        let mut names: Vec<String> = match self {
            FunctionPoint::RawTracepoint(_) => {
                btf.raw_tracepoints().filter(|name| is_match(name)).map(str::to_owned).collect()
            }
            FunctionPoint::Kprobe { offset: 1.., .. } => {
                return Err(refused(ProbeRefusal::OffsetOfMany));
            }
            _ => unique(&tracefs.traceable_functions()?, is_match),
        };
        if matches!(self, FunctionPoint::Entry(_) | FunctionPoint::Exit(_)) {
            names.retain(|name| is_attachable(btf, name));
        }
        names.sort_unstable();
        names.dedup();
        match names.len() {
            0 => Err(refused(self.missing())),
            1..=MATCHES_MAX => Ok(names.into_iter().map(|name| self.with_name(name)).collect()),
            count => Err(refused(ProbeRefusal::TooManyMatches { count, max: MATCHES_MAX })),
        }
    }

    fn with_name(&self, name: String) -> FunctionPoint {
        match self {
            FunctionPoint::RawTracepoint(_) => FunctionPoint::RawTracepoint(name),
            FunctionPoint::Entry(_) => FunctionPoint::Entry(name),
            FunctionPoint::Exit(_) => FunctionPoint::Exit(name),
            FunctionPoint::Kprobe { offset, .. } => {
                FunctionPoint::Kprobe { function: name, offset: *offset }
            }
            FunctionPoint::Kretprobe(_) => FunctionPoint::Kretprobe(name),
        }
    }
}

/// Returns the names in a list of the kernel's functions that match and that one function has.
fn unique(list: &str, is_match: impl Fn(&str) -> bool) -> Vec<String> {
    let mut counts = BTreeMap::new();
    // Functions of modules have the module's name after a space.
    for name in list.lines().filter(|line| !line.contains([' ', '\t']) && is_match(line)) {
        *counts.entry(name).or_insert(0u32) += 1;
    }
    counts.into_iter().filter(|(_, count)| *count == 1).map(|(name, _)| name.to_owned()).collect()
}

/// Returns true if a program with types can attach to a function on each kernel.
fn is_attachable(btf: &Btf, name: &str) -> bool {
    let Some(function) = btf.function(name).filter(|function| !function.is_variadic()) else {
        return false;
    };
    let size = |parameter: &Parameter| parameter.form.size();
    let words: u32 = function.parameters.iter().map(|one| size(one).div_ceil(8).max(1)).sum();
    words <= WORDS_MAX && function.parameters.iter().all(|one| size(one) <= ARGUMENT_SIZE_MAX)
}

#[cfg(test)]
mod tests {
    use super::unique;

    #[test]
    fn functions_of_modules_and_ambiguous_names_do_not_match() {
        let list = "vfs_read\nvfs_write\nread\nvfs_read [fs]\nvfs_write\nvfs_open\n";
        assert_eq!(unique(list, |name| name.starts_with("vfs_")), ["vfs_open", "vfs_read"]);
    }
}
