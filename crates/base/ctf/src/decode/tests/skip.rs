//! Tests that skipping gives the same result as walking, for random packets: some are longer than a
//! NUL map, some have corrupt bytes, and some views end within an event.

use super::*;
use blkkin_sys::testing::Random;

const HEADERS: [&str; 3] = [
    "enum : u16 { compact = 0 ... 65534, extended = 65535 } id;
     variant <id> { struct { t32 timestamp; } compact; struct { u32 id; t64 timestamp; } extended; } v;",
    "enum : integer { size = 5; align = 1; } { compact = 0 ... 30, extended = 31 } id;
     variant <id> { struct { t27 timestamp; } compact; struct { u32 id; t64 timestamp; } extended; } v;",
    "u8 id; t64 timestamp;",
];

/// Makes metadata with the event header `header`, and with event classes in plain form (0, 1 and
/// 4), with an array of dynamic length (2), without fields (3), and with a field of 3 bits (5).
fn metadata(header: &str) -> String {
    format!(
        "/* CTF 1.8 */ trace {{ major = 1; minor = 8; byte_order = le; }}; clock {{ name = c; }};
        typealias integer {{ size = 8; align = 8; }} := u8;
        typealias integer {{ size = 16; align = 8; }} := u16;
        typealias integer {{ size = 32; align = 8; }} := u32;
        typealias integer {{ size = 8; align = 8; encoding = UTF8; }} := utf8;
        typealias integer {{ size = 27; align = 1; map = clock.c.value; }} := t27;
        typealias integer {{ size = 32; align = 8; map = clock.c.value; }} := t32;
        typealias integer {{ size = 64; align = 8; map = clock.c.value; }} := t64;
        stream {{ event.header := struct {{ {header} }} align(8); }};
        event {{ name = a; id = 0; fields := struct {{ string a; string b; u32 c; string d; }}; }};
        event {{ name = b; id = 1; fields := struct {{ u8 x; }}; }};
        event {{ name = c; id = 2; fields := struct {{ u8 n; u8 list[n]; }}; }};
        event {{ name = d; id = 3; }};
        event {{ name = e; id = 4; fields := struct {{ utf8 text[1500]; string s; u8 x; }}; }};
        event {{ name = f; id = 5; fields := struct {{ integer {{ size = 3; align = 1; }} x; }}; }};"
    )
}

fn packet(random: &mut Random, header: usize, clock: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut time = clock;
    // Classes of a packet: a single one, plain ones, all except the large one, or the large one and
    // another.
    let classes: &[u8] = [&[0][..], &[1], &[0, 1], &[0, 1, 2, 3, 5], &[0, 4]][random.below(5)];
    let long = [40, 3000, 7000][random.below(3)];
    for _ in 0..random.below(300) {
        time = match random.below(60) {
            0 => time.wrapping_sub(100),
            1 => time.wrapping_add(1 << 33),
            2 => u64::MAX,
            _ => time.wrapping_add(random.below(50) as u64),
        };
        let id = if random.below(400) == 0 { 9 } else { classes[random.below(classes.len())] };
        let is_short = random.below(20) != 0;
        match header {
            0 if is_short => {
                bytes.extend([id, 0]);
                bytes.extend((time as u32).to_le_bytes());
            }
            1 if is_short => bytes.extend((u32::from(id) | (time as u32) << 5).to_le_bytes()),
            _ => {
                match header {
                    0 => bytes.extend([255, 255, id, 0, 0, 0]),
                    1 => bytes.extend([31, id, 0, 0, 0]),
                    _ => bytes.push(id),
                }
                bytes.extend(time.to_le_bytes());
            }
        }
        let mut string = |bytes: &mut Vec<u8>| {
            let end = if random.below(20) == 0 { long } else { 30 };
            let length = random.below(end);
            bytes.resize(bytes.len() + length, b'x');
            bytes.push(0);
        };
        match id {
            0 => {
                string(&mut bytes);
                string(&mut bytes);
                bytes.extend([0, 1, 0, 1]);
                string(&mut bytes);
            }
            2 => bytes.extend([3, 0, 1, 0]),
            4 => {
                bytes.resize(bytes.len() + 1500, 0);
                string(&mut bytes);
                bytes.push(0);
            }
            3 => {}
            _ => bytes.push(0),
        }
    }
    for _ in 0..random.below(3) {
        if let Some(byte) = bytes.len().checked_sub(1).map(|last| random.below(last + 1)) {
            bytes[byte] = random.below(256) as u8;
        }
    }
    bytes
}

/// End of a walk: position, event count, clock, and reason for the stop.
type End = (u64, u64, u64, Option<Stop>);

fn walk(decoder: &Decoder, view: View<'_>, start: u64, clock: u64, last_clock: u64) -> End {
    let mut machine = decoder.machine();
    machine.clock = clock;
    let (mut position, mut count) = (start, 0);
    while position < view.end_bits() {
        let clock = machine.clock;
        let mut at = position;
        let header = decoder.event_header(0, view, &mut at, &mut machine);
        if header.is_ok() && machine.clock > last_clock {
            return (position, count, clock, None);
        }
        // A visitor that uses values finds the ends of strings by a different search.
        let visitor = &mut Recorder::default();
        let body = |class| decoder.event_body(0, class, view, &mut at, &mut machine, visitor);
        if let Err(stop) = header.and_then(body) {
            return (position, count, clock, Some(stop));
        }
        (position, count) = (at, count + 1);
    }
    (position, count, machine.clock, None)
}

#[test]
fn skipping_ends_where_walking_does() {
    let (mut events, mut stops, mut early) = (0, 0, 0);
    for seed in 0..1200 {
        let mut random = Random::new(seed);
        let header = random.below(3);
        let decoder = decoder(&metadata(HEADERS[header]));
        let clock = [0, 1000, 0xffff_ff00, u64::MAX - 500][random.below(4)];
        let bytes = [packet(&mut random, header, clock), packet(&mut random, header, clock)];
        let views = bytes.each_ref().map(|bytes| {
            let cut = if random.below(2) == 0 { 0 } else { random.below(bytes.len() * 8 + 1) };
            View::new(bytes, 77, (bytes.len() * 8 - cut) as u64)
        });
        let last_clock = match random.below(2) {
            0 => u64::MAX,
            _ => clock.saturating_add(random.below(5000) as u64),
        };
        let expected = views.map(|view| walk(&decoder, view, 0, clock, last_clock));
        for (_, count, _, stop) in &expected {
            events += count;
            stops += u32::from(stop.is_some());
        }
        early += u32::from(last_clock < u64::MAX && expected[0].3.is_none());

        let mut machines = [(); 2].map(|()| decoder.machine());
        for is_together in [false, true] {
            machines.iter_mut().for_each(|machine| machine.clock = clock);
            let [one, other] = &mut machines;
            let mut a = EventSkipper::new(&decoder, 0, views[0], 0, one);
            let mut b = EventSkipper::new(&decoder, 0, views[1], 0, other);
            (a.last_clock, b.last_clock) = (last_clock, last_clock);
            if is_together {
                EventSkipper::run_two(&mut a, &mut b);
            }
            for skipping in [&mut a, &mut b] {
                if skipping.stop.is_none() {
                    skipping.run();
                }
            }
            let ends = [a, b].map(|skipping| (skipping.position, skipping.count, skipping.stop));
            let clocks = machines.each_ref().map(|machine| machine.clock);
            let expected =
                expected.clone().map(|(at, count, clock, stop)| ((at, count, stop), clock));
            let got = ends.into_iter().zip(clocks);
            assert!(got.eq(expected.clone()), "{seed}, together: {is_together}: {expected:?}");
        }
    }
    assert!(events > 50_000, "{events} events");
    assert!(stops > 200 && early > 200, "{stops} stopped, {early} ended early");
}
