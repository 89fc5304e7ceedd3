//! Disk usage of a store: bytes by kind of file, and the number of spans according to the metadata
//! of the Parquet files. Start at [`run`].

use crate::arguments::Arguments;
use serde_json::{Value, json};
use std::error::Error;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Maximum size of a Parquet file's metadata, in bytes. A file with more counts as incomplete.
const FOOTER_BYTES_MAX: u64 = 256 << 20;

#[derive(Default)]
struct DiskUsage {
    files: u64,
    spans: u64,
    /// Total length of the complete Parquet files, in bytes. Incomplete Parquet files are not
    /// counted.
    parquet_bytes: u64,
    index_bytes: u64,
    /// Allocated size of the journal, the manifest and all other files, in bytes.
    other_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    let mut sum = DiskUsage::default();
    walk(Path::new(arguments.text("directory")?), &mut sum)?;
    Ok(json!({
        "files": sum.files,
        "spans": sum.spans,
        "parquet_bytes": sum.parquet_bytes,
        "index_bytes": sum.index_bytes,
        "other_bytes": sum.other_bytes,
    }))
}

fn walk(directory: &Path, sum: &mut DiskUsage) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        // The store may have merged and removed the file meanwhile.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if metadata.is_dir() {
            walk(&path, sum)?;
            continue;
        }
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("parquet") => {
                let Some(spans) = File::open(&path).ok().and_then(|file| rows(&file)) else {
                    continue;
                };
                sum.files += 1;
                sum.spans += spans;
                sum.parquet_bytes += metadata.len();
            }
            Some("index") => sum.index_bytes += metadata.len(),
            _ => sum.other_bytes += metadata.blocks() * 512,
        }
    }
    Ok(())
}

/// Returns the number of rows in the metadata of a Parquet file; `None` if the file is incomplete
/// or cannot be read.
fn rows(file: &File) -> Option<u64> {
    let size = file.metadata().ok()?.len();
    let mut end = [0; 8];
    file.read_exact_at(&mut end, size.checked_sub(8)?).ok()?;
    let [len @ .., b'P', b'A', b'R', b'1'] = end else { return None };
    let len = u64::from(u32::from_le_bytes(len));
    let start = size.checked_sub(8 + len).filter(|_| len <= FOOTER_BYTES_MAX)?;
    let mut footer = vec![0; len as usize];
    file.read_exact_at(&mut footer, start).ok()?;
    rows_of(&footer)
}

/// Parses the number of rows, the third field of `FileMetaData`, in thrift's compact protocol.
fn rows_of(footer: &[u8]) -> Option<u64> {
    let mut compact = CompactReader { bytes: footer, depth: 0 };
    let mut id = 0;
    loop {
        let kind = compact.field(&mut id)?;
        match (id, kind) {
            (_, 0) => return None,
            (3, 6) => return compact.signed()?.try_into().ok(),
            _ => compact.skip(kind)?,
        }
    }
}

/// Parser of thrift's compact protocol, as far as is needed to skip fields.
struct CompactReader<'b> {
    bytes: &'b [u8],
    depth: u32,
}

const DEPTH_MAX: u32 = 32;

impl CompactReader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads the header of the next field. Returns the field's type (0 at the end of the
    /// structure), and sets `id` to the field's number.
    fn field(&mut self, id: &mut i64) -> Option<u8> {
        let byte = self.byte()?;
        let kind = byte & 15;
        if kind != 0 {
            *id = match byte >> 4 {
                0 => self.signed()?,
                step => *id + i64::from(step),
            };
        }
        Some(kind)
    }

    fn pass(&mut self, count: u64) -> Option<()> {
        self.bytes = self.bytes.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn skip(&mut self, kind: u8) -> Option<()> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        match kind {
            // A boolean field has no further bytes, as its type is its value.
            1 | 2 => {}
            3 => self.pass(1)?,
            4..=6 => drop(self.number()?),
            7 => self.pass(8)?,
            8 => {
                let len = self.number()?;
                self.pass(len)?;
            }
            9 | 10 => {
                let byte = self.byte()?;
                let count = if byte >> 4 == 15 { self.number()? } else { u64::from(byte >> 4) };
                for _ in 0..count {
                    match byte & 15 {
                        1 | 2 => self.pass(1)?,
                        kind => self.skip(kind)?,
                    }
                }
            }
            12 => {
                let mut id = 0;
                loop {
                    match self.field(&mut id)? {
                        0 => break,
                        kind => self.skip(kind)?,
                    }
                }
            }
            _ => return None,
        }
        self.depth -= 1;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Metadata of a Parquet file with 300 rows. The schema has two elements; the first has a name
    /// and a list, the second an integer and a bytes field.
    const FOOTER: [u8; 24] = [
        0x15, 2, // field 1, i32: 1
        0x19, 0x2c, // field 2, a list of 2 structures
        0x48, 2, b'a', b'b', 0x19, 0x22, 0, 1, 0, // field 4, "ab"; field 5, two booleans
        0x15, 8, 0x58, 1, b'c', 0, // field 1, i32; field 6, "c"
        0x16, 0xd8, 4, // field 3, i64: 300
        0, 0,
    ];

    #[test]
    fn rows_are_counted() {
        assert_eq!(rows_of(&FOOTER), Some(300));
        for len in 0..22 {
            assert_eq!(rows_of(&FOOTER[..len]), None, "{len} bytes");
        }
        assert_eq!(rows_of(&[0x1c; 200]), None);
    }

    #[test]
    fn files_are_summed() {
        let directory = std::env::temp_dir().join(format!("blkkin-bench-{}", std::process::id()));
        let inner = directory.join("journal");
        fs::create_dir_all(&inner).expect("made");
        let footer = &FOOTER[..];
        let len = (footer.len() as u32).to_le_bytes();
        let file = [b"PAR1", footer, &len, b"PAR1"].concat();
        fs::write(directory.join("1.parquet"), &file).expect("written");
        fs::write(directory.join("2.parquet"), b"PAR1 half").expect("written");
        fs::write(directory.join("1.index"), [0; 10]).expect("written");
        fs::write(inner.join("1.journal"), [1; 5000]).expect("written");
        let text = json!({"directory": directory}).to_string();
        let value = run(&Arguments::parse(&text).expect("good")).expect("read");
        fs::remove_dir_all(&directory).expect("removed");
        assert_eq!((&value["files"], &value["spans"]), (&json!(1), &json!(300)));
        assert_eq!(value["parquet_bytes"], json!(file.len()));
        assert_eq!(value["index_bytes"], json!(10));
        assert!(value["other_bytes"].as_u64() >= Some(5000), "{value}");
    }
}
