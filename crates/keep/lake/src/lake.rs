//! The store: takes batches, and keeps what is in memory and what is in files together. Start at [`Lake`].
//!
//! A batch goes the same way whether it comes from the network or, after an end that was not in order, from the
//! journal: it is read into a block, and the block is added to the head in the order of the journal. The head becomes
//! a file ([`crate::write`]), and files become one ([`crate::merge`]), each by one commit of the manifest.

use crate::aside::{self, Aside};
use crate::cache::Cache;
use crate::head::Head;
use crate::index::LinkCount;
use crate::ledger::{Calls, Ledger};
use crate::links::{Earlier, LinkTable, Linked};
use crate::manifest::{Manifest, Totals};
use crate::names::Names;
use crate::part::{self, Part};
use crate::record::{Gathered, Gathering, payloads};
use crate::retain::Allowance;
use crate::snapshot::Snapshot;
use crate::{Error, Options, batch, links, merge, write};
use blkkin_columns::Block;
use blkkin_journal::{Directory, Disk, Item, Journal, Lock};
use blkkin_store::{Accepted, Batch, Counters, Done, Interval, Refusal};
use blkkin_wire::{Decoder, End, Outcome};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long who brings a batch waits for room before it is turned away.
const WAIT_FOR_ROOM: Duration = Duration::from_secs(1);
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Decoders and blocks that are kept for the next batch.
const SPARE_MAX: usize = 16;

/// Keeps spans in a directory.
pub struct Lake {
    pub(crate) shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// What was found when a store was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// Files of spans.
    pub files: usize,
    /// Spans in them.
    pub spans: u64,
    /// Spans that were only in the journal.
    pub recovered: u64,
    /// What could not be read, and was left out: one line each.
    pub damage: Vec<String>,
}

/// Files, in order of what was received when.
pub(crate) type Parts = Arc<Vec<Arc<Part>>>;

/// What all threads of a store share.
pub(crate) struct Shared {
    pub(crate) memory: Arc<Memory>,
    pub(crate) root: Arc<dyn Disk>,
    pub(crate) spans: Arc<dyn Disk>,
    pub(crate) journal: Journal,
    /// Who changes the manifest has this for as long as it takes.
    pub(crate) manifest: Mutex<Manifest>,
    pub(crate) parts: RwLock<Parts>,
    /// What is in memory of them.
    pub(crate) cache: Arc<Cache>,
    /// The calls of all of them.
    pub(crate) ledger: Mutex<Ledger>,
    /// Links of the head, as they were found last.
    pub(crate) head_links: Mutex<HeadLinks>,
    /// New files of manifests that could not be written: one copy may name them.
    doubtful: Mutex<Vec<u64>>,
    /// Files that were found damaged.
    pub(crate) aside: Mutex<Aside>,
}

/// What is in memory. The journal's thread has a part in it, so that it must not have the journal.
pub(crate) struct Memory {
    pub(crate) options: Options,
    state: Mutex<State>,
    /// The head has become smaller.
    pub(crate) room: Condvar,
    /// There may be something to write, or to end.
    pub(crate) work: Condvar,
    spare_decoders: Mutex<Vec<Decoder>>,
    spare_blocks: Mutex<Vec<Block>>,
    cache: Arc<Cache>,
}

#[derive(Default)]
pub(crate) struct State {
    pub(crate) head: Head,
    /// When the first span that is in no file came.
    pub(crate) waits_since: Option<Duration>,
    pub(crate) counters: Counters,
    /// All accepted spans that the head has, or had and are in files.
    pub(crate) totals: Totals,
    /// Why files cannot be written.
    pub(crate) trouble: Option<String>,
    /// Somebody waits until all records of the journal before this one are in files.
    pub(crate) wanted: u64,
    /// Up to here they are.
    pub(crate) written: u64,
    pub(crate) ends: bool,
}

/// Links of what the head had, and what they were found by.
#[derive(Default)]
pub(crate) struct HeadLinks {
    links: Arc<Vec<LinkCount>>,
    /// What files have of its requests.
    earlier: Arc<Earlier>,
    added: u64,
    written: u64,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Lake {
    /// Opens the store in a directory, which is made if it is not there.
    pub fn open(directory: &Path, options: Options) -> Result<(Lake, Opened), Error> {
        let disk =
            Directory::make(directory).map_err(Error::io(directory.display().to_string()))?;
        Lake::open_on(Arc::new(disk), options)
    }

    /// The same on another kind of disk.
    pub fn open_on(root: Arc<dyn Disk>, options: Options) -> Result<(Lake, Opened), Error> {
        let journal = root.directory("journal").map_err(Error::io("journal"))?;
        // Whoever has the journal has the whole directory.
        let (journal, recovery) = Journal::open_on(journal, options.journal.clone())?;
        let spans = root.directory("spans").map_err(Error::io("spans"))?;
        let mut opened = Opened::default();
        if recovery.torn_bytes > 0 {
            let bytes = recovery.torn_bytes;
            opened.damage.push(format!(
                "{bytes} bytes at the end of the journal, perhaps never acknowledged"
            ));
        }
        let names = Names::list(&*spans)?;
        let read = Manifest::read(&*root)?;
        let found = read.as_ref().map(|(manifest, _)| manifest);
        names.check(found, recovery.next_sequence > 0)?;
        let mut manifest = match read {
            Some((manifest, is_damaged)) => {
                if is_damaged {
                    opened.damage.push("one copy of the manifest, which is made again".to_owned());
                }
                manifest
            }
            None => Manifest::default(),
        };
        if recovery.next_sequence == 0 && manifest.journal_sequence > 0 {
            opened.damage.push("the journal, which is missing or empty".to_owned());
        }
        manifest.next_file = manifest.next_file.max(names.next_number);
        // Records that were refused had numbers, too, which the journal gives again: what gets them is in no file.
        manifest.journal_sequence = manifest.journal_sequence.min(recovery.next_sequence);
        if options.notes_retention {
            manifest.retention = Some(options.retention);
        }
        let cache = Arc::new(Cache::new(options.cache_bytes_max));
        let lost_before = manifest.totals.lost;
        let named = manifest.named().count();
        let parts = open_parts(&spans, &cache, &mut manifest, &mut opened)?;
        let are_all_open = parts.len() == named;
        for part in parts.iter().filter(|part| !names.spans.contains(&part.entry.number)) {
            let _ = part::publish(&*spans, part.entry.number);
        }
        if are_all_open {
            // While a file of the store cannot be read, what it was made of is kept.
            let mut left = Vec::new();
            for file in &manifest.removing {
                let name = part::spans_name(file.number);
                if has_another_size(&*spans, &name, file.bytes) {
                    opened.damage.push(format!(
                        "spans/{name}, which has another size than the file that the store gave up under this \
                         name, and is left alone"
                    ));
                    left.push(file.clone());
                } else if !remove(&*spans, file.number) {
                    left.push(file.clone());
                }
            }
            if spans.sync().is_ok() {
                manifest.removing = left;
            }
        }
        let is_more_lost = manifest.totals.lost > lost_before || !manifest.unread.is_empty();
        let mut ledger = Ledger::new(options.links_bytes_max);
        parts.iter().for_each(|part| ledger.add(&part.links().unwrap_or_default(), 1));
        manifest.commit += 1;
        manifest.write(&*root)?;
        names.remove_unfinished(&*spans, &manifest);
        let mut aside = Aside::find(Arc::clone(&spans));
        aside.keep_to(options.aside_bytes_max);
        opened.files = parts.len();
        opened.spans = parts.iter().map(|part| part.entry.spans).sum();
        let totals = manifest.totals;
        let state =
            State { head: Head::new(manifest.journal_sequence), totals, ..State::default() };
        let memory = Arc::new(Memory {
            options,
            state: Mutex::new(state),
            room: Condvar::new(),
            work: Condvar::new(),
            spare_decoders: Mutex::default(),
            spare_blocks: Mutex::default(),
            cache: Arc::clone(&cache),
        });
        let shared = Arc::new(Shared {
            memory,
            root,
            spans,
            journal,
            manifest: Mutex::new(manifest),
            parts: RwLock::new(Arc::new(parts)),
            cache,
            ledger: Mutex::new(ledger),
            head_links: Mutex::default(),
            doubtful: Mutex::default(),
            aside: Mutex::new(aside),
        });
        let mut lake = Lake { shared, threads: Vec::new() };
        lake.start("lake-write", write::run)?;
        lake.shared.recover(&mut opened)?;
        lake.shared.memory.count_damage(opened.damage.len() as u64, is_more_lost);
        lake.start("lake-merge", merge::run)?;
        lake.start("lake-links", links::run)?;
        Ok((lake, opened))
    }

    fn start(&mut self, name: &str, run: fn(&Shared)) -> Result<(), Error> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new().name(name.to_owned());
        let thread = thread.spawn(move || run(&shared)).map_err(Error::io(name))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits until all that was taken is in files. It need not be for being durable.
    pub fn write_files(&self) -> Result<(), String> {
        let memory = &self.shared.memory;
        let mut state = memory.state();
        let wanted = state.head.sequence;
        state.wanted = wanted;
        memory.work.notify_all();
        while state.written < wanted && state.trouble.is_none() {
            state = memory.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.trouble.clone().map_or(Ok(()), Err)
    }

    /// Finds the calls of what is in memory now, rather than soon.
    pub fn link(&self) {
        self.shared.refresh_head_links();
    }
}

impl Drop for Lake {
    fn drop(&mut self) {
        self.shared.memory.state().ends = true;
        self.shared.memory.work.notify_all();
        for thread in self.threads.drain(..) {
            // One that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Opens the files that a manifest names. One that is damaged is left out, and put aside; one that the system does not let
/// us read, or put aside, is left out until the store is opened again.
pub(crate) fn open_parts(
    spans: &Arc<dyn Disk>,
    cache: &Arc<Cache>,
    manifest: &mut Manifest,
    opened: &mut Opened,
) -> Result<Vec<Arc<Part>>, Error> {
    let mut parts = Vec::new();
    for entry in manifest.take_files() {
        let lost = entry.spans;
        let name = part::spans_name(entry.number);
        match Part::open(Arc::clone(spans), Arc::clone(cache), entry.clone(), &parts) {
            Ok(part) => {
                parts.push(Arc::new(part));
                manifest.files.push(entry);
            }
            Err(error) if error.may_pass() || !aside::put(&**spans, entry.number) => {
                manifest.totals.lost += lost;
                manifest.unread.push(entry);
                opened.damage.push(format!(
                    "{lost} spans of {name}, which is tried again at the next start: {error}"
                ));
            }
            Err(error) => {
                manifest.totals.lost += lost;
                opened.damage.push(format!("{lost} spans of {name}: {error}"));
            }
        }
    }
    Ok(parts)
}

/// Removes a file that the store gave up; whether it is gone.
fn remove(spans: &dyn Disk, number: u64) -> bool {
    [part::spans_name(number), part::index_name(number)]
        .iter()
        .all(|name| spans.remove(name).is_ok() || is_missing(spans, name))
}

/// Whether a file is there, and has not so many bytes.
fn has_another_size(spans: &dyn Disk, name: &str, bytes: u64) -> bool {
    spans.open(name).and_then(|file| file.size_bytes()).is_ok_and(|size| size != bytes)
}

/// Keeps all others from a store until what is returned is dropped.
pub(crate) fn lock_store(journal: &dyn Disk) -> Result<Lock, Error> {
    journal.lock(true).map_err(Error::io("journal"))?.ok_or(Error::InUse)
}

pub(crate) fn is_missing(disk: &dyn Disk, name: &str) -> bool {
    disk.open(name).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
}

impl Shared {
    /// All that can be asked for just now.
    pub(crate) fn snapshot(&self) -> Snapshot {
        self.snapshot_of(&mut self.memory.state())
    }

    /// A part appears, and what it was made of is gone from the head, while the state is locked.
    fn snapshot_of(&self, state: &mut State) -> Snapshot {
        let batches = state.head.snapshot();
        let parts = Arc::clone(&self.parts.read().unwrap_or_else(PoisonError::into_inner));
        let earlier = Arc::clone(&lock(&self.head_links).earlier);
        Snapshot { batches, earlier, parts }
    }

    /// Takes a batch.
    pub(crate) fn accept(&self, batch: &Batch<'_>, done: Done) {
        let memory = &self.memory;
        if let Err(refusal) = memory.wait_for_room() {
            memory.count_turned_away();
            return done(Err(refusal));
        }
        let (outcome, blocks) = memory.decode(batch);
        if blocks.iter().all(Block::is_empty) {
            let mut state = memory.state();
            memory.count_refused(&mut state, &outcome);
            state.counters.batches += u64::from(outcome.is_good());
            drop(state);
            blocks.into_iter().for_each(|block| memory.give_back(block));
            return done(Ok(Accepted { outcome }));
        }
        let payloads = payloads(batch, memory.options.journal.payload_bytes_max);
        let records = payloads.len() as u64;
        // Only one of two who could call it does: this one, if the journal does not take the batch.
        let held = Arc::new(Mutex::new(Some((outcome, blocks, done))));
        let deadline = Instant::now() + WAIT_FOR_ROOM;
        loop {
            let (memory, taken) = (Arc::clone(memory), Arc::clone(&held));
            let appended = self.journal.append_then(&payloads, move |result| {
                let Some((outcome, blocks, done)) = lock(&taken).take() else { return };
                match result {
                    Ok(()) => {
                        memory.publish(blocks, records, &outcome);
                        done(Ok(Accepted { outcome }));
                    }
                    Err(refusal) => {
                        memory.publish(Vec::new(), records, &Outcome::default());
                        memory.turn_away(&refusal, done);
                    }
                }
            });
            match appended {
                Ok(_) => return,
                Err(blkkin_journal::Refusal::TryAgain) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(refusal) => {
                    if let Some((_, _, done)) = lock(&held).take() {
                        self.memory.turn_away(&refusal, done);
                    }
                    return;
                }
            }
        }
    }

    /// Makes `next`, which has these new files, what the store consists of. If that fails, they are kept until it has
    /// succeeded without them, as one copy may name them.
    pub(crate) fn write_manifest(
        &self,
        next: &Manifest,
        new: impl IntoIterator<Item = u64>,
    ) -> Result<(), Error> {
        let mut doubtful = lock(&self.doubtful);
        match next.write(&*self.root) {
            Ok(()) => {
                doubtful.drain(..).for_each(|number| part::remove_unfinished(&*self.spans, number));
            }
            Err(error) => {
                doubtful.extend(new);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Before more files are made, those of manifests that could not be written go: tries that follow each other must
    /// not fill the disk.
    pub(crate) fn settle(&self) -> Result<(), Error> {
        if lock(&self.doubtful).is_empty() {
            return Ok(());
        }
        let mut manifest = lock(&self.manifest);
        let next = self.next_manifest(&manifest);
        self.write_manifest(&next, [])?;
        *manifest = next;
        Ok(())
    }

    /// The next manifest, which lists files as being removed as long as they are there.
    pub(crate) fn next_manifest(&self, manifest: &Manifest) -> Manifest {
        let mut next = manifest.next();
        // Without this a power failure could bring a file back that no manifest lists any more.
        if next.removing.is_empty() || self.spans.sync().is_err() {
            return next;
        }
        next.removing.retain(|file| {
            let names = [part::spans_name(file.number), part::index_name(file.number)];
            names.iter().any(|name| !is_missing(&*self.spans, name))
        });
        next
    }

    /// What the head held becomes a part, or parts become others, and is counted. What was there before is returned:
    /// removing files takes long, and must not be waited for by who wants the state.
    #[must_use]
    pub(crate) fn replace_parts(
        &self,
        state: &mut State,
        parts: Vec<Arc<Part>>,
        totals: Totals,
    ) -> Parts {
        let mut current = self.parts.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *current, Arc::new(parts));
        state.totals.duplicates += totals.duplicates;
        state.totals.expired += totals.expired;
        if totals.expired > 0 {
            let now_ns = self.memory.options.clock.now_ns();
            Interval::note(&mut state.counters.times.expired, now_ns);
        }
        state.totals.lost += totals.lost;
        before
    }

    /// Reads what is only in the journal.
    fn recover(&self, opened: &mut Opened) -> Result<(), Error> {
        let memory = &self.memory;
        let from = memory.state().head.sequence;
        let mut reader = self.journal.reader(from);
        let mut gathered = Gathered::default();
        let mut before = from;
        while let Some(item) = reader.next()? {
            match item {
                Item::Record(record) => {
                    let end = record.sequence + 1;
                    let (outcome, blocks) = match gathered.push(record.kind, record.payload) {
                        // What is in files must end where a batch ends.
                        Gathering::Begun => continue,
                        Gathering::Batch(batch) => {
                            let (outcome, blocks) = memory.decode(&batch);
                            opened.recovered += outcome.given;
                            opened.damage.extend(batch::damage(&batch, &outcome, record.sequence));
                            (outcome, blocks)
                        }
                        Gathering::Unknown => {
                            opened.damage.push(batch::unknown(record.sequence));
                            (Outcome::default(), Vec::new())
                        }
                    };
                    memory.publish(blocks, end - before, &outcome);
                    before = end;
                }
                Item::Damage(damage) => {
                    gathered.clear();
                    let what = format!("{} bytes at {} of", damage.bytes, damage.offset);
                    let file = damage.file();
                    let torn = if damage.may_be_torn { ", perhaps never acknowledged" } else { "" };
                    opened.damage.push(format!("{what} journal/{file}{torn}"));
                }
                Item::Gone(range) => {
                    gathered.clear();
                    let (first, behind) = (range.start, range.end);
                    opened
                        .damage
                        .push(format!("records {first} to {behind} of the journal are gone"));
                }
            }
            // Memory is bounded here as it is when batches come.
            memory.wait_until_written();
        }
        let next = reader.position();
        if next > before {
            memory.publish(Vec::new(), next - before, &Outcome::default());
        }
        Ok(())
    }

    /// What has been taken, is kept and is gone.
    pub(crate) fn counters(&self) -> Counters {
        let parts = Arc::clone(&self.parts.read().unwrap_or_else(PoisonError::into_inner));
        // Who has it may be removing files, which nobody waits for who has the state.
        let (aside_bytes, aside_removed) = {
            let aside = lock(&self.aside);
            (aside.bytes(), aside.removed)
        };
        let state = self.memory.state();
        let Totals { accepted, duplicates, expired, lost } = state.totals;
        let earlier = lock(&self.head_links).earlier.spans().memory_bytes();
        let in_memory = self.cache.bytes() + lock(&self.ledger).memory_bytes() + earlier;
        let damaged = parts.iter().filter(|part| part.is_damaged()).map(|part| part.entry.spans);
        let on_disk = parts.iter().map(|part| part.entry.bytes_on_disk());
        Counters {
            accepted,
            duplicates,
            expired,
            lost,
            kept: accepted.saturating_sub(duplicates + expired + lost),
            memory_bytes: (state.head.memory_bytes() + in_memory) as u64,
            disk_bytes: on_disk.sum::<u64>() + aside_bytes + self.journal.file_bytes(),
            aside_bytes,
            aside_removed,
            damaged: damaged.sum(),
            ..state.counters
        }
    }

    /// Finds the links of what is in no file again, and what files have of its requests, if that has changed.
    pub(crate) fn refresh_head_links(&self) {
        let (snapshot, added, written) = {
            let mut state = self.memory.state();
            (self.snapshot_of(&mut state), state.head.added, state.head.written)
        };
        {
            let links = lock(&self.head_links);
            if (links.added, links.written) == (added, written) {
                return;
            }
        }
        let Linked { table, earlier, .. } = LinkTable::of(&snapshot.sorted(), &snapshot.parts);
        let (links, earlier) = (Arc::new(table.counts()), Arc::new(earlier));
        *lock(&self.head_links) = HeadLinks { links, earlier, added, written };
    }

    /// Calls in some minutes: those of files, as far as they are known, the files, and the calls of what is in none as
    /// they were found last, unless it is in files by now.
    pub(crate) fn known_links(
        &self,
        minutes: &RangeInclusive<u64>,
    ) -> (Calls, Parts, Arc<Vec<LinkCount>>) {
        let state = self.memory.state();
        let parts = Arc::clone(&self.parts.read().unwrap_or_else(PoisonError::into_inner));
        let head = lock(&self.head_links);
        let is_current = head.written == state.head.written;
        let links = if is_current { Arc::clone(&head.links) } else { Arc::default() };
        // Files come and go while the state is locked, so that nobody is in both or none of them.
        let ledger = lock(&self.ledger);
        drop((head, state));
        (ledger.calls(minutes), parts, links)
    }
}

impl Memory {
    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    fn turn_away(&self, refusal: &blkkin_journal::Refusal, done: Done) {
        self.count_turned_away();
        done(Err(Refusal { reason: refusal.to_string(), retry_after: RETRY_AFTER }));
    }

    fn count_damage(&self, damages: u64, is_more_lost: bool) {
        let mut state = self.state();
        state.counters.damages = damages;
        let times = &mut state.counters.times;
        let now_ns = self.options.clock.now_ns();
        if damages > 0 {
            Interval::note(&mut times.damages, now_ns);
        }
        if is_more_lost {
            Interval::note(&mut times.lost, now_ns);
        }
    }

    fn count_turned_away(&self) {
        let mut state = self.state();
        state.counters.turned_away += 1;
        Interval::note(&mut state.counters.times.turned_away, self.options.clock.now_ns());
    }

    fn count_refused(&self, state: &mut State, outcome: &Outcome) {
        let refused = refused(outcome);
        state.counters.refused += refused;
        if refused > 0 {
            Interval::note(&mut state.counters.times.refused, self.options.clock.now_ns());
        }
    }

    /// Waits a little if there is too much that is in no file.
    fn wait_for_room(&self) -> Result<(), Refusal> {
        let deadline = Instant::now() + WAIT_FOR_ROOM;
        let mut state = self.state();
        while state.head.memory_bytes() > self.options.memory_bytes_max {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let why = state.trouble.as_deref().unwrap_or("the disk is too slow");
                let reason =
                    format!("memory holds all that it may, as it cannot be written: {why}");
                return Err(Refusal { reason, retry_after: RETRY_AFTER });
            }
            let waited = self.room.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        Ok(())
    }

    /// Reads a batch, and what becomes of its spans by its policy.
    fn decode(&self, batch: &Batch<'_>) -> (Outcome, Vec<Block>) {
        let spare = lock(&self.spare_decoders).pop();
        let mut decoder = spare.unwrap_or_else(|| Decoder::new(self.options.limits));
        let (outcome, blocks) = batch::read(&mut decoder, batch, &|| self.block());
        let mut spare = lock(&self.spare_decoders);
        if spare.len() < SPARE_MAX {
            spare.push(decoder);
        }
        (outcome, blocks)
    }

    fn block(&self) -> Block {
        lock(&self.spare_blocks).pop().unwrap_or_default()
    }

    /// A block that nobody needs any more is kept, if it is of a usual size.
    pub(crate) fn give_back(&self, mut block: Block) {
        let mut spare = lock(&self.spare_blocks);
        if spare.len() < SPARE_MAX && block.memory_bytes() < 4 << 20 {
            block.clear();
            spare.push(block);
        }
    }

    /// Adds what so many records of the journal say, which follow those that were added before.
    fn publish(&self, blocks: Vec<Block>, records: u64, outcome: &Outcome) {
        let spans: u64 = blocks.iter().map(|block| block.len() as u64).sum();
        let mut state = self.state();
        let sequence = state.head.sequence + records;
        self.count_refused(&mut state, outcome);
        if spans > 0 {
            state.counters.batches += 1;
            state.totals.accepted += spans;
            let uptime = self.options.clock.uptime();
            state.waits_since.get_or_insert(uptime);
        }
        blocks.into_iter().for_each(|block| state.head.push(block));
        state.head.reach(sequence);
        let (is_full, bytes) = (state.head.is_full(&self.options), state.head.memory_bytes());
        drop(state);
        self.share(bytes);
        if is_full {
            self.work.notify_all();
        }
    }

    /// What is in no file may need what files have in memory: half of its own it has for itself.
    fn share(&self, head_bytes: usize) {
        self.cache.give_way_to(head_bytes.saturating_sub(self.options.memory_bytes_max / 2));
    }

    /// The head may have become smaller.
    pub(crate) fn tell_of_room(&self) {
        let bytes = self.state().head.memory_bytes();
        self.share(bytes);
        self.room.notify_all();
    }

    fn wait_until_written(&self) {
        let mut state = self.state();
        while state.head.memory_bytes() > self.options.memory_bytes_max && state.trouble.is_none() {
            state = self.room.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// How many spans a batch had that were refused.
fn refused(outcome: &Outcome) -> u64 {
    outcome.refused + u64::from(matches!(outcome.end, End::Broken(_)))
}

/// How long went by, and how much went for its age.
pub(crate) type Expiry = Allowance;
