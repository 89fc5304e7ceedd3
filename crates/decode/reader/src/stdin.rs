//! Reading from standard input, which contains metadata and then packets, or packets alone. The
//! packets are spooled to an unlinked temporary file, so that streams that follow each other can be
//! merged by time.

use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use crate::input::{Metadata, TraceInput, read_metadata};
use blkkin_ctf::metadata::METADATA_SIZE_MAX;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::Arc;

/// Magic number of a data packet, in both byte orders. Its first byte never occurs in UTF-8 text.
/// The header of a metadata packet could contain the number only by coincidence.
const MAGICS: [[u8; 4]; 2] = [[0xc1, 0x1f, 0xfc, 0xc1], [0xc1, 0xfc, 0x1f, 0xc1]];

const NAME: &str = "<stdin>";

pub(crate) fn open(metadata: Option<&Path>) -> Result<TraceInput, Problem> {
    let path = Path::new(NAME);
    let problem = |action| move |error: io::Error| Problem::io(path, action, &error);
    let mut input = io::stdin().lock();
    let mut spool = tempfile::tempfile().map_err(problem("make a temporary file"))?;
    let metadata = match metadata {
        Some(metadata) => read_metadata(metadata)?,
        None => {
            let (metadata, rest) = split(&mut input).map_err(problem("read"))?;
            if metadata.is_empty() {
                let message = "standard input has no metadata before its packets; begin with \
                               it (cat metadata stream | …) or give --metadata FILE";
                return Err(Problem::new(path, None, ProblemKind::Metadata(message.into())));
            }
            spool.write_all(&rest).map_err(problem("write temporary file"))?;
            metadata
        }
    };
    io::copy(&mut input, &mut spool).map_err(problem("read"))?;
    Ok(spool_input(metadata, spool))
}

fn spool_input(metadata: Vec<u8>, spool: File) -> TraceInput {
    let file = StreamFile::from_open(NAME.into(), spool);
    TraceInput {
        path: NAME.into(),
        source_path: NAME.into(),
        metadata: Metadata::Bytes(metadata),
        files: vec![Arc::new(file)],
        shared: true,
        alignment: None,
    }
}

/// Reads standard input up to the first data packet, the end, or the size limit of metadata.
/// Returns the metadata, and the bytes that were read after it.
fn split(input: &mut impl Read) -> io::Result<(Vec<u8>, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut searched = 0;
    loop {
        let found = bytes[searched..]
            .windows(4)
            .position(|window| MAGICS.iter().any(|magic| magic == window));
        if let Some(at) = found {
            let rest = bytes.split_off(searched + at);
            return Ok((bytes, rest));
        }
        searched = bytes.len().saturating_sub(3);
        let read = input.take(64 << 10).read_to_end(&mut bytes)?;
        if read == 0 || bytes.len() > METADATA_SIZE_MAX {
            return Ok((bytes, Vec::new()));
        }
    }
}
