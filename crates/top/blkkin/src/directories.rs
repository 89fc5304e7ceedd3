//! Where commands keep what must outlast them, if nobody says where.

use std::env;
use std::path::PathBuf;

/// The directory of one of them: with all of the machine's for root, else in the user's home, if there is one.
pub(crate) fn state_directory(of: &str) -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if blkkin_sys::user_id() == 0 {
        return Some(PathBuf::from("/var/lib/blkkin").join(of));
    }
    let home = || set("HOME").map(|home| home.join(".local/state"));
    set("XDG_STATE_HOME").or_else(home).map(|state| state.join("blkkin").join(of))
}
