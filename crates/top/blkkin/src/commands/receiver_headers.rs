//! Headers for receivers of spans, from the command line and from a file.

use crate::exit::Error;
use blkkin_deliver::Headers;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Maximum size of a file with headers, in bytes.
const FILE_SIZE_MAX: u64 = 64 << 10;

/// Parses `lines`, and those of a file.
pub(super) fn read(lines: &[String], file: Option<&Path>) -> Result<Headers, Error> {
    let mut text = lines.join("\n");
    if let Some(path) = file {
        let failed = |error| Error::failed(format!("{}: cannot read: {error}", path.display()));
        let mut content = String::new();
        let read = File::open(path).map_err(failed)?.take(FILE_SIZE_MAX + 1);
        { read }.read_to_string(&mut content).map_err(failed)?;
        if content.len() as u64 > FILE_SIZE_MAX {
            let told = format!("{}: has more than {FILE_SIZE_MAX} bytes", path.display());
            return Err(Error::failed(told));
        }
        text.push('\n');
        text.push_str(&content);
    }
    Headers::parse(&text).map_err(|error| Error::usage(error.to_string()))
}
