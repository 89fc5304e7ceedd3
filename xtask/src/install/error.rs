//! Errors of an installation. They keep their kind, because the remedy for a missing permission is
//! to install as root.

use std::io;
use std::path::Path;

/// Adds the path to an error without changing its kind.
pub(super) fn at(path: &Path) -> impl Fn(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), crate::tools::at(path)(error))
}
