//! Fault injection, which shows that the tests would detect each of these faults.

use std::cell::Cell;

/// Fault to inject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    /// Payloads are accepted without a check of their CRC.
    PayloadCrcSkipped,
    /// A batch is acknowledged without being written.
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
