//! [`Error`]: failures to open or run a store.

use std::{fmt, io};

/// Failure to open or run a store.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// Error that the journal returned.
    Journal(blkkin_journal::Error),
    /// No copy of the manifest is intact: one copy is damaged, the other is damaged or missing.
    Manifest,
    /// The directory holds no store.
    NoStore,
    /// A server or another command has the store open.
    InUse,
    /// Both copies of the manifest are missing, although the directory has span files or journal
    /// records. [`LockedStore::open`](crate::LockedStore::open) assumes journal records.
    NoManifest {
        /// Number of span files in the directory.
        files: usize,
    },
    /// The directory has span files that the manifest does not name. Either the manifest is older
    /// than the files, or the files were copied into the directory.
    Unnamed {
        /// Name of the first span file that the manifest does not name.
        first: String,
        /// Number of span files that the manifest does not name.
        files: usize,
    },
    /// No span file of the manifest exists, apart from files that were unreadable already
    /// at the last start.
    Absent {
        /// Number of readable files in the manifest.
        files: usize,
    },
    /// A copy of the manifest has a format of a later release. The store is neither read nor
    /// changed.
    Newer,
    /// Description of a failure to read or write a span file or its index, or the reason why a
    /// merge was abandoned.
    Spans(String),
    /// I/O error, or invalid data in an index.
    Io {
        /// Object of the failed operation, for the message: the name or path of a file or
        /// directory, the name of a thread, or a phrase such as "an index".
        file: String,
        /// Error of the failed operation. Only errors of the operating system have an OS error
        /// code.
        source: io::Error,
    },
}

/// Ending of the messages of errors that adoption repairs. It names the commands to inspect and
/// to repair the directory.
const REPAIR: &str = "; nothing was changed. `blkkin store check --data DIR` shows what is there, and `blkkin store \
     adopt --data DIR` makes a store of it";

impl Error {
    /// Returns a function for `map_err` that turns an I/O error into an [`Error::Io`].
    pub(crate) fn io(file: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let file = file.into();
        move |source| Error::Io { file, source }
    }

    /// Returns whether the error may be temporary: the operating system failed to read a file that
    /// exists. The content of such a file may be valid.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Error::Io { source, .. } => {
                source.raw_os_error().is_some() && source.kind() != io::ErrorKind::NotFound
            }
            _ => false,
        }
    }
}

impl From<blkkin_journal::Error> for Error {
    fn from(error: blkkin_journal::Error) -> Error {
        match error.kind {
            blkkin_journal::ErrorKind::Locked => Error::InUse,
            _ => Error::Journal(error),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Journal(error) => error.fmt(f),
            Error::Manifest => write!(f, "both copies of the manifest are damaged{REPAIR}"),
            Error::NoStore => f.write_str("there is no store of spans"),
            Error::InUse => f.write_str("is in use: a server or another command has it open"),
            Error::NoManifest { files } => {
                write!(f, "there are {files} files in spans/ or a journal, and no manifest{REPAIR}")
            }
            Error::Unnamed { first, files } => write!(
                f,
                "spans/{first}{} not named by the manifest, which is older, or the file was copied in{REPAIR}",
                match files {
                    1 => " is".to_owned(),
                    files => format!(" and {} others are", files - 1),
                }
            ),
            Error::Absent { files } => write!(
                f,
                "the manifest names {files} files of spans, and none of them is there (is a file system not \
                 mounted?){REPAIR}"
            ),
            Error::Newer => f.write_str(
                "was written by a later release, which has to read it; nothing was changed",
            ),
            Error::Spans(text) => f.write_str(text),
            Error::Io { file, source } => write!(f, "{file}: {source}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Journal(error) => Some(error),
            Error::Io { source, .. } => Some(source),
            Error::Manifest
            | Error::NoStore
            | Error::InUse
            | Error::NoManifest { .. }
            | Error::Unnamed { .. }
            | Error::Absent { .. }
            | Error::Newer
            | Error::Spans(_) => None,
        }
    }
}
