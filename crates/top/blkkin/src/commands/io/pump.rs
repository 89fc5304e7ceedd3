//! The thread that records: it moves packets from the kernel's rings to their destinations, and
//! carries out changes of the choice of programs.

use super::choice::{CGROUP_PREFIX, Choice};
use super::sink::{Sink, memory_error};
use crate::exit::Error;
use blkkin_kernel::state::StateWriter;
use blkkin_kernel::{Cgroup, ChosenProcesses, Recorder, kernel_name};
use blkkin_ring::TakeOutcome;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};
use std::time::{Duration, Instant};

/// Pause between two drains of the rings while operations are shown and events come.
const SHOWN_PAUSE: Duration = Duration::from_micros(500);
/// The same if events are only written to files: fewer, larger packets. The rings of the default
/// size hold more than twice as much as a processor records in this time.
const WRITTEN_PAUSE: Duration = Duration::from_millis(4);
/// Maximum time that the thread sleeps without looking at the rings.
const SLEEP_MAX: Duration = Duration::from_secs(1);
/// Minimum time between two lists of the processes in control groups.
const LOOK_PAUSE: Duration = Duration::from_millis(100);
/// Request to the recording thread: a change, and the channel for its result.
pub(super) struct Change {
    pub(super) choice: Choice,
    pub(super) answer: Sender<Result<(), String>>,
}

/// Progress of a recording.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Progress {
    /// Time before which all events are in the trace, in nanoseconds since 1970.
    pub(super) end_ns: i64,
    /// Set when the recording has ended.
    pub(super) has_ended: bool,
    pub(super) is_new: bool,
    pub(super) is_stopping: bool,
}

/// Sums of a recording that has ended.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ends {
    pub(super) recorded: u64,
    pub(super) lost: u64,
    /// Bytes in files.
    pub(super) bytes: u64,
}

/// Progress that the thread shares with the one that started it.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) progress: Mutex<Progress>,
    pub(super) changed: Condvar,
}

/// State of the thread.
pub(super) struct Pump {
    pub(super) recorder: Recorder,
    pub(super) chosen: ChosenProcesses,
    pub(super) state: StateWriter,
    pub(super) sink: Sink,
    pub(super) origin_ns: u64,
    pub(super) changes: Receiver<Change>,
    pub(super) woken: UnixStream,
    pub(super) shared: Arc<Shared>,
    pub(super) buffer: Vec<u8>,
    pub(super) has_cgroups: bool,
    /// Processes of the chosen control groups whose state was recorded.
    pub(super) members: BTreeSet<u32>,
    /// Time at which the processes of the control groups were last listed.
    pub(super) looked: Instant,
}

impl Pump {
    /// Records until it is asked to stop.
    pub(super) fn run(mut self) -> Result<Ends, Error> {
        let done = self.record();
        self.publish(u64::MAX, true);
        done?;
        Ok(Ends {
            recorded: self.recorder.recorded(),
            lost: self.recorder.lost(),
            bytes: self.sink.file_bytes(),
        })
    }

    fn record(&mut self) -> Result<(), Error> {
        let pause = if self.sink.is_shown() { SHOWN_PAUSE } else { WRITTEN_PAUSE };
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
            self.describe_new_members()?;
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
                Choice::Names(names) => self.choose_names(&names),
                Choice::Process(pid) => match Path::new(&format!("/proc/{pid}")).exists() {
                    true => {
                        self.chosen.follow(pid);
                        Ok(vec![pid])
                    }
                    false => Err(format!("there is no process {pid}")),
                },
                Choice::All => processes().map_err(|error| error.to_string()),
            };
            if let Ok(pids) = &chosen {
                self.describe(pids)?;
            }
            // The other side may have given up.
            let _ = answer.send(chosen.map(|_| ()));
        }
        Ok(())
    }

    /// Chooses programs by their names, and the processes of control groups. Returns the ids of
    /// processes that were not chosen before.
    fn choose_names(&mut self, names: &BTreeSet<String>) -> Result<Vec<u32>, String> {
        let paths = names.iter().filter_map(|name| name.strip_prefix(CGROUP_PREFIX));
        let cgroup = |path: &str| {
            let failed =
                |error: io::Error| format!("cannot choose the control group `{path}`: {error}");
            Cgroup::find(Path::new(path)).map_err(failed)
        };
        let cgroups = paths.map(cgroup).collect::<Result<Vec<_>, _>>()?;
        let names = names.iter().filter(|name| !name.starts_with(CGROUP_PREFIX));
        let names = names.map(|name| kernel_name(name)).collect();
        self.has_cgroups = !cgroups.is_empty();
        let mut pids = self.chosen.set_names(names).map_err(|error| error.to_string())?;
        pids.extend(self.chosen.set_cgroups(cgroups).map_err(|error| error.to_string())?);
        self.members = self.chosen.processes_in_cgroups();
        Ok(pids)
    }

    /// Records the state of processes that have moved into a chosen control group, or were started
    /// in it by others. The kernel has chosen them already.
    fn describe_new_members(&mut self) -> Result<(), Error> {
        if !self.has_cgroups || self.looked.elapsed() < LOOK_PAUSE {
            return Ok(());
        }
        self.looked = Instant::now();
        let members = self.chosen.processes_in_cgroups();
        let new: Vec<u32> = members.difference(&self.members).copied().collect();
        self.members = members;
        self.describe(&new)
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

/// Returns the ids of all processes except this one.
fn processes() -> io::Result<Vec<u32>> {
    let names = fs::read_dir("/proc")?.flatten().map(|entry| entry.file_name());
    let pids = names.filter_map(|name| name.to_str()?.parse::<u32>().ok());
    Ok(pids.filter(|pid| *pid != std::process::id()).collect())
}
