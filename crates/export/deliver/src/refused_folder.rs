//! Bounded folder for batches that the destination refused. The body of each batch is stored as in
//! the queue, with the reason in a text file next to it.

use crate::error::Error;
use crate::record::Record;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Folder of refused batches, with its size in bytes, its number of files, and its limit.
#[derive(Debug)]
pub(crate) struct RefusedFolder {
    folder: PathBuf,
    bytes: u64,
    files: u64,
    bytes_max: u64,
}

/// Maximum number of files, since a folder of very many small files is useless.
const FILES_MAX: u64 = 20_000;

impl RefusedFolder {
    /// Opens the folder and counts its files and their bytes. A missing folder is created when the
    /// first batch is stored.
    pub(crate) fn open(folder: PathBuf, bytes_max: u64) -> Result<RefusedFolder, Error> {
        let (mut bytes, mut files) = (0, 0);
        match fs::read_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(Error::Io { during: "read the folder", path: folder, source });
            }
            Ok(entries) => {
                for entry in entries.take(FILES_MAX as usize * 2) {
                    files += 1;
                    bytes += entry.and_then(|entry| entry.metadata()).map_or(0, |data| data.len());
                }
            }
        }
        Ok(RefusedFolder { folder, bytes, files, bytes_max })
    }

    /// Stores a batch durably. Returns false if there is no room: the first refused batches are
    /// worth more than later batches.
    pub(crate) fn store(&mut self, name: &str, record: &Record, reason: &str) -> io::Result<bool> {
        let bytes = (record.body.len() + reason.len() + 1) as u64;
        if self.bytes + bytes > self.bytes_max || self.files + 2 > FILES_MAX {
            return Ok(false);
        }
        fs::create_dir_all(&self.folder)?;
        let gzip = if record.is_gzip { ".gz" } else { "" };
        let body = self.folder.join(format!("{name}.{}{gzip}", record.format.name()));
        let text = self.folder.join(format!("{name}.txt"));
        let written = write(&body, &[&record.body])
            .and_then(|()| write(&text, &[reason.as_bytes(), b"\n"]))
            .and_then(|()| File::open(&self.folder)?.sync_all());
        if let Err(error) = written {
            let _ = fs::remove_file(&body);
            let _ = fs::remove_file(&text);
            return Err(error);
        }
        self.bytes += bytes;
        self.files += 2;
        Ok(true)
    }
}

fn write(path: &Path, parts: &[&[u8]]) -> io::Result<()> {
    let mut file = File::create(path)?;
    parts.iter().try_for_each(|part| file.write_all(part))?;
    file.sync_all()
}

#[cfg(test)]
mod tests {
    use super::RefusedFolder;
    use crate::record::Record;
    use blkkin_wire::Format;
    use bytes::Bytes;

    #[test]
    fn the_folder_is_bounded() {
        let scratch = tempfile::tempdir().expect("a folder");
        let folder = scratch.path().join("refused");
        let body = Bytes::from(vec![b'x'; 1000]);
        let (format, time_ms) = (Format::ZipkinJson, 0);
        let record = Record { format, is_gzip: true, spans: 1, spans_before: 0, time_ms, body };
        let mut refused = RefusedFolder::open(folder.clone(), 2500).expect("to open");
        assert!(!folder.exists());
        assert!(refused.store("1", &record, "bad").expect("to keep"));
        // Files of an earlier exporter count towards the limit.
        let mut refused = RefusedFolder::open(folder.clone(), 2500).expect("to open");
        assert!(refused.store("2", &record, "bad").expect("to keep"));
        assert!(!refused.store("3", &record, "bad").expect("to refuse"));
        let mut names: Vec<_> = std::fs::read_dir(&folder).expect("a folder").collect();
        names.sort_by_key(|entry| entry.as_ref().expect("an entry").file_name());
        let names: Vec<_> =
            names.into_iter().map(|entry| entry.expect("an entry").file_name()).collect();
        assert_eq!(names, ["1.txt", "1.zipkin-json.gz", "2.txt", "2.zipkin-json.gz"]);
        assert_eq!(std::fs::read_to_string(folder.join("1.txt")).expect("text"), "bad\n");
    }
}
