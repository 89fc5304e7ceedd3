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

/// Tells the manager again and again that the process goes on, if the manager wants that. `check`
/// returns only as long as it does. Calls `warn` with a line if that fails.
pub(crate) fn start_watchdog(
    check: impl Fn() + Send + 'static,
    warn: impl Fn(&str) + Send + Copy + 'static,
) {
    let Some(interval) = watchdog_interval() else { return };
    let work = move || {
        loop {
            check();
            notify(blkkin_sys::ALIVE, warn);
            std::thread::sleep(interval);
        }
    };
    if let Err(error) = std::thread::Builder::new().name("watchdog".to_owned()).spawn(work) {
        warn(&format!("the service manager's watchdog is not told anything: {error}"));
    }
}

/// Calls `warn` with a line for each socket of the manager that the daemon does not use.
pub(crate) fn warn_of_unused_sockets(warn: impl Fn(&str)) {
    for address in blkkin_sys::unused_inherited_sockets() {
        warn(&format!(
            "the service manager's socket at {address} is not used, since the options name another"
        ));
    }
}
