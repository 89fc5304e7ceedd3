//! Messages to the service manager, such as systemd, if it has started this process.

use std::time::Duration;

/// Tells the manager in which state the process is. Calls `warn` with a line if that fails.
pub(crate) fn notify(state: &str, warn: impl FnOnce(&str)) {
    let manager = std::env::var_os("NOTIFY_SOCKET").filter(|socket| !socket.is_empty());
    if let Some(manager) = manager
        && let Err(error) = blkkin_sys::notify(&manager, state)
    {
        warn(&format!("cannot tell the service manager {state}: {error}"));
    }
}

/// Returns the interval at which the manager expects `WATCHDOG=1`, halved; `None` without one.
pub(crate) fn watchdog_interval() -> Option<Duration> {
    let number = |name| std::env::var(name).ok()?.parse::<u64>().ok();
    let is_own = number("WATCHDOG_PID").is_none_or(|pid| pid == u64::from(std::process::id()));
    let interval = number("WATCHDOG_USEC").filter(|interval| is_own && *interval > 0)?;
    Some(Duration::from_micros(interval / 2))
}
