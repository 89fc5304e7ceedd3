//! The measured cases: kinds of operations, modes of recording, and numbers of threads. Start at
//! [`cases`].

/// Number of events in a run. It is so large that the first of 64 threads is still running when the
/// last one starts, and that LTTng's annotations nearly fill large buffers.
pub(super) const EVENTS: u64 = 64 * 14_000;
pub(super) const EVENTS_QUICK: u64 = EVENTS / 8;

/// Factor for the number of operations in runs that record no event, because such operations are
/// cheap.
const OFF_TIMES: u64 = 16;

const THREADS: [u64; 3] = [1, 2, 64];

/// A kind of operation that programs perform in a loop.
#[derive(Debug, PartialEq)]
pub(super) struct Kind {
    /// Name of the kind in arguments of the programs.
    pub(super) name: &'static str,
    /// Name of the kind in tables.
    pub(super) title: &'static str,
    /// Number of events that one operation records.
    pub(super) events: u64,
    pub(super) what: KindRole,
}

/// Role of a kind of operation in the bench.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum KindRole {
    /// An operation that records no event: reading the time, with or without copying bytes. Its
    /// cost is a lower bound for the cost of an event with as many bytes.
    Floor,
    /// An operation that is measured in all modes.
    Event,
    /// An additional kind, measured only with one thread in [`Mode::Overwrite`]. If it has no
    /// events, it is a cheap operation.
    Additional,
}

const fn event(name: &'static str, title: &'static str, events: u64) -> Kind {
    Kind { name, title, events, what: KindRole::Event }
}

const fn floor(name: &'static str, title: &'static str) -> Kind {
    Kind { name, title, events: 1, what: KindRole::Floor }
}

const fn aside(name: &'static str, title: &'static str, events: u64) -> Kind {
    Kind { name, title, events, what: KindRole::Additional }
}

const KINDS: [Kind; 13] = [
    floor("time", "reading the time"),
    floor("16-bytes", "… and copying 16 bytes"),
    floor("75-bytes", "… and copying 75 bytes"),
    event("one", "one integer", 1),
    event("annotation", "annotation of nine fields", 1),
    event("blkin-annotation", "… as blkin makes it", 1),
    event("blkin-span", "child span, two annotations", 2),
    event("span", "child span that is one event", 1),
    aside("unsampled-span", "… of a request that is not followed", 0),
    aside("enter", "enter and exit of a span", 0),
    aside("run", "… whose run is recorded", 1),
    aside("unsampled-enter", "… of a request that is not followed", 0),
    aside("tracing-span", "span of the tracing crate, three fields", 1),
];

/// A mode of recording: where events are stored, if at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    /// Events are not recorded, because no session enables them.
    Off,
    /// New events overwrite the oldest in buffers of default size. A snapshot is written after the
    /// program's end.
    Overwrite,
    /// Buffers of default size are written to files in memory. Events are dropped while the buffers
    /// are full.
    Discard,
    /// Like [`Mode::Discard`], with buffers that hold all events of a run.
    Large,
}

impl Mode {
    pub(super) fn title(self) -> &'static str {
        match self {
            Mode::Off => "not recorded",
            Mode::Overwrite => "overwriting, default buffers",
            Mode::Discard => "written, default buffers",
            Mode::Large => "written, large buffers",
        }
    }
}

/// A measured combination of kind, mode and number of threads.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) kind: &'static Kind,
    pub(super) mode: Mode,
    pub(super) threads: u64,
    pub(super) operations: u64,
}

/// Returns all cases, in the order of the tables.
pub(super) fn cases(events: u64) -> Vec<Case> {
    let are = |what: KindRole| KINDS.iter().filter(move |kind| kind.what == what);
    let mut cases = Vec::new();
    for kind in are(KindRole::Floor).chain(are(KindRole::Event)) {
        cases.push(Case { kind, mode: Mode::Off, threads: 1, operations: OFF_TIMES * events });
    }
    for mode in [Mode::Overwrite, Mode::Discard, Mode::Large] {
        for kind in are(KindRole::Event) {
            for threads in THREADS {
                cases.push(Case { kind, mode, threads, operations: events / kind.events });
            }
        }
        for kind in are(KindRole::Additional).filter(|_| mode == Mode::Overwrite) {
            let operations = if kind.events == 0 { OFF_TIMES * events } else { events };
            cases.push(Case { kind, mode, threads: 1, operations });
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All threads of a case have equal numbers of operations, and no case is listed twice.
    #[test]
    fn cases_are_divisible() {
        for events in [EVENTS, EVENTS_QUICK] {
            let cases = cases(events);
            for (index, case) in cases.iter().enumerate() {
                assert_eq!(case.operations % case.threads, 0, "{case:?}");
                assert!(!cases[..index].contains(case), "{case:?}");
            }
        }
    }
}
