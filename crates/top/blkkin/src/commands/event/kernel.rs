//! Checks of events of the kernel before rules for them are sent: their text, and whether this
//! machine has them.

use crate::exit::Error;
use blkkin_kernel::{Listing, Probe, ProbeError};

/// Prefixes of events that BlkKin defines; [`Probe`] does not parse them.
const BLKKIN_EVENTS: [&str; 2] = ["request:", "state:"];
/// Kinds of probes whose pattern may select events that are in no list.
const UNLISTED: [&str; 6] = ["kretprobe:", "fexit:", "uretprobe:", "uprobe:", "usdt:", "profile:"];

/// Fails for a pattern that is no probe, and for one that matches none of this machine's. Patterns
/// that this user cannot look up are left to the agent.
pub(super) fn check(patterns: &[String]) -> Result<(), Error> {
    let listing = Listing::new();
    patterns.iter().try_for_each(|pattern| check_one(&listing, pattern))
}

fn check_one(listing: &Listing, pattern: &str) -> Result<(), Error> {
    // A star may stand for the kind, or for all moments of processes.
    let is_text = pattern != "process:*"
        && !BLKKIN_EVENTS.iter().any(|start| pattern.starts_with(start))
        && pattern.split_once(':').is_some_and(|(kind, _)| !kind.contains('*'));
    if is_text && let Err(error) = pattern.parse::<Probe>() {
        let error: ProbeError = error;
        return Err(Error::usage(error.to_string()).hint("`blkkin probe ls` lists probes"));
    }
    if UNLISTED.iter().any(|kind| pattern.starts_with(kind)) {
        return Ok(());
    }
    let found = listing.find(pattern);
    if !found.probes.is_empty() || !found.inabilities.is_empty() {
        return Ok(());
    }
    let near = listing.nearest(pattern);
    let near: Vec<String> = near.iter().map(|name| format!("`{name}`")).collect();
    let hint = match &near[..] {
        [] => "`blkkin probe ls` lists what there is".to_owned(),
        near => format!("did you mean {}?", near.join(" or ")),
    };
    Err(Error::failed(format!("this machine has no event `{pattern}`")).hint(hint))
}
