//! Progress line of a long reading, on the terminal.

use blkkin_reader::Progress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// Progress line that is shown until dropped.
#[derive(Debug)]
pub(crate) struct ProgressLine {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Delay before the line is shown; shorter work shows no line.
const PATIENCE: Duration = Duration::from_millis(1000);
const INTERVAL: Duration = Duration::from_millis(200);

impl ProgressLine {
    /// Shows `progress` towards `total` bytes if standard error is a terminal. With `quiet`,
    /// nothing is shown, as output goes to the same terminal.
    pub(crate) fn start(progress: Arc<Progress>, total: u64, quiet: bool) -> ProgressLine {
        let looked_at = Arc::clone(&progress);
        let bytes = move || looked_at.bytes.load(Ordering::Relaxed);
        let message = move || format!("{} events", progress.events.load(Ordering::Relaxed));
        ProgressLine::show(bytes, message, total, quiet)
    }

    /// Shows how many of `total` bytes have been processed, according to the counter `done`.
    pub(crate) fn of_bytes(done: Arc<AtomicU64>, total: u64) -> ProgressLine {
        ProgressLine::show(move || done.load(Ordering::Relaxed), String::new, total, false)
    }

    fn show(
        bytes: impl Fn() -> u64 + Send + 'static,
        message: impl Fn() -> String + Send + 'static,
        total: u64,
        quiet: bool,
    ) -> ProgressLine {
        if quiet || !std::io::stderr().is_terminal() {
            return ProgressLine { stop: None, thread: None };
        }
        let (stop, stopped) = mpsc::channel::<()>();
        let thread = thread::spawn(move || {
            if stopped.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template(
                "{bar:30} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {msg}  \
                 {eta} left",
            );
            if let Ok(style) = style {
                bar.set_style(style);
            }
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(bytes().min(total));
                bar.set_message(message());
            }
            bar.finish_and_clear();
        });
        ProgressLine { stop: Some(stop), thread: Some(thread) }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
