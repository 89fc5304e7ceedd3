//! Programs that do what they should not. They hurt nobody but themselves.

mod support;

use blkkin_control::{Applications, Processes, Purpose, Reply, Request, catalog};
use blkkin_ring::Outcome;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};
use support::{Node, Program, eventually, read, trace_below};

/// Says that it is over when it is dropped.
struct Over<'d>(&'d AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// How long programs do what they should not.
fn long() -> Duration {
    let seconds = std::env::var("BLKKIN_HOSTILE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(3))
}

/// The memory of rings is written to at random, words and bytes of all parts.
#[test]
fn scribbled_rings() {
    check(|node, random, done| {
        let mut program = Program::start(node);
        program.tell(0, "hostile:event");
        while !done.load(Relaxed) {
            let memory = &program.memories[&0];
            for _ in 0..1000 {
                let size = memory.size() as u64;
                // Most often where it hurts.
                let limit = if random.next() % 4 == 0 { size } else { 8192 };
                let at = (random.next() % (limit / 8) * 8) as usize;
                let value = match random.next() % 4 {
                    0 => random.next(),
                    1 => u64::MAX,
                    2 => memory.word(at).load(Relaxed).wrapping_add(random.next() % 4096),
                    _ => random.next() % (1 << 22),
                };
                memory.word(at).store(value, Relaxed);
            }
            program.wake();
            program.obey();
        }
    });
}

/// Descriptions of types that are none, and words that point anywhere.
#[test]
fn scribbled_catalogs() {
    check(|node, random, done| {
        while !done.load(Relaxed) {
            let mut program = Program::start(node);
            program.tell(0, "hostile:event");
            for index in 0..2000 {
                program.record(0, (index % 60_000) as u16 as u32, index);
                let at = (random.next() % (catalog::SIZE as u64 / 8) * 8) as usize;
                program.catalog.word(at).store(random.next() >> (random.next() % 64), Relaxed);
                program.catalog.word(catalog::COUNT).store(random.next() % 20_000, Relaxed);
            }
            program.goodbye();
        }
    });
}

/// Words that are no messages, half messages, and connections without number.
#[test]
fn nonsense_and_floods() {
    check(|node, random, done| {
        let socket = node.agent.as_ref().unwrap().socket().to_owned();
        let mut open = Vec::new();
        while !done.load(Relaxed) {
            let Ok(stream) = blkkin_sys::socket::Socket::connect(&socket) else {
                std::thread::yield_now();
                continue;
            };
            let bytes: Vec<u8> = (0..random.next() % 200).map(|_| random.next() as u8).collect();
            let _ = stream.send(&bytes, &[]);
            open.push(stream);
            if open.len() > 200 {
                open.drain(..150);
            }
        }
    });
}

/// Two programs of `others` beside an honest one; its trace has all of its events, and the agent answers.
fn check(others: impl Fn(&Node, &mut Random, &AtomicBool) + Sync) {
    let mut node = Node::new();
    node.record_all(Purpose::Record);
    let mut honest = Program::start(&node);
    honest.tell(0, "honest:event");
    honest.record(0, 0, 0);
    let trace = eventually("the trace is there", || trace_below(&node.output()));
    let done = AtomicBool::new(false);
    let count = std::thread::scope(|scope| {
        // Also if something fails here: others would go on for ever.
        let _over = Over(&done);
        let (node, done, others) = (&node, &done, &others);
        for seed in [7, 8] {
            scope.spawn(move || others(node, &mut Random(seed), done));
        }
        let end = Instant::now() + long();
        let mut count = 1;
        while Instant::now() < end {
            for _ in 0..100 {
                assert_eq!(honest.record(0, 0, count), Outcome::Recorded);
                count += 1;
            }
            honest.obey();
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Relaxed);
        count
    });
    let all = Applications { processes: Processes::default(), event_types: true };
    let listed = node.ask(&Request::ListApplications(all));
    assert!(listed.iter().any(|reply| matches!(reply, Reply::Application(_))));
    honest.goodbye();
    eventually("all is written", || {
        let found = read(&trace);
        let expected = found.numbers.iter().copied().eq((0..count).map(|number| (0, number)));
        (found.is_whole && expected && found.discarded == 0).then_some(())
    });
}
