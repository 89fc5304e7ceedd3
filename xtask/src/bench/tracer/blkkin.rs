//! BlkKin as a candidate of the tracer bench. The measured program uses BlkKin's API for C or Rust,
//! or its layer for the tracing crate. Each run has a session of a running agent, except in
//! [`Mode::Off`]. Start at [`Blkkin`].

use super::candidate::{Delivery, Run, Tracer};
use super::case::{Case, Kind, Mode};
use super::program;
use super::recorded::{
    Event, KEYVAL_STRING, SUB_BUFFERS, delivery, large_sub_buffer_size, warm_ups,
};
use crate::bench::agent::Agent;
use crate::bench::blkkin;
use crate::bench::c::{Source, compile};
use crate::bench::recipe::{Output, Recipe, find_metadata};
use crate::tools::at;
use crate::tools::workspace_root;
use std::fs;
use std::path::{Path, PathBuf};

/// Size in bytes of one CPU's buffer with default options: 4 sub-buffers of 512 KiB.
const BUFFER_SIZE: u64 = 2 << 20;

/// Size of the header of BlkKin's events, in bytes.
const HEADER_SIZE: u64 = 10;

/// Packages that are built for the measured programs, in addition to `blkkin`.
pub(super) const PACKAGES: [&str; 2] = ["blkkin-capi", "blkkin-bench-tracer"];

/// API of BlkKin that a program uses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Language {
    C,
    Rust,
    /// The tracing crate with our layer.
    Tracing,
}

/// BlkKin as a tracer, with a program that uses one of its APIs.
pub(super) struct Blkkin<'a> {
    language: Language,
    agent: &'a Agent,
    program: PathBuf,
    /// Path of the program `blkkin`, by which events are counted.
    blkkin: String,
    output: Output,
}

impl<'a> Blkkin<'a> {
    /// Makes the candidate for C or Rust. A C program is built into `folder`; the Rust program is
    /// built already.
    pub(super) fn new(
        language: Language,
        agent: &'a Agent,
        folder: &Path,
        blkkin: &str,
    ) -> Result<Blkkin<'a>, String> {
        let program = match language {
            Language::C => folder.join("blkkin-c"),
            _ => blkkin::folder().join("blkkin-bench-kinds"),
        };
        if language == Language::C {
            compile_c(&program, &["tracer/harness.c", "tracer/blkkin/program.c"])?;
        }
        Blkkin::with_program(language, agent, &program, blkkin)
    }

    /// Makes the candidate for our layer, with a program that makes spans of the tracing crate.
    pub(super) fn layer(
        agent: &'a Agent,
        program: &Path,
        blkkin: &str,
    ) -> Result<Blkkin<'a>, String> {
        Blkkin::with_program(Language::Tracing, agent, program, blkkin)
    }

    fn with_program(
        language: Language,
        agent: &'a Agent,
        program: &Path,
        blkkin: &str,
    ) -> Result<Blkkin<'a>, String> {
        let output = Output::in_memory(&format!("{language:?}"))?;
        let (program, blkkin) = (program.to_owned(), blkkin.to_owned());
        Ok(Blkkin { language, agent, program, blkkin, output })
    }

    /// Runs the program in a session that records its events. Returns the cost, and the numbers of
    /// events by outcome.
    fn record(&self, case: &Case) -> Result<Run, String> {
        let event = event_of(case.kind, self.language)?;
        let mut buffer_size = BUFFER_SIZE;
        let mut sizes = Vec::new();
        if case.mode == Mode::Large {
            let sub_buffer_size = large_sub_buffer_size(case, &event);
            buffer_size = SUB_BUFFERS * sub_buffer_size;
            sizes = vec![sub_buffer_size.to_string(), SUB_BUFFERS.to_string()];
        }
        let options = ["--subbuf-size", "--num-subbuf"].into_iter().zip(&sizes);
        let output = self.output.0.join("session");
        let session = self.agent.session(&Recipe {
            output: &output,
            is_snapshot: case.mode == Mode::Overwrite,
            channel: &options.flat_map(|(name, size)| [name, size]).collect::<Vec<_>>(),
            event: event.name,
            contexts: &[],
        })?;
        let warm_ups = warm_ups(case.kind, &event, buffer_size);
        let cost = program::run(&mut self.agent.traced(&self.program), case, warm_ups)?;
        session.stop()?;
        if case.mode == Mode::Overwrite {
            session.snapshot()?;
        }
        session.destroy()?;
        let delivery = match find_metadata(&output) {
            Ok(trace) => delivery(&self.blkkin, case, &event, cost.events_tried, &trace)?,
            // If no event was recorded, there is no trace.
            Err(_) if cost.events_tried == 0 => Delivery::default(),
            Err(error) => return Err(format!("{case:?}: {error}")),
        };
        if output.exists() {
            fs::remove_dir_all(&output).map_err(at(&output))?;
        }
        Ok(Run { cost, delivery })
    }
}

/// Compiles a C program of the benches with the library `libblkkin`.
pub(super) fn compile_c(program: &Path, files: &[&str]) -> Result<(), String> {
    let include = workspace_root().join("crates/capture/capi/include");
    let folder = blkkin::folder().display().to_string();
    // Programs search for the library by its soname. The library is not installed, so a link with
    // that name is made.
    let library = format!("{folder}/libblkkin.so");
    let path = soname(&library)?;
    let named = Path::new(&folder).join(&path);
    let _ = fs::remove_file(&named);
    std::os::unix::fs::symlink("libblkkin.so", &named).map_err(at(&named))?;
    let path = format!("-Wl,-rpath,{folder}");
    let source = Source {
        folders: &["".as_ref(), "tracer".as_ref(), &include],
        files,
        libraries: &[&library, &path, "-lpthread"],
    };
    compile(program, &source)
}

/// Returns the soname in the file `library`.
fn soname(library: &str) -> Result<String, String> {
    let output = std::process::Command::new("objdump")
        .args(["-p", library])
        .output()
        .map_err(|error| format!("cannot start objdump: {error}; try `cargo xtask peers`"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = text.lines().find_map(|line| line.trim().strip_prefix("SONAME"));
    name.map(|name| name.trim().to_owned()).ok_or_else(|| format!("{library} has no name"))
}

impl Tracer for Blkkin<'_> {
    fn name(&self) -> &'static str {
        match self.language {
            Language::C => C,
            Language::Rust => RUST,
            Language::Tracing => LAYER,
        }
    }

    fn records(&self, kind: &Kind) -> bool {
        event_of(kind, self.language).is_ok()
    }

    fn run(&self, case: &Case) -> Result<Run, String> {
        if case.mode != Mode::Off {
            return self.record(case);
        }
        let cost = program::run(&mut self.agent.traced(&self.program), case, 0)?;
        Ok(Run { cost, delivery: Delivery::default() })
    }
}

// Names of the candidates in tables.
pub(super) const C: &str = "BlkKin, C";
pub(super) const RUST: &str = "BlkKin, Rust";
pub(super) const LAYER: &str = "BlkKin's layer";

/// Returns the event that a program in this language records for a kind of operation.
fn event_of(kind: &Kind, language: Language) -> Result<Event, String> {
    let annotation = Event { name: KEYVAL_STRING, size: HEADER_SIZE + 65, number: None };
    // The payload has six words, then a kind, flags and a port (6 bytes), and three names. The
    // names have 21 or 22 bytes in total without their terminators.
    let span = Event { name: "blkkin:span", size: HEADER_SIZE + 48 + 6 + 24, number: None };
    match (kind.name, language) {
        ("one", Language::Rust) => {
            Ok(Event { name: "bench:one", size: HEADER_SIZE + 4, number: Some("number") })
        }
        ("annotation" | "blkin-span", Language::C | Language::Rust)
        | ("blkin-annotation", Language::C) => Ok(annotation),
        ("span" | "unsampled-span" | "enter" | "unsampled-enter", Language::Rust) => Ok(span),
        ("run", Language::Rust) => {
            Ok(Event { name: "blkkin:run", size: HEADER_SIZE + 40, number: None })
        }
        // The payload has seven words, and strings of 4 and 6 bytes, each with a terminator.
        ("tracing-span", Language::Tracing) => {
            Ok(Event { name: "bench:write", size: HEADER_SIZE + 56 + 12, number: None })
        }
        (name, _) => Err(format!("there is no event for {name} in {language:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::tracer::recorded::tests::check_large_buffers;

    #[test]
    fn large_buffers_hold_a_run() {
        for language in [Language::C, Language::Rust, Language::Tracing] {
            check_large_buffers(|kind| event_of(kind, language).ok(), 84);
        }
    }
}
