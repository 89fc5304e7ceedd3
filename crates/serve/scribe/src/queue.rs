//! Queue of a category's messages: a journal, and an outlet for each store. Start at
//! [`CategoryQueue::open`].
//!
//! A journal's directory contains a file `category` with the category's name, because not every
//! category is a valid directory name. At the next start the daemon finds the journals by this
//! file.

use crate::counters::Counters;
use crate::fnv::fnv1a;
use crate::outlet::{Outlet, OutletState, StopSignal, Target, targets};
use crate::plan::{Kind, StorePlan};
use crate::stores::StoreContext;
use blkkin_journal::{AtLimit, Journal, Options, Payload, Refusal, Ticket};
use parking_lot::Mutex;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

/// Size in bytes of a journal segment, preallocated for each category.
const SEGMENT_BYTES: u64 = 8 << 20;

/// Size in bytes up to which several messages share a record. A larger message has its own record.
pub(crate) const RECORD_BYTES: usize = 256 << 10;

/// Maximum size in bytes of a message with its category.
pub(crate) const MESSAGE_BYTES_MAX: usize = (4 << 20) - 64;

/// Maximum number of bytes that a call appends before it waits for their durability.
const APPEND_BYTES: usize = 4 << 20;

/// Name of a file in each journal's directory. The file contains the journal's category.
const CATEGORY: &str = "category";

/// Name under which the journal stores the position before which all stores have all messages.
const ALL: &str = "all";

pub(crate) struct CategoryQueue {
    pub(crate) counters: Arc<Counters>,
    journal: Arc<Journal>,
    stop: Arc<StopSignal>,
    states: Vec<Arc<OutletState>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Settings and counters that the queues of all categories share.
#[derive(Clone)]
pub(crate) struct QueueSettings {
    pub(crate) directory: PathBuf,
    pub(crate) quota_bytes: u64,
    pub(crate) overall: Arc<Counters>,
}

impl CategoryQueue {
    /// Opens or creates a category's journal, and starts the outlets of all its stores.
    pub(crate) fn open(
        category: &[u8],
        stores: &[&StorePlan],
        is_exact: bool,
        common: &QueueSettings,
    ) -> Result<CategoryQueue, String> {
        let directory = root(stores, common).join(directory_name(category));
        let failed = |error: io::Error| format!("{}: {error}", directory.display());
        name_directory(&directory, category).map_err(failed)?;
        let options = Options {
            segment_bytes: SEGMENT_BYTES,
            total_bytes_max: common.quota_bytes.max(2 * SEGMENT_BYTES),
            at_limit: AtLimit::Refuse,
            waiting_bytes_max: 2 * APPEND_BYTES,
            payload_bytes_max: MESSAGE_BYTES_MAX as u32 + 64,
            quarantine_bytes_max: SEGMENT_BYTES,
            retry_after: Duration::from_millis(500),
            on_durable: None,
        };
        let opened = Journal::open(&directory, options);
        let (journal, recovery) =
            opened.map_err(|error| format!("{}: {error}", directory.display()))?;
        let journal = Arc::new(journal);
        let position = |name: &str| journal.position(name).map_err(|error| error.to_string());
        let start = position(ALL)?.unwrap_or(0);
        let context = StoreContext {
            category: category.to_vec(),
            is_exact,
            bucket: None,
            may_be_torn: !recovery.was_closed,
        };
        let mut queue = CategoryQueue {
            counters: Arc::default(),
            journal: Arc::clone(&journal),
            stop: Arc::default(),
            states: Vec::new(),
            threads: Mutex::default(),
        };
        let mut outlets = Vec::new();
        for target in unique_targets(stores) {
            let from = position(&target.name)?.unwrap_or(start);
            let state = Arc::new(OutletState::default());
            state.position.store(from, Ordering::Release);
            queue.states.push(Arc::clone(&state));
            outlets.push((target, state, from));
        }
        let trim = queue.trim();
        for (target, state, from) in outlets {
            let outlet = Outlet {
                journal: Arc::clone(&journal),
                target,
                context: context.clone(),
                counters: Arc::clone(&queue.counters),
                overall: Arc::clone(&common.overall),
                state,
                stop: Arc::clone(&queue.stop),
                trim: Arc::clone(&trim),
            };
            let thread = std::thread::Builder::new().name("scribe store".to_owned());
            let thread = thread.spawn(move || outlet.run(from)).map_err(failed)?;
            queue.threads.lock().push(thread);
        }
        Ok(queue)
    }

    /// Returns a function that trims the journal up to the lowest position of any outlet.
    fn trim(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (journal, states) = (Arc::clone(&self.journal), self.states.clone());
        let trimmed = Mutex::new(0);
        Arc::new(move || {
            let positions = states.iter().map(|states| states.position.load(Ordering::Acquire));
            let Some(least) = positions.min() else { return };
            let mut trimmed = trimmed.lock();
            // A failure is harmless: the next call of the function tries again.
            if least > *trimmed && journal.set_position(ALL, least).is_ok() {
                *trimmed = least;
                let _ = journal.trim_before(least);
            }
        })
    }

    /// Returns [`Refusal::Full`] or [`Refusal::Failing`] while the journal refuses every record.
    /// `None` does not exclude other refusals, such as back-pressure.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.journal.refusal()
    }

    /// Appends records to the journal. Returns the tickets of those records that may not be durable
    /// yet.
    pub(crate) fn append(&self, packed: &PackedRecords) -> Result<Vec<Ticket>, Refusal> {
        let mut tickets: Vec<Ticket> = Vec::new();
        let mut payloads: Vec<Payload<'_>> = Vec::new();
        let (mut start, mut bytes) = (0, 0);
        for end in packed.ends.iter().copied().chain([packed.bytes.len()]) {
            let record = packed.bytes.get(start..end).unwrap_or_default();
            start = end;
            if record.is_empty() {
                continue;
            }
            if bytes + record.len() > APPEND_BYTES && !payloads.is_empty() {
                let ticket = self.journal.append(&payloads)?;
                // Further records could exceed the journal's limit for waiting bytes.
                ticket.wait()?;
                payloads.clear();
                bytes = 0;
            }
            payloads.push(Payload { kind: 1, bytes: record });
            bytes += record.len();
        }
        if !payloads.is_empty() {
            tickets.push(self.journal.append(&payloads)?);
        }
        Ok(tickets)
    }

    /// Returns the refusal of the journal, or else the first nonempty status of an outlet, or else
    /// an empty string.
    pub(crate) fn status(&self) -> String {
        if let Some(refusal) = self.refusal() {
            return refusal.to_string();
        }
        self.states
            .iter()
            .map(|states| states.status())
            .find(|text| !text.is_empty())
            .unwrap_or_default()
    }

    /// Returns the size of the journal on disk, in bytes.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.journal.file_bytes()
    }

    /// Requests that the outlets' threads end; does not wait.
    pub(crate) fn request_stop(&self) {
        self.stop.request();
    }
}

impl Drop for CategoryQueue {
    fn drop(&mut self) {
        self.stop.request();
        for thread in std::mem::take(self.threads.get_mut()) {
            let _ = thread.join();
        }
    }
}

/// Encoded messages of one category, divided into journal records.
#[derive(Default)]
pub(crate) struct PackedRecords {
    bytes: Vec<u8>,
    /// End offsets in `bytes` of all records but the last.
    ends: Vec<usize>,
    pub(crate) count: u64,
}

impl PackedRecords {
    pub(crate) fn push(&mut self, entry: blkkin_scribe::Entry<'_>) {
        let start = self.ends.last().copied().unwrap_or(0);
        let size = crate::messages::OVERHEAD + entry.category.len() + entry.message.len();
        if self.bytes.len() > start && self.bytes.len() - start + size > RECORD_BYTES {
            self.ends.push(self.bytes.len());
        }
        crate::messages::put(&mut self.bytes, entry);
        self.count += 1;
    }
}

/// Returns the targets of all stores. Targets with equal names get distinct names.
fn unique_targets(stores: &[&StorePlan]) -> Vec<Target> {
    let mut all: Vec<Target> = Vec::new();
    for store in stores {
        for target in targets(store) {
            let mut name = target.name.clone();
            let mut number = 1;
            while all.iter().any(|other| other.name == name) {
                number += 1;
                name = format!("{}-{number}", target.name);
            }
            all.push(target.named(name));
        }
    }
    all
}

/// Returns the parent directory of these stores' journals: `queue` in the directory of the first
/// buffer store that names one, or else in the common directory. Buffer stores within bucket stores
/// are ignored.
fn root(stores: &[&StorePlan], common: &QueueSettings) -> PathBuf {
    let buffer = stores.iter().find_map(|store| buffer_directory(&store.kind));
    buffer.unwrap_or(&common.directory).join("queue")
}

fn buffer_directory(kind: &Kind) -> Option<&Path> {
    match kind {
        Kind::Buffer(plan) => plan.directory.as_deref(),
        Kind::Multi { children, .. } => children.iter().find_map(buffer_directory),
        Kind::Category(model) => buffer_directory(model),
        _ => None,
    }
}

/// Returns the parent directories of the journals of all stores.
pub(crate) fn roots(stores: &[StorePlan], common: &QueueSettings) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = vec![common.directory.join("queue")];
    for store in stores {
        let root = root(&[store], common);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// Returns the categories that have a journal below `root`.
pub(crate) fn categories_below(root: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let categories = entries.flatten().map(|entry| fs::read(entry.path().join(CATEGORY)));
    categories.filter_map(Result::ok).collect()
}

/// Returns the directory name for a category: the category's first 40 ASCII letters, digits, `-`
/// and `_`, and a hash of the whole category.
fn directory_name(category: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let plain = category.iter().filter(|byte| is_plain(byte)).take(40);
    let plain: String = plain.map(|byte| char::from(*byte)).collect();
    format!("{plain}-{:016x}", fnv1a(category))
}

/// Creates the directory of a category and its file with the category's name, and makes both
/// durable.
fn name_directory(directory: &Path, category: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let path = directory.join(CATEGORY);
    match fs::read(&path) {
        Ok(categories_below) if categories_below == category => return Ok(()),
        Ok(_) => return Err(io::Error::other("another category has this directory")),
        Err(_) => {}
    }
    let new = directory.join("category.new");
    let mut file = fs::File::create(&new)?;
    file.write_all(category)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    for directory in directory.ancestors().take(3) {
        // Makes the new names durable in the directory and in its ancestors, which may also be new.
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}
