//! A recording of kernel events: the maps, the attached programs, and the readers of the rings.

use crate::assembler::Assembler;
use crate::btf::Btf;
use crate::call_type::CallType;
use crate::chosen::ChosenProcesses;
use crate::error::Error;
use crate::event_format::EventFormat;
use crate::process_code::{self, PROCESS_EVENTS, ProcessCode, ProcessPlaces};
use crate::record_code;
use crate::record_type::RecordType;
use crate::ring_code::{RingCode, SHARED_RINGS};
use crate::syscall_code::{self, BEGIN_TIMES_SIZE, ExitCode, SyscallPlaces};
use crate::tracefs::SystemCall;
use blkkin_control::EventType;
use blkkin_ring::{Cells, Clock, Mode, Reader, Shape, TakeOutcome};
use blkkin_sys::bpf::{AttachPoint, KernelWaker, Link, Map, Program};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::Duration;

/// Default size of a sub-buffer, in bytes.
const SUBBUFFER_SIZE: usize = 256 << 10;
/// Default size of a ring, in bytes, on machines with few processors.
const RING_SIZE: usize = 4 << 20;
/// Minimum of the default size.
const RING_SIZE_MIN: usize = 2 * SUBBUFFER_SIZE_MIN;
/// Maximum size of all rings, in bytes. The kernel refuses programs whose pointers reach further
/// than 512 MiB.
const RINGS_SIZE_MAX: usize = 256 << 20;
/// Number of unused bytes after the rings. The kernel's verifier does not know that events end
/// within a ring, and demands that the largest event fits after the last position.
const SLACK: usize = 128 << 10;
/// Time to wait after the programs were detached, until runs that had already begun have ended. A
/// run takes microseconds.
const DETACH_TIME: Duration = Duration::from_millis(2);
/// Maximum number of such waits, while a program is seen to run.
const DETACH_TRIES: usize = 500;

/// Events to record, and where they go.
#[derive(Clone, Debug)]
pub struct Selection {
    /// System calls of the chosen processes.
    pub calls: Vec<SystemCall>,
    /// Tracepoints, of all processes and of interrupts: subsystem and format.
    pub tracepoints: Vec<(String, EventFormat)>,
    /// Size of a ring in bytes, a power of two; `None` for the default. There is a ring for each
    /// processor, and a few more.
    pub ring_size: Option<usize>,
    /// UUID of the trace, for packets.
    pub uuid: [u8; 16],
    /// Id of the stream class, for packets.
    pub stream: u32,
}

/// Moment before which all events of a recording have been published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledMoment {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Positions of the rings' writers, at or after the moment.
    positions: Vec<u64>,
}

/// Recording of kernel events, until it is dropped or [stopped](Recorder::stop). System calls are
/// recorded for the chosen processes, tracepoints for all.
#[derive(Debug)]
pub struct Recorder {
    links: Vec<Link>,
    cells: Cells,
    shape: Shape,
    readers: Vec<Reader>,
    waker: KernelWaker,
    event_types: Vec<EventType>,
    /// Maps that the programs use and nothing else refers to.
    _maps: [Map; 2],
}

impl Recorder {
    /// Attaches the programs, for the processes that are chosen now or later.
    pub fn attach(
        selection: &Selection,
        chosen: &ChosenProcesses,
        btf: &Btf,
    ) -> Result<Recorder, Error> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(Error::Processor);
        }
        let calls = call_types(selection);
        let first = calls.len() as u16;
        let records = selection.tracepoints.iter().zip(first + PROCESS_EVENTS as u16..);
        let records = records.map(|((group, format), id)| RecordType::new(group, format, id));
        let records: Vec<RecordType> = records.collect();
        let (shape, block) = create_rings(selection)?;
        let map = |name: &'static str| move |error| Error::Map(name, error);
        let cells = Cells::new(block.memory().map_err(map("rings"))?);
        cells.prepare(&shape).map_err(|error| Error::Map("rings", io::Error::other(error)))?;
        let waker = KernelWaker::new("blkkin_waker").map_err(map("waker"))?;
        let begin_times = Map::block("blkkin_begins", BEGIN_TIMES_SIZE).map_err(map("begins"))?;

        let rings = &RingCode {
            shape: &shape,
            block: block.as_fd().as_raw_fd(),
            waker: waker.map().as_fd().as_raw_fd(),
        };
        let begins = begin_times.as_fd().as_raw_fd();
        let exit = ExitCode {
            rings,
            chosen: chosen.code(),
            places: SyscallPlaces::of(btf)?,
            begin_times: begins,
            calls: &calls,
        };
        let process =
            ProcessCode { rings, chosen: chosen.code(), places: ProcessPlaces::of(btf)?, first };
        // Processes first, so that no call of a process is recorded before its choice.
        let mut programs = vec![
            ("sched_process_fork", process.fork()),
            ("sched_process_exec", process.exec()),
            ("sched_process_exit", process.exit()),
        ];
        // Without these tracepoints, system calls of all processes take the kernel's faster path.
        if !calls.is_empty() {
            programs.push(("sys_exit", exit.program()));
            programs.push(("sys_enter", syscall_code::entry(chosen.code(), begins)));
        }
        let mut links = Vec::new();
        for (name, code) in programs {
            let type_id = btf.raw_tracepoint(name)?.type_id;
            links.push(attach(name, code, AttachPoint::RawTracepoint(type_id))?);
        }
        for record in &records {
            let code = record_code::program(rings, record);
            links.push(attach(&record.name, code, AttachPoint::Tracepoint(record.number))?);
        }
        let reader = |ring| Reader::new(&shape, ring, Clock::Monotonic);
        let readers = (0..shape.rings).map(reader).collect();
        let event_types = calls
            .iter()
            .map(CallType::event_type)
            .chain(process_code::event_types(first))
            .chain(records.iter().map(RecordType::event_type))
            .collect();
        let _maps = [block, begin_times];
        Ok(Recorder { links, cells, shape, readers, waker, event_types, _maps })
    }

    /// Returns the descriptions of the events, by which they can be decoded. Each event has the
    /// process id and the thread id before its fields, in 4 bytes each. Times are nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub fn event_types(&self) -> &[EventType] {
        &self.event_types
    }

    /// Returns the number of rings; each is a stream.
    pub fn ring_count(&self) -> usize {
        self.shape.rings
    }

    /// Consumes the next packet of a ring, and appends it to `buffer`; see [`Reader::take`].
    pub fn take(&mut self, ring: usize, buffer: &mut Vec<u8>) -> TakeOutcome {
        self.readers[ring].take(&self.cells, &self.shape, true, buffer)
    }

    /// Appends a last packet of a ring without events to `buffer` if events were lost since its
    /// last packet. To be called after [`stop`](Self::stop).
    pub fn finish(&mut self, ring: usize, buffer: &mut Vec<u8>) -> bool {
        self.readers[ring].finish(&self.cells, &self.shape, buffer).is_some()
    }

    /// Returns the number of events that were lost because the ring was full, or because the
    /// processor's ring and all shared rings were in use.
    pub fn lost(&self) -> u64 {
        (0..self.shape.rings).map(|ring| self.cells.lost(&self.shape, ring)).sum()
    }

    /// Returns the number of events recorded so far.
    pub fn recorded(&self) -> u64 {
        (0..self.shape.rings).map(|ring| self.cells.recorded(&self.shape, ring)).sum()
    }

    /// Returns a moment before which all events have been published. Returns `None` if a ring stays
    /// in use during all polls, for instance because the hypervisor has preempted the processor
    /// that writes to it.
    pub fn settle(&self) -> Option<SettledMoment> {
        // A program takes its ring before it reads the time. So if no program has the ring after
        // this moment, the events before it are published. The margin is for stores that are not
        // visible yet.
        let now = blkkin_sys::monotonic_ns().saturating_sub(STORE_NS_MAX);
        let is_free = |ring: usize| {
            (0..FREE_TRIES).any(|_| {
                std::hint::spin_loop();
                !self.cells.is_owned(&self.shape, ring)
            })
        };
        (0..self.shape.rings).all(is_free).then(|| SettledMoment {
            time: now,
            positions: (0..self.shape.rings)
                .map(|ring| self.cells.write_position(&self.shape, ring))
                .collect(),
        })
    }

    /// Returns true if all events before the moment have been consumed.
    pub fn has_consumed(&self, moment: &SettledMoment) -> bool {
        let mut positions = self.readers.iter().zip(&moment.positions);
        positions.all(|(reader, position)| reader.has_reached(*position))
    }

    /// Returns the maximum number of packets that a ring holds.
    pub fn packets_max(&self) -> usize {
        self.shape.subbuffer_count
    }

    /// Returns the size of all rings in bytes.
    pub fn rings_size(&self) -> usize {
        self.shape.rings * self.shape.ring_size()
    }

    /// Returns true if no ring has an unread event.
    pub fn is_drained(&self) -> bool {
        self.readers.iter().all(|reader| reader.is_drained(&self.cells, &self.shape))
    }

    /// Waits for an event, for a readable descriptor of `others`, for a signal, or for the end of
    /// `time`.
    pub fn wait(&self, others: &[BorrowedFd<'_>], time: Duration) -> io::Result<()> {
        self.cells.fall_asleep();
        // A program may have published an event before it could see the flag. The order of its
        // store and its load is certain after a moment, so the rings are checked once more.
        self.waker.wait(others, SETTLE_TIME.min(time))?;
        if self.is_drained() && self.cells.is_reader_asleep() {
            self.waker.wait(others, time.saturating_sub(SETTLE_TIME))?;
        }
        self.cells.wake();
        Ok(())
    }

    /// Detaches the programs. Events recorded so far can still be consumed.
    pub fn stop(&mut self) {
        if !self.links.is_empty() {
            self.links.clear();
            // A program may still run if its processor was taken from this virtual machine.
            for _ in 0..DETACH_TRIES {
                std::thread::sleep(DETACH_TIME);
                if self.settle().is_some() {
                    break;
                }
            }
        }
    }
}

/// Margin for stores that are not visible to other processors yet, in nanoseconds.
const STORE_NS_MAX: u64 = 100_000;
/// Number of times that a ring in use is polled before [`Recorder::settle`] gives up.
const FREE_TRIES: usize = 10_000;
/// Time after which a processor's stores are visible to all others.
const SETTLE_TIME: Duration = Duration::from_millis(1);

/// Returns the types of the selected calls in the order of their numbers.
fn call_types(selection: &Selection) -> Vec<CallType> {
    let mut calls: Vec<&SystemCall> = selection.calls.iter().collect();
    calls.sort_by_key(|call| call.number);
    calls.dedup_by_key(|call| call.number);
    calls.into_iter().zip(0..).map(|(call, id)| CallType::new(call, id)).collect()
}

/// Creates the memory of the rings for all processors that the machine may have. Without a selected
/// size, the rings are smaller on machines with many processors, and with kernels before Linux 6.0,
/// which refuse maps of more than about 4 MiB.
fn create_rings(selection: &Selection) -> Result<(Shape, Map), Error> {
    let failed = |error| Error::Map("rings", error);
    let rings = possible_processors().map_err(failed)? + SHARED_RINGS;
    let block = |shape: &Shape| Map::block("blkkin_rings", shape.memory_size() + SLACK);
    if let Some(size) = selection.ring_size {
        let shape = shape_of(selection, rings, size.next_power_of_two())?;
        let block = block(&shape).map_err(failed)?;
        return Ok((shape, block));
    }
    let mut size = RING_SIZE;
    while size * rings > RINGS_SIZE_MAX && size > RING_SIZE_MIN {
        size /= 2;
    }
    loop {
        let shape = shape_of(selection, rings, size)?;
        match block(&shape) {
            Ok(block) => return Ok((shape, block)),
            Err(error) if is_too_large(&error) && size > RING_SIZE_MIN => size /= 2,
            Err(error) => return Err(failed(error)),
        }
    }
}

/// Returns true for the error of a map that exceeds the kernel's maximum size.
fn is_too_large(error: &io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::TOOBIG.raw_os_error())
}

/// Returns the shape of `rings` rings of `ring_size` bytes.
fn shape_of(selection: &Selection, rings: usize, ring_size: usize) -> Result<Shape, Error> {
    if ring_size.saturating_mul(rings) > 2 * RINGS_SIZE_MAX - SLACK - (2 << 20) {
        let message = format!(
            "{rings} rings of {ring_size} bytes are more than {} MiB in all",
            (2 * RINGS_SIZE_MAX) >> 20
        );
        let error = io::Error::new(io::ErrorKind::InvalidInput, message);
        return Err(Error::Map("rings", error));
    }
    let subbuffer_size = SUBBUFFER_SIZE.min(ring_size / 2).max(SUBBUFFER_SIZE_MIN);
    let shape = Shape {
        rings,
        subbuffer_size,
        subbuffer_count: (ring_size / subbuffer_size).max(2),
        mode: Mode::Discard,
        uuid: selection.uuid,
        stream: selection.stream,
        ..Shape::default()
    };
    shape.check().map_err(|error| Error::Map("rings", io::Error::other(error)))?;
    Ok(shape)
}

/// Minimum size of a sub-buffer, in bytes: several events with the longest paths have room.
const SUBBUFFER_SIZE_MIN: usize = 64 << 10;

/// Returns the number of processors that the machine may have, as the highest number plus 1.
fn possible_processors() -> io::Result<usize> {
    let text = fs::read_to_string("/sys/devices/system/cpu/possible")?;
    let last = text.trim().rsplit([',', '-']).next().and_then(|last| last.parse::<usize>().ok());
    let count = last.and_then(|last| last.checked_add(1)).filter(|count| *count <= 8192);
    count.ok_or_else(|| io::Error::from(io::ErrorKind::InvalidData))
}

/// Loads a program and attaches it.
fn attach(name: &str, code: Assembler, place: AttachPoint) -> Result<Link, Error> {
    let program = || name.to_owned();
    let code = code.assemble().ok_or_else(|| Error::TooLong(program()))?;
    let loaded = Program::load(name, &code, place).map_err(|failure| Error::Load {
        program: program(),
        error: failure.error,
        log: failure.log,
    })?;
    loaded.attach().map_err(|error| Error::Attach(program(), error))
}
