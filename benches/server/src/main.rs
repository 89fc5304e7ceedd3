//! Client of `cargo xtask bench server`: sends spans, searches for them, and queries the server.
//! The first argument is the command, the second a JSON object of parameters; results are JSON on
//! standard output.
//!
//! - `ingest`: sends batches in one format ([`ingest`]).
//! - `visible`: measures the time until a sent span is found ([`ingest_delay`]).
//! - `questions`: prints questions about sent spans ([`query_generator`]); `ask` sends them
//!   ([`query_client`]).
//! - `files`: measures a store's disk usage ([`files`]), also for `cargo xtask bench blockstack`.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program that says what it measured on standard output"
)]

mod arguments;
mod base64;
mod figures;
mod files;
mod format;
mod grpc;
mod http;
mod ingest;
mod ingest_delay;
mod numbers;
mod pool;
mod query_client;
mod query_generator;
mod run;
mod template;

use arguments::Arguments;
use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [what, arguments] = &words[..] else { return Err("see the source".into()) };
    let arguments = Arguments::parse(arguments)?;
    match what.as_str() {
        "ingest" => println!("{}", ingest::run(&arguments)?),
        "visible" => println!("{}", ingest_delay::run(&arguments)?),
        "ask" => query_client::run(&arguments)?,
        "files" => println!("{}", files::run(&arguments)?),
        "questions" => {
            let mut out = std::io::BufWriter::new(std::io::stdout().lock());
            for question in query_generator::run(&arguments)? {
                writeln!(out, "{question}")?;
            }
            out.flush()?;
        }
        other => return Err(format!("no `{other}`; see the source").into()),
    }
    Ok(())
}
