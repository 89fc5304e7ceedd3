//! Routing of messages: appends each message to the journal of its category, and answers `OK` once
//! all messages of a call are durable. Messages without a category or a suitable store, and too
//! large messages, are only counted. Start at [`Router::begin`].

use crate::counters::{Counters, add};
use crate::plan::{Pattern, Plan, StorePlan};
use crate::queue::{
    CategoryQueue, MESSAGE_BYTES_MAX, PackedRecords, QueueSettings, categories_below, roots,
};
use crate::stores::file::is_name;
use blkkin_scribe::{CloseReason, Entries, Handler, ResultCode, Status};
use parking_lot::{Mutex, MutexGuard, RwLock};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Command that the daemon's main loop executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Reload,
    Stop,
}

/// Function that writes a line to the daemon's log.
pub(crate) type Log = fn(&str);

pub(crate) struct Router {
    /// State of the current configuration; `None` before the first configuration, during a reload,
    /// and after the last [`Router::end`].
    state: RwLock<Option<State>>,
    overall: Arc<Counters>,
    rate: Mutex<Rate>,
    permits_control: AtomicBool,
    control: Sender<Control>,
    log: Log,
}

/// State that belongs to one configuration, and is dropped on reload.
struct State {
    stores: Vec<StorePlan>,
    common: QueueSettings,
    categories_max: usize,
    rate_max: u64,
    queues: RwLock<HashMap<Vec<u8>, Arc<CategoryQueue>>>,
    /// Errors in the configuration, as text.
    problems: Vec<String>,
    /// Categories whose journals could not be opened or have no store, each with the reason.
    failures: Mutex<BTreeMap<Vec<u8>, String>>,
}

/// Maximum number of failed categories whose reasons are stored for the status.
const FAILURES_MAX: usize = 100;

/// Count of messages in the current second, for the rate limit.
struct Rate {
    since: Instant,
    count: u64,
}

/// Reason why a call is answered with `TRY_LATER`.
enum Denial {
    Rate,
    Queue,
    Categories,
}

/// Destination of a category's messages.
enum Destination {
    CategoryQueue(Arc<CategoryQueue>),
    /// No store is configured for the category, or a store would use the category as a file name
    /// and the name is invalid.
    None,
    Denial(Denial),
}

impl Router {
    pub(crate) fn new(control: Sender<Control>, log: Log) -> Router {
        Router {
            state: RwLock::new(None),
            overall: Arc::default(),
            rate: Mutex::new(Rate { since: Instant::now(), count: 0 }),
            permits_control: AtomicBool::new(false),
            control,
            log,
        }
    }

    /// Ends all queues of the previous configuration and waits for their threads. Then applies
    /// `plan`, and resumes the journals on disk.
    pub(crate) fn begin(&self, plan: Plan, directory: PathBuf) {
        self.end();
        self.permits_control.store(plan.permits_control, Ordering::Relaxed);
        let problems = plan.problems.iter().map(ToString::to_string).collect();
        let overall = Arc::clone(&self.overall);
        let state = State {
            common: QueueSettings { directory, quota_bytes: plan.quota_bytes, overall },
            stores: plan.stores,
            categories_max: plan.categories_max,
            rate_max: plan.messages_per_second_max,
            queues: RwLock::default(),
            problems,
            failures: Mutex::default(),
        };
        let mut categories: Vec<Vec<u8>> = roots(&state.stores, &state.common)
            .iter()
            .flat_map(|root| categories_below(root))
            .collect();
        categories.sort();
        categories.dedup();
        for category in categories {
            match state.open(&category) {
                Ok(Some(_)) => {}
                Ok(None) => {
                    state.failed(&category, "messages wait, and no store takes them".to_owned())
                }
                Err(error) => state.failed(&category, error),
            }
        }
        *self.state.write() = Some(state);
    }

    /// Stops accepting messages, and ends all queues of the current configuration.
    pub(crate) fn end(&self) {
        let state = self.state.write().take();
        // Dropping the state waits for the threads of one queue after the other. The requests to
        // stop, sent first, make all queues end in parallel.
        if let Some(state) = &state {
            state.queues.read().values().for_each(|queue| queue.request_stop());
        }
        drop(state);
    }

    fn accept(&self, state: &State, entries: &Entries<'_>) -> Result<(), Denial> {
        self.check_rate(state.rate_max, entries.len() as u64)?;
        // Counters are updated last, because a denied call does not count as received.
        let mut packed: Vec<(Arc<CategoryQueue>, PackedRecords)> = Vec::new();
        let mut places: HashMap<&[u8], Option<usize>> = HashMap::new();
        let mut last: Option<(&[u8], Option<usize>)> = None;
        let (mut blank, mut bad, mut too_large) = (0, 0, 0);
        for entry in entries {
            if entry.category.is_empty() {
                blank += 1;
                continue;
            }
            if entry.category.len() + entry.message.len() > MESSAGE_BYTES_MAX {
                too_large += 1;
                continue;
            }
            let place = match last {
                Some((category, place)) if category == entry.category => place,
                _ => match places.get(entry.category) {
                    Some(place) => *place,
                    None => {
                        let place = match state.destination(entry.category) {
                            Destination::CategoryQueue(queue) => {
                                packed.push((queue, PackedRecords::default()));
                                Some(packed.len() - 1)
                            }
                            Destination::None => None,
                            Destination::Denial(denial) => return Err(denial),
                        };
                        places.insert(entry.category, place);
                        place
                    }
                },
            };
            last = Some((entry.category, place));
            match place.and_then(|place| packed.get_mut(place)) {
                Some((_, packed)) => packed.push(entry),
                None => bad += 1,
            }
        }
        if packed.iter().any(|(queue, _)| queue.refusal().is_some()) {
            return Err(Denial::Queue);
        }
        let mut tickets = Vec::new();
        for (queue, packed) in &packed {
            tickets.extend(queue.append(packed).map_err(|_| Denial::Queue)?);
        }
        for ticket in tickets {
            ticket.wait().map_err(|_| Denial::Queue)?;
        }
        for (queue, packed) in &packed {
            add(&queue.counters.received_good, packed.count);
            add(&self.overall.received_good, packed.count);
        }
        add(&self.overall.received_blank, blank);
        add(&self.overall.received_bad, bad + too_large);
        add(&self.overall.too_large, too_large);
        Ok(())
    }

    /// Applies the rate limit to a call with `count` messages. The first call of a second is
    /// accepted even if it has more messages than the limit.
    fn check_rate(&self, rate_max: u64, count: u64) -> Result<(), Denial> {
        if rate_max == 0 || count == 0 {
            return Ok(());
        }
        let mut rate = self.rate.lock();
        if rate.since.elapsed().as_secs() > 0 {
            *rate = Rate { since: Instant::now(), count: 0 };
        }
        if rate.count > 0 && rate.count.saturating_add(count) > rate_max {
            return Err(Denial::Rate);
        }
        rate.count += count;
        Ok(())
    }

    fn control(&self, from: SocketAddr, control: Control) {
        let is_permitted =
            self.permits_control.load(Ordering::Relaxed) && from.ip().to_canonical().is_loopback();
        if is_permitted {
            let _ = self.control.send(control);
        } else {
            (self.log)(&format!(
                "{from} asks for {control:?}, which is not permitted; `permit_control=yes` permits \
                 it from this machine"
            ));
        }
    }
}

impl State {
    fn failures(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, String>> {
        self.failures.lock()
    }

    fn failed(&self, category: &[u8], text: String) {
        let mut failures = self.failures();
        if failures.len() < FAILURES_MAX || failures.contains_key(category) {
            failures.insert(category.to_vec(), text);
        }
    }

    /// Returns the stores for a category, and true if their configuration names the category
    /// exactly. Without an exact name, the stores with the longest matching prefix are returned, or
    /// else the default stores.
    fn stores_for(&self, category: &[u8]) -> (Vec<&StorePlan>, bool) {
        let with = |is_meant: &dyn Fn(&Pattern) -> bool| -> Vec<&StorePlan> {
            let meant = |store: &&StorePlan| store.categories.iter().any(is_meant);
            self.stores.iter().filter(meant).collect()
        };
        let exact =
            with(&|pattern| matches!(pattern, Pattern::Exact(name) if name.as_bytes() == category));
        if !exact.is_empty() {
            return (exact, true);
        }
        let prefix = |pattern: &Pattern| match pattern {
            Pattern::Prefix(prefix) if category.starts_with(prefix.as_bytes()) => {
                Some(prefix.len())
            }
            _ => None,
        };
        let patterns = self.stores.iter().flat_map(|store| &store.categories);
        let stores = match patterns.filter_map(prefix).max() {
            Some(longest) => with(&|pattern| prefix(pattern) == Some(longest)),
            None => with(&|pattern| *pattern == Pattern::Default),
        };
        (stores, false)
    }

    fn destination(&self, category: &[u8]) -> Destination {
        if let Some(queue) = self.queues.read().get(category) {
            return Destination::CategoryQueue(Arc::clone(queue));
        }
        if self.queues.read().len() >= self.categories_max {
            return match self.stores_for(category).0.is_empty() {
                true => Destination::None,
                false => Destination::Denial(Denial::Categories),
            };
        }
        match self.open(category) {
            Ok(Some(queue)) => Destination::CategoryQueue(queue),
            Ok(None) => Destination::None,
            Err(error) => {
                self.failed(category, error);
                Destination::Denial(Denial::Queue)
            }
        }
    }

    fn open(&self, category: &[u8]) -> Result<Option<Arc<CategoryQueue>>, String> {
        let (stores, is_exact) = self.stores_for(category);
        let needs_names = stores.iter().any(|store| crate::stores::needs_names(&store.kind));
        if stores.is_empty() || (needs_names && !is_name(category)) {
            return Ok(None);
        }
        let mut queues = self.queues.write();
        if let Some(queue) = queues.get(category) {
            return Ok(Some(Arc::clone(queue)));
        }
        let queue = Arc::new(CategoryQueue::open(category, &stores, is_exact, &self.common)?);
        queues.insert(category.to_vec(), Arc::clone(&queue));
        self.failures().remove(category);
        Ok(Some(queue))
    }

    /// Describes the problems of the configuration, or else the first problem of a failed category
    /// or of a queue. Empty if there is no problem.
    fn details(&self) -> String {
        if !self.problems.is_empty() {
            return self.problems.join("; ");
        }
        let describe = |category: &[u8], text: &str| {
            format!("category {}: {text}", String::from_utf8_lossy(category))
        };
        if let Some((category, text)) = self.failures().first_key_value() {
            return describe(category, text);
        }
        let queues = self.queues.read();
        let texts = queues.iter().map(|(category, queue)| (category, queue.status()));
        let first = texts.filter(|(_, text)| !text.is_empty()).min();
        first.map(|(category, text)| describe(category, &text)).unwrap_or_default()
    }
}

impl Handler for Router {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        let state = self.state.read();
        let Some(state) = &*state else { return ResultCode::TryLater };
        match self.accept(state, entries) {
            Ok(()) => ResultCode::Ok,
            Err(denial) => {
                let count = entries.len() as u64;
                add(
                    match denial {
                        Denial::Rate => &self.overall.denied_for_rate,
                        Denial::Queue => &self.overall.denied_for_queue_size,
                        Denial::Categories => &self.overall.denied_for_categories,
                    },
                    count,
                );
                ResultCode::TryLater
            }
        }
    }

    fn status(&self) -> Status {
        match &*self.state.read() {
            None => Status::Starting,
            Some(state) if state.details().is_empty() => Status::Alive,
            Some(_) => Status::Warning,
        }
    }

    fn status_details(&self) -> String {
        self.state.read().as_ref().map(State::details).unwrap_or_default()
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        self.overall.add_to("scribe_overall", &mut all);
        if let Some(state) = &*self.state.read() {
            for (category, queue) in &*state.queues.read() {
                let name = String::from_utf8_lossy(category);
                queue.counters.add_to(&name, &mut all);
                let bytes = i64::try_from(queue.file_bytes()).unwrap_or(i64::MAX);
                all.insert(format!("{name}:queue bytes on disk"), bytes);
            }
        }
        all
    }

    fn reinitialize(&self, from: SocketAddr) {
        self.control(from, Control::Reload);
    }

    fn shutdown(&self, from: SocketAddr) {
        self.control(from, Control::Stop);
    }

    fn closed(&self, peer: Option<SocketAddr>, why: &CloseReason) {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        (self.log)(&format!("connection of {peer} closed: {why}"));
    }
}
