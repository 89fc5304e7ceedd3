//! Injects faults into the journal's code, to show that the tests detect such faults.

use std::cell::Cell;

/// Fault to inject into the journal's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// Missing CRC check: scans accept payloads without checking their CRC.
    PayloadCrcSkipped,
    /// Missing write: the writer acknowledges a batch that it has not written.
    WriteSkipped,
}

thread_local! {
    static INJECTED: Cell<Option<Injection>> = const { Cell::new(None) };
}

/// Injects the fault into this thread while `run` is executed.
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
