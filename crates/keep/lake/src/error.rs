//! Why a store cannot be opened, or not go on. Start at [`Error`].

use std::{fmt, io};

/// Why a store cannot be opened, or not go on.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The journal says why.
    Journal(blkkin_journal::Error),
    /// Both copies of the manifest are damaged.
    Manifest,
    /// There is no store in the directory.
    NoStore,
    /// A server or another command holds the store.
    InUse,
    /// Both copies of the manifest are missing from a directory that holds spans.
    NoManifest {
        /// Files of spans.
        files: usize,
    },
    /// The directory holds files of spans that the manifest does not name: it is older than they
    /// are, or they were copied in.
    Unnamed {
        /// The name of the first one.
        first: String,
        /// How many there are.
        files: usize,
    },
    /// The manifest names files, and none of them is there.
    Absent {
        /// How many it names.
        files: usize,
    },
    /// A later release has written it, in a form that this one must not touch.
    Newer,
    /// A file of spans says why it cannot be read or written.
    Spans(String),
    /// The operating system refused something.
    Io {
        /// The name of a file in the store's directory.
        file: String,
        /// Its answer.
        source: io::Error,
    },
}

/// The end of messages about a directory that is not opened as it is.
const REPAIR: &str = "; nothing was changed. `blkkin store check --data DIR` shows what is there, and `blkkin store \
     adopt --data DIR` makes a store of it";

impl Error {
    /// For `map_err` of what the disk says.
    pub(crate) fn io(file: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let file = file.into();
        move |source| Error::Io { file, source }
    }

    /// Whether it says nothing of what a file holds: the system did not let us look, and may the next time.
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
