//! The directory of a trace, or standard input, before it is opened: its metadata and stream files.

use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::metadata::{self, Parsed};
use blkkin_ctf::schema::{Schema, Version};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory (or the like) that holds metadata and streams.
pub(crate) struct TraceInput {
    pub(crate) path: PathBuf,
    /// The path as it was given, which is part of the trace's name.
    pub(crate) given: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) files: Vec<Arc<StreamFile>>,
    /// Whether packets of several streams may share a file although they have one class.
    pub(crate) shared: bool,
}

/// Where metadata is. Files are read one at a time, when it is their turn to be parsed.
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
    /// The schema, and how many bytes of metadata it comes from, which are forgotten.
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
        if let Some(message) = unusable(&schema) {
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

/// Why no events can be read with metadata that is correct by itself.
fn unusable(schema: &Schema) -> Option<String> {
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
