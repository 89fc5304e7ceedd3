//! What the system lets the process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit of open descriptors to the most that the system permits. Returns the limit in force.
pub(crate) fn raise_descriptors() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let limit = if raised.is_ok() { maximum } else { current };
    limit.unwrap_or(u64::MAX)
}
