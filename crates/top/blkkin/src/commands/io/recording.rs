//! Recording by the kernel: attaches the probes, starts the thread that records, and controls it.

use super::choice::Choice;
use super::options::Programs;
use super::plan::Plan;
use super::pump::{Change, Ends, Progress, Pump, Shared};
use super::sink::{Sink, memory_error};
use crate::exit::Error;
use blkkin_agent::KernelTrace;
use blkkin_control::EventType;
use blkkin_kernel::state::{StateStream, StateWriter};
use blkkin_kernel::{
    Btf, ChosenProcesses, Recorder, Selection, SystemCall, TraceFs, TraceFsError, UringTracepoints,
};
use blkkin_reader::Source;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Handle that changes the recorded processes, from any thread.
#[derive(Clone)]
pub(super) struct Handle {
    changes: Sender<Change>,
    waker: Arc<UnixStream>,
}

impl Handle {
    /// Changes the choice. When it returns, the change is in effect.
    pub(super) fn choose(&self, choice: Choice) -> Result<(), String> {
        let (answer, result) = mpsc::channel();
        let ended = || "the recording has ended".to_owned();
        self.changes.send(Change { choice, answer }).map_err(|_| ended())?;
        self.wake();
        result.recv().map_err(|_| ended())?
    }

    fn wake(&self) {
        // If the socket's buffer is full, the thread has enough reasons to wake up.
        let _ = (&*self.waker).write(&[0]);
    }
}

/// Running recording.
pub(super) struct Recording {
    shared: Arc<Shared>,
    handle: Handle,
    thread: Option<JoinHandle<Result<Ends, Error>>>,
    sources: Vec<Source>,
}

impl Recording {
    /// Attaches the probes and starts the thread. No program is chosen yet.
    pub(super) fn start(
        plan: &Plan<'_>,
        programs: &Programs,
    ) -> Result<(Recording, Handle), Error> {
        check_namespace()?;
        let tracefs = TraceFs::open().map_err(|error| attach_error(error.into()))?;
        let btf = Btf::of_kernel().map_err(|error| attach_error(error.into()))?;
        let selection = Selection {
            calls: known_calls(&tracefs)?,
            process_events: [true; 3],
            uring: UringTracepoints::find(&tracefs, &btf).map_err(attach_error)?,
            disk: if programs.block { Some(all_calls(&tracefs)?) } else { None },
            ring_size: programs.buffer.map(|size| usize::try_from(size).unwrap_or(usize::MAX / 2)),
            uuid: blkkin_agent::new_uuid(),
            ..Selection::default()
        };
        let chosen = match programs.is_empty() {
            true => ChosenProcesses::all_except(&[std::process::id()]),
            false => ChosenProcesses::new(),
        };
        let chosen = chosen.map_err(attach_error)?;
        let recorder = Recorder::attach(&selection, &chosen, &btf).map_err(attach_error)?;
        let first = recorder.event_types().len() as u16;
        let mut events: Vec<EventType> = recorder.event_types().to_vec();
        let ids = [first, first + 1];
        events.extend(StateWriter::event_types(ids));
        let trace = KernelTrace::of_this_machine(selection.uuid, &events);
        let origin_ns = trace.origin_ns;
        let metadata = trace
            .metadata()
            .ok_or_else(|| Error::failed("the kernel's names of arguments cannot be recorded"))?;
        let sink = Sink::create(plan, &metadata, recorder.rings_size())?;
        let sources = sink.sources();
        let ring = recorder.ring_count() as u32;
        let stream = StateStream { uuid: selection.uuid, stream: selection.stream, ring, ids };
        let (waker, woken) = UnixStream::pair().map_err(memory_error)?;
        for end in [&waker, &woken] {
            end.set_nonblocking(true).map_err(memory_error)?;
        }
        let (changes, received) = mpsc::channel();
        let shared = Arc::new(Shared::default());
        let pump = Pump {
            recorder,
            chosen,
            state: StateWriter::new(stream),
            sink,
            origin_ns,
            changes: received,
            woken,
            shared: shared.clone(),
            buffer: Vec::new(),
            has_cgroups: false,
            members: BTreeSet::new(),
            looked: Instant::now(),
        };
        let thread = std::thread::Builder::new()
            .name("blkkin-io".to_owned())
            .spawn(move || pump.run())
            .map_err(memory_error)?;
        let handle = Handle { changes, waker: Arc::new(waker) };
        let recording = Recording { shared, handle: handle.clone(), thread: Some(thread), sources };
        Ok((recording, handle))
    }

    /// Returns the trace in memory as a source for a reader.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.sources.clone()
    }

    /// Changes the choice of programs.
    pub(super) fn choose(&mut self, choice: Choice) -> Result<(), Error> {
        self.handle.choose(choice).map_err(Error::failed)
    }

    /// Waits for progress, or for the end of `time`.
    pub(super) fn wait(&self, time: Duration) -> Progress {
        let mut progress = self.shared.progress.lock();
        if !progress.is_new {
            self.shared.changed.wait_for(&mut progress, time);
        }
        progress.is_new = false;
        *progress
    }

    /// Asks the thread to end; what was recorded before is still in the trace.
    pub(super) fn stop(&self) {
        self.shared.progress.lock().is_stopping = true;
        self.handle.wake();
    }

    /// Waits for the thread to end.
    pub(super) fn finish(mut self) -> Result<Ends, Error> {
        self.stop();
        let thread = self.thread.take().map(JoinHandle::join);
        match thread {
            Some(Ok(ends)) => ends,
            _ => Err(Error::failed("the thread that records has failed")),
        }
    }
}

/// Fails in a PID namespace of its own: the kernel's probes know processes by their ids in the
/// initial namespace.
pub(super) fn check_namespace() -> Result<(), Error> {
    match fs::read_link("/proc/self/ns/pid") {
        Ok(namespace) if namespace.as_os_str() != INITIAL_NAMESPACE => {
            Err(Error::failed("process ids differ in this container from those of the kernel")
                .hint("run it outside of the container, or with the host's PID namespace; --preload works in both"))
        }
        _ => Ok(()),
    }
}

/// The initial PID namespace in `/proc`.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";

fn attach_error(error: blkkin_kernel::Error) -> Error {
    let is_permission = error.is_permission();
    let error = Error::failed(error.to_string());
    match is_permission {
        true => error.hint("sudo blkkin io …; `blkkin doctor io` says what else is missing"),
        false => error.hint("`blkkin doctor io` says what is missing, and how to enable it"),
    }
}

/// Returns all calls of this kernel, during which requests to disks are queued.
fn all_calls(tracefs: &TraceFs) -> Result<Arc<[SystemCall]>, Error> {
    Ok(tracefs.system_calls().map_err(|error| attach_error(error.into()))?.into())
}

/// Returns the calls of this kernel that are operations: older kernels do not have all of them.
fn known_calls(tracefs: &TraceFs) -> Result<Vec<SystemCall>, Error> {
    let calls = blkkin_io::call_names().filter_map(|name| tracefs.system_call(name).transpose());
    let calls: Vec<SystemCall> =
        calls.collect::<Result<_, _>>().map_err(|error| attach_error(error.into()))?;
    match calls.is_empty() {
        true => Err(attach_error(TraceFsError::NoSystemCalls.into())),
        false => Ok(calls),
    }
}
