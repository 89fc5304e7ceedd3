//! Events from the macro to the ring: what is recorded, who gets it, and that what nobody wants is
//! not even evaluated.

use blkkin_ring::{Cells, Clock, HEADER_SIZE, Mode, Reader, Shape, Taken, Writer, packet};
use blkkin_sys::SharedMemory;
use blkkin_trace::registry::{self, EventRule, Levels};
use blkkin_trace::{EventType, Kind, Level, channels, event};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The tracer's state is the process's.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A channel with rings, and their other side.
struct Channel {
    number: usize,
    cells: Cells,
    shape: Shape,
    readers: Vec<Reader>,
}

impl Channel {
    fn new(number: usize) -> Channel {
        let (rings, subbuffer_size, subbuffer_count) = (65, 8192, 4);
        let (uuid, stream, start) = ([0; 16], 0, 0);
        let mode = Mode::Discard;
        let shape = Shape { rings, subbuffer_size, subbuffer_count, mode, uuid, stream, start };
        let (file, memory) = SharedMemory::create(c"test", shape.memory_size()).unwrap();
        let cells = Cells::new(memory);
        cells.prepare(&shape).unwrap();
        let theirs = Cells::new(SharedMemory::map(file.as_fd()).unwrap());
        let clock = if blkkin_sys::tsc_is_steady() { Clock::Tsc } else { Clock::Monotonic };
        channels::attach(number, Box::new(Writer::new(theirs, clock).unwrap())).unwrap();
        let readers = (0..rings).map(|ring| Reader::new(&shape, ring, clock)).collect();
        Channel { number, cells, shape, readers }
    }

    /// Events so far: their type, and the bytes of their fields.
    fn take(&mut self) -> Vec<(&'static EventType, Vec<u8>)> {
        let mut events = Vec::new();
        for reader in &mut self.readers {
            let mut bytes = Vec::new();
            while let Taken::Packet(_) = reader.take(&self.cells, &self.shape, true, &mut bytes) {
                let mut rest = &bytes[packet::SIZE..];
                while let [first, second, ..] = *rest {
                    let id = u16::from_le_bytes([first, second]);
                    let event = registry::types().nth(id.into()).unwrap();
                    let size = event.fields().fold(HEADER_SIZE, |at, (_, kind)| match kind {
                        Kind::Bool | Kind::U8 | Kind::I8 => at + 1,
                        Kind::U16 | Kind::I16 => at + 2,
                        Kind::U32 | Kind::I32 | Kind::F32 => at + 4,
                        Kind::U64 | Kind::I64 | Kind::F64 => at + 8,
                        Kind::String => {
                            at + rest[at..].iter().position(|byte| *byte == 0).unwrap() + 1
                        }
                    });
                    events.push((event, rest[HEADER_SIZE..size].to_vec()));
                    rest = &rest[size..];
                }
                bytes.clear();
            }
        }
        events
    }

    fn names(&mut self) -> Vec<&'static str> {
        self.take().iter().map(|(event, _)| event.name()).collect()
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        registry::set_rules(self.number, &[]);
        assert!(channels::detach(self.number, Duration::from_secs(10)).unwrap().is_some());
    }
}

fn rule(names: &str, except: &[&str], levels: Levels) -> EventRule {
    EventRule {
        enabled: true,
        names: vec![names.to_owned()],
        excluded: except.iter().map(|&names| names.to_owned()).collect(),
        levels,
        filter: None,
    }
}

fn all(names: &str) -> EventRule {
    rule(names, &[], Levels::Any)
}

#[test]
fn fields_are_recorded_as_they_are() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("*")]);
    let oid = String::from("rb.1");
    event!(
        Level::Info,
        "fields:all",
        a = 1u8,
        b = -2i16,
        c = 3u32,
        d = 4usize,
        e = true,
        f = 1.5f64,
        g = "text",
        h = &oid,
        i = -9i64,
    );
    event!(Level::Debug, "fields:none");
    let found = channel.take();
    let expected = [
        &[1][..],
        &(-2i16).to_le_bytes(),
        &3u32.to_le_bytes(),
        &4u64.to_le_bytes(),
        &[1],
        &1.5f64.to_le_bytes(),
        b"text\0rb.1\0",
        &(-9i64).to_le_bytes(),
    ]
    .concat();
    let [(all, fields), (none, no_fields)] = &found[..] else { panic!("{found:?}") };
    assert_eq!((all.name(), all.level()), ("fields:all", Level::Info));
    assert_eq!(*fields, expected);
    let names: Vec<_> = all.fields().map(|(name, kind)| format!("{name} {kind:?}")).collect();
    assert_eq!(
        names,
        ["a U8", "b I16", "c U32", "d U64", "e Bool", "f F64", "g String", "h String", "i I64"]
    );
    assert!(all.place().0.ends_with("events.rs"));
    assert_eq!((none.name(), no_fields.len()), ("fields:none", 0));
}

#[test]
fn the_first_event_of_a_type_counts() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[all("first:*")]);
    // Nobody has come by here before.
    event!(Level::Info, "first:time");
    assert_eq!(channel.names(), ["first:time"]);
}

#[test]
fn what_nobody_wants_is_not_evaluated() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    registry::set_rules(0, &[]);
    let mut evaluated = 0;
    let mut pass = || {
        event!(
            Level::Info,
            "lazy:event",
            n = {
                evaluated += 1;
                evaluated
            }
        );
    };
    // The first time makes the type known, which takes its fields' kinds.
    pass();
    pass();
    pass();
    assert_eq!(channel.names(), [""; 0]);
    assert!(evaluated <= 1, "evaluated {evaluated} times");
}

#[test]
fn each_channel_gets_what_it_wants() {
    let _alone = alone();
    let mut channels = [Channel::new(0), Channel::new(5), Channel::new(30)];
    let errors = Levels::Exactly { level: Level::Error };
    registry::set_rules(0, &[rule("who:*", &["who:b*"], Levels::Any)]);
    registry::set_rules(5, &[all("who:bb")]);
    registry::set_rules(30, &[rule("who:*", &[], errors)]);
    let pass = || {
        event!(Level::Info, "who:a");
        event!(Level::Info, "who:b");
        event!(Level::Error, "who:bb");
        event!(Level::Error, "whose:c");
    };
    pass();
    let names: Vec<_> = channels.iter_mut().map(Channel::names).collect();
    assert_eq!(names, [vec!["who:a"], vec!["who:bb"], vec!["who:bb"]]);
    registry::set_rules(0, &[]);
    registry::set_rules(5, &[all("who*:c")]);
    registry::set_rules(30, &[]);
    pass();
    let names: Vec<_> = channels.iter_mut().map(Channel::names).collect();
    assert_eq!(names, [vec![], vec!["whose:c"], vec![]]);
}

#[test]
fn types_that_come_while_rules_change_are_decided() {
    let _alone = alone();
    let mut channel = Channel::new(0);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Relaxed) {
                registry::set_rules(0, &[]);
                registry::set_rules(0, &[all("race:*")]);
            }
        });
        // A type of its own for each, of memory that lives for ever.
        for _ in 0..200 {
            let place = (file!(), line!());
            let event = Box::leak(Box::new(EventType::new("race:event", Level::Info, &[], place)));
            event.record(());
        }
        is_over.store(true, Relaxed);
    });
    registry::set_rules(0, &[all("race:*")]);
    channel.take();
    let types: Vec<_> = registry::types().filter(|event| event.name() == "race:event").collect();
    assert_eq!(types.len(), 200);
    for event in types {
        event.record(());
    }
    assert_eq!(channel.names().len(), 200);
}
