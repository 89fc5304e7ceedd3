//! Destinations of a recording's packets: the trace in memory that is shown, and the trace in a
//! directory.

use super::plan::Plan;
use crate::exit::Error;
use blkkin_reader::{LiveTrace, Source};
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Maximum size in bytes of packets that wait to be shown. Then events stay in the rings.
const WAITING_MAX: u64 = 64 << 20;

/// Destinations of packets.
#[derive(Default)]
pub(super) struct Sink {
    live: Option<LiveTrace>,
    files: Option<Files>,
}

impl Sink {
    /// Creates the destinations that a plan names. `rings_size` is the size in bytes of the
    /// kernel's rings.
    pub(super) fn create(
        plan: &Plan<'_>,
        metadata: &str,
        rings_size: usize,
    ) -> Result<Sink, Error> {
        let live = match plan.view.is_some() {
            true => Some(live_trace(metadata, rings_size).map_err(memory_error)?),
            false => None,
        };
        let files = match plan.output {
            Some(folder) => Some(Files::create(folder, metadata)?),
            None => None,
        };
        Ok(Sink { live, files })
    }

    /// Returns true if the packets are shown.
    pub(super) fn is_shown(&self) -> bool {
        self.live.is_some()
    }

    /// Returns the trace in memory as a source for a reader.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.live.iter().cloned().map(Source::Live).collect()
    }

    /// Returns the number of bytes in files.
    pub(super) fn file_bytes(&self) -> u64 {
        self.files.as_ref().map_or(0, |files| files.bytes)
    }

    pub(super) fn put(&mut self, stream: u64, packet: &[u8]) -> Result<(), Error> {
        if let Some(files) = &mut self.files {
            files.put(stream, packet)?;
        }
        if let Some(live) = &self.live {
            live.append_packet(stream, packet).map_err(memory_error)?;
        }
        Ok(())
    }

    /// Returns true while the packets that wait to be shown exceed [`WAITING_MAX`].
    pub(super) fn is_full(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.undelivered_bytes() > WAITING_MAX)
    }
}

/// Trace in a directory: a file for each stream.
struct Files {
    folder: PathBuf,
    streams: Vec<Option<File>>,
    bytes: u64,
}

impl Files {
    fn create(output: &Path, metadata: &str) -> Result<Files, Error> {
        if fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::failed(format!("`{}` is not empty", output.display()))
                .hint("give a directory that does not exist yet"));
        }
        let folder = output.join("kernel");
        let failed = |error: io::Error| {
            Error::failed(format!("cannot write to `{}`: {error}", folder.display()))
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("metadata"), metadata).map_err(failed)?;
        Ok(Files { folder, streams: Vec::new(), bytes: metadata.len() as u64 })
    }

    fn put(&mut self, stream: u64, packet: &[u8]) -> Result<(), Error> {
        let index = stream as usize;
        let failed = |error: io::Error| {
            Error::failed(format!("cannot write to `{}`: {error}", self.folder.display()))
        };
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        let file = match &mut self.streams[index] {
            Some(file) => file,
            none => {
                let path = self.folder.join(format!("channel0_{stream}"));
                none.insert(File::create_new(path).map_err(failed)?)
            }
        };
        file.write_all(packet).map_err(failed)?;
        self.bytes += packet.len() as u64;
        Ok(())
    }
}

fn live_trace(metadata: &str, rings_size: usize) -> io::Result<LiveTrace> {
    let live = LiveTrace::new("kernel")?;
    // A drain that begins below the maximum may add the contents of all rings, twice at the end.
    live.set_size_max(2 * (WAITING_MAX + rings_size as u64));
    live.append_metadata(metadata.as_bytes())?;
    Ok(live)
}

pub(super) fn memory_error(error: io::Error) -> Error {
    Error::failed(format!("cannot record: {error}"))
}
