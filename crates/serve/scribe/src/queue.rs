//! A category's way through the daemon: its journal, and an outlet for each store that it goes to.
//!
//! A journal's directory has a file `category` with the category's name, since not each of them can be the name of a
//! directory; by that it is found when the daemon is started again.

use crate::counters::Counters;
use crate::outlet::{Outlet, Seen, Stop, Target, targets};
use crate::plan::{Kind, StorePlan};
use crate::stores::Place;
use blkkin_journal::{AtLimit, Journal, Options, Payload, Refusal, Ticket};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Reserved whole for each category.
const SEGMENT_BYTES: u64 = 8 << 20;

/// A record: many messages, or a large one.
pub(crate) const RECORD_BYTES: usize = 256 << 10;

/// The largest message with its category.
pub(crate) const MESSAGE_BYTES_MAX: usize = (4 << 20) - 64;

/// What is appended before it is waited for.
const APPEND_BYTES: usize = 4 << 20;

/// The name of the file that holds the category.
const CATEGORY: &str = "category";

/// The place in the journal before which all stores have all.
const ALL: &str = "all";

pub(crate) struct Lane {
    pub(crate) counters: Arc<Counters>,
    journal: Arc<Journal>,
    stop: Arc<Stop>,
    seen: Vec<Arc<Seen>>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What lanes have in common.
#[derive(Clone)]
pub(crate) struct Common {
    pub(crate) directory: PathBuf,
    pub(crate) quota_bytes: u64,
    pub(crate) overall: Arc<Counters>,
}

impl Lane {
    /// Opens a category's journal, which is made if it is not there, and goes on with what it holds.
    pub(crate) fn open(
        category: &[u8],
        stores: &[&StorePlan],
        is_exact: bool,
        common: &Common,
    ) -> Result<Lane, String> {
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
        let place = Place {
            category: category.to_vec(),
            is_exact,
            bucket: None,
            may_be_torn: !recovery.was_closed,
        };
        let mut lane = Lane {
            counters: Arc::default(),
            journal: Arc::clone(&journal),
            stop: Arc::default(),
            seen: Vec::new(),
            threads: Mutex::default(),
        };
        let mut outlets = Vec::new();
        for target in all_targets(stores) {
            let from = position(&target.name)?.unwrap_or(start);
            let seen = Arc::new(Seen::default());
            seen.position.store(from, Ordering::Release);
            lane.seen.push(Arc::clone(&seen));
            outlets.push((target, seen, from));
        }
        let trim = lane.trim();
        for (target, seen, from) in outlets {
            let outlet = Outlet {
                journal: Arc::clone(&journal),
                target,
                place: place.clone(),
                counters: Arc::clone(&lane.counters),
                overall: Arc::clone(&common.overall),
                seen,
                stop: Arc::clone(&lane.stop),
                trim: Arc::clone(&trim),
            };
            let thread = std::thread::Builder::new().name("scribe store".to_owned());
            let thread = thread.spawn(move || outlet.run(from)).map_err(failed)?;
            lane.threads.lock().map_err(|_| "a thread has panicked")?.push(thread);
        }
        Ok(lane)
    }

    /// What removes all that all outlets have.
    fn trim(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (journal, seen) = (Arc::clone(&self.journal), self.seen.clone());
        let trimmed = Mutex::new(0);
        Arc::new(move || {
            let positions = seen.iter().map(|seen| seen.position.load(Ordering::Acquire));
            let Some(least) = positions.min() else { return };
            let Ok(mut trimmed) = trimmed.lock() else { return };
            // If this fails now, it is done the next time.
            if least > *trimmed && journal.set_position(ALL, least).is_ok() {
                *trimmed = least;
                let _ = journal.trim_before(least);
            }
        })
    }

    /// Why nothing can be taken just now.
    pub(crate) fn refusal(&self) -> Option<Refusal> {
        self.journal.refusal()
    }

    /// Appends records; those that are not durable yet have tickets.
    pub(crate) fn append(&self, packed: &Packed) -> Result<Vec<Ticket>, Refusal> {
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
                // More would not fit into what may wait.
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

    /// What is wrong with its stores.
    pub(crate) fn status(&self) -> String {
        if let Some(refusal) = self.refusal() {
            return refusal.to_string();
        }
        self.seen.iter().map(|seen| seen.status()).find(|text| !text.is_empty()).unwrap_or_default()
    }

    /// What its journal takes on disk.
    pub(crate) fn file_bytes(&self) -> u64 {
        self.journal.file_bytes()
    }

    /// Tells its threads to end.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.ask();
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        self.stop.ask();
        let threads = self.threads.get_mut();
        for thread in threads.map(std::mem::take).unwrap_or_default() {
            let _ = thread.join();
        }
    }
}

/// Messages of a category, packed into records.
#[derive(Default)]
pub(crate) struct Packed {
    bytes: Vec<u8>,
    /// Where records end, but for the last one.
    ends: Vec<usize>,
    pub(crate) count: u64,
}

impl Packed {
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

/// The targets of all stores, each with a name of its own.
fn all_targets(stores: &[&StorePlan]) -> Vec<Target> {
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

/// Where the journals of these stores lie: where the first buffer's secondary says, or where all do.
fn root(stores: &[&StorePlan], common: &Common) -> PathBuf {
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

/// All places where journals may lie.
pub(crate) fn roots(stores: &[StorePlan], common: &Common) -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = vec![common.directory.join("queue")];
    for store in stores {
        let root = root(&[store], common);
        if !roots.contains(&root) {
            roots.push(root);
        }
    }
    roots
}

/// The categories of journals that there are below `root`.
pub(crate) fn found(root: &Path) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(root) else { return Vec::new() };
    let categories = entries.flatten().map(|entry| fs::read(entry.path().join(CATEGORY)));
    categories.filter_map(Result::ok).collect()
}

/// What people can read of the category, and a number by which others differ.
fn directory_name(category: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let plain = category.iter().filter(|byte| is_plain(byte)).take(40);
    let plain: String = plain.map(|byte| char::from(*byte)).collect();
    format!("{plain}-{:016x}", digest(category))
}

/// FNV-1a, which is the same in every release.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Makes the directory of a category, with its name in it, durably.
fn name_directory(directory: &Path, category: &[u8]) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    let path = directory.join(CATEGORY);
    match fs::read(&path) {
        Ok(found) if found == category => return Ok(()),
        Ok(_) => return Err(io::Error::other("another category has this directory")),
        Err(_) => {}
    }
    let new = directory.join("category.new");
    let mut file = fs::File::create(&new)?;
    file.write_all(category)?;
    file.sync_all()?;
    fs::rename(&new, &path)?;
    for directory in directory.ancestors().take(3) {
        // The names of the directory, and of those above that may be new.
        fs::File::open(directory)?.sync_all()?;
    }
    Ok(())
}
