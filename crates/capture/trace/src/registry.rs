//! All kinds of events that the program is known to have, and who wants which.
//!
//! A type becomes known when its place in the program is first come by, on whatever thread, maybe in a
//! signal handler: so adding one takes no lock that it would wait for and allocates nothing. Who wants
//! its events is then decided by the rules that are in force, at once, so that the first event counts.

use crate::event::EventType;
use blkkin_filter::Glob;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};

/// Most types of one program. Ids have 16 bits.
pub const TYPES_MAX: usize = 16_384;

static TYPES: [OnceLock<&'static EventType>; TYPES_MAX] = [const { OnceLock::new() }; TYPES_MAX];
/// How many places of `TYPES` are taken; more than there are, if types were refused.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// Written by few threads, never in a signal handler; who records just tries to read.
static RULES: RwLock<Rules> = RwLock::new(Rules { rules: Vec::new(), on_change: Vec::new() });

struct Rules {
    rules: Vec<Rule>,
    /// To be called when somebody may want other events than before.
    on_change: Vec<fn()>,
}

/// Names of events: one, or all that fit a pattern in which `*` stands for any text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Names {
    /// This one.
    One(Box<[u8]>),
    /// All that fit.
    Fitting(Glob),
}

impl Names {
    /// The name or pattern `text`.
    pub fn new(text: &str) -> Names {
        let pieces: Vec<&str> = text.split('*').collect();
        match Glob::new(&pieces) {
            Some(glob) => Names::Fitting(glob),
            None => Names::One(text.as_bytes().into()),
        }
    }

    fn have(&self, name: &[u8]) -> bool {
        match self {
            Names::One(one) => **one == *name,
            Names::Fitting(glob) => glob.matches(name),
        }
    }
}

/// Which events a channel wants.
#[derive(Debug)]
pub struct Rule {
    /// Number of the channel.
    pub channel: usize,
    /// Names of the events.
    pub names: Names,
    /// Names of events that are not wanted all the same.
    pub except: Vec<Names>,
    /// Levels, a bit each: `1 << 14` for debug.
    pub levels: u16,
}

/// All levels.
pub const ALL_LEVELS: u16 = 0x7fff;

impl Rule {
    fn wants(&self, event: &EventType) -> bool {
        let name = event.name().as_bytes();
        self.levels >> event.level().number() & 1 != 0
            && self.names.have(name)
            && !self.except.iter().any(|except| except.have(name))
    }
}

/// Adds a type; its id. `None` if there are too many.
pub(crate) fn add(event: &'static EventType) -> Option<u16> {
    let place = COUNT.fetch_add(1, Ordering::Relaxed);
    let _ = TYPES.get(place)?.set(event);
    u16::try_from(place).ok()
}

/// Decides who wants the events of a type that has an id; later, if rules are just being changed.
pub(crate) fn decide(event: &EventType) {
    if let Ok(rules) = RULES.try_read() {
        apply(&rules, event);
    }
}

fn apply(rules: &Rules, event: &EventType) {
    let wanting = rules.rules.iter().filter(|rule| rule.wants(event));
    event.set_wanted_by(wanting.fold(0, |channels, rule| channels | 1 << rule.channel));
}

/// Puts rules in force, in place of those before. To be called by one thread only.
pub fn set_rules(rules: Vec<Rule>) {
    let mut current = RULES.write().unwrap_or_else(PoisonError::into_inner);
    current.rules = rules;
    drop(current);
    // Types that come from here on find the new rules; of those that came during the change, each
    // event asks again until it is decided.
    let current = RULES.read().unwrap_or_else(PoisonError::into_inner);
    for event in types() {
        apply(&current, event);
    }
    let on_change = current.on_change.clone();
    drop(current);
    for on_change in on_change {
        on_change();
    }
}

/// Whether somebody wants events of a type, known or not.
pub fn is_wanted(event: &EventType) -> bool {
    RULES.try_read().is_ok_and(|rules| rules.rules.iter().any(|rule| rule.wants(event)))
}

/// Has `on_change`, too, called each time that rules have changed, and now if there are some.
pub fn on_change(on_change: fn()) {
    let mut current = RULES.write().unwrap_or_else(PoisonError::into_inner);
    current.on_change.push(on_change);
    let has_rules = !current.rules.is_empty();
    drop(current);
    if has_rules {
        on_change();
    }
}

/// All types so far, by id.
pub fn types() -> impl Iterator<Item = &'static EventType> {
    let count = COUNT.load(Ordering::Relaxed).min(TYPES_MAX);
    // A type whose place is taken but empty is being added.
    TYPES[..count].iter().filter_map(|place| place.get().copied())
}

/// How many types were refused, because there are too many.
pub fn types_refused() -> usize {
    COUNT.load(Ordering::Relaxed).saturating_sub(TYPES_MAX)
}
