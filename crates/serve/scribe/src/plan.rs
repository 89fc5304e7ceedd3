//! What a configuration means: which stores there are, for which categories, and how they are to be used. Start at
//! [`Plan::of`].
//!
//! A key that a store lacks is looked up as `type::key` in the store, in what is around it, and outside of all stores,
//! as Scribe does. What makes no sense leaves the store out, and is told; what has no effect is noted.

mod read;

use crate::config::Problem;
use std::path::PathBuf;
use std::time::Duration;

/// What a daemon is to do.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The port of the configuration, if it has one.
    pub port: Option<u16>,
    /// Where journals lie, of stores that do not say so themselves.
    pub directory: Option<PathBuf>,
    /// Messages that are taken in a second; 0 for any number.
    pub messages_per_second_max: u64,
    /// Connections; `None` for as many as usual.
    pub connections_max: Option<usize>,
    /// What the journal of a category may take.
    pub quota_bytes: u64,
    /// Categories that have journals.
    pub categories_max: usize,
    /// Whether who connects from this machine may have the daemon read its configuration, or end.
    pub permits_control: bool,
    pub(crate) stores: Vec<StorePlan>,
    /// What is wrong, and so not done.
    pub problems: Vec<Problem>,
    /// What has no effect here.
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

/// A store of the outermost blocks.
#[derive(Clone, Debug)]
pub(crate) struct StorePlan {
    pub(crate) categories: Vec<Pattern>,
    pub(crate) kind: Kind,
    /// Whether what could not be written is tried again; else it is counted as lost.
    pub(crate) must_succeed: bool,
}

/// Which categories.
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

/// What a store does.
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
    /// A store for each category; with a journal for each category all stores are that.
    Category(Box<Kind>),
}

/// Files of messages.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    pub(crate) path: PathBuf,
    pub(crate) sub_directory: Option<String>,
    pub(crate) has_hostname: bool,
    pub(crate) base: Option<String>,
    pub(crate) symlink: Option<String>,
    pub(crate) makes_symlink: bool,
    /// 0 for no limit.
    pub(crate) bytes_max: u64,
    pub(crate) rotation: Rotation,
    pub(crate) rotates_on_reopen: bool,
    pub(crate) adds_newlines: bool,
    pub(crate) writes_category: bool,
    pub(crate) writes_meta: bool,
    /// 0 for none.
    pub(crate) chunk_bytes: u64,
}

/// When a new file is begun, whatever is in the old one. Times are UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rotation {
    Never,
    Hourly { minute: u64 },
    Daily { hour: u64, minute: u64 },
    Every(Duration),
}

/// Another server.
#[derive(Clone, Debug)]
pub(crate) struct NetworkPlan {
    /// `host:port`; each connection goes to one of them.
    pub(crate) servers: Vec<String>,
    pub(crate) timeout: Duration,
    /// Counts what fails as lost.
    pub(crate) ignores_errors: bool,
}

/// A store that may be away.
#[derive(Clone, Debug)]
pub(crate) struct BufferPlan {
    pub(crate) primary: Kind,
    /// Where its journal lies, if the secondary says so.
    pub(crate) directory: Option<PathBuf>,
    /// Between two tries.
    pub(crate) retry_first: Duration,
    pub(crate) retry_longest: Duration,
}

/// Stores of which each takes a part of the messages, by their key.
#[derive(Clone, Debug)]
pub(crate) struct BucketPlan {
    pub(crate) rule: BucketRule,
    pub(crate) delimiter: u8,
    pub(crate) removes_key: bool,
    pub(crate) directory: String,
    pub(crate) offset: usize,
    /// The first takes messages without a key. One model for all, or as many as there are.
    pub(crate) model: Option<Kind>,
    pub(crate) each: Vec<Kind>,
    /// Without the first.
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
    /// All messages go to one server or into files of one directory.
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

    /// Whether it does anything.
    pub fn has_stores(&self) -> bool {
        !self.stores.is_empty()
    }
}

/// Where all messages go, in the simple case.
#[derive(Clone, Debug)]
pub enum Target {
    /// `host:port` of another server.
    Server(String),
    /// A directory, with one below it for each category, in which each message is a line.
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
