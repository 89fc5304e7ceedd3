//! [`Ledger`]: sums of the calls between services over all files. There is a sum for each time slot
//! of 1, 4, 16, … minutes, and one for all time. The calls of any window are computed from a few
//! slots. Start at [`Ledger::calls`].
//!
//! The counts of a file are added when the file is committed and subtracted when it expires. Merges
//! of files do not change the sums. When the sums exceed their memory limit, the oldest slots are
//! evicted, the shortest slots first. If a window begins or ends in evicted slots, their calls are
//! read from the files.

use crate::files::index::{LAST_MINUTE, LinkCount, NO_DURATION};
use blkkin_model::varint;
use foldhash::fast::RandomState;
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Binary logarithm of the ratio between the slot lengths of adjacent levels.
const LEVEL_BITS: u32 = 2;
/// Number of levels. A slot of the last level is 4^7 minutes long, about eleven days.
const LEVELS: usize = 8;

/// Number of duration codes, including the code for spans without a duration.
const CODES: usize = NO_DURATION as usize + 1;

/// Approximate memory of a [`CallSum`] without its durations, in bytes.
const SUM_BYTES: usize = 64;

/// Pair of services: the caller and the callee.
pub(crate) type Pair = (String, String);

/// Sums of the calls between services over all files.
pub(crate) struct Ledger {
    bytes_max: usize,
    bytes: usize,
    pairs: Vec<Pair>,
    numbers: HashMap<Pair, u32, RandomState>,
    total: Node,
    levels: [Level; LEVELS],
    adder: Adder,
    /// Set once the total over all time and the names of services alone exceeded the memory limit.
    /// The ledger then stays empty.
    is_lost: bool,
}

#[derive(Default)]
struct Level {
    nodes: BTreeMap<u64, Node>,
    /// Number of the first slot that this level keeps; older slots were evicted.
    from: u64,
}

/// Sums of one time slot, or of all time, by pair of services. The key is the index of the pair in
/// `Ledger::pairs`.
#[derive(Default)]
struct Node {
    sums: HashMap<u32, CallSum, RandomState>,
}

#[derive(Default)]
struct CallSum {
    calls: i64,
    errors: i64,
    durations: DurationRuns,
}

/// Histogram of durations by duration code, encoded as runs of nearby codes. Each run has a header
/// (gap to the previous run, encoding, length), followed by the counts.
///
/// A dense run stores a count of fixed width for each code; its length is a number of codes. Adding
/// a dense run to an accumulator is as fast as adding an array. A sparse run ([`PAIRS`]) stores two
/// bytes for each nonzero count: the gap from the previous code, and the count. Its length is a
/// number of pairs.
#[derive(Default)]
struct DurationRuns(Box<[u8]>);

/// Encoding number of sparse runs. Smaller numbers stand for dense runs: the binary logarithm of
/// the size of a count in bytes.
const PAIRS: u8 = 4;

/// Maximum distance between successive nonzero counts of a dense run, in codes.
const GAP_MAX: u16 = 4;

/// Maximum number of nonzero counts in a run. The widest count of a dense run sets the width of all
/// its counts.
const RUN_MAX: usize = 32;

/// Node and its sign: `true` to add the sums of the node, `false` to subtract them.
type SignedNode<'s> = (&'s Node, bool);

/// Time slot of a level, with its sums.
#[derive(Clone, Copy)]
struct TimeSlot<'s> {
    /// Index of the level in `Ledger::levels`.
    level: usize,
    /// Number of the slot in its level, counted since 1970.
    number: u64,
    /// Sums of the calls in the slot.
    node: &'s Node,
}

/// Nodes whose signed sum gives the calls of a window, except for the calls of the minutes that are
/// missing.
#[derive(Default)]
struct WindowNodes<'s> {
    /// Nodes to be added or subtracted.
    nodes: Vec<SignedNode<'s>>,
    /// Ranges of minutes, counted since 1970, whose slots were evicted.
    missing: Vec<RangeInclusive<u64>>,
}

/// Calls of a window: the ledger's sums (`links`), and the minutes whose calls must be read from
/// files (`missing`).
pub(crate) struct WindowCalls {
    pub(crate) links: Vec<LinkCount>,
    pub(crate) missing: Vec<RangeInclusive<u64>>,
}

/// Accumulator of the durations of one pair of services: a histogram by duration code.
pub(crate) struct Adder {
    durations: Box<[i64; CODES]>,
    /// Start and end of the range of codes that may have nonzero counts.
    codes: (usize, usize),
}

impl Ledger {
    pub(crate) fn new(bytes_max: usize) -> Ledger {
        Ledger {
            bytes_max,
            bytes: 0,
            pairs: Vec::new(),
            numbers: HashMap::default(),
            total: Node::default(),
            levels: Default::default(),
            adder: Adder::default(),
            is_lost: false,
        }
    }

    /// Returns the approximate memory of the ledger in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.bytes
    }

    /// Adds the call counts of a file, multiplied by `times`; -1 subtracts them.
    pub(crate) fn add(&mut self, counts: &[LinkCount], times: i64) {
        if self.is_lost {
            return;
        }
        for count in counts {
            let pair = self.number(count);
            let mut grown = self.total.add(pair, count, times, &mut self.adder);
            for (level, number) in self.levels.iter_mut().zip(0..) {
                let slot = count.minute >> (LEVEL_BITS * number);
                if slot >= level.from {
                    let node = level.nodes.entry(slot).or_default();
                    grown += node.add(pair, count, times, &mut self.adder);
                    if node.sums.is_empty() {
                        level.nodes.remove(&slot);
                    }
                }
            }
            self.bytes = self.bytes.saturating_add_signed(grown);
        }
        self.evict();
    }

    fn number(&mut self, count: &LinkCount) -> u32 {
        let pair = (count.parent.clone(), count.child.clone());
        if let Some(&number) = self.numbers.get(&pair) {
            return number;
        }
        let number = self.pairs.len() as u32;
        self.bytes += 2 * (pair.0.len() + pair.1.len()) + 4 * SUM_BYTES;
        self.pairs.push(pair.clone());
        self.numbers.insert(pair, number);
        number
    }

    fn evict(&mut self) {
        for level in &mut self.levels {
            while self.bytes > self.bytes_max {
                let Some((slot, node)) = level.nodes.pop_first() else { break };
                level.from = slot + 1;
                self.bytes = self.bytes.saturating_sub(node.bytes());
            }
        }
        if self.bytes > self.bytes_max {
            *self = Ledger { is_lost: true, ..Ledger::new(self.bytes_max) };
        }
    }

    /// Returns the calls of requests that began in a range of minutes, in order of caller and
    /// callee.
    pub(crate) fn calls(&self, minutes: &RangeInclusive<u64>) -> WindowCalls {
        if self.is_lost {
            return WindowCalls { links: Vec::new(), missing: vec![minutes.clone()] };
        }
        let mut window = WindowNodes::default();
        let last = LEVELS - 1;
        let shift = LEVEL_BITS * last as u32;
        if self.spans_all(minutes) {
            window.nodes.push((&self.total, true));
        } else {
            let level = &self.levels[last];
            let slots = minutes.start() >> shift..=minutes.end() >> shift;
            if *slots.start() < level.from {
                let end = (level.from << shift).saturating_sub(1).min(*minutes.end());
                window.missing.push(*minutes.start()..=end);
            }
            for (&number, node) in level.nodes.range(slots) {
                let slot = TimeSlot { level: last, number, node };
                self.collect_nodes(slot, true, minutes, &mut window);
            }
        }
        WindowCalls { links: self.sum_nodes(&window.nodes), missing: window.missing }
    }

    /// Returns `true` only if the range covers all minutes that have calls in the ledger. The test
    /// compares whole slots of the shortest level without evictions. If each level has evictions,
    /// the range must cover all time.
    fn spans_all(&self, minutes: &RangeInclusive<u64>) -> bool {
        let shortest = self.levels.iter().zip(0..).find(|(level, _)| level.from == 0);
        let Some((level, number)) = shortest else {
            return *minutes.start() == 0 && *minutes.end() >= LAST_MINUTE;
        };
        let ends = level.nodes.first_key_value().zip(level.nodes.last_key_value());
        ends.is_none_or(|((&first, _), (&last, _))| {
            let (first, last) = (minutes_of(number, first), minutes_of(number, last));
            minutes.start() <= first.start() && last.end() <= minutes.end()
        })
    }

    /// Adds nodes to a window whose signed sum gives the calls of a slot within a range of minutes.
    /// There are two ways: the children of the slot's node inside the range, or the node itself
    /// minus its children outside the range. The second way is chosen if it takes fewer children
    /// and no slot below the node was evicted. Minutes of evicted slots are added to `missing`.
    fn collect_nodes<'s>(
        &'s self,
        slot: TimeSlot<'s>,
        is_added: bool,
        minutes: &RangeInclusive<u64>,
        window: &mut WindowNodes<'s>,
    ) {
        let TimeSlot { level, number, node } = slot;
        let of_node = minutes_of(level, number);
        let first = *of_node.start().max(minutes.start());
        let last = *of_node.end().min(minutes.end());
        if first > last {
            return;
        }
        if (first..=last) == of_node {
            window.nodes.push((node, is_added));
            return;
        }
        // A slot of level 0 is one minute, which is inside or outside as a whole.
        let Some(below) = level.checked_sub(1) else { return };
        let known_from = minutes_from(below, self.levels[below].from);
        if first < known_from {
            window.missing.push(first..=last.min(known_from - 1));
        }
        let numbers = number << LEVEL_BITS..(number + 1) << LEVEL_BITS;
        let parts = self.levels[below].nodes.range(numbers);
        let (mut within, mut outside) = (0, 0);
        for (&part, _) in parts.clone() {
            let of_part = minutes_of(below, part);
            within += u32::from(first <= *of_part.start() && *of_part.end() <= last);
            outside += u32::from(*of_part.end() < first || last < *of_part.start());
        }
        // Subtraction requires that no slot below the node was evicted.
        if outside < within && self.levels[0].from <= *of_node.start() {
            window.nodes.push((node, is_added));
            for (&number, node) in parts {
                let part = TimeSlot { level: below, number, node };
                // A child is outside as a whole, inside as a whole, or contains one end of the
                // range.
                if *of_node.start() < first {
                    let before = *of_node.start()..=first - 1;
                    self.collect_nodes(part, !is_added, &before, window);
                }
                if last < *of_node.end() {
                    let after = last + 1..=*of_node.end();
                    self.collect_nodes(part, !is_added, &after, window);
                }
            }
            return;
        }
        for (&number, node) in parts {
            let part = TimeSlot { level: below, number, node };
            self.collect_nodes(part, is_added, minutes, window);
        }
    }

    fn sum_nodes(&self, nodes: &[SignedNode<'_>]) -> Vec<LinkCount> {
        let mut by_pair: Vec<Vec<(&CallSum, bool)>> = vec![Vec::new(); self.pairs.len()];
        for &(node, is_added) in nodes {
            for (&pair, sum) in &node.sums {
                by_pair[pair as usize].push((sum, is_added));
            }
        }
        let mut adder = Adder::default();
        let mut links = Vec::new();
        for ((parent, child), sums) in self.pairs.iter().zip(by_pair) {
            let mut link = LinkCount::default();
            for (sum, is_added) in sums {
                let times = if is_added { 1 } else { -1 };
                link.calls = link.calls.saturating_add(sum.calls.saturating_mul(times));
                link.errors = link.errors.saturating_add(sum.errors.saturating_mul(times));
                adder.add_all(&sum.durations, is_added);
            }
            link.durations = adder.drain();
            if (link.calls, link.errors, link.durations.is_empty()) != (0, 0, true) {
                (link.parent, link.child) = (parent.clone(), child.clone());
                links.push(link);
            }
        }
        links.sort_unstable_by(|a, b| (&a.parent, &a.child).cmp(&(&b.parent, &b.child)));
        links
    }
}

/// Returns the first minute of a slot, counted since 1970; `u64::MAX` on overflow.
fn minutes_from(level: usize, slot: u64) -> u64 {
    slot.saturating_mul(1 << (LEVEL_BITS * level as u32))
}

/// Returns the minutes that a slot covers, counted since 1970.
fn minutes_of(level: usize, slot: u64) -> RangeInclusive<u64> {
    let first = minutes_from(level, slot);
    first..=first.saturating_add((1 << (LEVEL_BITS * level as u32)) - 1)
}

impl Node {
    /// Adds the counts of a pair of services, multiplied by `times`. Returns the growth of the
    /// node's memory in bytes.
    fn add(&mut self, pair: u32, count: &LinkCount, times: i64, adder: &mut Adder) -> isize {
        let sum = self.sums.entry(pair).or_default();
        let before = if sum.is_none() { 0 } else { sum.bytes() };
        sum.calls = sum.calls.saturating_add(count.calls.saturating_mul(times));
        sum.errors = sum.errors.saturating_add(count.errors.saturating_mul(times));
        if !count.durations.is_empty() {
            adder.add_all(&sum.durations, true);
            for &(code, more) in &count.durations {
                adder.add(code, more.saturating_mul(times));
            }
            sum.durations = DurationRuns::of(&adder.drain());
        }
        let after = if sum.is_none() { 0 } else { sum.bytes() };
        if sum.is_none() {
            self.sums.remove(&pair);
        }
        after as isize - before as isize
    }

    fn bytes(&self) -> usize {
        self.sums.values().map(CallSum::bytes).sum()
    }
}

impl CallSum {
    fn is_none(&self) -> bool {
        self.calls == 0 && self.errors == 0 && self.durations.0.is_empty()
    }

    fn bytes(&self) -> usize {
        SUM_BYTES + self.durations.0.len()
    }
}

impl DurationRuns {
    /// Encodes pairs of code and count, which must be in ascending order of code.
    fn of(counts: &[(u16, i64)]) -> DurationRuns {
        let mut to = Vec::with_capacity(2 * counts.len());
        let (mut end, mut rest) = (0, counts);
        while let [(first, _), ..] = *rest {
            let run_of = |gap_max: u16| {
                let is_near = |pair: &&[(u16, i64)]| pair[1].0 - pair[0].0 <= gap_max;
                let length = 1 + rest.windows(2).take(RUN_MAX - 1).take_while(is_near).count();
                let run = &rest[..length];
                let width = run.iter().map(|&(_, number)| width_of(number)).max().unwrap_or(0);
                (run, width, usize::from(run[length - 1].0 - first) + 1)
            };
            varint::write(&mut to, u64::from(first - end));
            end = first;
            let (mut run, width, span) = run_of(u8::MAX.into());
            if width == 0 && 2 * run.len() < span {
                to.push(PAIRS);
                varint::write(&mut to, run.len() as u64);
                for &(code, number) in run {
                    to.extend([(code - end) as u8, number as u8]);
                    end = code;
                }
                end += 1;
            } else {
                let (near, width, span) = run_of(GAP_MAX);
                run = near;
                to.push(width);
                varint::write(&mut to, span as u64);
                for &(code, number) in run {
                    to.resize(to.len() + (usize::from(code - end) << width), 0);
                    to.extend_from_slice(&number.to_le_bytes()[..1 << width]);
                    end = code + 1;
                }
            }
            rest = &rest[run.len()..];
        }
        DurationRuns(to.into())
    }

    /// Calls `each` for each run, with its first code, its encoding and the bytes after its header.
    fn each_run(&self, mut each: impl FnMut(usize, u8, &[u8])) {
        let (mut end, mut rest) = (0, &self.0[..]);
        while !rest.is_empty() {
            let first = end + take_varint(&mut rest) as usize;
            let Some((&kind, mut numbers)) = rest.split_first() else { break };
            let length = take_varint(&mut numbers) as usize;
            let bytes = length << if kind == PAIRS { 1 } else { kind };
            let Some((run, others)) = numbers.split_at_checked(bytes) else { break };
            each(first, kind, run);
            let codes = match kind {
                PAIRS => 1 + run.iter().step_by(2).map(|&gap| usize::from(gap)).sum::<usize>(),
                _ => length,
            };
            (end, rest) = (first + codes, others);
        }
    }
}

/// Returns the binary logarithm of the size in bytes that a number needs.
fn width_of(number: i64) -> u8 {
    match number {
        -0x80..=0x7f => 0,
        -0x8000..=0x7fff => 1,
        -0x8000_0000..=0x7fff_ffff => 2,
        _ => 3,
    }
}

/// Takes an integer from the front of bytes that [`varint::write`] wrote.
fn take_varint(bytes: &mut &[u8]) -> u64 {
    let (number, size) = varint::read(bytes).unwrap_or((0, bytes.len()));
    *bytes = &bytes[size..];
    number
}

impl Default for Adder {
    fn default() -> Adder {
        Adder { durations: Box::new([0; CODES]), codes: (usize::MAX, 0) }
    }
}

impl Adder {
    #[inline]
    pub(crate) fn add(&mut self, code: u16, times: i64) {
        // Codes are below `CODES`; the remainder avoids a bounds check.
        let code = usize::from(code) % CODES;
        self.codes = (self.codes.0.min(code), self.codes.1.max(code + 1));
        self.durations[code] = self.durations[code].saturating_add(times);
    }

    /// Adds a histogram to the accumulator, or subtracts it if `is_added` is false.
    fn add_all(&mut self, counts: &DurationRuns, is_added: bool) {
        counts.each_run(|first, kind, numbers| match kind {
            PAIRS => self.add_pairs(first, numbers, is_added),
            0 => self.add_run(first, numbers, is_added, |it| i8::from_le_bytes(it).into()),
            1 => self.add_run(first, numbers, is_added, |it| i16::from_le_bytes(it).into()),
            2 => self.add_run(first, numbers, is_added, |it| i32::from_le_bytes(it).into()),
            _ => self.add_run(first, numbers, is_added, i64::from_le_bytes),
        });
    }

    fn add_pairs(&mut self, first: usize, pairs: &[u8], is_added: bool) {
        let (mut code, sign) = (first, if is_added { 1 } else { -1 });
        for &[gap, number] in pairs.as_chunks().0 {
            code += usize::from(gap);
            if let Some(sum) = self.durations.get_mut(code) {
                *sum = sum.wrapping_add(sign * i64::from(number as i8));
            }
        }
        self.codes = (self.codes.0.min(first), self.codes.1.max(code + 1));
    }

    #[inline]
    fn add_run<const BYTES: usize>(
        &mut self,
        first: usize,
        numbers: &[u8],
        is_added: bool,
        number: impl Fn([u8; BYTES]) -> i64,
    ) {
        let numbers = numbers.as_chunks().0;
        let end = first + numbers.len();
        let Some(durations) = self.durations.get_mut(first..end) else { return };
        self.codes = (self.codes.0.min(first), self.codes.1.max(end));
        // Wrapping arithmetic lets the compiler vectorize the loop. Sums of calls are far from
        // overflow.
        let both = durations.iter_mut().zip(numbers);
        if is_added {
            both.for_each(|(sum, &it)| *sum = sum.wrapping_add(number(it)));
        } else {
            both.for_each(|(sum, &it)| *sum = sum.wrapping_sub(number(it)));
        }
    }

    /// Returns the accumulated histogram and resets the accumulator.
    pub(crate) fn drain(&mut self) -> Vec<(u16, i64)> {
        let (first, end) = std::mem::replace(&mut self.codes, (usize::MAX, 0));
        let Some(added) = self.durations.get_mut(first..end) else { return Vec::new() };
        let mut counts = Vec::with_capacity(added.iter().filter(|times| **times != 0).count());
        for (times, code) in added.iter_mut().zip(first..).filter(|(times, _)| **times != 0) {
            counts.push((code as u16, std::mem::take(times)));
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::{Adder, CODES, DurationRuns, Ledger};
    use crate::files::index::LinkCount;
    use std::collections::BTreeMap;
    use std::ops::RangeInclusive;

    struct Random(u64);

    impl Random {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % bound
        }
    }

    /// Generates random call counts of one file, for up to 40 minutes.
    fn counts(random: &mut Random, from: u64) -> Vec<LinkCount> {
        let mut counts = Vec::new();
        for minute in from..from + 1 + random.below(40) {
            for child in 0..random.below(4) {
                let calls = random.below(9) as i64 - 2;
                let durations =
                    (0..random.below(5)).map(|at| (at as u16 * 700, random.below(300) as i64 - 9));
                counts.push(LinkCount {
                    minute,
                    parent: "a".to_owned(),
                    child: child.to_string(),
                    calls,
                    errors: calls / 2,
                    durations: durations.filter(|&(_, times)| times != 0).collect(),
                });
            }
        }
        counts
    }

    type Sums = BTreeMap<String, (i64, i64, BTreeMap<u16, i64>)>;

    fn sums<'c>(
        counts: impl IntoIterator<Item = &'c LinkCount>,
        minutes: &[RangeInclusive<u64>],
    ) -> Sums {
        let mut sums = Sums::new();
        let is_asked_for = |count: &&LinkCount| minutes.iter().any(|it| it.contains(&count.minute));
        for count in counts.into_iter().filter(is_asked_for) {
            let sum = sums.entry(count.child.clone()).or_default();
            sum.0 += count.calls;
            sum.1 += count.errors;
            for &(code, times) in &count.durations {
                *sum.2.entry(code).or_default() += times;
            }
        }
        for sum in sums.values_mut() {
            sum.2.retain(|_, times| *times != 0);
        }
        sums.retain(|_, sum| (sum.0, sum.1, sum.2.is_empty()) != (0, 0, true));
        sums
    }

    /// For any window, the ledger's sums and the files' counts of the missing minutes add up to the
    /// counts of all files.
    #[test]
    fn any_window_is_known() {
        for bytes_max in [usize::MAX, 20_000, 8_000, 3_000, 100] {
            let mut random = Random(bytes_max as u64);
            let mut ledger = Ledger::new(bytes_max);
            let mut files: Vec<Vec<LinkCount>> = Vec::new();
            let (mut asked_files, mut spared) = (0, 0);
            for step in 0..200 {
                if files.len() > 20 {
                    ledger.add(&files.remove(0), -1);
                }
                let file = counts(&mut random, 1_000_000 + step * 11);
                ledger.add(&file, 1);
                files.push(file);
                assert!(ledger.memory_bytes() <= bytes_max);
                let first = 999_990 + random.below(2300);
                let windows = [0..=u64::MAX, first..=first + random.below(900), first..=first];
                for window in windows {
                    let calls = ledger.calls(&window);
                    let missing = calls.missing.iter();
                    assert!(missing.clone().all(|it| window.contains(it.start())));
                    assert!(missing.clone().all(|it| window.contains(it.end())));
                    let is_asked = !calls.missing.is_empty();
                    (asked_files, spared) =
                        (asked_files + u32::from(is_asked), spared + u32::from(!is_asked));
                    let known =
                        calls.links.iter().map(|link| LinkCount { minute: 0, ..link.clone() });
                    let of_files = files
                        .iter()
                        .flatten()
                        .filter(|count| calls.missing.iter().any(|it| it.contains(&count.minute)));
                    let of_files = of_files.map(|count| LinkCount { minute: 0, ..count.clone() });
                    let both: Vec<LinkCount> = known.chain(of_files).collect();
                    let all = sums(files.iter().flatten(), std::slice::from_ref(&window));
                    assert_eq!(sums(&both, &[0..=0]), all, "{bytes_max} {step} {window:?}");
                }
            }
            // The limits are chosen such that windows with and without missing minutes occur.
            assert_eq!(asked_files > 0, bytes_max < usize::MAX, "{bytes_max}");
            assert_eq!(spared > 0, bytes_max > 100, "{bytes_max}");
        }
    }

    /// Histograms with near and distant codes, and with small and large counts, survive a round
    /// trip.
    #[test]
    fn histograms_survive_encoding() {
        let mut random = Random(3);
        for _ in 0..2000 {
            let mut counts: Vec<(u16, i64)> = Vec::new();
            let (mut code, mut gap_max, mut bits) = (random.below(300), 1, 1);
            while code < CODES as u64 && counts.len() < 200 {
                let number = random.below(1 << bits) as i64 - random.below(1 << bits) as i64;
                counts.extend((number != 0).then_some((code as u16, number)));
                code += 1 + random.below(gap_max);
                if random.below(20) == 0 {
                    gap_max = 1 << random.below(11);
                    bits = 1 + random.below(33);
                }
            }
            let packed = DurationRuns::of(&counts);
            let mut adder = Adder::default();
            adder.add_all(&packed, true);
            assert_eq!(adder.drain(), counts);
            adder.add_all(&packed, false);
            let taken: Vec<_> = counts.iter().map(|&(code, number)| (code, -number)).collect();
            assert_eq!(adder.drain(), taken);
        }
    }

    #[test]
    fn subtracted_counts_free_their_memory() {
        let mut random = Random(1);
        let mut ledger = Ledger::new(1 << 20);
        let file = counts(&mut random, 7);
        ledger.add(&file, 1);
        let taken = ledger.memory_bytes();
        ledger.add(&file, -1);
        assert!(ledger.memory_bytes() < taken / 4, "{taken}");
        assert!(ledger.calls(&(0..=u64::MAX)).links.is_empty());
    }
}
