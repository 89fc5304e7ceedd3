//! Result of attaching probes, for tests: some machines and users do not permit it.

use blkkin_kernel::Error;
use blkkin_sys::testing::skip;

/// Returns what was attached; `None`, with a message, if this machine or user does not permit it.
pub(crate) fn attached<T>(test: &str, result: Result<T, Error>) -> Option<T> {
    match result {
        Ok(attached) => Some(attached),
        Err(error) if matches!(error, Error::Load { .. }) && !error.is_permission() => {
            panic!("{error}")
        }
        Err(error) => {
            skip(test, &error.to_string());
            None
        }
    }
}
