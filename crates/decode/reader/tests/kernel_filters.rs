//! A filter gives the same result in the kernel, in a traced program, and on a trace.

use blkkin_agent::KernelTrace;
use blkkin_filter::Filter;
use blkkin_kernel::Error;
use blkkin_kernel::testing::{
    EventContext, EventProbe, MakeContext, RandomFilters, RecordedEvent, random_probes,
};
use blkkin_reader::{BoundFilter, Consumer, Event, Loss, OpenTraces, Reading, Source};
use blkkin_reader::{Stream, Trace, open};
use blkkin_sys::testing::{Random, skip};
use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;

const UUID: [u8; 16] = [7; 16];
/// Number of events of each type. Each filter is evaluated on all of them.
const EVENTS: usize = 40;
/// Number of filters of each type.
const FILTERS: usize = 400;

/// Times of the events that a filter selects from a trace.
#[derive(Default)]
struct Times(BTreeSet<u64>);

impl Consumer for Times {
    fn event(&mut self, event: &mut Event<'_>) -> ControlFlow<()> {
        self.0.insert(event.cycles());
        ControlFlow::Continue(())
    }

    fn loss(&mut self, _: &Trace, _: &Stream, loss: &Loss) -> ControlFlow<()> {
        panic!("an event is lost: {loss:?}")
    }
}

/// Events of one type, and the packets in which the kernel has recorded them.
struct Events {
    contexts: Vec<EventContext>,
    packets: Vec<Vec<u8>>,
}

impl Events {
    fn record(probe: &mut EventProbe, make: &MakeContext, random: &mut Random) -> Events {
        let mut contexts: Vec<EventContext> = (0..EVENTS).map(|_| make(random)).collect();
        let record = |context: &mut EventContext| probe.record(&mut context.bytes).unwrap();
        let packets = contexts.iter_mut().map(record).collect();
        Events { contexts, packets }
    }

    /// Writes the events to a trace, with a file for each ring.
    fn write(&self, probe: &EventProbe, folder: &Path) -> OpenTraces {
        let events = std::slice::from_ref(probe.event_type());
        let trace = KernelTrace {
            uuid: UUID,
            origin_ns: 0,
            host: "test".to_owned(),
            clock_uuid: None,
            events,
        };
        fs::write(folder.join("metadata"), trace.metadata().unwrap()).unwrap();
        for packet in &self.packets {
            let ring = packet[blkkin_ring::packet::CPU];
            let file = folder.join(format!("stream{ring}"));
            let file = OpenOptions::new().create(true).append(true).open(file);
            file.unwrap().write_all(packet).unwrap();
        }
        let opened = open(&[Source::Path(folder.to_owned())]);
        assert!(opened.problems.is_empty(), "{:?}", opened.problems);
        opened
    }
}

#[test]
fn three_evaluators_agree() {
    let mut probes = match random_probes(UUID) {
        Ok(probes) => probes,
        Err(error) if error.is_permission() => {
            return skip("three_evaluators_agree", &error.to_string());
        }
        Err(error) => panic!("{error}"),
    };
    let mut random = Random::new(23);
    let (mut cases, mut passed) = (0, 0);
    for (probe, make) in &mut probes {
        let mut events = Events::record(probe, make, &mut random);
        let folder = tempfile::tempdir().unwrap();
        let opened = events.write(probe, folder.path());
        let filters = RandomFilters::new(probe.event_type());
        for _ in 0..FILTERS {
            let text = filters.text(&mut random);
            // Some texts are no filters, and some filters cannot run in the kernel.
            let Ok(filter) = Filter::parse(&text) else { continue };
            let kernel = match probe.filter(&filter) {
                Ok(kernel) => kernel,
                Err(Error::Filter { .. }) => continue,
                Err(error) => panic!("{text}\n{error}"),
            };
            let bound = BoundFilter::of_growing(&text, &opened.traces).unwrap();
            let mut selected = Times::default();
            Reading::new(&opened.traces).threads(1).filter(Some(bound)).ordered(&mut selected);
            for (context, packet) in events.contexts.iter_mut().zip(&events.packets) {
                let event = RecordedEvent::new(probe.event_type(), filter.operands(), packet);
                let in_kernel = kernel.passes(&mut context.bytes).unwrap();
                let in_program = filter.eval(&event);
                let on_trace = selected.0.contains(&event.time());
                assert_eq!([in_kernel, on_trace], [in_program; 2], "{text}\n{event:?}");
                passed += usize::from(in_kernel);
                cases += 1;
            }
        }
    }
    assert!(cases > 5000, "{cases} cases are too few");
    assert!(passed > cases / 10 && passed < cases * 9 / 10, "{passed} of {cases} pass");
}
