//! Ctrl-C: the first one ends the work and keeps what was done, the second one ends the program. The end of the
//! terminal does the same.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
use std::ffi::c_int;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Whether the user wants an end.
#[derive(Clone, Debug)]
pub(crate) struct Interrupt {
    asked: Arc<AtomicBool>,
    noticed: Arc<OnceLock<Instant>>,
}

impl Interrupt {
    /// Starts to listen.
    pub(crate) fn listen() -> io::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in ending_signals() {
            // In this order: a signal that finds the flag set ends the program.
            flag::register_conditional_default(signal, asked.clone())?;
            flag::register(signal, asked.clone())?;
        }
        Ok(Interrupt { asked, noticed: Arc::default() })
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Whether that has been known for longer than this.
    pub(crate) fn is_asked_since(&self, time: Duration) -> bool {
        self.is_asked() && self.noticed.get_or_init(Instant::now).elapsed() >= time
    }
}

/// Returns the signals after which a program ends in good order. Under `nohup`, which has SIGHUP ignored, it outlives
/// its terminal.
pub(crate) fn ending_signals() -> impl Iterator<Item = c_int> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignores_hangup = ignores(&status, SIGHUP);
    [SIGINT, SIGTERM, SIGHUP].into_iter().filter(move |&signal| signal != SIGHUP || !ignores_hangup)
}

/// Whether `/proc/PID/status` says that a process ignores a signal.
fn ignores(status: &str, signal: c_int) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Lets a file that would get larger than the user's limit be an error of the writing, after which
/// things can be put in order, instead of the end of the program.
pub(crate) fn survive_full_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default())?;
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
