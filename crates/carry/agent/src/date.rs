//! Dates as they are in names of traces, and in traces.

use jiff::Zoned;

/// `20261121-174501`, as LTTng has it in names of directories.
pub(crate) fn for_names(time: &Zoned) -> String {
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

/// The present, as in names of traces: `20261121-174501`.
pub fn now() -> String {
    for_names(&Zoned::now())
}

/// `20261121T174501+0000`, as LTTng has it in a trace's environment.
pub(crate) fn for_environment(time: &Zoned) -> String {
    time.strftime("%Y%m%dT%H%M%S%z").to_string()
}
