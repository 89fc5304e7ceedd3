//! Options of all benches. Each bench reads those that concern it.

use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The bench; without a name all benches are listed
    pub(super) name: Option<String>,
    /// Print one line of JSON on standard output, and all else on standard error
    #[arg(long)]
    pub(super) json: bool,
    /// Use smaller input and fewer runs: to see that it works, not for figures to quote
    #[arg(long)]
    pub(super) quick: bool,
    /// Use the largest inputs too (ctf: a trace of 10 GB; server: 50 million spans)
    #[arg(long)]
    pub(super) full: bool,
    /// Run only this phase (server: ingest, visible, evict, bytes, questions, zipkin, build; ui:
    /// trace, search, beside; blockstack: alone, chain, beside, bytes); can be given several times
    #[arg(long, value_name = "NAME")]
    pub(super) phase: Vec<String>,
    /// Millions of spans in the queried store (server: 1 and 10; ui: 10); can be given several
    /// times for server
    #[arg(long, value_name = "MILLION")]
    pub(super) spans: Vec<u64>,
    /// Number of measurements of each mode (blockstack: 11, `alone`: three times as many; probes:
    /// 5)
    #[arg(long, value_name = "COUNT")]
    pub(super) rounds: Option<usize>,
    /// Number of operations of each thread in a measurement (probes: 2 million)
    #[arg(long, value_name = "COUNT")]
    pub(super) count: Option<u64>,
    /// Duration of each measurement (blockstack: 0.5; `beside`: twice as long)
    #[arg(long, value_name = "SECONDS")]
    pub(super) seconds: Option<f64>,
    /// Measure this `blkkin` instead of building one (blockstack; probes; server: only phase
    /// `bytes`)
    #[arg(long, value_name = "PROGRAM")]
    pub(super) blkkin: Option<PathBuf>,
    /// Write the document with the results (blockstack: docs/evaluation.md)
    #[arg(long)]
    pub(super) write_docs: bool,
}
