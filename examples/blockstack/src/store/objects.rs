//! Stores each object in a file that is named by the object's number. Ranges that were never
//! written read as zeros.

use super::journal::{Change, Record};
use rustix::fs::{FallocateFlags, fallocate};
use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Maximum number of object files that are open at the same time.
const OPEN_MAX: usize = 400;

/// Access to all objects of a store, in one directory.
#[derive(Debug)]
pub(super) struct Objects {
    directory: PathBuf,
    open: HashMap<u64, File>,
}

impl Objects {
    pub(super) fn open(directory: PathBuf) -> io::Result<Objects> {
        fs::create_dir_all(&directory)?;
        Ok(Objects { directory, open: HashMap::new() })
    }

    /// Appends the contents of an object's range to `output`.
    pub(super) fn read(
        &mut self,
        object: u64,
        offset: u64,
        length: u32,
        output: &mut Vec<u8>,
    ) -> io::Result<()> {
        let start = output.len();
        output.resize(start + length as usize, 0);
        let Some(file) = self.file(object, false)? else { return Ok(()) };
        let mut at = start;
        while at < output.len() {
            match file.read_at(&mut output[at..], offset + (at - start) as u64) {
                Ok(0) => return Ok(()),
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    output.truncate(start);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Applies the change in a record to the object's file.
    pub(super) fn apply(&mut self, record: &Record<'_>) -> io::Result<()> {
        let is_write = matches!(record.change, Change::Write(_));
        let Some(file) = self.file(record.object, is_write)? else { return Ok(()) };
        let offset = u64::from(record.offset);
        match record.change {
            Change::Write(bytes) => file.write_all_at(bytes, offset),
            Change::Zero(0) => Ok(()),
            Change::Zero(length) => {
                let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                match fallocate(file, hole, offset, u64::from(length)) {
                    Ok(()) => Ok(()),
                    // For instance, the file system does not support holes.
                    Err(_) => file.write_all_at(&vec![0; length as usize], offset),
                }
            }
        }
    }

    /// Opens an object's file; `None` if it does not exist and must not be created.
    fn file(&mut self, object: u64, may_create: bool) -> io::Result<Option<&File>> {
        if !self.open.contains_key(&object) {
            let file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(may_create)
                .truncate(false)
                .open(path_of(&self.directory, object));
            let file = match file {
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                file => file?,
            };
            if self.open.len() >= OPEN_MAX {
                self.open.clear();
            }
            self.open.insert(object, file);
        }
        Ok(self.open.get(&object))
    }
}

/// Makes all changes of these objects durable, including the existence of their files.
pub(super) fn sync(directory: &Path, objects: impl IntoIterator<Item = u64>) -> io::Result<()> {
    for object in objects {
        match OpenOptions::new().write(true).open(path_of(directory, object)) {
            // An object of zeros may have no file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            file => file?.sync_data()?,
        }
    }
    File::open(directory)?.sync_all()
}

fn path_of(directory: &Path, object: u64) -> PathBuf {
    directory.join(format!("{object:016x}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::Scratch;

    #[test]
    fn objects_are_sparse() {
        let scratch = Scratch::new("blockstack-objects");
        let mut objects = Objects::open(scratch.0.join("objects")).unwrap();
        let apply = |objects: &mut Objects, offset, change| {
            objects.apply(&Record { number: 0, object: 5, offset, change }).unwrap();
        };
        let read = |objects: &mut Objects, offset, length| {
            let mut output = b"before".to_vec();
            objects.read(5, offset, length, &mut output).unwrap();
            output.split_off(6)
        };
        apply(&mut objects, 0, Change::Zero(10));
        assert!(!path_of(&objects.directory, 5).exists());
        assert_eq!(read(&mut objects, 4096, 4), [0; 4]);
        apply(&mut objects, 8192, Change::Write(&[1; 8192]));
        assert_eq!(read(&mut objects, 8190, 4), [0, 0, 1, 1]);
        assert_eq!(read(&mut objects, 16382, 4), [1, 1, 0, 0]);
        apply(&mut objects, 8191, Change::Zero(4097));
        assert_eq!(read(&mut objects, 12287, 2), [0, 1]);
        assert_eq!(read(&mut objects, 8192, 4096), [0; 4096]);
        sync(&objects.directory, [5, 6]).unwrap();
    }
}
