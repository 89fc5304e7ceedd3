//! Source of process state that no event described.

/// Source of the current state of processes. A [`crate::Tracker`] calls it for state that is absent
/// from the events, and caches the results.
pub trait Lookup {
    /// Returns the name of a process (its `comm`).
    fn name(&mut self, pid: u32) -> Option<String>;
    /// Returns the path of a descriptor, or a description such as `socket:[123]`.
    fn path(&mut self, pid: u32, fd: i32) -> Option<String>;
    /// Returns the working directory of a process.
    fn directory(&mut self, pid: u32) -> Option<String>;
}

/// Lookup without results, for traces whose processes have ended or run elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoLookup;

impl Lookup for NoLookup {
    fn name(&mut self, _: u32) -> Option<String> {
        None
    }

    fn path(&mut self, _: u32, _: i32) -> Option<String> {
        None
    }

    fn directory(&mut self, _: u32) -> Option<String> {
        None
    }
}
