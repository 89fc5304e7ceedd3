//! Handling of Ctrl-C. The first signal ends the work and keeps the results so far, the second ends
//! the program. SIGTERM and the closing of the terminal (SIGHUP) have the same effect.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::ffi::c_int;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Flag set by the first terminating signal.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    noticed: Arc<OnceLock<Instant>>,
}

impl Interrupt {
    /// Installs handlers for the terminating signals, which set the flag.
    pub(crate) fn listen() -> io::Result<Interrupt> {
        let (asked, again) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for signal in ending_signals() {
            // A signal that arrives between these calls is noticed, and does not end the program.
            flag::register(signal, asked.clone())?;
            // A signal that finds the flag `again` set ends the program.
            flag::register_conditional_default(signal, again.clone())?;
            flag::register(signal, again.clone())?;
        }
        Ok(Interrupt { asked, noticed: Arc::default() })
    }

    /// Installs the same handlers, and returns a socket that becomes readable by the first signal.
    pub(crate) fn listen_on_socket() -> io::Result<UnixStream> {
        Interrupt::listen()?;
        let (told, tell) = UnixStream::pair()?;
        for signal in ending_signals() {
            signal_hook::low_level::pipe::register(signal, tell.try_clone()?)?;
        }
        Ok(told)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns true if at least `time` has passed since this function first found the flag set.
    pub(crate) fn is_set_since(&self, time: Duration) -> bool {
        self.is_set() && self.noticed.get_or_init(Instant::now).elapsed() >= time
    }
}

/// Returns the signals for graceful termination. An ignored SIGHUP, as under `nohup`, is not among
/// them, so that the program outlives its terminal.
pub(crate) fn ending_signals() -> impl Iterator<Item = c_int> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignores_hangup = ignores(&status, SIGHUP);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |&signal| signal != SIGHUP || !ignores_hangup)
}

/// Returns true if the text of `/proc/PID/status` lists a signal as ignored.
fn ignores(status: &str, signal: c_int) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Handles SIGXFSZ, so that a write beyond the user's file size limit fails and the command can
/// clean up, instead of being killed.
pub(crate) fn handle_file_size_signal() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}

/// Starts a thread that calls `act` whenever one of `signals` arrives.
pub(crate) fn on_signals(signals: &[i32], act: impl Fn() + Send + 'static) -> io::Result<()> {
    let (mut come, tell) = UnixStream::pair()?;
    for signal in signals {
        signal_hook::low_level::pipe::register(*signal, tell.try_clone()?)?;
    }
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let mut byte = [0];
        while come.read_exact(&mut byte).is_ok() {
            act();
        }
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{SIGHUP, SIGINT, ignores};

    #[test]
    fn ignored_signals_are_known() {
        let status = "Name:\tdemo\nSigBlk:\t0000000000000003\nSigIgn:\t0000000000001001\n";
        assert!(ignores(status, SIGHUP));
        assert!(!ignores(status, SIGINT));
        assert!(!ignores("", SIGHUP));
    }
}
