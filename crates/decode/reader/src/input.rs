//! Metadata and stream files of a trace before it is opened: in a directory, on standard input, or
//! of a live trace.

use crate::alignment::Alignment;
use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::metadata::{self, Parsed};
use blkkin_ctf::schema::{Schema, Version};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Metadata and stream files found in one directory, on standard input, or in a live trace.
pub(crate) struct TraceInput {
    pub(crate) path: PathBuf,
    /// Path that the user gave; the trace's name is relative to it.
    pub(crate) source_path: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<Arc<StreamFile>>,
    /// Set if streams of one class may share a file, as they do on standard input.
    pub(crate) shared: bool,
    /// Correction of the times of a live trace, which its producer knows.
    pub(crate) alignment: Option<Alignment>,
}

/// Metadata of a trace: the path of a file, or the bytes for standard input and a live trace. A
/// file is read only when it is parsed, so that the text of only one file is in memory at a time.
pub(crate) enum Metadata {
    File(PathBuf),
    Bytes(Vec<u8>),
}

impl Metadata {
    fn read(self) -> Result<Vec<u8>, Problem> {
        match self {
            Metadata::File(path) => read_metadata(&path),
            Metadata::Bytes(bytes) => Ok(bytes),
        }
    }
}

impl TraceInput {
    /// Parses the metadata and frees its text. Returns the schema and the size of the metadata in
    /// bytes.
    pub(crate) fn parse(
        &mut self,
        problems: &mut Vec<Problem>,
    ) -> Result<(Schema, usize), Problem> {
        let nothing = Metadata::Bytes(Vec::new());
        let bytes = std::mem::replace(&mut self.metadata, nothing).read()?;
        let size = bytes.len();
        let path = self.path.join("metadata");
        let Parsed { schema, stray } = metadata::read(bytes)
            .map_err(|error| Problem::new(&path, None, ProblemKind::Metadata(error.to_string())))?;
        if let Some(message) = unusable_reason(&schema) {
            return Err(Problem::new(&path, None, ProblemKind::Metadata(message)));
        }
        problems.extend(stray.map(|stray| {
            let kind = ProblemKind::StrayMetadata { size: stray.len() };
            Problem::new(&path, Some(stray.start as u64), kind)
        }));
        Ok((schema, size))
    }
}

pub(crate) fn read_metadata(path: &Path) -> Result<Vec<u8>, Problem> {
    let size = fs::metadata(path).map_err(|error| Problem::io(path, "open", &error))?.len();
    if size > metadata::METADATA_SIZE_MAX as u64 {
        let limit = metadata::METADATA_SIZE_MAX >> 20;
        let kind = ProblemKind::Metadata(format!("larger than {limit} MiB"));
        return Err(Problem::new(path, None, kind));
    }
    fs::read(path).map_err(|error| Problem::io(path, "read", &error))
}

/// Returns the reason why valid metadata is unusable: CTF 2 metadata has no stream class, or a
/// clock is out of range. Returns `None` if the metadata is usable.
fn unusable_reason(schema: &Schema) -> Option<String> {
    if schema.streams.is_empty() && schema.version == Version::Ctf2 {
        return Some("there is no data stream class".to_owned());
    }
    let clocks = schema.streams.iter().filter_map(|stream| schema.clocks.get(stream.clock?));
    let far = clocks.into_iter().find(|clock| TimeScale::checked(clock).is_none())?;
    Some(format!(
        "clock `{}` is {} s from its origin, which 64 bits of nanoseconds do not reach",
        far.name, far.offset_seconds
    ))
}
