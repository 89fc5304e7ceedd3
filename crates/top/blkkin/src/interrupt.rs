//! Ctrl-C: the first one ends the work and keeps what was done, the second one ends the program.

use signal_hook::consts::{SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::flag;
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
        for signal in [SIGINT, SIGTERM] {
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

/// Lets a file that would get larger than the user's limit be an error of the writing, after which
/// things can be put in order, instead of the end of the program.
pub(crate) fn survive_full_files() -> io::Result<()> {
    flag::register(SIGXFSZ, Arc::default())?;
    Ok(())
}
