//! Processor time of processes with all their descendants.

use crate::process::Process;
use crate::tools::at;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Returns the processor time of the processes and of all their descendants that exist now, in
/// seconds.
pub(super) fn run_seconds(roots: &[u32]) -> Result<f64, String> {
    let parents = parents()?;
    let mut sum = 0.0;
    for &process in parents.keys() {
        let mut ancestor = Some(process);
        let is_meant = loop {
            match ancestor {
                Some(id) if roots.contains(&id) => break true,
                Some(id) => ancestor = parents.get(&id).copied().filter(|parent| *parent != id),
                None => break false,
            }
        };
        if is_meant {
            sum += Process(process).run_seconds()?;
        }
    }
    Ok(sum)
}

/// Returns the parent of each process.
fn parents() -> Result<HashMap<u32, u32>, String> {
    let proc = Path::new("/proc");
    let mut parents = HashMap::new();
    for entry in fs::read_dir(proc).map_err(at(proc))? {
        let entry = entry.map_err(at(proc))?;
        let Some(id) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // A process may end meanwhile.
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        parents.extend(parent_in(&stat).map(|parent| (id, parent)));
    }
    Ok(parents)
}

/// Parses field 4 of `/proc/PID/stat`. Field 2 is a name in parentheses that may contain any
/// characters.
fn parent_in(stat: &str) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parents_are_read() {
        assert_eq!(parent_in("7 (a) b) S 42 7 7 0 -1"), Some(42));
        assert_eq!(parent_in("7 (a"), None);
        let parents = parents().expect("processes");
        assert_eq!(parents.get(&std::process::id()), Some(&std::os::unix::process::parent_id()));
    }
}
