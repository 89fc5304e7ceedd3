//! Independence of requests from the order of events, tested with random requests from a small
//! generator with fixed seeds.

use super::assemble;
use crate::Limits;

/// Generator xorshift64*, which is sufficient for tests.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len() as u64) as usize]
    }

    fn shuffle<T>(&mut self, list: &mut [T]) {
        for at in (1..list.len()).rev() {
            list.swap(at, self.below(at as u64 + 1) as usize);
        }
    }
}

/// Returns a random event. The ranges of trace ids, span ids and times are small, so that many
/// events coincide.
fn event(random: &mut Random) -> String {
    let (time, trace) = (random.below(40), random.below(3) + 1);
    let (span, parent) = (random.below(6) + 1, random.below(8));
    let service = random.pick(&["", "a", "b", "c"]);
    let name = random.pick(&["", "x", "y"]);
    let address = random.pick(&["", "", "~10.0.0.1/80", "~10.0.0.2", "~node", "~NaN/-1"]);
    let long = "l".repeat(200);
    let what = match random.below(12) {
        0 => format!("@client {}+{}", random.below(30), random.below(30)),
        1 => format!("@server {}+{}", random.below(30), random.below(30)),
        2 => format!("@internal {}+{}", random.below(30), random.below(30)),
        3..6 => random.pick(&["cs", "cr", "sr", "ss", "ms", "mr", "ws", "wr"]).to_owned(),
        6 => format!("{}=1", random.pick(&["sa", "ca", "ma", "lc"])),
        7 => format!("{long}=#{}", random.below(3)),
        8 => format!("key={}", random.pick(&["", "one", "two", &long])),
        9 => return format!("{time} {trace}/0 wide {}", random.below(3)),
        _ => random.pick(&["event", "other", &long]).to_owned(),
    };
    let high = if random.below(20) == 0 { format!("^{}", random.below(3)) } else { String::new() };
    format!("{time} {trace}{high}/{span}<{parent} {service}:{name} {address} {what}")
}

#[test]
fn any_order_gives_the_same_requests() {
    for (seed, correct_skew) in (1..1500).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut random = Random(seed);
        let size = random.below(30) + 1;
        let mut events: Vec<String> = (0..size).map(|_| event(&mut random)).collect();
        let limits = Limits { correct_skew, ..Limits::default() };
        let (expected, assembler) = assemble(limits, &events.join("\n"));
        assert_eq!(assembler.counts().events, size);
        for _ in 0..4 {
            random.shuffle(&mut events);
            let (drawn, _) = assemble(limits, &events.join("\n"));
            assert_eq!(drawn, expected, "seed {seed}:\n{}", events.join("\n"));
        }
    }
}

/// A request does not depend on earlier events of other requests, nor on the reuse of their slots
/// in the assembler.
#[test]
fn requests_do_not_depend_on_others() {
    let mut random = Random(7);
    let limits = Limits { idle_ns: 5, ..Limits::default() };
    for _ in 0..200 {
        let mut one: Vec<String> = (0..20).map(|_| event(&mut random)).collect();
        one.iter_mut().for_each(|line| {
            let (_, rest) = line.split_once('/').expect("ids");
            *line = format!("1000 9/{rest}");
        });
        let (alone, _) = assemble(limits, &one.join("\n"));
        let others: Vec<String> = (0..200).map(|_| event(&mut random)).collect();
        let (among, _) = assemble(limits, &format!("{}\n{}", others.join("\n"), one.join("\n")));
        assert!(among.ends_with(&alone), "{alone}\nis not the end of\n{among}");
    }
}

/// Extreme times and durations, whose sums and differences overflow, neither break assembly nor
/// make it depend on the order of events.
#[test]
fn extremes_do_no_harm() {
    let numbers = [0, 1, 1 << 62, i64::MAX as u64, 1 << 63, u64::MAX - 1, u64::MAX];
    let numbers = numbers.map(|number: u64| number.to_string());
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    for (seed, correct_skew) in (1..500).flat_map(|seed| [(seed, false), (seed, true)]) {
        let mut random = Random(seed);
        let mut events: Vec<String> = Vec::new();
        for _ in 0..random.below(12) + 2 {
            let mut number = || random.pick(&numbers).to_owned();
            let (time, start, duration) = (number(), number(), number());
            let (span, parent) = (random.below(3) + 1, random.below(4));
            let what = random.pick(&["@client", "@server", "cs", "cr", "sr", "ss", "x=y", "x"]);
            let service = random.pick(&["a", "b"]);
            let times =
                if what.starts_with('@') { format!("{start}+{duration}") } else { String::new() };
            events.push(format!("{time} 1/{span}<{parent} {service}:x {what} {times}"));
        }
        let limits = Limits { correct_skew, idle_ns: u64::MAX, ..Limits::default() };
        let (expected, _) = assemble(limits, &events.join("\n"));
        random.shuffle(&mut events);
        assert_eq!(assemble(limits, &events.join("\n")).0, expected, "seed {seed}");
    }
}
