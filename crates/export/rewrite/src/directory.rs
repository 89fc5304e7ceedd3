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

#[cfg(test)]
mod tests {
    use super::*;
    use blkkin_sys::testing::Scratch;

    /// All that is below a path.
    fn tree(path: &Path) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for entry in fs::read_dir(path).into_iter().flatten() {
            let path = entry.expect("an entry").path();
            found.extend(tree(&path));
            found.push(path);
        }
        found.sort();
        found
    }

    /// Makes two traces, one below the other's directory.
    fn make(root: &Path) -> Output {
        let mut output = Output::create(root).expect("a place");
        for directory in [root.join("a"), root.join("a/b")] {
            output.trace(&directory, b"metadata").expect("to begin");
            output.create_file(&directory.join("stream")).expect("to create");
            output.append(&directory.join("stream"), b"bytes").expect("to append");
        }
        output
    }

    #[test]
    fn what_is_not_kept_is_removed() {
        let scratch = Scratch::new("rewrite");
        let root = scratch.0.join("new/er");
        let output = make(&root);
        let names = |path: &Path| tree(path).iter().filter(|p| p.ends_with("metadata")).count();
        assert_eq!((tree(&root).len(), names(&root)), (6, 0));
        drop(output);
        assert_eq!(tree(&scratch.0), Vec::<PathBuf>::new());

        // A directory that was there stays.
        let empty = scratch.0.join("empty");
        fs::create_dir(&empty).expect("to make a folder");
        drop(make(&empty));
        assert_eq!(tree(&scratch.0), std::slice::from_ref(&empty));

        // Only some of what there was could be kept.
        let output = make(&root);
        fs::create_dir(root.join("a/b/metadata")).expect("to make a folder");
        let error = output.keep().expect_err("a directory is in the way");
        assert_eq!(error.path, root.join("a/b/metadata"));
        fs::remove_dir_all(root.join("a/b")).expect("to remove");
        assert_eq!(tree(&root), [root.join("a")]);
    }

    #[test]
    fn what_is_kept_is_a_trace() {
        let scratch = Scratch::new("rewrite");
        let root = scratch.0.join("new");
        make(&root).keep().expect("to keep");
        let files: Vec<PathBuf> = ["a/b/metadata", "a/b/stream", "a/metadata", "a/stream"]
            .iter()
            .map(|name| root.join(name))
            .collect();
        let found: Vec<PathBuf> = tree(&root).into_iter().filter(|path| path.is_file()).collect();
        assert_eq!(found, files);
        assert_eq!(fs::read(root.join("a/b/stream")).expect("a file"), b"bytes");
        assert_eq!(fs::read(root.join("a/metadata")).expect("a file"), b"metadata");

        // Nothing is overwritten.
        let error = Output::create(&root).expect_err("it is full");
        assert_eq!(error.message, "the directory is not empty");
        let error = Output::create(&root.join("a/stream")).expect_err("it is a file");
        assert!(error.message.starts_with("cannot use as a directory: "), "{error}");
    }
}
