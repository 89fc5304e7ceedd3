//! Files and directories of the written traces. Until all traces are complete, their metadata files
//! have a name that readers ignore, so no reader opens an incomplete trace. If writing is
//! abandoned, all files and created directories are removed.

use crate::error::Error;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Name of each metadata file until all traces are complete.
const METADATA_PARTIAL: &str = ".metadata.partial";

/// Created directories and files. They are removed on drop, unless [`OutputDirectory::complete`]
/// has succeeded.
#[derive(Debug)]
pub(crate) struct OutputDirectory {
    /// Created directories, parents first.
    directories: Vec<PathBuf>,
    files: Vec<PathBuf>,
    traces: Vec<PathBuf>,
}

impl OutputDirectory {
    /// Creates or opens the root directory, which must be empty.
    pub(crate) fn create(root: &Path) -> Result<OutputDirectory, Error> {
        let mut output =
            OutputDirectory { directories: Vec::new(), files: Vec::new(), traces: Vec::new() };
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

    /// Creates the directory of a trace, which may be the root or below it, with the metadata under
    /// the partial name. The directory may exist.
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

    /// Appends to a created file. Files are reopened for each append, as there may be thousands.
    pub(crate) fn append(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        OpenOptions::new()
            .append(true)
            .open(path)
            .and_then(|mut file| file.write_all(bytes))
            .map_err(|error| Error::io(path, "write", &error))
    }

    /// Gives the metadata files their final names, and keeps all files. If a rename fails, all
    /// files and created directories are removed.
    pub(crate) fn complete(mut self) -> Result<(), Error> {
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

impl Drop for OutputDirectory {
    fn drop(&mut self) {
        // Removal errors are ignored; a directory without metadata is not a trace.
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

    /// Returns the paths of all files and directories below a path.
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

    /// Creates two traces, the second inside the directory of the first.
    fn make(root: &Path) -> OutputDirectory {
        let mut output = OutputDirectory::create(root).expect("a place");
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

        // A directory that existed before the writer is kept.
        let empty = scratch.0.join("empty");
        fs::create_dir(&empty).expect("to make a folder");
        drop(make(&empty));
        assert_eq!(tree(&scratch.0), std::slice::from_ref(&empty));

        // Renaming one metadata file fails, so no trace is kept.
        let output = make(&root);
        fs::create_dir(root.join("a/b/metadata")).expect("to make a folder");
        let error = output.complete().expect_err("a directory is in the way");
        assert_eq!(error.path, root.join("a/b/metadata"));
        fs::remove_dir_all(root.join("a/b")).expect("to remove");
        assert_eq!(tree(&root), [root.join("a")]);
    }

    #[test]
    fn what_is_kept_is_a_trace() {
        let scratch = Scratch::new("rewrite");
        let root = scratch.0.join("new");
        make(&root).complete().expect("to keep");
        let files: Vec<PathBuf> = ["a/b/metadata", "a/b/stream", "a/metadata", "a/stream"]
            .iter()
            .map(|name| root.join(name))
            .collect();
        let found: Vec<PathBuf> = tree(&root).into_iter().filter(|path| path.is_file()).collect();
        assert_eq!(found, files);
        assert_eq!(fs::read(root.join("a/b/stream")).expect("a file"), b"bytes");
        assert_eq!(fs::read(root.join("a/metadata")).expect("a file"), b"metadata");

        // No file is overwritten.
        let error = OutputDirectory::create(&root).expect_err("it is full");
        assert_eq!(error.message, "the directory is not empty");
        let error = OutputDirectory::create(&root.join("a/stream")).expect_err("it is a file");
        assert!(error.message.starts_with("cannot use as a directory: "), "{error}");
    }
}
