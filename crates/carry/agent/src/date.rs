//! Formats of dates in names of traces and output directories, and in the environment of traces.

use jiff::Zoned;

/// Formats a time as LTTng does in names of directories: `20261121-174501`.
pub(crate) fn for_names(time: &Zoned) -> String {
    time.strftime("%Y%m%d-%H%M%S").to_string()
}

/// Returns the present time in the format of traces' names: `20261121-174501`.
pub fn now() -> String {
    for_names(&Zoned::now())
}

/// Formats a time as LTTng does in a trace's environment: `20261121T174501+0000`.
pub(crate) fn for_environment(time: &Zoned) -> String {
    time.strftime("%Y%m%dT%H%M%S%z").to_string()
}
