//! A recording of kernel events: the attached programs, and the readers of the rings.

#[cfg(test)]
mod tests;

use crate::btf::Btf;
use crate::call_type::CallType;
use crate::cgroup_code::{self, CgroupPlaces};
use crate::chosen::ChosenProcesses;
use crate::error::Error;
use crate::event_format::EventFormat;
use crate::event_type::EventTypes;
use crate::filter_code::{FieldTable, FilterCode, FilterScratch};
use crate::function_code;
use crate::function_point::{FunctionProbe, ProcessScope};
use crate::function_probe::{self, AttachedProbe};
use crate::function_type::FunctionType;
use crate::load::{NewProgram, attach_all};
use crate::probe_cost;
use crate::process_code::{self, PROCESS_EVENTS, ProcessCode, ProcessPlaces};
use crate::record_code;
use crate::record_type::RecordType;
use crate::redaction::{FieldRedactions, HashKey};
use crate::redaction_code::RedactionMemory;
use crate::request_code::{self, CurrentSpan, RequestEvents};
use crate::ring_code::RingCode;
use crate::rings::{Contexts, KernelRings, RingOptions};
use crate::syscall_code::{self, ExitCode, SyscallPlaces};
use crate::timer_probe::{self, TimerProbe};
use crate::tracefs::SystemCall;
use crate::uring_code::{self, URING_EVENTS, UringCode, UringTracepoints};
use crate::user_probe::{self, UserProbe};
use blkkin_control::{EventType, Redaction};
use blkkin_filter::Filter;
use blkkin_ring::{Clock, Reader, TakeOutcome};
use blkkin_sys::bpf::{AttachPoint, Link};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

/// Time to wait after the programs were detached, until runs that had already begun have ended. A
/// run takes microseconds.
const DETACH_TIME: Duration = Duration::from_millis(2);
/// Maximum number of such waits, while a program is seen to run.
const DETACH_TRIES: usize = 500;

/// Events to record, and where they go.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// System calls of the chosen processes.
    pub calls: Vec<SystemCall>,
    /// Tracepoints.
    pub tracepoints: Vec<TracepointProbe>,
    /// Moments of chosen processes that are recorded: `fork`, `exec` and `exit`.
    pub process_events: [bool; 3],
    /// Functions of the kernel and raw tracepoints.
    pub functions: Vec<FunctionProbe>,
    /// Instructions, functions and USDT probes of programs.
    pub user: Vec<UserProbe>,
    /// Timers.
    pub timers: Vec<TimerProbe>,
    /// Filters by the names of event types, such as `syscall:openat`. Events that do not pass are
    /// neither recorded nor counted as lost. Probes of programs have
    /// [their own](UserProbe::set_filter), and events of timers have none.
    pub filters: BTreeMap<String, Filter>,
    /// Redactions of fields, for the event types whose names they match.
    pub redactions: Vec<Redaction>,
    /// Key of the hashes; `None` for a random key.
    pub hash_key: Option<HashKey>,
    /// Requests of io_uring of the chosen processes; `None` to leave them out.
    pub uring: Option<UringTracepoints>,
    /// Events of the kernel's work for requests; `None` to leave them out.
    pub requests: Option<RequestEvents>,
    /// Requests to disks of the chosen processes: `disk:request`, with the names of these system
    /// calls of the kernel; `None` to leave them out.
    pub disk: Option<Arc<[SystemCall]>>,
    /// Size of a ring in bytes, a power of two; `None` for the default. There is a ring for each
    /// processor, and three more if the programs run in interrupts.
    pub ring_size: Option<usize>,
    /// UUID of the trace, for packets.
    pub uuid: [u8; 16],
    /// Id of the stream class, for packets.
    pub stream: u32,
}

impl Selection {
    /// Returns the contexts in which the programs run.
    fn contexts(&self) -> Contexts {
        // The threads themselves record system calls and processes, and requests of io_uring: a
        // kernel whose requests can be recorded is Linux 6.0 or later, and completes them in
        // threads.
        let Selection {
            calls: _,
            tracepoints,
            process_events: _,
            functions,
            user,
            timers,
            filters: _,
            redactions: _,
            hash_key: _,
            uring: _,
            requests,
            disk,
            ring_size: _,
            uuid: _,
            stream: _,
        } = self;
        let is_of_threads = tracepoints.is_empty()
            && functions.is_empty()
            && user.is_empty()
            && timers.is_empty()
            && requests.is_none()
            && disk.is_none();
        if is_of_threads { Contexts::Threads } else { Contexts::All }
    }
}

/// Probe on a tracepoint of the kernel.
#[derive(Clone, Debug)]
pub struct TracepointProbe {
    /// Subsystem of the tracepoint.
    pub subsystem: String,
    /// Format of the tracepoint's record.
    pub format: EventFormat,
    /// Processes whose events are recorded.
    pub scope: ProcessScope,
}

/// Moment before which all events of a recording have been published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledMoment {
    /// Nanoseconds of `CLOCK_MONOTONIC`.
    pub time: u64,
    /// Positions of the rings' writers, at or after the moment.
    positions: Vec<u64>,
}

/// Attached programs that record into rings, until they are dropped. System calls are recorded for
/// the chosen processes, other events for the processes in the scope of their probe.
#[derive(Debug)]
pub struct Probes {
    links: Vec<Link>,
    functions: Vec<AttachedProbe>,
    /// Memory that the filters of the programs use.
    _filter_scratch: Option<FilterScratch>,
    /// Memory that the redactions of the programs use.
    _redaction_memory: Option<RedactionMemory>,
}

impl Probes {
    /// Attaches the programs, for the processes that are chosen now or later. Adds the types of
    /// their events to `types`, unless it has equal types.
    pub fn attach(
        selection: &Selection,
        chosen: &ChosenProcesses,
        btf: &Btf,
        rings: &KernelRings,
        types: &mut EventTypes,
    ) -> Result<Probes, Error> {
        if cfg!(not(target_arch = "x86_64")) {
            return Err(Error::Processor);
        }
        let redactions = &selection.redactions[..];
        let mut calls = call_types(&selection.calls, redactions, CallType::new);
        let requests = selection.requests.as_ref();
        let recorded_calls = requests.map_or(&[][..], |requests| &requests.recorded_calls);
        let mut request_calls = call_types(recorded_calls, redactions, CallType::of_request);
        for call in calls.iter_mut().chain(&mut request_calls) {
            call.id = types.add(call.event_type())?;
        }
        let mut process_ids = [None; PROCESS_EVENTS];
        let exec_redactions = &FieldRedactions::of(redactions, process_code::EXEC);
        let process_types = process_code::event_types().map(|one| exec_redactions.redact(one));
        let process_types = process_types.into_iter().zip(selection.process_events);
        for (id, (event_type, is_recorded)) in process_ids.iter_mut().zip(process_types) {
            *id = is_recorded.then(|| types.add(event_type)).transpose()?;
        }
        let records = selection.tracepoints.iter();
        let records = records.map(|probe| {
            let record = RecordType::new(&probe.subsystem, &probe.format, 0);
            let mut record = record.redacted(redactions);
            record.id = types.add(record.event_type())?;
            Ok((probe.scope, record))
        });
        let records: Vec<(ProcessScope, RecordType)> = records.collect::<Result<_, Error>>()?;
        let functions = function_probe::types(&selection.functions, redactions, btf, types)?;

        let mut uring_ids = [0; URING_EVENTS];
        if selection.uring.is_some() {
            for (id, event_type) in uring_ids.iter_mut().zip(uring_code::event_types()) {
                *id = types.add(event_type)?;
            }
        }

        let begins = rings.begin_times();
        let processors = rings.processors();
        let redaction_memory = redaction_memory(selection, rings)?;
        let redaction = redaction_memory.as_ref().map(RedactionMemory::block);
        let rings = &RingCode { redaction, ..rings.code() };
        let mut filters = Filters::new(selection, processors)?;
        let places = SyscallPlaces::of(btf)?;
        let mut filters_of = |calls: &[CallType]| -> Result<Vec<Option<FilterCode>>, Error> {
            let filter = |call: &CallType| {
                filters.take(&call.event_name(), &syscall_code::filter_fields(places, call, true))
            };
            calls.iter().map(filter).collect()
        };
        let call_filters = &*filters_of(&calls)?;
        let request_call_filters = &*filters_of(&request_calls)?;
        let record_filters = records
            .iter()
            .map(|(_, record)| filters.take(&record.name, &record_code::filter_fields(record)));
        let record_filters = record_filters.collect::<Result<Vec<_>, _>>()?;
        let function_filters = functions.iter().map(|function| {
            filters.take(&function.point.to_string(), &function_code::filter_fields(function))
        });
        let function_filters = function_filters.collect::<Result<Vec<_>, _>>()?;
        filters.refuse_rest()?;
        let exit = ExitCode {
            rings,
            chosen: chosen.code(),
            places,
            begin_times: begins,
            span: None,
            calls: &calls,
            filters: call_filters,
        };
        let process = ProcessCode {
            rings,
            chosen: chosen.code(),
            places: ProcessPlaces::of(btf)?,
            ids: process_ids,
            redactions: exec_redactions,
        };
        // Processes first, so that no call of a process is recorded before its choice.
        let mut programs = vec![
            ("sched_process_fork", process.fork()),
            ("sched_process_exec", process.exec()),
            ("sched_process_exit", process.exit()),
        ];
        // After the program of forks that gives a child the bits of its parent.
        if let Some(cgroups) = chosen.cgroup_ids() {
            let places = CgroupPlaces::of(btf)?;
            programs.extend(cgroup_code::programs(chosen.code(), cgroups, places));
        }
        // Without these tracepoints, system calls of all processes take the kernel's faster path.
        if !calls.is_empty() {
            programs.extend(exit.programs().into_iter().map(|program| ("sys_exit", program)));
            programs.push(("sys_enter", syscall_code::entry(chosen.code(), None, begins)));
        }
        // In a table of their own, because the program at the exit of a call takes its time.
        let request_begins;
        if let Some(requests) = requests.filter(|_| !request_calls.is_empty()) {
            request_begins = syscall_code::begin_times()?;
            let (begin_times, slots) = (request_begins.as_fd().as_raw_fd(), requests.slots.code());
            let exit = ExitCode {
                begin_times,
                span: Some(CurrentSpan::of(btf, slots)?),
                calls: &request_calls,
                filters: request_call_filters,
                ..exit
            };
            programs.extend(exit.programs().into_iter().map(|program| ("sys_exit", program)));
            let entry = syscall_code::entry(chosen.code(), Some(slots), begin_times);
            programs.push(("sys_enter", entry));
        }
        let mut new = Vec::new();
        for (name, code) in programs {
            let place = AttachPoint::RawTracepoint(btf.raw_tracepoint(name)?.type_id);
            new.push(NewProgram { name: name.to_owned(), code, place });
        }
        for ((scope, record), filter) in records.iter().zip(&record_filters) {
            let chosen = chosen.code().for_scope(*scope);
            let code = record_code::program(rings, chosen, record, filter.as_ref());
            let place = AttachPoint::Tracepoint(record.number);
            new.push(NewProgram { name: record.name.clone(), code, place });
        }
        if let Some(tracepoints) = &selection.uring {
            let uring = UringCode { rings, chosen: chosen.code(), tracepoints, ids: uring_ids };
            new.extend(uring.programs().map(|(name, code, number)| NewProgram {
                name: name.to_owned(),
                code,
                place: AttachPoint::Tracepoint(number),
            }));
        }
        let mut links = attach_all(new)?;
        let scratch = filters.scratch.as_ref().map(FilterScratch::code);
        for probe in &selection.user {
            links.extend(user_probe::attach(rings, chosen.code(), probe, scratch, types)?);
        }
        for probe in &selection.timers {
            links.extend(timer_probe::attach(rings, chosen.code(), probe, redactions, types)?);
        }
        if let Some(requests) = requests {
            links.extend(request_code::attach(requests, rings, chosen, btf, types)?);
        }
        if let Some(calls) = &selection.disk {
            links.extend(request_code::attach_chosen_disk(calls, rings, chosen, btf, types)?);
        }
        let attach_function = |(function, filter): (&FunctionType, &Option<FilterCode>)| {
            function_probe::attach(rings, chosen.code(), function, filter.as_ref())
        };
        let functions = functions.iter().zip(&function_filters).map(attach_function);
        let functions = functions.collect::<Result<_, Error>>()?;
        Ok(Probes {
            links,
            functions,
            _filter_scratch: filters.scratch,
            _redaction_memory: redaction_memory,
        })
    }

    /// Returns the number of times that the kernel did not run a [function probe](FunctionProbe),
    /// because the probe was reached again while it recorded an event on the same processor. The
    /// rings do not count these events as lost. For kprobes, the kernel counts since Linux 6.7.
    pub fn missed(&self) -> u64 {
        self.functions.iter().map(AttachedProbe::missed).sum()
    }

    /// Returns the processor time in nanoseconds that the probes have taken while the kernel
    /// [measured run times](blkkin_sys::bpf::RunTimes).
    pub(crate) fn cost_ns(&self) -> io::Result<u64> {
        probe_cost::total_ns(
            self.links.iter().chain(self.functions.iter().map(AttachedProbe::link)),
        )
    }
}

/// Recording of kernel events, until it is dropped or [stopped](Recorder::stop): probes, their
/// rings, and a reader of each ring.
#[derive(Debug)]
pub struct Recorder {
    /// `None` once the recording was stopped.
    probes: Option<Probes>,
    rings: KernelRings,
    readers: Vec<Reader>,
    event_types: EventTypes,
    /// Result of [`Probes::missed`] when the recording was stopped.
    missed: u64,
}

impl Recorder {
    /// Attaches the programs, for the processes that are chosen now or later.
    pub fn attach(
        selection: &Selection,
        chosen: &ChosenProcesses,
        btf: &Btf,
    ) -> Result<Recorder, Error> {
        let Selection { ring_size, uuid, stream, .. } = *selection;
        let rings = KernelRings::create(&RingOptions {
            ring_size,
            subbuffer_size: None,
            uuid,
            stream,
            contexts: selection.contexts(),
            has_own_ring: false,
        })?;
        let mut event_types = EventTypes::default();
        let probes = Some(Probes::attach(selection, chosen, btf, &rings, &mut event_types)?);
        let reader = |ring| Reader::new(rings.shape(), ring, Clock::Monotonic);
        let readers = (0..rings.shape().rings).map(reader).collect();
        Ok(Recorder { probes, rings, readers, event_types, missed: 0 })
    }

    /// Returns the descriptions of the events, by which they can be decoded. Each event has the
    /// process id and the thread id before its fields, in 4 bytes each. Times are nanoseconds of
    /// `CLOCK_MONOTONIC`.
    pub fn event_types(&self) -> &[EventType] {
        self.event_types.all()
    }

    /// Returns the number of rings; each is a stream.
    pub fn ring_count(&self) -> usize {
        self.rings.shape().rings
    }

    /// Consumes the next packet of a ring, and appends it to `buffer`; see [`Reader::take`].
    pub fn take(&mut self, ring: usize, buffer: &mut Vec<u8>) -> TakeOutcome {
        self.readers[ring].take(self.rings.cells(), self.rings.shape(), true, buffer)
    }

    /// Appends a last packet of a ring without events to `buffer` if events were lost since its
    /// last packet. To be called after [`stop`](Self::stop).
    pub fn finish(&mut self, ring: usize, buffer: &mut Vec<u8>) -> bool {
        self.readers[ring].finish(self.rings.cells(), self.rings.shape(), buffer).is_some()
    }

    /// Returns the number of events that were lost because the ring was full, or because the
    /// processor's ring and all shared rings were in use.
    pub fn lost(&self) -> u64 {
        (0..self.rings.shape().rings)
            .map(|ring| self.rings.cells().lost(self.rings.shape(), ring))
            .sum()
    }

    /// Returns the number of events that the kernel did not pass to the probes, as
    /// [`Probes::missed`]. They are not in [`lost`](Self::lost).
    pub fn missed(&self) -> u64 {
        self.probes.as_ref().map_or(self.missed, Probes::missed)
    }

    /// Returns the number of events recorded so far.
    pub fn recorded(&self) -> u64 {
        (0..self.rings.shape().rings)
            .map(|ring| self.rings.cells().recorded(self.rings.shape(), ring))
            .sum()
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
                !self.rings.cells().is_owned(self.rings.shape(), ring)
            })
        };
        (0..self.rings.shape().rings).all(is_free).then(|| SettledMoment {
            time: now,
            positions: (0..self.rings.shape().rings)
                .map(|ring| self.rings.cells().write_position(self.rings.shape(), ring))
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
        self.rings.shape().subbuffer_count
    }

    /// Returns the size of all rings in bytes.
    pub fn rings_size(&self) -> usize {
        self.rings.shape().rings * self.rings.shape().ring_size()
    }

    /// Returns true if no ring has an unread event.
    pub fn is_drained(&self) -> bool {
        self.readers.iter().all(|reader| reader.is_drained(self.rings.cells(), self.rings.shape()))
    }

    /// Waits for an event, for a readable descriptor of `others`, for a signal, or for the end of
    /// `time`.
    pub fn wait(&self, others: &[BorrowedFd<'_>], time: Duration) -> io::Result<()> {
        self.rings.cells().fall_asleep();
        // A program may have published an event before it could see the flag. The order of its
        // store and its load is certain after a moment, so the rings are checked once more.
        self.rings.waker().wait(others, SETTLE_TIME.min(time))?;
        if self.is_drained() && self.rings.cells().is_reader_asleep() {
            self.rings.waker().wait(others, time.saturating_sub(SETTLE_TIME))?;
        }
        self.rings.cells().wake();
        Ok(())
    }

    /// Detaches the programs. Events recorded so far can still be consumed.
    pub fn stop(&mut self) {
        if let Some(probes) = self.probes.take() {
            self.missed = probes.missed();
            drop(probes);
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

/// Filters that have not been compiled yet, by the names of event types.
struct Filters<'s> {
    rest: BTreeMap<&'s str, &'s Filter>,
    /// Memory for filters, if there are any.
    scratch: Option<FilterScratch>,
}

impl<'s> Filters<'s> {
    fn new(selection: &'s Selection, processors: usize) -> Result<Filters<'s>, Error> {
        let Selection { filters, user, .. } = selection;
        let needs_scratch = !filters.is_empty() || user.iter().any(UserProbe::has_filter);
        let scratch = needs_scratch.then(|| FilterScratch::new(processors)).transpose()?;
        let rest = filters.iter().map(|(name, filter)| (&**name, filter)).collect();
        Ok(Filters { rest, scratch })
    }

    /// Compiles the filter of an event type; returns `None` if it has none.
    fn take(&mut self, event: &str, fields: &FieldTable<'_>) -> Result<Option<FilterCode>, Error> {
        let (Some(filter), Some(scratch)) = (self.rest.remove(event), &self.scratch) else {
            return Ok(None);
        };
        let code = FilterCode::new(filter, fields, scratch.code());
        code.map(Some)
            .map_err(|error| Error::Filter { event: event.to_owned(), error: Box::new(error) })
    }

    /// Fails if a filter has not been taken.
    fn refuse_rest(&self) -> Result<(), Error> {
        match self.rest.keys().next() {
            Some(event) => Err(Error::FilterWithoutEvent((*event).to_owned())),
            None => Ok(()),
        }
    }
}

/// Returns memory for redactions, if there are any.
fn redaction_memory(
    selection: &Selection,
    rings: &KernelRings,
) -> Result<Option<RedactionMemory>, Error> {
    if selection.redactions.is_empty() {
        return Ok(None);
    }
    let key = selection.hash_key.map_or_else(HashKey::random, Ok)?;
    RedactionMemory::new(rings.shape().rings, key).map(Some)
}

/// Returns the types of calls in the order of their numbers.
fn call_types(
    calls: &[SystemCall],
    redactions: &[Redaction],
    of: fn(&SystemCall, u16) -> CallType,
) -> Vec<CallType> {
    let mut calls: Vec<&SystemCall> = calls.iter().collect();
    calls.sort_by_key(|call| call.number);
    calls.dedup_by_key(|call| call.number);
    calls.into_iter().map(|call| of(call, 0).redacted(redactions)).collect()
}
