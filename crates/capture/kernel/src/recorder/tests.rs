//! The kernel accepts the programs for random selections of this machine's events and functions
//! with random filters, or this crate refuses the filter or the function.

use super::{Filters, Recorder, Selection, TracepointProbe};
use crate::btf::Btf;
use crate::call_type::CALL_PREFIX;
use crate::chosen::ChosenProcesses;
use crate::error::Error;
use crate::function_code;
use crate::function_point::{FunctionPoint, FunctionProbe, ProcessScope};
use crate::function_probe;
use crate::function_type::FunctionType;
use crate::redaction::HashKey;
use crate::redaction_code::RedactionMemory;
use crate::request_code::RequestEvents;
use crate::ring_code::RingCode;
use crate::span_slots::SpanSlots;
use crate::testing::{RandomFilters, small_rings};
use crate::tracefs::{EventName, SystemCall, TraceFs};
use blkkin_filter::Filter;
use blkkin_sys::testing::{Random, skip};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

const SCOPE: ProcessScope = ProcessScope::Chosen;

/// Events of this machine, and the types of its kernel.
struct Machine {
    tracefs: TraceFs,
    btf: Btf,
    calls: Arc<[SystemCall]>,
    tracepoints: Vec<EventName>,
    raw: Vec<String>,
    slots: Arc<SpanSlots>,
    chosen: ChosenProcesses,
}

impl Machine {
    fn read() -> Result<Machine, Error> {
        let tracefs = TraceFs::open()?;
        let btf = Btf::of_kernel()?;
        let tracepoints = tracefs.events()?.into_iter();
        Ok(Machine {
            calls: tracefs.system_calls()?.into(),
            // Events of ftrace itself are in the list, but are no tracepoints.
            tracepoints: tracepoints.filter(|one| one.subsystem != "ftrace").collect(),
            raw: btf.raw_tracepoints().map(str::to_owned).collect(),
            slots: Arc::new(SpanSlots::new()?),
            // No process is chosen: the programs run, but record nothing.
            chosen: ChosenProcesses::new()?,
            tracefs,
            btf,
        })
    }

    fn attach(&self, selection: &Selection) -> Result<Recorder, Error> {
        Recorder::attach(selection, &self.chosen, &self.btf)
    }

    /// Returns a few random events of each kind.
    fn select(&self, random: &mut Random) -> Selection {
        let calls = |random: &mut Random, count: usize| -> Vec<SystemCall> {
            (0..random.below(count)).map(|_| random.one_of(&self.calls)).collect()
        };
        let tracepoints = (0..random.below(4)).filter_map(|_| {
            let EventName { subsystem, event, .. } = random.one_of(&self.tracepoints);
            let format = self.tracefs.format(&subsystem, &event).ok()?;
            Some(TracepointProbe { subsystem, format, scope: SCOPE })
        });
        let tracepoints = tracepoints.collect();
        let functions = (0..random.below(3)).map(|_| {
            let point = FunctionPoint::RawTracepoint(random.one_of(&self.raw));
            FunctionProbe { point, scope: SCOPE }
        });
        let functions = functions.collect();
        let requests = random.chance(30).then(|| RequestEvents {
            slots: Arc::clone(&self.slots),
            waits: random.chance(50),
            disk: random.chance(50),
            calls: Arc::clone(&self.calls),
            recorded_calls: calls(random, 80),
        });
        let redactions = [vec![], vec![], vec!["*=hash"], vec!["*=length", "filename=hash"]];
        let redactions = random.one_of(&redactions).into_iter();
        Selection {
            redactions: redactions.map(|text| text.parse().expect("a redaction")).collect(),
            calls: calls(random, 80),
            tracepoints,
            functions,
            requests,
            disk: random.chance(30).then(|| Arc::clone(&self.calls)),
            process_events: [random.chance(50); 3],
            ring_size: Some(128 << 10),
            ..Selection::default()
        }
    }
}

#[test]
fn the_kernel_accepts_random_selections_and_filters() {
    const ROUNDS: usize = 60;
    let machine = match Machine::read() {
        Ok(machine) => machine,
        Err(error) => {
            skip("the_kernel_accepts_random_selections_and_filters", &error.to_string());
            return;
        }
    };
    let seed = std::env::var("BLKKIN_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(21);
    let mut random = Random::new(seed);
    let begin = Instant::now();
    let (mut accepted, mut filtered, mut refused) = (0, 0, 0);
    for round in 0..ROUNDS {
        if begin.elapsed() > Duration::from_secs(40) {
            break;
        }
        let mut selection = machine.select(&mut random);
        let recorder = match machine.attach(&selection) {
            Ok(recorder) => recorder,
            // Some raw tracepoints and functions have arguments that no probe can have.
            Err(Error::Probe { .. } | Error::TooLong(_)) => continue,
            Err(error) if round == 0 && error.is_permission() => {
                skip("the_kernel_accepts_random_selections_and_filters", &error.to_string());
                return;
            }
            Err(error) => panic!("seed {seed}, round {round}: {error}\n{selection:#?}"),
        };
        accepted += 1;
        let types = recorder.event_types().to_vec();
        drop(recorder);
        // Filters one by one, so that a refused one does not hide the others.
        for _ in 0..6 {
            let event_type = match types.get(random.below(types.len().max(1))) {
                Some(event_type) if !is_unfiltered(&event_type.name) => event_type,
                _ => continue,
            };
            let text = RandomFilters::new(event_type).text(&mut random);
            let Ok(filter) = Filter::parse(&text) else { continue };
            selection.filters = BTreeMap::from([(event_type.name.clone(), filter)]);
            match machine.attach(&selection) {
                Ok(_) => filtered += 1,
                Err(Error::Filter { .. }) => refused += 1,
                Err(error) => panic!("seed {seed}: {} with {text}: {error}", event_type.name),
            }
        }
    }
    assert!(accepted > 5 && filtered > 5, "{accepted}, {filtered}, refused: {refused}");
}

/// All system calls of this machine are recorded with hashes, by programs that the kernel accepts;
/// also if each call has a filter.
#[test]
fn the_kernel_accepts_hashes_of_all_calls() {
    let test = "the_kernel_accepts_hashes_of_all_calls";
    let machine = match Machine::read() {
        Ok(machine) => machine,
        Err(error) => return skip(test, &error.to_string()),
    };
    let mut selection = Selection {
        calls: machine.calls.to_vec(),
        process_events: [true; 3],
        redactions: vec!["*=hash".parse().expect("a redaction")],
        ring_size: Some(128 << 10),
        ..Selection::default()
    };
    match machine.attach(&selection) {
        Ok(recorder) => {
            let fields = recorder.event_types().iter().flat_map(|one| &one.fields);
            let hashes = fields.filter(|field| field.name.ends_with("_hash")).count();
            assert!(hashes > 50, "{hashes}");
        }
        Err(error) if error.is_permission() => return skip(test, &error.to_string()),
        Err(error) => panic!("{error}"),
    }
    let filter = |call: &SystemCall| {
        let filter = Filter::parse("ret < 0 && duration > 1000").expect("a filter");
        (format!("{CALL_PREFIX}{}", call.name), filter)
    };
    selection.filters = machine.calls.iter().map(filter).collect();
    machine.attach(&selection).map(drop).expect("programs with filters");
}

/// The kernel accepts the programs for random functions of this machine's kernel with random
/// redactions and filters, or the probe or the filter is refused.
#[test]
fn the_kernel_accepts_probes_of_random_functions() {
    let test = "the_kernel_accepts_probes_of_random_functions";
    let machine = match Machine::read() {
        Ok(machine) => machine,
        Err(error) => return skip(test, &error.to_string()),
    };
    let rings = small_rings([0; 16]).expect("rings, as maps could be created");
    let names: Vec<String> = machine.btf.functions().map(str::to_owned).collect();
    let memory = RedactionMemory::new(rings.shape().rings, HashKey::random().expect("a key"))
        .expect("memory");
    let rings = &RingCode { redaction: Some(memory.block()), ..rings.code() };
    let mut random = Random::new(21);
    let (mut accepted, mut filtered, mut refused) = (0, 0, 0);
    for _ in 0..400 {
        let function = random.one_of(&names);
        let point = match random.below(4) {
            0 => FunctionPoint::Entry(function),
            1 => FunctionPoint::Exit(function),
            2 => FunctionPoint::Kprobe { function, offset: random.one_of(&[0, 4]) },
            _ => FunctionPoint::Kretprobe(function),
        };
        let scope = random.one_of(&[SCOPE, ProcessScope::All]);
        let redactions = random.one_of(&[vec![], vec!["*=hash"], vec!["*=length"]]).into_iter();
        let redactions: Vec<_> = redactions.map(|text| text.parse().expect("one")).collect();
        let probe = FunctionProbe { point, scope };
        let function = match FunctionType::new(&probe, &redactions, &machine.btf) {
            Ok(function) => function,
            Err(Error::Probe { .. }) => {
                refused += 1;
                continue;
            }
            Err(error) => panic!("{probe:?}: {error}"),
        };
        let text = RandomFilters::new(&function.event_type()).text(&mut random);
        let parsed = Filter::parse(&text).ok().filter(|_| random.chance(50));
        let name = function.point.to_string();
        let filters = parsed.map(|filter| (name.clone(), filter)).into_iter().collect();
        let selection = Selection { filters, ..Selection::default() };
        let mut filters = Filters::new(&selection, 2).expect("memory");
        let filter = match filters.take(&name, &function_code::filter_fields(&function)) {
            Ok(filter) => filter,
            Err(_) => {
                refused += 1;
                continue;
            }
        };
        match function_probe::load(rings, machine.chosen.code(), &function, filter.as_ref()) {
            Ok(_) => {
                accepted += 1;
                filtered += usize::from(filter.is_some());
            }
            Err(error) if accepted == 0 && error.is_permission() => {
                return skip(test, &error.to_string());
            }
            // The kernel refuses some functions whatever the program.
            Err(Error::Probe { .. }) => refused += 1,
            Err(error) => panic!("{name} with {text}: {error}"),
        }
    }
    assert!(accepted > 100 && filtered > 5, "{accepted}, {filtered}, refused: {refused}");
}

/// Returns true for events that have no filters.
fn is_unfiltered(name: &str) -> bool {
    name.starts_with("process:") || ["request:wait", "request:disk", "disk:request"].contains(&name)
}
