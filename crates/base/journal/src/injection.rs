//! Injection of faults into the journal's code, which shows that the tests would detect these
//! faults.

use std::cell::Cell;

/// Fault to inject into the journal's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// The reader accepts payloads without a check of their CRC.
    PayloadCrcSkipped,
    /// The writer acknowledges a batch without writing it.
    WriteSkipped,
}

thread_local! {
    static INJECTED: Cell<Option<Injection>> = const { Cell::new(None) };
}

/// Injects the fault into this thread while `run` runs.
pub(crate) fn inject<T>(fault: Injection, run: impl FnOnce() -> T) -> T {
    /// Guard that ends the injection, also if `run` panics.
    struct Reset;
    impl Drop for Reset {
        fn drop(&mut self) {
            INJECTED.set(None);
        }
    }
    INJECTED.set(Some(fault));
    let _reset = Reset;
    run()
}

pub(crate) fn is_active(fault: Injection) -> bool {
    INJECTED.get() == Some(fault)
}
