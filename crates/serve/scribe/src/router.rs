//! What comes in: finds the journal of each message's category, and says `OK` when all that a call brought is durable.

use crate::counters::{Counters, add};
use crate::lane::{Common, Lane, MESSAGE_BYTES_MAX, Packed, found, roots};
use crate::plan::{Pattern, Plan, StorePlan};
use crate::stores::file::is_name;
use blkkin_scribe::{Closed, Entries, Handler, ResultCode, Status};
use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// What the daemon is told while it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Control {
    Reload,
    Stop,
}

/// Who reads what the daemon says of itself.
pub(crate) type Log = fn(&str);

pub(crate) struct Router {
    /// `None` while there is no configuration in force.
    state: RwLock<Option<State>>,
    overall: Arc<Counters>,
    rate: Mutex<Rate>,
    permits_control: AtomicBool,
    control: Sender<Control>,
    log: Log,
}

/// What a configuration has made.
struct State {
    stores: Vec<StorePlan>,
    common: Common,
    categories_max: usize,
    rate_max: u64,
    lanes: RwLock<HashMap<Vec<u8>, Arc<Lane>>>,
    /// What is wrong with the configuration.
    problems: Vec<String>,
    /// Categories whose journals could not be opened, and why.
    failures: Mutex<BTreeMap<Vec<u8>, String>>,
}

/// Failures that are kept, to be told.
const FAILURES_MAX: usize = 100;

/// Messages of this second.
struct Rate {
    since: Instant,
    count: u64,
}

/// Why a call is not taken now.
enum Denied {
    Rate,
    Queue,
    Categories,
}

/// Where messages of a category go.
enum Way {
    Lane(Arc<Lane>),
    /// No store wants it.
    None,
    Denied(Denied),
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
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

    /// Puts a configuration in force, and goes on with what journals hold. All of the one before has ended by then.
    pub(crate) fn begin(&self, plan: Plan, directory: PathBuf) {
        self.end();
        self.permits_control.store(plan.permits_control, Ordering::Relaxed);
        let problems = plan.problems.iter().map(ToString::to_string).collect();
        let overall = Arc::clone(&self.overall);
        let state = State {
            common: Common { directory, quota_bytes: plan.quota_bytes, overall },
            stores: plan.stores,
            categories_max: plan.categories_max,
            rate_max: plan.messages_per_second_max,
            lanes: RwLock::default(),
            problems,
            failures: Mutex::default(),
        };
        let mut categories: Vec<Vec<u8>> =
            roots(&state.stores, &state.common).iter().flat_map(|root| found(root)).collect();
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
        *write(&self.state) = Some(state);
    }

    /// Takes nothing any more, and ends all that is going on.
    pub(crate) fn end(&self) {
        let state = write(&self.state).take();
        // Lanes end when they are dropped, after those that are being used; all of them at once.
        if let Some(state) = &state {
            read(&state.lanes).values().for_each(|lane| lane.ask_to_stop());
        }
        drop(state);
    }

    fn take(&self, state: &State, entries: &Entries<'_>) -> Result<(), Denied> {
        self.check_rate(state.rate_max, entries.len() as u64)?;
        // Counted first: when something is denied, nothing was received.
        let mut packed: Vec<(Arc<Lane>, Packed)> = Vec::new();
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
                        let place = match state.way(entry.category) {
                            Way::Lane(lane) => {
                                packed.push((lane, Packed::default()));
                                Some(packed.len() - 1)
                            }
                            Way::None => None,
                            Way::Denied(denied) => return Err(denied),
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
        if packed.iter().any(|(lane, _)| lane.refusal().is_some()) {
            return Err(Denied::Queue);
        }
        let mut tickets = Vec::new();
        for (lane, packed) in &packed {
            tickets.extend(lane.append(packed).map_err(|_| Denied::Queue)?);
        }
        for ticket in tickets {
            ticket.wait().map_err(|_| Denied::Queue)?;
        }
        for (lane, packed) in &packed {
            add(&lane.counters.received_good, packed.count);
            add(&self.overall.received_good, packed.count);
        }
        add(&self.overall.received_blank, blank);
        add(&self.overall.received_bad, bad + too_large);
        add(&self.overall.too_large, too_large);
        Ok(())
    }

    /// A batch that is larger than what a second may bring is taken alone.
    fn check_rate(&self, rate_max: u64, count: u64) -> Result<(), Denied> {
        if rate_max == 0 || count == 0 {
            return Ok(());
        }
        let mut rate = self.rate.lock().unwrap_or_else(PoisonError::into_inner);
        if rate.since.elapsed().as_secs() > 0 {
            *rate = Rate { since: Instant::now(), count: 0 };
        }
        if rate.count > 0 && rate.count.saturating_add(count) > rate_max {
            return Err(Denied::Rate);
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
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn failed(&self, category: &[u8], text: String) {
        let mut failures = self.failures();
        if failures.len() < FAILURES_MAX || failures.contains_key(category) {
            failures.insert(category.to_vec(), text);
        }
    }

    /// The stores for a category: those that name it, or else those with the longest beginning of it, or else those for
    /// all. And whether they name it.
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

    fn way(&self, category: &[u8]) -> Way {
        if let Some(lane) = read(&self.lanes).get(category) {
            return Way::Lane(Arc::clone(lane));
        }
        if read(&self.lanes).len() >= self.categories_max {
            return match self.stores_for(category).0.is_empty() {
                true => Way::None,
                false => Way::Denied(Denied::Categories),
            };
        }
        match self.open(category) {
            Ok(Some(lane)) => Way::Lane(lane),
            Ok(None) => Way::None,
            Err(error) => {
                self.failed(category, error);
                Way::Denied(Denied::Queue)
            }
        }
    }

    fn open(&self, category: &[u8]) -> Result<Option<Arc<Lane>>, String> {
        let (stores, is_exact) = self.stores_for(category);
        let needs_names = stores.iter().any(|store| crate::stores::needs_names(&store.kind));
        if stores.is_empty() || (needs_names && !is_name(category)) {
            return Ok(None);
        }
        let mut lanes = write(&self.lanes);
        if let Some(lane) = lanes.get(category) {
            return Ok(Some(Arc::clone(lane)));
        }
        let lane = Arc::new(Lane::open(category, &stores, is_exact, &self.common)?);
        lanes.insert(category.to_vec(), Arc::clone(&lane));
        self.failures().remove(category);
        Ok(Some(lane))
    }

    /// What is wrong, the configuration first.
    fn details(&self) -> String {
        if !self.problems.is_empty() {
            return self.problems.join("; ");
        }
        let told = |category: &[u8], text: &str| {
            format!("category {}: {text}", String::from_utf8_lossy(category))
        };
        if let Some((category, text)) = self.failures().first_key_value() {
            return told(category, text);
        }
        let lanes = read(&self.lanes);
        let texts = lanes.iter().map(|(category, lane)| (category, lane.status()));
        let first = texts.filter(|(_, text)| !text.is_empty()).min();
        first.map(|(category, text)| told(category, &text)).unwrap_or_default()
    }
}

impl Handler for Router {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        let state = read(&self.state);
        let Some(state) = &*state else { return ResultCode::TryLater };
        match self.take(state, entries) {
            Ok(()) => ResultCode::Ok,
            Err(denied) => {
                let count = entries.len() as u64;
                add(
                    match denied {
                        Denied::Rate => &self.overall.denied_for_rate,
                        Denied::Queue => &self.overall.denied_for_queue_size,
                        Denied::Categories => &self.overall.denied_for_categories,
                    },
                    count,
                );
                ResultCode::TryLater
            }
        }
    }

    fn status(&self) -> Status {
        match &*read(&self.state) {
            None => Status::Starting,
            Some(state) if state.details().is_empty() => Status::Alive,
            Some(_) => Status::Warning,
        }
    }

    fn status_details(&self) -> String {
        read(&self.state).as_ref().map(State::details).unwrap_or_default()
    }

    fn counters(&self) -> BTreeMap<String, i64> {
        let mut all = BTreeMap::new();
        self.overall.tell("scribe_overall", &mut all);
        if let Some(state) = &*read(&self.state) {
            for (category, lane) in &*read(&state.lanes) {
                let name = String::from_utf8_lossy(category);
                lane.counters.tell(&name, &mut all);
                let bytes = i64::try_from(lane.file_bytes()).unwrap_or(i64::MAX);
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

    fn closed(&self, peer: Option<SocketAddr>, why: &Closed) {
        let peer = peer.map(|peer| peer.to_string()).unwrap_or_default();
        (self.log)(&format!("connection of {peer} closed: {why}"));
    }
}
