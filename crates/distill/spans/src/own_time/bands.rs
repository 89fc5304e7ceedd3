//! Division of one span's time into bands: a sweep over the starts and ends of its children and
//! activities, in order of time. All times are nanoseconds from the span's start, limited to the
//! span.

use super::limit::limit;
use super::{Band, Detail, OwnKind};
use crate::open_request::{ActivityKind, StoredActivity};
use crate::resolver::Resolver;
use std::collections::{BTreeSet, HashMap};

/// Nanoseconds of each kind, by number of the kind.
pub(super) type Sums = [u64; OwnKind::ALL.len()];

/// Starts and ends of what happened in one span.
pub(super) struct Sweep<'a> {
    start: u64,
    duration: u64,
    edges: Vec<Edge<'a>>,
    /// Place in [`State::threads`] of each thread whose id is known.
    threads: HashMap<u32, usize>,
    /// Number of threads; activities of an unknown thread have one each.
    thread_count: usize,
}

/// Start or end of a period.
struct Edge<'a> {
    at: u64,
    is_start: bool,
    period: Period<'a>,
}

#[derive(Clone, Copy)]
enum Period<'a> {
    Child,
    /// A thread ran.
    Run(usize),
    /// A thread waited.
    Wait(usize),
    /// A thread waited for something, until the last moment of the period.
    Reason(OwnKind, ActiveDetail<'a>),
    /// A disk served a request, until the last moment of the period.
    Disk(ActiveDetail<'a>),
}

/// End of a period, its detail, and a number that distinguishes equal ones.
type ActiveDetail<'a> = (u64, Detail<'a>, usize);

impl<'a> Sweep<'a> {
    pub(super) fn new(start: u64, duration: u64) -> Sweep<'a> {
        Sweep { start, duration, edges: Vec::new(), threads: HashMap::new(), thread_count: 0 }
    }

    /// Adds a child, with its start and end in nanoseconds since 1970.
    pub(super) fn add_child(&mut self, start: u64, end: u64) {
        // The self time, too, is limited to the last moment that a number can express.
        let end = end.min(self.start.saturating_add(self.duration));
        self.add_period(start, end, |_| Period::Child);
    }

    /// Adds an activity; the correction of skew moved the span by `moved` nanoseconds.
    pub(super) fn add(&mut self, activity: &StoredActivity, moved: i64, resolver: Resolver<'a>) {
        let number = self.edges.len();
        let end = activity.end.saturating_add_signed(moved);
        let middle = end.saturating_sub(activity.second);
        let start = middle.saturating_sub(activity.first);
        let text = resolver.get(activity.detail);
        match activity.kind {
            ActivityKind::Run => {
                let thread = self.thread(activity.thread);
                let start = end.saturating_sub(activity.first);
                self.add_period(start, end, |_| Period::Run(thread));
            }
            ActivityKind::Wait(reason) => {
                let thread = self.thread(activity.thread);
                self.add_period(start, end, |_| Period::Wait(thread));
                let detail = match reason {
                    OwnKind::Lock if activity.waker != 0 => Detail::Waker(activity.waker),
                    OwnKind::Other if !text.is_empty() => Detail::Call(text),
                    _ => Detail::None,
                };
                self.add_period(start, middle, |end| Period::Reason(reason, (end, detail, number)));
                self.add_period(middle, end, |end| {
                    Period::Reason(OwnKind::Runnable, (end, Detail::None, number))
                });
            }
            // The thread's run and waits cover its time.
            ActivityKind::Call { .. } => {}
            ActivityKind::Disk => {
                let detail = Detail::Device(text);
                self.add_period(start, end, |end| Period::Disk((end, detail, number)));
            }
        }
    }

    /// Returns the place of a thread; a new one if the thread is unknown.
    fn thread(&mut self, thread: Option<u32>) -> usize {
        let new = self.thread_count;
        let place = thread.map_or(new, |thread| *self.threads.entry(thread).or_insert(new));
        self.thread_count += usize::from(place == new);
        place
    }

    /// Adds a period between two times in nanoseconds since 1970, unless no part of it is in the
    /// span. `period` is called with its end.
    fn add_period(&mut self, start: u64, end: u64, period: impl FnOnce(u64) -> Period<'a>) {
        let from = start.saturating_sub(self.start).min(self.duration);
        let to = end.saturating_sub(self.start).min(self.duration);
        if from < to {
            let period = period(to);
            self.edges.push(Edge { at: from, is_start: true, period });
            self.edges.push(Edge { at: to, is_start: false, period });
        }
    }

    /// Returns the sums and the bands. `is_complete` is set if a moment without any thread is known
    /// to be one.
    pub(super) fn divide(mut self, is_complete: bool) -> (Sums, Vec<Band<'a>>) {
        self.edges.sort_unstable_by_key(|edge| edge.at);
        let rest = if is_complete { OwnKind::Elsewhere } else { OwnKind::Unknown };
        let mut state = State::new(self.thread_count);
        let mut bands = Bands::default();
        let mut from = 0;
        for edges in self.edges.chunk_by(|a, b| a.at == b.at) {
            bands.add(from, edges[0].at, &state, rest);
            from = edges[0].at;
            edges.iter().for_each(|edge| state.apply(edge));
        }
        bands.add(from, self.duration, &state, rest);
        let mut bands = bands.0;
        fill_devices(&mut bands);
        merge_equal(&mut bands);
        let mut sums = Sums::default();
        for band in &bands {
            sums[band.kind as usize] += band.duration_ns;
        }
        limit(&mut bands);
        (sums, bands)
    }
}

/// State of the span at one moment of the sweep.
struct State<'a> {
    children: usize,
    /// Numbers of runs and of waits of each thread.
    threads: Vec<(usize, usize)>,
    /// Number of threads that run and do not wait.
    running: usize,
    /// Number of threads that wait although no run of theirs was reported, or that cannot be
    /// matched with their run.
    waiting: usize,
    reasons: [BTreeSet<ActiveDetail<'a>>; OwnKind::ALL.len()],
    disks: BTreeSet<ActiveDetail<'a>>,
}

impl<'a> State<'a> {
    fn new(threads: usize) -> State<'a> {
        State {
            children: 0,
            threads: vec![(0, 0); threads],
            running: 0,
            waiting: 0,
            reasons: Default::default(),
            disks: BTreeSet::new(),
        }
    }

    fn apply(&mut self, edge: &Edge<'a>) {
        let count = |count: &mut usize| match edge.is_start {
            true => *count += 1,
            false => *count -= 1,
        };
        let set = |set: &mut BTreeSet<ActiveDetail<'a>>, detail| match edge.is_start {
            true => set.insert(detail),
            false => set.remove(&detail),
        };
        match edge.period {
            Period::Child => count(&mut self.children),
            Period::Run(thread) | Period::Wait(thread) => {
                self.count_thread(thread, -1);
                let (runs, waits) = &mut self.threads[thread];
                count(if matches!(edge.period, Period::Run(_)) { runs } else { waits });
                self.count_thread(thread, 1);
            }
            Period::Reason(kind, detail) => {
                set(&mut self.reasons[kind as usize], detail);
            }
            Period::Disk(detail) => {
                set(&mut self.disks, detail);
            }
        }
    }

    /// Adds a thread's state to the counts of running and waiting threads, or removes it.
    fn count_thread(&mut self, thread: usize, change: isize) {
        let count = match self.threads[thread] {
            (1.., 0) => &mut self.running,
            (0, 1..) => &mut self.waiting,
            _ => return,
        };
        *count = count.saturating_add_signed(change);
    }

    /// Returns the kind of the moment and its detail; `None` while a child runs. A waiting thread
    /// that is not among the running ones may still be one of them, because ids of threads may be
    /// unknown or those of a container; so it counts against them.
    fn kind(&self, rest: OwnKind) -> Option<(OwnKind, Detail<'a>)> {
        if self.children > 0 {
            return None;
        }
        if self.running > self.waiting {
            return Some((OwnKind::Running, Detail::None));
        }
        for kind in OwnKind::ALL {
            // The wait that ends last tells the detail, and so does the disk request.
            if let Some((_, detail, _)) = self.reasons[kind as usize].last() {
                let disk = self.disks.last().filter(|_| kind == OwnKind::Disk);
                return Some((kind, disk.map_or(*detail, |(_, device, _)| *device)));
            }
        }
        Some((rest, Detail::None))
    }
}

/// Bands in order of time.
#[derive(Default)]
struct Bands<'a>(Vec<Band<'a>>);

impl<'a> Bands<'a> {
    /// Adds the time between two edges, in which the state did not change.
    fn add(&mut self, from: u64, to: u64, state: &State<'a>, rest: OwnKind) {
        if from >= to {
            return;
        }
        let Some((kind, detail)) = state.kind(rest) else { return };
        let band = Band { kind, start_ns: from, duration_ns: to - from, detail };
        match self.0.last_mut() {
            Some(last) if last.is_continued_by(&band) => last.duration_ns += band.duration_ns,
            _ => self.0.push(band),
        }
    }
}

/// Gives bands of waits for a disk the device of the band before or after them. A thread begins to
/// wait before its request is queued, or after that, and it is woken after the completion.
fn fill_devices(bands: &mut [Band<'_>]) {
    let is_adjacent = |a: &Band<'_>, b: &Band<'_>| {
        (a.kind, b.kind) == (OwnKind::Disk, OwnKind::Disk) && a.end_ns() == b.start_ns
    };
    for at in 1..bands.len() {
        if bands[at].detail == Detail::None && is_adjacent(&bands[at - 1], &bands[at]) {
            bands[at].detail = bands[at - 1].detail;
        }
    }
    for at in (1..bands.len()).rev() {
        if bands[at - 1].detail == Detail::None && is_adjacent(&bands[at - 1], &bands[at]) {
            bands[at - 1].detail = bands[at].detail;
        }
    }
}

/// Merges bands with the bands before them that they continue.
fn merge_equal(bands: &mut Vec<Band<'_>>) {
    bands.dedup_by(|next, band| {
        let is_continued = band.is_continued_by(next);
        if is_continued {
            band.duration_ns += next.duration_ns;
        }
        is_continued
    });
}
