//! What is made on disk. Until all is well the metadata has a name that no reader looks for, so
//! that what is unfinished is no trace; what is given up is removed.

use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The metadata's name until the trace is complete.
const METADATA_PARTIAL: &str = ".metadata.partial";

/// Directories and files that were made and that are removed again unless [`Output::keep`] is
/// called.
#[derive(Debug)]
pub(crate) struct Output {
    /// In the order in which they were made.
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    traces: Vec<PathBuf>,
}

impl Output {
    /// Takes a directory that is empty, or not there yet.
    pub(crate) fn create(root: &Path) -> Result<Output, Error> {
        let mut output = Output { directories: Vec::new(), files: Vec::new(), traces: Vec::new() };
        match fs::read_dir(root).map(|mut entries| entries.next().is_none()) {
            Ok(false) => {
                let mut error = Error::new(root, "the directory is not empty");
                error.hint = Some("give a new directory with -o; nothing is overwritten");
                Err(error)
            }
            Ok(true) => Ok(output),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                output.directory(root)?;
                Ok(output)
            }
            Err(error) => Err(Error::io(root, "use as a directory", &error)),
        }
    }

    fn directory(&mut self, path: &Path) -> Result<(), Error> {
        let missing: Vec<&Path> = path
            .ancestors()
            .take_while(|ancestor| !ancestor.as_os_str().is_empty() && !ancestor.exists())
            .collect();
        for path in missing.into_iter().rev() {
            fs::create_dir(path).map_err(|error| Error::io(path, "create directory", &error))?;
            self.directories.push(path.to_owned());
        }
        Ok(())
    }

    /// Begins a trace in a directory below the root.
    pub(crate) fn trace(&mut self, directory: &Path, metadata: &[u8]) -> Result<(), Error> {
        self.directory(directory)?;
        let path = directory.join(METADATA_PARTIAL);
        self.create_file(&path)?
            .write_all(metadata)
            .map_err(|error| Error::io(&path, "write", &error))?;
        self.traces.push(directory.to_owned());
        Ok(())
    }

    pub(crate) fn create_file(&mut self, path: &Path) -> Result<File, Error> {
        let file = OpenOptions::new().write(true).create_new(true).open(path);
        let file = file.map_err(|error| Error::io(path, "create", &error))?;
        self.files.push(path.to_owned());
        Ok(file)
    }

    /// Adds to a file that was made before. Files are not held open: there may be thousands.
    pub(crate) fn append(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|error| Error::io(path, "write", &error))
    }

    /// Makes traces of what was written.
    pub(crate) fn keep(mut self) -> Result<(), Error> {
        for directory in &self.traces {
            let path = directory.join("metadata");
            fs::rename(directory.join(METADATA_PARTIAL), &path)
                .map_err(|error| Error::io(&path, "rename metadata", &error))?;
            self.files.push(path);
        }
        self.files.clear();
        self.directories.clear();
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        // Whatever cannot be removed is left; without metadata it is no trace.
        for file in self.files.drain(..) {
            let _ = fs::remove_file(file);
        }
        for directory in self.directories.drain(..).rev() {
            let _ = fs::remove_dir(directory);
        }
    }
}
