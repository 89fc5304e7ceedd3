//! SQL over the files of a store: the tables [`TABLES`], asked by [`run`], within limits of time and memory.
//!
//! This is the only crate that knows DataFusion. What it costs is in `docs/sql.md`.

mod error;
mod files;
mod functions;
mod guard;
mod otlp;
mod print;
mod run;
mod table;
mod tags;
mod views;

pub use error::{Error, Place};
pub use print::{Format, Printer};
pub use run::{Options, Summary, run};
pub use views::{Column, EXAMPLES, Example, TABLES, Table};
