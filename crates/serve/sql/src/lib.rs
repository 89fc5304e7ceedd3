//! SQL queries on the files of a store: [`run()`] queries the tables [`TABLES`], within limits of
//! time and memory.
//!
//! This is the only crate that depends on DataFusion. `docs/sql.md` states the cost of the
//! dependency.

mod error;
mod files;
mod functions;
mod guard;
mod otlp;
mod own_time;
mod print;
mod removed_functions;
mod run;
mod table;
mod tags;
mod views;

pub use error::{Error, Position};
pub use print::{Format, Printer};
pub use run::{Options, Summary, run};
pub use views::{Column, EXAMPLES, Example, TABLES, Table};
