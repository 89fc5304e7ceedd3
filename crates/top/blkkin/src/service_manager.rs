//! Messages to the service manager, such as systemd, if it has started this process.

/// Tells the manager in which state the process is. Calls `warn` with a line if that fails.
pub(crate) fn notify(state: &str, warn: impl FnOnce(&str)) {
    let manager = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty());
    if let Some(manager) = manager
        && let Err(error) = blkkin_sys::notify(&manager, state)
    {
        warn(&format!("cannot tell the service manager {state}: {error}"));
    }
}
