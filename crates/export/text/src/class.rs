//! Severities of event classes, and tables indexed by class, trace or stream.

use blkkin_ctf::schema::{Schema, StreamClass};

/// Returns the severity of a log level in the metadata; `None` if there is no level, or if the
/// level is not one of the fifteen severities.
pub(crate) fn severity(level: Option<i64>) -> Option<blkkin_filter::Severity> {
    blkkin_filter::Severity::from_number(level?.try_into().ok()?)
}

/// Returns the entry at `index` of a list. A list that is too short grows with default entries.
#[inline(always)]
pub(crate) fn entry<T: Default>(list: &mut Vec<T>, index: usize) -> &mut T {
    if list.len() <= index {
        list.resize_with(index + 1, T::default);
    }
    &mut list[index]
}

/// Creates an empty table, indexed by stream class and event class.
pub(crate) fn by_class<T>(schema: &Schema) -> Vec<Vec<Option<T>>> {
    let stream_row = |class: &StreamClass| class.events.iter().map(|_| None).collect();
    schema.streams.iter().map(stream_row).collect()
}
