//! `blkkin forwarder`: the process that sends sessions of an agent to relays, since the agent can
//! make no connections. Started by the agent's command only.

use super::waiting;
use crate::exit::{Error, Exit};
use crate::limits::raise_descriptors;
use crate::output::{agent_log, own_program};
use crate::relay_credentials::CredentialReader;
use blkkin_agent::{WaitingProcess, confine_forwarder};
use blkkin_client::{Client, Timeouts};
use blkkin_control::{
    Destination, DroppedPackets, ForwardProgress, ForwardReport, ForwardTask, Reply, Request,
    SpoolSize,
};
use blkkin_forward::{
    Delivery, Dropped, Persistence, Report, SentPositions, SessionName, Totals, Trimmer,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::collections::HashMap;
use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Send sessions of an agent to relays
///
/// The agent starts this command itself. It waits on standard input for the path of the agent's
/// socket, and then keeps a worker running until the agent ends.
#[derive(clap::Args, Debug)]
pub(crate) struct Args {
    /// Send sessions; without it, keep a process that does
    #[arg(long)]
    worker: bool,
}

/// Time for what is under way, after the agent has ended. The next agent's forwarder sends the
/// rest.
const LAST_TIME: Duration = Duration::from_secs(1);
/// Pause before a worker is started again.
const RESTART_PAUSE: Duration = Duration::from_secs(1);
/// Maximum size in bytes of a text in a report.
const TEXT_SIZE_MAX: usize = 1 << 10;
/// Pause before a session is tried again whose directory cannot be read.
const RETRY_PAUSE: Duration = Duration::from_secs(5);
/// Timeouts of the agent's answers. It answers the request for sessions only after a change.
const TIMEOUTS: Timeouts =
    Timeouts { opening: Duration::from_secs(30), item: Duration::from_secs(100 * 365 * 24 * 3600) };

/// A session that is being sent.
struct Sending {
    /// Becomes readable for the thread when it is written to.
    ending: UnixStream,
    is_told: bool,
    /// Requests to drop packets, for a thread that is not held up by the relay.
    drops: Sender<u64>,
    /// Value of [`ForwardTask::to_drop`] in the last of them.
    to_drop: u64,
}

/// Starts the waiting forwarder of an agent; `None` if it cannot be started.
pub(crate) fn spawn() -> Option<WaitingProcess> {
    let report = |error: &io::Error| agent_log(&format!("sessions cannot be forwarded: {error}"));
    waiting::spawn(&["forwarder"]).inspect_err(report).ok()
}

pub(crate) fn run(args: &Args) -> Result<Exit, Error> {
    let failed = |error: io::Error| Error::failed(format!("cannot forward sessions: {error}"));
    let Some(socket) = read_start().map_err(failed)? else { return Ok(Exit::Ok) };
    if !args.worker {
        return supervise(&socket).map(|()| Exit::Ok).map_err(failed);
    }
    // Each stream has two files.
    raise_descriptors();
    confine_forwarder().iter().for_each(|line| agent_log(line));
    let credentials = CredentialReader::start().map_err(failed)?;
    let (sender, reports) = channel();
    let of_reports = connect(&socket)?;
    thread::spawn(move || send_reports(of_reports, &reports));
    let mut client = connect(&socket)?;
    let mut sendings = HashMap::new();
    let mut is_first = true;
    loop {
        let request = Request::AwaitForwarding(std::mem::take(&mut is_first));
        match client.request_all(&request) {
            Ok(replies) => apply(replies, &mut sendings, &sender, &credentials),
            // The agent has ended.
            Err(_) => break,
        }
    }
    thread::sleep(LAST_TIME);
    Ok(Exit::Ok)
}

/// Starts the worker, and starts it again when it ends before the agent does.
fn supervise(socket: &Path) -> io::Result<()> {
    loop {
        let mut worker = Command::new(own_program()?)
            .args(["forwarder", "--worker"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()?;
        if let Some(mut start) = worker.stdin.take() {
            start.write_all(&[socket.as_os_str().as_bytes(), b"\0"].concat())?;
        }
        let status = worker.wait()?;
        if has_agent_ended()? {
            return Ok(());
        }
        agent_log(&format!("the forwarder has ended ({status}), and is started again"));
        thread::sleep(RESTART_PAUSE);
    }
}

/// Returns whether the agent has closed the pipe on standard input, as its end does.
fn has_agent_ended() -> io::Result<bool> {
    let input = io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::IN)];
    Ok(poll(&mut polled, Some(&Timespec::default()))? > 0)
}

/// Reads the path of the agent's socket, which ends with a NUL. Returns `None` if the agent ends
/// before it needs the forwarder.
fn read_start() -> io::Result<Option<PathBuf>> {
    let mut path = Vec::new();
    for byte in io::stdin().lock().bytes() {
        match byte? {
            0 => return Ok(Some(PathBuf::from(OsString::from_vec(path)))),
            byte => path.push(byte),
        }
    }
    Ok(None)
}

fn connect(socket: &Path) -> Result<Client, Error> {
    let (sockets, release) = ([socket.to_owned()], env!("CARGO_PKG_VERSION"));
    Ok(Client::connect(&sockets, "forwarder", release, TIMEOUTS)?)
}

/// Sends reports to the agent, until it ends.
fn send_reports(mut client: Client, reports: &Receiver<Request>) {
    let mut has_logged = false;
    for report in reports {
        // The agent ends the process by closing its connections.
        if let Err(error) = client.request_all(&report)
            && !std::mem::replace(&mut has_logged, true)
        {
            agent_log(&format!("the agent refuses a report of the forwarder: {error}"));
        }
    }
}

/// Begins to send the sessions that are new in the agent's list, and ends those that are destroyed.
fn apply(
    replies: Vec<Reply>,
    sendings: &mut HashMap<u64, Sending>,
    reports: &Sender<Request>,
    credentials: &CredentialReader,
) {
    let tasks = replies.into_iter().filter_map(|reply| match reply {
        Reply::ForwardTask(task) => Some(task),
        _ => None,
    });
    let tasks: Vec<ForwardTask> = tasks.collect();
    sendings.retain(|number, _| tasks.iter().any(|task| task.number == *number));
    for task in tasks {
        let (number, has_ended, to_drop) = (task.number, task.has_ended, task.to_drop);
        let sending = match sendings.remove(&number) {
            Some(sending) => Ok(sending),
            None => Sending::start(task, reports.clone(), credentials.clone()),
        };
        match sending {
            Ok(mut sending) => {
                sending.ask_to_drop(to_drop);
                if has_ended {
                    sending.tell();
                }
                sendings.insert(number, sending);
            }
            Err(error) => agent_log(&format!("cannot forward a session: {error}")),
        }
    }
}

impl Sending {
    fn start(
        task: ForwardTask,
        reports: Sender<Request>,
        credentials: CredentialReader,
    ) -> io::Result<Sending> {
        let (ending, told) = UnixStream::pair()?;
        let (drops, asked) = channel();
        let positions = Arc::<SentPositions>::default();
        drop_when_asked(&task, positions.clone(), asked, reports.clone())?;
        let work = move || {
            let (user, group) = (task.user, task.group);
            let progress = ForwardProgress::default();
            let (removed, removed_told) = (0, 0);
            let mut reporter =
                Reporter { task, reports, credentials, positions, progress, removed, removed_told };
            while let Err(error) = blkkin_sys::as_user(user, group, || reporter.deliver(&told)) {
                reporter.report(&Report::Lost(&error));
                thread::sleep(RETRY_PAUSE);
            }
        };
        thread::Builder::new().name("forward".to_owned()).spawn(work)?;
        Ok(Sending { ending, is_told: false, drops, to_drop: 0 })
    }

    /// Asks for packets to be dropped: as many bytes as the agent wants more than before.
    fn ask_to_drop(&mut self, to_drop: u64) {
        if std::mem::replace(&mut self.to_drop, to_drop) != to_drop {
            let _ = self.drops.send(to_drop);
        }
    }

    /// Tells the thread to end when the relay has everything.
    fn tell(&mut self) {
        if !std::mem::replace(&mut self.is_told, true) {
            let _ = self.ending.write_all(&[0]);
        }
    }
}

/// Starts a thread that drops the oldest packets of a spool for each request, until the session is
/// no longer sent.
fn drop_when_asked(
    task: &ForwardTask,
    positions: Arc<SentPositions>,
    asked: Receiver<u64>,
    reports: Sender<Request>,
) -> io::Result<()> {
    if !task.destination.drops_oldest {
        return Ok(());
    }
    let (number, user, group) = (task.number, task.user, task.group);
    let mut trimmer = Trimmer::new(task.directory.clone(), positions);
    let work = move || {
        let mut before = 0;
        for to_drop in asked {
            let bytes = to_drop.saturating_sub(before);
            let dropped = blkkin_sys::as_user(user, group, || Ok(trimmer.drop_oldest(bytes)));
            let Dropped { packets, bytes } = dropped.unwrap_or_else(|error: io::Error| {
                agent_log(&format!("cannot drop packets of a spool: {error}"));
                Dropped::default()
            });
            before = to_drop;
            let dropped = DroppedPackets { number, to_drop, packets, bytes };
            let _ = reports.send(Request::ReportDropped(dropped));
        }
    };
    thread::Builder::new().name("drop".to_owned()).spawn(work).map(drop)
}

/// Returns a text of a relay or of the file system in the form of a message: without control
/// characters, and not too long.
fn printable(text: &str) -> String {
    let mut plain: String =
        text.chars().map(|one| if one.is_control() { '?' } else { one }).collect();
    plain.truncate(plain.floor_char_boundary(TEXT_SIZE_MAX));
    plain
}

/// Sender of one session, which reports to the agent.
struct Reporter {
    task: ForwardTask,
    reports: Sender<Request>,
    credentials: CredentialReader,
    positions: Arc<SentPositions>,
    progress: ForwardProgress,
    /// Number of bytes removed from the spool, and how many of them the agent was told.
    removed: u64,
    removed_told: u64,
}

impl Reporter {
    fn deliver(&mut self, told: &UnixStream) -> io::Result<()> {
        let Destination { target, is_spool, .. } = self.task.destination.clone();
        let target = target.parse().map_err(io::Error::other)?;
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let (name, producer) = (self.task.name.clone(), blkkin_agent::new_uuid());
        let session = SessionName { host, name, producer };
        let directory = self.task.directory.clone();
        let delivery = Delivery::new(target, session, &directory, Persistence::Forever);
        let delivery = delivery.with_positions(self.positions.clone());
        let credentials = self.credentials.clone();
        let mut delivery = delivery.with_credentials(move || credentials.read());
        if is_spool {
            delivery = delivery.remove_delivered();
        }
        let mut delivery = delivery.resume()?;
        if is_spool {
            let size = SpoolSize { number: self.task.number, bytes: delivery.size() };
            let _ = self.reports.send(Request::ReportSpoolSize(size));
        }
        let totals = delivery.run(told.as_fd(), &mut |report| self.report(&report))?;
        self.count(totals);
        self.send(true);
        Ok(())
    }

    fn report(&mut self, report: &Report<'_>) {
        match *report {
            Report::Connected(path) => {
                (self.progress.is_connected, self.progress.trouble) = (true, None);
                self.progress.path = printable(path);
            }
            Report::Lost(error) => {
                self.progress.is_connected = false;
                self.progress.trouble = Some(printable(&error.to_string()));
            }
            Report::Damaged(line) => {
                agent_log(&format!("cannot be forwarded: {line}"));
                self.progress.trouble = Some(printable(line));
            }
            Report::Progress(totals, _) => self.count(totals),
        }
        self.send(false);
    }

    fn count(&mut self, totals: Totals) {
        (self.progress.packets, self.progress.bytes) = (totals.packets, totals.bytes);
        self.removed = totals.bytes_removed;
    }

    fn send(&mut self, is_delivered: bool) {
        let (number, progress) = (self.task.number, self.progress.clone());
        let before = std::mem::replace(&mut self.removed_told, self.removed);
        let bytes_removed = self.removed.saturating_sub(before);
        let report = ForwardReport { number, progress, bytes_removed, is_delivered };
        let _ = self.reports.send(Request::ReportForwarding(report));
    }
}
