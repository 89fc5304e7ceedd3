//! Event type of a system call.

use blkkin_trace::{EventType, Fields, Level};

/// Event type of a system call, with its number of fields.
#[derive(Debug)]
pub(crate) struct Call<const FIELDS: usize> {
    event: EventType,
}

impl<const FIELDS: usize> Call<FIELDS> {
    /// Returns the type for a name, `syscall:NAME`, and the names of all fields.
    pub(crate) const fn new(
        name: &'static str,
        fields: &'static [&'static str; FIELDS],
    ) -> Call<FIELDS> {
        Call { event: EventType::new(name, Level::Info, fields, ("", 0)) }
    }

    /// Returns the event type.
    pub(crate) const fn event(&'static self) -> &'static EventType {
        &self.event
    }

    /// Records a call that has returned.
    #[inline(always)]
    pub(crate) fn record<F: Fields>(&'static self, fields: F) {
        const { assert!(F::KINDS.len() == FIELDS, "a value for each field") };
        self.event.record(fields);
    }
}
