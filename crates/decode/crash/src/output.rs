//! Directories of traces that are written: metadata, and a file of packets for each channel and
//! ring.

use blkkin_ring::packet::Header;
use std::fs::{DirBuilder, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Maximum number that is appended to the name of a trace whose name exists.
const SAME_NAME_MAX: u32 = 100_000;
/// Maximum size of the part of a trace's name that is a program's name, in bytes.
const PROGRAM_SIZE_MAX: usize = 150;

/// The directory of a trace.
#[derive(Debug)]
pub(crate) struct TraceDirectory(PathBuf);

impl TraceDirectory {
    /// Makes a new directory `OUTPUT/SESSION/PROGRAM-PID`; if it exists, appends a number.
    pub(crate) fn create(
        output: &Path,
        session: &str,
        program: &str,
        pid: u32,
    ) -> io::Result<TraceDirectory> {
        let parent = output.join(name_of(session));
        DirBuilder::new().recursive(true).create(&parent)?;
        let name = format!("{}-{pid}", name_of(program));
        for number in 1..=SAME_NAME_MAX {
            let name = if number == 1 { name.clone() } else { format!("{name}-{number}") };
            let path = parent.join(name);
            match DirBuilder::new().create(&path) {
                Ok(()) => return Ok(TraceDirectory(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    pub(crate) fn write_metadata(&self, text: &str) -> io::Result<()> {
        File::create_new(self.0.join("metadata"))?.write_all(text.as_bytes())
    }

    /// Opens the file of a channel and ring.
    pub(crate) fn stream(&self, channel: &str, ring: usize) -> StreamFile {
        StreamFile { path: self.0.join(format!("{}_{ring}", name_of(channel))), file: None }
    }
}

/// File of packets, which is made for the first packet.
#[derive(Debug)]
pub(crate) struct StreamFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
}

impl StreamFile {
    pub(crate) fn write(&mut self, header: &Header, events: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => {
                let mut options = File::options();
                let file = options.create(true).append(true).open(&self.path)?;
                self.file.insert(BufWriter::new(file))
            }
        };
        file.write_all(&header.to_bytes())?;
        file.write_all(events)
    }

    pub(crate) fn finish(self) -> io::Result<()> {
        self.file.map_or(Ok(()), |mut file| file.flush())
    }
}

/// Returns a name of a file: a text without `/` and without a dot at its start.
fn name_of(text: &str) -> String {
    let mut name = text.replace(['/', '\0'], "_");
    let mut size = name.len().min(PROGRAM_SIZE_MAX);
    while !name.is_char_boundary(size) {
        size -= 1;
    }
    name.truncate(size);
    if name.is_empty() || name.starts_with('.') {
        name.insert(0, '_');
    }
    name
}
