//! Paths of the sockets by which `blkkin io apps` talks to running recordings, and limits for both
//! sides.

use std::path::PathBuf;
use std::time::Duration;

/// Maximum size of a request or an answer, in bytes.
pub(super) const LINE_SIZE_MAX: u64 = 64 << 10;
/// Maximum time to wait for the peer.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Returns the folder of the sockets of this user.
pub(super) fn folder() -> PathBuf {
    if blkkin_sys::user_id() == 0 {
        return "/run/blkkin/io".into();
    }
    let given = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let runtime = given.filter(|path| path.is_absolute());
    let runtime = runtime.unwrap_or_else(|| format!("/run/user/{}", blkkin_sys::user_id()).into());
    runtime.join("blkkin/io")
}
