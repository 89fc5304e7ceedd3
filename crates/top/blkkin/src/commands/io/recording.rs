//! The thread that records: it moves packets from the kernel's rings to the trace in memory and to
//! the files, and carries out changes of the choice of programs.

use super::choice::Choice;
use super::options::Args;
use crate::exit::Error;
use blkkin_agent::KernelTrace;
use blkkin_control::EventType;
use blkkin_kernel::state::{self, StateStream, StateWriter};
use blkkin_kernel::{
    Btf, ChosenProcesses, Recorder, Selection, SystemCall, TraceFs, TraceFsError, kernel_name,
};
use blkkin_reader::{LiveTrace, Source};
use blkkin_ring::TakeOutcome;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Pause between two drains of the rings while operations are shown and events come.
const SHOWN_PAUSE: Duration = Duration::from_micros(500);
/// The same if events are only written to files: fewer, larger packets. The rings of the default
/// size hold more than twice as much as a processor records in this time.
const WRITTEN_PAUSE: Duration = Duration::from_millis(4);
/// Maximum time that the thread sleeps without looking at the rings.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Maximum size in bytes of packets that wait to be shown. Then events stay in the rings.
const WAITING_MAX: u64 = 64 << 20;

/// Request to the recording thread: a change, and the channel for its result.
struct Change {
    choice: Choice,
    answer: Sender<Result<(), String>>,
}

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

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Time before which all events are in the trace, in nanoseconds since 1970.
    pub(super) end_ns: i64,
    /// Set when the recording has ended.
    pub(super) has_ended: bool,
    is_new: bool,
    is_stopping: bool,
}

/// Sums of a recording that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub(super) recorded: u64,
    pub(super) lost: u64,
    /// Bytes in files.
    pub(super) bytes: u64,
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
}

/// Running recording.
pub(super) struct Recording {
    shared: Arc<Shared>,
    handle: Handle,
    thread: Option<JoinHandle<Result<Ends, Error>>>,
    live: Option<LiveTrace>,
}

impl Recording {
    /// Attaches the probes and starts the thread. No program is chosen yet.
    pub(super) fn start(args: &Args) -> Result<(Recording, Handle), Error> {
        check_namespace()?;
        let tracefs = TraceFs::open().map_err(|error| attach_error(error.into()))?;
        let selection = Selection {
            calls: known_calls(&tracefs)?,
            process_events: [true; 3],
            ring_size: args.buffer.map(|size| usize::try_from(size).unwrap_or(usize::MAX / 2)),
            uuid: blkkin_agent::new_uuid(),
            ..Selection::default()
        };
        let chosen = ChosenProcesses::new().map_err(attach_error)?;
        let btf = Btf::of_kernel().map_err(|error| attach_error(error.into()))?;
        let recorder = Recorder::attach(&selection, &chosen, &btf).map_err(attach_error)?;
        let first = recorder.event_types().len() as u16;
        let mut events: Vec<EventType> = recorder.event_types().to_vec();
        events.extend(state::event_types(first));
        let origin_ns = origin_ns();
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let trace = KernelTrace { uuid: selection.uuid, origin_ns, host: &host, events: &events };
        let metadata = trace
            .metadata()
            .ok_or_else(|| Error::failed("the kernel's names of arguments cannot be recorded"))?;
        let live = match args.has_view() {
            true => Some(live_trace(&metadata, recorder.rings_size()).map_err(memory_error)?),
            false => None,
        };
        let files = match &args.output {
            Some(folder) => Some(Files::create(folder, &metadata)?),
            None => None,
        };
        let ring = recorder.ring_count() as u32;
        let stream = StateStream { uuid: selection.uuid, stream: selection.stream, ring, first };
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
            sink: Sink { live: live.clone(), files },
            origin_ns,
            changes: received,
            woken,
            shared: shared.clone(),
            buffer: Vec::new(),
        };
        let thread = std::thread::Builder::new()
            .name("blkkin-io".to_owned())
            .spawn(move || pump.run())
            .map_err(memory_error)?;
        let handle = Handle { changes, waker: Arc::new(waker) };
        let recording = Recording { shared, handle: handle.clone(), thread: Some(thread), live };
        Ok((recording, handle))
    }

    /// Returns the trace in memory as a source for a reader.
    pub(super) fn sources(&self) -> Vec<Source> {
        self.live.iter().cloned().map(Source::Live).collect()
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

fn memory_error(error: io::Error) -> Error {
    Error::failed(format!("cannot record: {error}"))
}

fn attach_error(error: blkkin_kernel::Error) -> Error {
    let is_permission = error.is_permission();
    let error = Error::failed(error.to_string());
    match is_permission {
        true => error.hint("sudo blkkin io …; `blkkin doctor io` says what else is missing"),
        false => error.hint("`blkkin doctor io` says what is missing, and how to enable it"),
    }
}

fn live_trace(metadata: &str, rings_size: usize) -> io::Result<LiveTrace> {
    let live = LiveTrace::new("kernel")?;
    // A drain that begins below the maximum may add the contents of all rings, twice at the end.
    live.set_size_max(2 * (WAITING_MAX + rings_size as u64));
    live.append_metadata(metadata.as_bytes())?;
    Ok(live)
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

/// Returns the time of the monotonic clock's zero, in nanoseconds since 1970. Of several readings,
/// the one that took the shortest time is used.
fn origin_ns() -> u64 {
    let read = || {
        let before = blkkin_sys::monotonic_ns();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let after = blkkin_sys::monotonic_ns();
        let middle = before + (after - before) / 2;
        (after - before, (now.as_nanos() as u64).saturating_sub(middle))
    };
    (0..ORIGIN_READINGS).map(|_| read()).min().map_or(0, |(_, origin)| origin)
}

const ORIGIN_READINGS: usize = 20;

/// Destinations of packets.
struct Sink {
    live: Option<LiveTrace>,
    files: Option<Files>,
}

impl Sink {
    fn put(&mut self, stream: u64, packet: &[u8]) -> Result<(), Error> {
        if let Some(files) = &mut self.files {
            files.put(stream, packet)?;
        }
        if let Some(live) = &self.live {
            live.append_packet(stream, packet).map_err(memory_error)?;
        }
        Ok(())
    }

    /// Returns true while the packets that wait to be shown exceed [`WAITING_MAX`].
    fn is_full(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.undelivered_bytes() > WAITING_MAX)
    }
}

/// Trace in a directory: a file for each stream.
struct Files {
    folder: PathBuf,
    streams: Vec<Option<File>>,
    bytes: u64,
}

impl Files {
    fn create(output: &Path, metadata: &str) -> Result<Files, Error> {
        if fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(Error::failed(format!("`{}` is not empty", output.display()))
                .hint("give a directory that does not exist yet"));
        }
        let folder = output.join("kernel");
        let failed = |error: io::Error| {
            Error::failed(format!("cannot write to `{}`: {error}", folder.display()))
        };
        fs::create_dir_all(&folder).map_err(failed)?;
        fs::write(folder.join("metadata"), metadata).map_err(failed)?;
        Ok(Files { folder, streams: Vec::new(), bytes: metadata.len() as u64 })
    }

    fn put(&mut self, stream: u64, packet: &[u8]) -> Result<(), Error> {
        let index = stream as usize;
        let failed = |error: io::Error| {
            Error::failed(format!("cannot write to `{}`: {error}", self.folder.display()))
        };
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, || None);
        }
        let file = match &mut self.streams[index] {
            Some(file) => file,
            none => {
                let path = self.folder.join(format!("channel0_{stream}"));
                none.insert(File::create_new(path).map_err(failed)?)
            }
        };
        file.write_all(packet).map_err(failed)?;
        self.bytes += packet.len() as u64;
        Ok(())
    }
}

/// State of the thread.
struct Pump {
    recorder: Recorder,
    chosen: ChosenProcesses,
    state: StateWriter,
    sink: Sink,
    origin_ns: u64,
    changes: Receiver<Change>,
    woken: UnixStream,
    shared: Arc<Shared>,
    buffer: Vec<u8>,
}

impl Pump {
    fn run(mut self) -> Result<Ends, Error> {
        let done = self.record();
        self.publish(u64::MAX, true);
        done?;
        Ok(Ends {
            recorded: self.recorder.recorded(),
            lost: self.recorder.lost(),
            bytes: self.sink.files.as_ref().map_or(0, |files| files.bytes),
        })
    }

    fn record(&mut self) -> Result<(), Error> {
        let pause = if self.sink.live.is_some() { SHOWN_PAUSE } else { WRITTEN_PAUSE };
        // Set if all that was moved may be shown. Otherwise nothing that waits can be shown, and
        // the sink stays full until more is moved.
        let mut is_published = true;
        loop {
            self.change()?;
            if self.shared.progress.lock().is_stopping {
                self.recorder.stop();
                self.drain()?;
                return self.finish_rings();
            }
            if self.sink.is_full() && is_published {
                std::thread::sleep(pause);
                continue;
            }
            let settled = self.recorder.settle();
            let has_events = self.drain()?;
            let settled = settled.filter(|moment| self.recorder.has_consumed(moment));
            is_published = settled.is_some();
            if let Some(moment) = settled {
                self.publish(moment.time, false);
            }
            match has_events || !is_published {
                true => std::thread::sleep(pause),
                false => self.sleep()?,
            }
        }
    }

    /// Sleeps until an event is recorded, or a change is asked for.
    fn sleep(&mut self) -> Result<(), Error> {
        self.recorder.wait(&[self.woken.as_fd()], SLEEP_MAX).map_err(memory_error)?;
        let mut bytes = [0; 64];
        while matches!(io::Read::read(&mut &self.woken, &mut bytes), Ok(1..)) {}
        Ok(())
    }

    /// Moves the events from the rings to the sinks. Returns true if there were any. Events that
    /// are recorded meanwhile may stay: a ring that is written faster than it is read must not
    /// delay the others.
    fn drain(&mut self) -> Result<bool, Error> {
        let mut has_events = false;
        for ring in 0..self.recorder.ring_count() {
            for _ in 0..=self.recorder.packets_max() {
                self.buffer.clear();
                match self.recorder.take(ring, &mut self.buffer) {
                    TakeOutcome::Packet(packet) => {
                        has_events = true;
                        self.sink.put(ring as u64, &self.buffer)?;
                        // The rest comes with the next drain.
                        if packet.is_partial {
                            break;
                        }
                    }
                    TakeOutcome::Empty => break,
                    TakeOutcome::Overwritten(_) => {}
                    TakeOutcome::Invalid => {
                        return Err(Error::failed(format!("the kernel's ring {ring} is damaged")));
                    }
                }
            }
        }
        Ok(has_events)
    }

    fn finish_rings(&mut self) -> Result<(), Error> {
        for ring in 0..self.recorder.ring_count() {
            self.buffer.clear();
            if self.recorder.finish(ring, &mut self.buffer) {
                self.sink.put(ring as u64, &self.buffer)?;
            }
        }
        Ok(())
    }

    fn publish(&self, time: u64, has_ended: bool) {
        let mut progress = self.shared.progress.lock();
        progress.end_ns = i64::try_from(time.saturating_add(self.origin_ns)).unwrap_or(i64::MAX);
        progress.has_ended = has_ended;
        progress.is_new = true;
        self.shared.changed.notify_one();
    }

    /// Carries out the changes that were asked for.
    fn change(&mut self) -> Result<(), Error> {
        while let Ok(Change { choice, answer }) = self.changes.try_recv() {
            let chosen = match choice {
                Choice::Names(names) => {
                    let names = names.iter().map(|name| kernel_name(name)).collect();
                    self.chosen.set_names(names).map_err(|error| error.to_string())
                }
                Choice::Process(pid) => match Path::new(&format!("/proc/{pid}")).exists() {
                    true => {
                        self.chosen.follow(pid);
                        Ok(vec![pid])
                    }
                    false => Err(format!("there is no process {pid}")),
                },
            };
            if let Ok(pids) = &chosen {
                self.describe(pids)?;
            }
            // The other side may have given up.
            let _ = answer.send(chosen.map(|_| ()));
        }
        Ok(())
    }

    /// Records the state of processes that are chosen from now on.
    fn describe(&mut self, pids: &[u32]) -> Result<(), Error> {
        let stream = self.recorder.ring_count() as u64;
        let (sink, mut done) = (&mut self.sink, Ok(()));
        let mut put = |packet: &[u8]| {
            if done.is_ok() {
                done = sink.put(stream, packet);
            }
        };
        for pid in pids {
            self.state.add(*pid, blkkin_sys::monotonic_ns(), &mut put);
        }
        self.state.flush(&mut put);
        done
    }
}
