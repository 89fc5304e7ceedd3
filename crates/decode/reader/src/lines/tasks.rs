//! What is to be printed, and who prints it: tasks of a few packets each, and the blocks of lines
//! that wait to be merged.

use super::Lines;
use crate::cursor::Cursor;
use crate::error::Problem;
use crate::packets::{PacketRef, StreamPackets};
use crate::reading::Reading;
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};

/// Bytes of blocks that may wait to be merged.
const READY_SIZE: usize = 12 << 20;
/// Empty blocks that are kept: as many as may wait to be merged.
const BLOCKS_KEPT: usize = READY_SIZE / super::BLOCK_SIZE;
/// Bytes of packets that are worth a task.
const TASK_SIZE: u64 = 256 << 10;

/// What workers and merge share.
pub(super) struct Shared {
    state: Mutex<State>,
    /// There may be work.
    work: Condvar,
    /// There may be lines.
    ready: Condvar,
}

struct State {
    sources: Vec<Source>,
    /// Bytes of blocks that wait to be merged.
    ready_size: usize,
    /// Empty blocks, to be used again: fresh memory costs more than printing into it. Each
    /// thread uses its own, because memory that another processor has just written costs more
    /// still.
    blocks: Vec<Vec<Lines>>,
    /// Cursors that nobody uses, with the ids of their traces.
    cursors: Vec<(usize, Cursor)>,
    /// Tasks of one stream that may be begun before the first one is done.
    tasks_ahead: usize,
    closed: bool,
    /// Who waits, so that nobody is woken in vain: waking costs a system call.
    workers_waiting: usize,
    merge_waits: bool,
}

/// A stream's packets and the tasks made of them.
struct Source {
    packets: StreamPackets,
    exhausted: bool,
    tasks: VecDeque<Task>,
    /// Number of the first task.
    first: usize,
}

struct Task {
    /// When its next event may happen, as far as is known.
    time: i64,
    /// What is left to do, unless somebody is doing it.
    rest: Option<Rest>,
    done: bool,
    ready: VecDeque<Lines>,
}

struct Rest {
    packets: VecDeque<PacketRef>,
    floor: i64,
    /// Of the packet that was begun.
    cursor: Option<Cursor>,
}

/// A task in a worker's hands.
pub(super) struct Job {
    pub(super) stream: usize,
    task: usize,
    trace: usize,
    pub(super) packets: VecDeque<PacketRef>,
    pub(super) cursor: Cursor,
    /// Latest time so far.
    pub(super) floor: i64,
    pub(super) lines: Lines,
    pub(super) done: bool,
}

/// What the merge does next.
pub(super) enum Next {
    /// It goes on with these lines.
    Lines(Lines),
    /// It prints, since the lines that it needs are not there yet.
    Job(Box<Job>),
    /// The stream is at its end.
    End,
}

impl Shared {
    pub(super) fn new(reading: &Reading<'_>) -> Shared {
        let source = |number| Source {
            packets: reading.packets(number),
            exhausted: false,
            tasks: VecDeque::new(),
            first: 0,
        };
        let state = State {
            sources: (0..reading.stream_count()).map(source).collect(),
            ready_size: 0,
            blocks: (0..reading.threads).map(|_| Vec::new()).collect(),
            cursors: Vec::new(),
            tasks_ahead: 2 * reading.threads,
            closed: false,
            workers_waiting: 0,
            merge_waits: false,
        };
        Shared { state: Mutex::new(state), work: Condvar::new(), ready: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for something for a thread to work on; `None` when there is nothing left.
    pub(super) fn take_job(&self, thread: usize, reading: &Reading<'_>) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.take_job(thread, reading) {
                return Some(job);
            }
            let is_over =
                |source: &Source| source.exhausted && source.tasks.iter().all(|task| task.done);
            if state.sources.iter().all(is_over) {
                self.wake(state);
                return None;
            }
            state.workers_waiting += 1;
            state = self.work.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.workers_waiting -= 1;
        }
    }

    /// Lets those who wait look again, after something has changed.
    fn wake(&self, state: MutexGuard<'_, State>) {
        let (workers, merge) = (state.workers_waiting > 0, state.merge_waits);
        drop(state);
        if workers {
            self.work.notify_all();
        }
        if merge {
            self.ready.notify_one();
        }
    }

    /// Takes a job back, finished or not.
    pub(super) fn give_back(&self, job: Job) {
        let mut state = self.lock();
        let Job { stream, task, trace, packets, cursor, floor, lines, done } = job;
        state.ready_size += lines.text.len();
        let cursor = match done {
            true => {
                state.cursors.push((trace, cursor));
                None
            }
            false => Some(cursor),
        };
        let source = &mut state.sources[stream];
        let task = &mut source.tasks[task - source.first];
        task.time = task.time.max(floor);
        task.done = done;
        task.rest = Some(Rest { packets, floor, cursor });
        task.ready.push_back(lines);
        self.wake(state);
    }

    /// A stream's next block. If there is none yet, gives something to print instead, or waits.
    pub(super) fn next(&self, thread: usize, stream: usize, reading: &Reading<'_>) -> Next {
        let mut state = self.lock();
        loop {
            let source = &mut state.sources[stream];
            match source.tasks.front_mut() {
                None if source.exhausted => return Next::End,
                None => {}
                Some(task) => {
                    if let Some(lines) = task.ready.pop_front() {
                        state.ready_size -= lines.text.len();
                        self.wake(state);
                        return Next::Lines(lines);
                    }
                    if task.done {
                        source.tasks.pop_front();
                        source.first += 1;
                        continue;
                    }
                }
            }
            if let Some(job) = state.take_job(thread, reading) {
                return Next::Job(Box::new(job));
            }
            state.merge_waits = true;
            state = self.ready.wait(state).unwrap_or_else(|poisoned| poisoned.into_inner());
            state.merge_waits = false;
        }
    }

    /// Takes back a block that has been merged.
    pub(super) fn recycle(&self, spent: Lines) {
        self.lock().recycle(spent);
    }

    /// Lets workers end.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.work.notify_all();
    }

    /// What was found wrong between packets.
    pub(super) fn take_problems(&self) -> Vec<Problem> {
        let mut state = self.lock();
        let problems = |source: &mut Source| std::mem::take(&mut source.packets.problems);
        state.sources.iter_mut().flat_map(problems).collect()
    }
}

impl State {
    fn recycle(&mut self, mut block: Lines) {
        let blocks = &mut self.blocks[block.thread];
        if block.text.room() > 0 && blocks.len() < BLOCKS_KEPT {
            block.text.clear();
            block.lines.clear();
            blocks.push(block);
        }
    }

    /// The job that the merge is likely to need first.
    fn take_job(&mut self, thread: usize, reading: &Reading<'_>) -> Option<Job> {
        let may_go_ahead = self.ready_size < READY_SIZE;
        let mut chosen: Option<(i64, usize, usize)> = None;
        for (stream, source) in self.sources.iter_mut().enumerate() {
            let mut free = source.tasks.iter().position(|task| !task.done && task.rest.is_some());
            if free.is_none() && source.tasks.len() < self.tasks_ahead && source.pull(reading) {
                free = Some(source.tasks.len() - 1);
            }
            let Some(index) = free else { continue };
            let task = &source.tasks[index];
            let is_needed = index == 0 && task.ready.is_empty();
            let key = (task.time, stream, index);
            if (may_go_ahead || is_needed) && chosen.is_none_or(|chosen| key < chosen) {
                chosen = Some(key);
            }
        }
        let (_, stream, index) = chosen?;
        let source = &mut self.sources[stream];
        let Rest { packets, floor, cursor } = source.tasks[index].rest.take()?;
        let (trace, _) = reading.stream(stream);
        let cursor = cursor.unwrap_or_else(|| {
            match self.cursors.iter().position(|(id, _)| *id == trace.id) {
                Some(index) => self.cursors.swap_remove(index).1,
                None => Cursor::new(&trace.data, reading.window()),
            }
        });
        let task = source.first + index;
        let lines = self.blocks[thread].pop().unwrap_or_else(|| Lines::of_thread(thread));
        let trace = trace.id;
        Some(Job { stream, task, trace, packets, cursor, floor, lines, done: false })
    }
}

impl Source {
    /// Makes a task of the next packets that are wanted; `false` at the end.
    fn pull(&mut self, reading: &Reading<'_>) -> bool {
        let mut packets = VecDeque::new();
        let mut size = 0;
        while !self.exhausted && size < TASK_SIZE {
            let Some(packet) = self.packets.next() else {
                self.exhausted = true;
                break;
            };
            let is_before = matches!((packet.end_ns, reading.begin), (Some(e), Some(b)) if e < b);
            let is_after = matches!((packet.begin_ns, reading.end), (Some(b), Some(e)) if b > e);
            if is_after {
                self.exhausted = true;
            } else if !is_before {
                size += packet.size;
                packets.push_back(packet);
            }
        }
        let Some(first) = packets.front() else { return false };
        let time = first.begin_ns.unwrap_or(i64::MIN);
        let rest = Some(Rest { packets, floor: i64::MIN, cursor: None });
        self.tasks.push_back(Task { time, rest, done: false, ready: VecDeque::new() });
        true
    }
}
