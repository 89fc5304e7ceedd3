//! Default directories for persistent state and configuration.

use std::env;
use std::path::PathBuf;

/// Returns the state directory with the name `of`: in `/var/lib/blkkin` for root, else below
/// `XDG_STATE_HOME` or the user's home; `None` if neither is known.
pub(crate) fn state_directory(of: &str) -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if blkkin_sys::user_id() == 0 {
        return Some(PathBuf::from("/var/lib/blkkin").join(of));
    }
    let home = || set("HOME").map(|home| home.join(".local/state"));
    set("XDG_STATE_HOME").or_else(home).map(|state| state.join("blkkin").join(of))
}

/// Returns the directory of configuration files: `/etc/blkkin` for root, else below
/// `XDG_CONFIG_HOME` or the user's home; `None` if neither is known.
pub(crate) fn configuration_directory() -> Option<PathBuf> {
    let set = |name| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if blkkin_sys::user_id() == 0 {
        return Some(PathBuf::from("/etc/blkkin"));
    }
    let home = || set("HOME").map(|home| home.join(".config"));
    set("XDG_CONFIG_HOME").or_else(home).map(|all| all.join("blkkin"))
}
