//! I/O operations as text: columns ([`ColumnPrinter`]), JSON lines ([`json`]), lines in the format
//! of app-trace, the tracer of the Rocks cluster distribution ([`app_trace`]), a table of a summary
//! ([`summary`]), and the sums of an interval on a screen ([`live`]). `cells` makes the texts that
//! they share; `disk` has requests to disks in all these forms.

mod app_trace;
mod cells;
mod columns;
mod disk;
mod json;
mod live;
mod members;
#[cfg(test)]
mod samples;
mod table;

pub use app_trace::app_trace;
pub use columns::ColumnPrinter;
pub use disk::disk_request_json;
pub use json::{SCHEMA, interval_json, json, json_begin, summary_json};
pub use live::{LiveOptions, LiveSums, Order, live};
pub use table::{SummaryOptions, summary};
