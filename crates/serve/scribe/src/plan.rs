//! Validated configuration: stores, their categories and options. Start at [`Plan::of`].
//!
//! As in Scribe, a key that a store lacks is looked up as `type::key` in the store, in the
//! enclosing blocks, and at the top level. Invalid settings are reported as problems; either their
//! defaults are used, or the store is omitted. Most numbers out of range are clamped without a
//! report. Settings without effect are reported as notes.

mod read;

use crate::config::Problem;
use std::path::PathBuf;
use std::time::Duration;

/// Validated configuration of a daemon.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Port to listen on; `None` if the configuration names no valid port.
    pub port: Option<u16>,
    /// Directory for the journals of stores that name no directory; `None` for the daemon's
    /// default.
    pub directory: Option<PathBuf>,
    /// Maximum number of messages accepted per second; 0 for no limit.
    pub messages_per_second_max: u64,
    /// Maximum number of connections; `None` for the server's default.
    pub connections_max: Option<usize>,
    /// Maximum number of categories with journals. Journals found on disk at the start are resumed
    /// even if there are more. A call with messages of a further category is answered with
    /// `TRY_LATER`.
    pub quota_bytes: u64,
    /// Maximum number of categories with journals; journals on disk are resumed even beyond it. A
    /// call with messages of a further category is answered with `TRY_LATER`.
    pub categories_max: usize,
    /// True if clients on this machine may make the daemon reload its configuration or end.
    pub permits_control: bool,
    pub(crate) stores: Vec<StorePlan>,
    /// Errors in the configuration; settings with an error are not used.
    pub problems: Vec<Problem>,
    /// Settings without effect, each with the reason.
    pub notes: Vec<Problem>,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            port: None,
            directory: None,
            messages_per_second_max: 0,
            connections_max: None,
            quota_bytes: 1 << 30,
            categories_max: 250,
            permits_control: false,
            stores: Vec::new(),
            problems: Vec::new(),
            notes: Vec::new(),
        }
    }
}

/// Store at the top level of the configuration, with the categories that it receives.
#[derive(Clone, Debug)]
pub(crate) struct StorePlan {
    pub(crate) categories: Vec<Pattern>,
    pub(crate) kind: Kind,
    /// True if failed messages are retried. If false, they count as lost, except for buffer stores,
    /// which always retry.
    pub(crate) must_succeed: bool,
}

/// Categories for which a store is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Pattern {
    Exact(String),
    Prefix(String),
    Default,
}

impl Pattern {
    pub(crate) fn new(word: &str) -> Pattern {
        match word.strip_suffix('*') {
            Some(prefix) => Pattern::Prefix(prefix.to_owned()),
            None if word == "default" => Pattern::Default,
            None => Pattern::Exact(word.to_owned()),
        }
    }
}

/// Type of a store, with its options.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    File(Box<FilePlan>),
    Network(NetworkPlan),
    Null,
    Buffer(Box<BufferPlan>),
    Multi {
        children: Vec<Kind>,
        is_any: bool,
    },
    Bucket(Box<BucketPlan>),
    /// Store that writes the messages of each category to a separate inner store. A journal
    /// has one category only, so the sole difference from the inner store itself is that its files
    /// are in a directory named after the category.
    Category(Box<Kind>),
}

/// Options of a store that appends messages to files.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub(crate) path: PathBuf,
    pub(crate) sub_directory: Option<String>,
    pub(crate) has_hostname: bool,
    pub(crate) base: Option<String>,
    pub(crate) symlink: Option<String>,
    pub(crate) makes_symlink: bool,
    /// Size in bytes at which the next file begins; 0 for no limit.
    pub(crate) bytes_max: u64,
    pub(crate) rotation: Rotation,
    pub(crate) rotates_on_reopen: bool,
    pub(crate) adds_newlines: bool,
    pub(crate) writes_category: bool,
    pub(crate) writes_meta: bool,
    /// Chunk size in bytes: in the file, no message up to this size crosses a chunk boundary. 0 for
    /// files without chunks.
    pub(crate) chunk_bytes: u64,
}

/// Schedule by which new files begin, besides `bytes_max`. Times are UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotation {
    Never,
    Hourly { minute: u64 },
    Daily { hour: u64, minute: u64 },
    Every(Duration),
}

/// Options of a store that forwards messages to another Scribe server.
#[derive(Clone, Debug)]
pub(crate) struct NetworkPlan {
    /// Addresses of the servers as `host:port`. One server is used at a time; after a failure, the
    /// next server in the list is used.
    pub(crate) servers: Vec<String>,
    pub(crate) timeout: Duration,
    /// True if messages count as lost after one failed call to each server, even if the store must
    /// succeed.
    pub(crate) ignores_errors: bool,
}

/// Options of a buffer store, which keeps messages while its primary store is unavailable.
#[derive(Clone, Debug)]
pub(crate) struct BufferPlan {
    pub(crate) primary: Kind,
    /// Directory that contains the `queue` directory of the store's journals; `None` unless the
    /// secondary store is a file store with a local `file_path`.
    pub(crate) directory: Option<PathBuf>,
    /// First retry interval; `retry_longest` is the longest.
    pub(crate) retry_first: Duration,
    pub(crate) retry_longest: Duration,
}

/// Options of a bucket store, which distributes messages to several stores by a key.
#[derive(Clone, Debug)]
pub(crate) struct BucketPlan {
    pub(crate) rule: BucketRule,
    pub(crate) delimiter: u8,
    pub(crate) removes_key: bool,
    pub(crate) directory: String,
    pub(crate) offset: usize,
    /// Plan from which the store of each bucket is created; `None` if `each` lists the buckets'
    /// stores. Bucket 0 gets the messages without a key, unless the rule is random.
    pub(crate) model: Option<Kind>,
    pub(crate) each: Vec<Kind>,
    /// Number of buckets, excluding bucket 0.
    pub(crate) count: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BucketRule {
    Random,
    Hash,
    Modulo,
    Range(u64),
}

impl Plan {
    /// Adds a default store, for all categories without another store: one server, or files in one
    /// directory.
    pub fn add_target(&mut self, target: Target) {
        let kind = match target {
            Target::Server(server) => Kind::Network(NetworkPlan {
                servers: vec![server],
                timeout: Duration::from_secs(30),
                ignores_errors: false,
            }),
            Target::Files(path) => Kind::File(Box::new(FilePlan::in_directory(path))),
        };
        let categories = vec![Pattern::Default];
        self.stores.push(StorePlan { categories, kind, must_succeed: true });
    }

    /// Returns whether any store is configured.
    pub fn has_stores(&self) -> bool {
        !self.stores.is_empty()
    }
}

/// Destination that is named on the command line and receives all categories.
#[derive(Clone, Debug)]
pub enum Target {
    /// Another Scribe server, as `host:port`.
    Server(String),
    /// Directory for files, with a subdirectory for each category. Each message is a line.
    Files(PathBuf),
}

impl FilePlan {
    fn in_directory(path: PathBuf) -> FilePlan {
        FilePlan {
            path,
            sub_directory: None,
            has_hostname: false,
            base: None,
            symlink: None,
            makes_symlink: true,
            bytes_max: 1_000_000_000,
            rotation: Rotation::Never,
            rotates_on_reopen: false,
            adds_newlines: true,
            writes_category: false,
            writes_meta: false,
            chunk_bytes: 0,
        }
    }
}
