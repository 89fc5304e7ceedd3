//! A ring and a naive model of it give the same events and the same losses for the same random
//! actions. The tests run with and without restartable sequences, in both modes, with positions
//! that start at 0 and shortly before they wrap.

mod support;

use blkkin_ring::{Clock, Mode, Outcome, Shape, Writer};
use blkkin_sys::testing::Random;
use std::collections::VecDeque;
use support::{Harvest, Set, move_to, record, shape, size_of};

const HEADER: usize = blkkin_ring::packet::SIZE;
const GRAIN: usize = 32;

/// Naive model of a ring, which computes the ring's expected state.
struct Model {
    shape: Shape,
    /// Sub-buffers with unread events and the current one, oldest first.
    subbuffers: VecDeque<Subbuffer>,
    /// Position of the last restart in units of sub-buffers, and the index of the sub-buffer that
    /// was left.
    restart: Option<(u64, u64)>,
    /// Number of events consumed from the oldest sub-buffer.
    taken: usize,
    lost: u64,
    /// Number of lost events in the header of the last consumed packet.
    told: u64,
}

/// Expected contents of a sub-buffer.
struct Subbuffer {
    /// Position of the sub-buffer in units of sub-buffers, counting skipped ones.
    position: u64,
    used: usize,
    events: Vec<u64>,
    /// Number of lost events when the sub-buffer was left.
    lost: u64,
}

impl Model {
    fn record(&mut self, who: u64, number: u64) -> Outcome {
        let size = size_of(who, number);
        let place = size.next_multiple_of(GRAIN);
        let fits = |used: usize| used + place < self.shape.subbuffer_size;
        if !self.subbuffers.back().is_some_and(|last| fits(last.used)) {
            let is_full = self.subbuffers.len() == self.shape.subbuffer_count;
            if is_full && self.shape.mode == Mode::Overwrite {
                self.subbuffers.pop_front();
                self.taken = 0;
            }
            let Some(position) = self.next() else {
                self.lost += 1;
                return Outcome::Full;
            };
            if let Some(last) = self.subbuffers.back_mut() {
                last.lost = self.lost;
            }
            let (used, events, lost) = (HEADER, Vec::new(), 0);
            self.subbuffers.push_back(Subbuffer { position, used, events, lost });
        }
        let last = self.subbuffers.back_mut().unwrap();
        last.used += size;
        last.events.push(number);
        Outcome::Recorded
    }

    /// Returns the position of the next sub-buffer; `None` if the ring is full.
    fn next(&mut self) -> Option<u64> {
        let count = self.shape.subbuffer_count as u64;
        let (Some(first), Some(last)) = (self.subbuffers.front(), self.subbuffers.back()) else {
            return Some(0);
        };
        let (first, last) = (first.position, last.position);
        if self.shape.mode == Mode::Overwrite {
            return Some(last + 1);
        }
        if let Some((start, left)) = self.restart
            && first < start
        {
            let next = if (last + 1) % count == left { last + 2 } else { last + 1 };
            return (next < start + count).then_some(next);
        }
        if first == last && last % count > 0 {
            let start = (last / count + 1) * count;
            self.restart = Some((start, last % count));
            return Some(start);
        }
        (last + 1 - first < count).then_some(last + 1)
    }

    fn take_all(&mut self, part: bool) -> Vec<u64> {
        let mut events = Vec::new();
        if self.shape.mode == Mode::Overwrite {
            // A writer may be beginning the sub-buffer after the current one.
            while self.subbuffers.len() > self.shape.subbuffer_count - 1 {
                self.subbuffers.pop_front();
                self.taken = 0;
            }
        }
        while let Some(front) = self.subbuffers.front() {
            let is_last = self.subbuffers.len() == 1;
            if is_last && !part {
                break;
            }
            if front.events.len() > self.taken {
                self.told = if is_last { self.lost } else { front.lost };
            }
            events.extend(&front.events[self.taken..]);
            self.taken = front.events.len();
            if is_last {
                break;
            }
            self.subbuffers.pop_front();
            self.taken = 0;
        }
        events
    }
}

fn check(mode: Mode, with_sequences: bool, start_before_wrap: u64, seed: u64) {
    let mut random = Random::new(seed);
    let least = if mode == Mode::Overwrite { 2 } else { 1 };
    let count = 1 << (least + random.below(3));
    let mut shape = shape(2, 4096, count, mode);
    shape.start = 0u64.wrapping_sub(start_before_wrap * shape.ring_size() as u64);
    let set = Set::new(shape);
    let writer = |time| -> Writer {
        let writer = set.writer(Clock::Test(time));
        if with_sequences { writer } else { writer.without_sequences() }
    };
    let mut readers = set.readers(Clock::Test(u64::MAX));
    let (subbuffers, restart) = (VecDeque::new(), None);
    let mut model = Model { shape, subbuffers, restart, taken: 0, lost: 0, told: 0 };
    let (mut number, mut recorded) = (0, 0);
    for step in 0..400u64 {
        let what = format!("{mode:?} {with_sequences} {start_before_wrap} {seed} step {step}");
        if random.below(4) > 0 {
            let writer = writer(step + 1);
            for _ in 0..random.below(60) {
                let outcome = record(&writer, 1, number);
                assert_eq!(outcome, model.record(1, number), "{what}");
                recorded += u64::from(outcome == Outcome::Recorded);
                number += 1;
            }
        } else {
            let part = random.below(2) == 0;
            let mut harvest = Harvest::default();
            set.take_all(&mut readers, part, &mut harvest);
            let found: Vec<u64> = harvest.events.iter().map(|event| event.2).collect();
            assert_eq!(found, model.take_all(part), "{what}");
            if !found.is_empty() {
                assert_eq!(harvest.discarded(), model.told, "{what}");
            }
        }
    }
    let mut harvest = Harvest::default();
    set.take_all(&mut readers, true, &mut harvest);
    model.take_all(true);
    let has_untold = model.told < model.lost;
    let mut last = Harvest::default();
    assert_eq!(set.finish_all(&mut readers, &mut last), usize::from(has_untold));
    assert_eq!(last.discarded(), if has_untold { model.lost } else { 0 });
    assert_eq!(set.finish_all(&mut readers, &mut last), 0);
    assert!(recorded > 1000, "only {recorded} events");
    assert!(mode == Mode::Overwrite || model.lost > 0 || count > 4, "nothing was ever lost");
}

#[test]
fn a_ring_does_what_its_model_does() {
    // One processor, and so one ring, as in the model.
    move_to(0);
    for mode in [Mode::Discard, Mode::Overwrite] {
        for with_sequences in [true, false] {
            for start in [0, 1, 3] {
                for seed in 1..=12 {
                    check(mode, with_sequences, start, seed * 0x9e37_79b9);
                }
            }
        }
    }
}
