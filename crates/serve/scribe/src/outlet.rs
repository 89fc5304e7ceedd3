//! Delivery of a category's messages to one store. An outlet reads the journal and writes each
//! message to the store, in order, with retries until the store has accepted it. Without
//! `must_succeed`, a failed message counts as lost instead. Start at [`Outlet::run`].
//!
//! The outlet's position advances only after the store has made the messages before it durable. So
//! after a crash some messages are delivered twice, and none is lost.

use crate::counters::{Counters, add};
use crate::messages::{Batch, Messages};
use crate::plan::{BufferPlan, Kind, StorePlan};
use crate::stores::{Failure, Store, StoreContext, WriteCounts, build};
use blkkin_journal::{Item, Journal, Reader};
use blkkin_scribe::Backoff;
use parking_lot::{Condvar, Mutex};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Size in bytes at which a batch for a store is complete.
const BATCH_BYTES: usize = 1 << 20;

/// Interval at which an outlet stores its position durably while messages arrive.
const NOTE_EVERY: Duration = Duration::from_secs(1);

/// Time that an idle outlet waits for messages before it polls the stop flag.
const WAIT: Duration = Duration::from_millis(200);

/// Destination of one outlet's messages, with the retry policy.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// Name under which the journal stores the outlet's position.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) must_succeed: bool,
    retry_first: Duration,
    retry_longest: Duration,
    is_buffer: bool,
}

impl Target {
    /// Returns the same target with another name.
    pub(crate) fn named(self, name: String) -> Target {
        Target { name, ..self }
    }
}

/// First retry interval for stores, and every retry interval for reading the journal.
/// `RETRY_LONGEST` is the longest for stores on other machines. Buffer stores configure their own
/// intervals.
const RETRY_FIRST: Duration = Duration::from_millis(500);
const RETRY_LONGEST: Duration = Duration::from_secs(30);

/// Longest retry interval for stores on disk. A disk has no other clients to protect, and should be
/// used soon after it has free space again.
const RETRY_DISK: Duration = Duration::from_secs(2);

/// Returns the targets of a configured store. A multi store with `report_success=all` has a target
/// for each child, so no child waits for another. Every other store is one target.
pub(crate) fn targets(plan: &StorePlan) -> Vec<Target> {
    let mut all = Vec::new();
    collect_targets(&plan.kind, plan.must_succeed, &mut all);
    all
}

fn collect_targets(kind: &Kind, must_succeed: bool, all: &mut Vec<Target>) {
    let (retry_first, retry_longest, is_buffer) = match kind {
        Kind::Multi { children, is_any: false } => {
            return children.iter().for_each(|child| collect_targets(child, must_succeed, all));
        }
        Kind::Buffer(plan) => {
            let BufferPlan { retry_first, retry_longest, .. } = **plan;
            (retry_first, retry_longest, true)
        }
        _ if is_remote(kind) => (RETRY_FIRST, RETRY_LONGEST, false),
        _ => (RETRY_FIRST, RETRY_DISK, false),
    };
    // A buffer store never discards messages.
    let must_succeed = must_succeed || is_buffer;
    let (kind, name) = (kind.clone(), name(kind));
    all.push(Target { name, kind, must_succeed, retry_first, retry_longest, is_buffer });
}

/// Returns whether the store sends messages to other machines.
fn is_remote(kind: &Kind) -> bool {
    match kind {
        Kind::Network(_) => true,
        Kind::File(_) | Kind::Null => false,
        Kind::Buffer(plan) => is_remote(&plan.primary),
        Kind::Multi { children, .. } => children.iter().any(is_remote),
        Kind::Bucket(plan) => plan.model.iter().chain(&plan.each).any(is_remote),
        Kind::Category(model) => is_remote(model),
    }
}

/// Returns a name for the position of a store. It depends only on the store's destination, so the
/// position is found again after stores are reordered in the configuration.
fn name(kind: &Kind) -> String {
    let (word, what) = match kind {
        Kind::File(plan) => {
            ("file", format!("{:?}", (&plan.path, &plan.sub_directory, &plan.base)))
        }
        Kind::Network(plan) => ("network", plan.servers.join(" ")),
        Kind::Null => ("null", String::new()),
        Kind::Buffer(plan) => return name(&plan.primary),
        Kind::Multi { children, .. } => ("multi", children.iter().map(name).collect()),
        Kind::Bucket(plan) => {
            let names: String = plan.model.iter().chain(&plan.each).map(name).collect();
            ("bucket", format!("{names}{}", plan.directory))
        }
        Kind::Category(model) => ("category", name(model)),
    };
    format!("{word}-{:016x}", crate::fnv::fnv1a(what.as_bytes()))
}

/// State of an outlet, which its queue reads to trim the journal and to report problems.
#[derive(Debug, Default)]
pub(crate) struct OutletState {
    /// Position in the journal before which the store has all messages durably.
    pub(crate) position: AtomicU64,
    /// Last failure, until the retry of a batch succeeds or the outlet is idle; `SENDING_BUFFER`
    /// while a buffer store catches up; else empty.
    status: Mutex<String>,
}

impl OutletState {
    pub(crate) fn status(&self) -> String {
        self.status.lock().clone()
    }

    fn set(&self, text: String) {
        *self.status.lock() = text;
    }
}

/// Stop flag that several threads poll or wait for.
#[derive(Debug, Default)]
pub(crate) struct StopSignal {
    is_requested: AtomicBool,
    lock: Mutex<()>,
    asked: Condvar,
}

impl StopSignal {
    pub(crate) fn request(&self) {
        let _lock = self.lock.lock();
        self.is_requested.store(true, Ordering::Release);
        self.asked.notify_all();
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.is_requested.load(Ordering::Acquire)
    }

    /// Sleeps for `time`, or until the stop is requested.
    fn wait(&self, time: Duration) {
        let deadline = Instant::now() + time;
        let mut lock = self.lock.lock();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_asked() || left.is_zero() {
                return;
            }
            self.asked.wait_for(&mut lock, left);
        }
    }
}

pub(crate) struct Outlet {
    pub(crate) journal: Arc<Journal>,
    pub(crate) target: Target,
    pub(crate) context: StoreContext,
    pub(crate) counters: Arc<Counters>,
    pub(crate) overall: Arc<Counters>,
    pub(crate) state: Arc<OutletState>,
    pub(crate) stop: Arc<StopSignal>,
    /// Function that trims the journal up to the lowest position of all outlets.
    pub(crate) trim: Arc<dyn Fn() + Send + Sync>,
}

impl Outlet {
    /// Delivers the messages from position `from` on, until a stop is requested.
    pub(crate) fn run(self, from: u64) {
        let mut store = build(&self.target.kind, &self.context);
        let mut reader = self.journal.reader(from);
        let mut batch = Batch::default();
        // `delivered`: the store has all records before this position. `noted`: the last durable
        // position, and when it was stored.
        let (mut delivered, mut noted) = (from, (from, Instant::now()));
        let mut backoff = Backoff::new(self.target.retry_first, self.target.retry_longest);
        if self.target.is_buffer && self.has_more(&mut self.journal.reader(from)) {
            self.state.set("SENDING_BUFFER".to_owned());
        }
        while !self.stop.is_asked() {
            let from = reader.position();
            batch.reuse(from);
            match self.gather(&mut reader, &mut batch) {
                Ok(()) => {}
                Err(error) => {
                    self.state.set(error.0);
                    self.stop.wait(RETRY_FIRST);
                    continue;
                }
            }
            if !batch.is_empty() && !self.write_with_retries(&mut *store, &batch, &mut backoff) {
                break;
            }
            delivered = reader.position();
            let is_idle = delivered == from;
            if delivered > noted.0 && (is_idle || noted.1.elapsed() >= NOTE_EVERY) {
                match self.store_position(&mut *store, delivered) {
                    Ok(()) => noted = (delivered, Instant::now()),
                    Err(failure) => {
                        // The journal still has the messages that the store lost.
                        self.failed(&failure);
                        reader = self.journal.reader(noted.0);
                        delivered = noted.0;
                        self.stop.wait(backoff.next_delay());
                    }
                }
            } else if is_idle {
                self.state.set(String::new());
                reader.wait(WAIT);
            }
        }
        if delivered > noted.0 {
            let _ = self.store_position(&mut *store, delivered);
        }
    }

    fn has_more(&self, reader: &mut Reader) -> bool {
        matches!(reader.next(), Ok(Some(_)))
    }

    /// Reads records into a batch, until the batch is complete or the journal has no more records.
    fn gather(&self, reader: &mut Reader, batch: &mut Batch) -> Result<(), Failure> {
        while batch.bytes() < BATCH_BYTES {
            let item = match reader.next() {
                Ok(item) => item,
                Err(error) if batch.is_empty() => return Err(Failure(error.to_string())),
                // The records read so far are delivered first; the next call returns the error
                // again.
                Err(_) => break,
            };
            match item {
                None => break,
                Some(Item::Record(record)) => {
                    Messages(record.payload).for_each(|entry| batch.push(entry));
                }
                Some(Item::Damage(damage)) if damage.may_be_torn => {}
                Some(Item::Damage(damage)) => {
                    self.count_both(|counters| add(&counters.damaged, damage.records.unwrap_or(1)));
                }
                Some(Item::Missing(range)) => {
                    self.count_both(|counters| add(&counters.damaged, range.end - range.start));
                }
            }
        }
        Ok(())
    }

    /// Writes a batch, with retries if the target must succeed. Returns false if a stop is
    /// requested before a retry succeeds.
    fn write_with_retries(
        &self,
        store: &mut dyn Store,
        batch: &Batch,
        backoff: &mut Backoff,
    ) -> bool {
        let (mut has_failed, mut progress) = (false, 0);
        loop {
            match store.write(batch) {
                Ok(wrote) => {
                    backoff.reset();
                    if has_failed {
                        let status = if self.target.is_buffer { "SENDING_BUFFER" } else { "" };
                        self.state.set(status.to_owned());
                    }
                    self.count(wrote);
                    return true;
                }
                Err(failure) => {
                    self.failed(&failure);
                    if !self.target.must_succeed {
                        self.count(WriteCounts::lost(batch));
                        return true;
                    }
                    if !has_failed {
                        self.count_both(|counters| add(&counters.requeue, batch.count));
                    }
                    has_failed = true;
                    self.count_both(|counters| add(&counters.retries, 1));
                    if store.progress() > progress {
                        progress = store.progress();
                        backoff.reset();
                    }
                    self.stop.wait(backoff.next_delay());
                    if self.stop.is_asked() {
                        return false;
                    }
                }
            }
        }
    }

    /// Makes all records before `position` durable in the store, then stores this position durably
    /// in the journal.
    fn store_position(&self, store: &mut dyn Store, position: u64) -> Result<(), Failure> {
        store.sync()?;
        let noted = self.journal.set_position(&self.target.name, position);
        noted.map_err(|error| Failure(error.to_string()))?;
        self.state.position.store(position, Ordering::Release);
        (self.trim)();
        Ok(())
    }

    fn failed(&self, failure: &Failure) {
        let state = if self.target.is_buffer { "DISCONNECTED: " } else { "" };
        self.state.set(format!("{state}{}", failure.0));
    }

    fn count(&self, wrote: WriteCounts) {
        self.count_both(|counters| {
            add(&counters.sent, wrote.sent);
            add(&counters.ignored, wrote.ignored);
            add(&counters.lost, wrote.lost);
            add(&counters.bytes_lost, wrote.bytes_lost);
        });
    }

    fn count_both(&self, count: impl Fn(&Counters)) {
        count(&self.counters);
        count(&self.overall);
    }
}

#[cfg(test)]
mod tests {
    use super::{RETRY_DISK, RETRY_LONGEST, targets};
    use crate::{Config, Plan};
    use std::time::Duration;

    /// A store on disk has a shorter maximum retry interval than a server, so that a disk with free
    /// space is used soon.
    #[test]
    fn disks_are_asked_sooner_than_servers() {
        let check = |store: &str, expected: &[_]| {
            let text = format!("<store>\ncategory=c\n{store}\n</store>\n");
            let plan = Plan::of(&Config::read(&text));
            assert!(plan.problems.is_empty(), "{:?}", plan.problems);
            let longest = plan.stores.iter().flat_map(targets).map(|target| target.retry_longest);
            assert_eq!(longest.collect::<Vec<_>>(), expected, "{store}");
        };
        // The daemon promises to resume within 5 s after the disk works again, even on a busy
        // machine.
        assert!(RETRY_DISK <= Duration::from_secs(2));
        let file = "type=file\nfile_path=/tmp/c";
        let network = "type=network\nremote_host=h\nremote_port=1";
        check(file, &[RETRY_DISK]);
        check(network, &[RETRY_LONGEST]);
        let both = format!("<store0>\n{file}\n</store0>\n<store1>\n{network}\n</store1>");
        check(&format!("type=multi\n{both}"), &[RETRY_DISK, RETRY_LONGEST]);
        check(&format!("type=multi\nreport_success=any\n{both}"), &[RETRY_LONGEST]);
        check(&format!("type=category\n<model>\n{file}\n</model>"), &[RETRY_DISK]);
    }
}
