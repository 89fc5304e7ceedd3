//! Faults that tests plant, to see that they would find them.

use std::cell::Cell;

/// A fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// Payloads are believed whatever their CRC is.
    PayloadCrcSkipped,
    /// A batch is acknowledged, and not written.
    WriteSkipped,
}

thread_local! {
    static PLANTED: Cell<Option<Plant>> = const { Cell::new(None) };
}

/// Plants it in this thread, for as long as `run` runs.
pub(crate) fn with<T>(plant: Plant, run: impl FnOnce() -> T) -> T {
    /// Also if `run` panics, as it should.
    struct Uproot;
    impl Drop for Uproot {
        fn drop(&mut self) {
            PLANTED.set(None);
        }
    }
    PLANTED.set(Some(plant));
    let _uproot = Uproot;
    run()
}

pub(crate) fn is(plant: Plant) -> bool {
    PLANTED.get() == Some(plant)
}
