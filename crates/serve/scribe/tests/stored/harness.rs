//! Harness that runs the daemon, sends messages to it, and checks their arrival in the stores.
//! Start at [`DaemonRun`], [`SentMessages`] and [`Stores`].

use crate::program::MARK;
use blkkin_scribe::{
    Batch, Client, ClientOptions, Entries, Entry, Handler, ResultCode, RunningServer, Server,
    ServerOptions,
};
use blkkin_sys::testing::own_test;
use std::fs;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Time limit for waits without a promised duration; a working daemon does not reach it.
pub(crate) const HANG: Duration = Duration::from_secs(60);

/// Maximum time from the end of a disk fault until the daemon accepts messages again. The same
/// maximum applies to the time from then until the daemon has delivered these messages.
pub(crate) const RESUMES: Duration = Duration::from_secs(5);

/// Size of a message, in bytes; a run fills more than one segment of a journal.
const MESSAGE_BYTES: usize = 90_000;

/// Number of messages in each batch.
const BATCH_MESSAGES: u64 = 4;

const CATEGORY: &str = "c";

/// Creates the message with this number.
fn message(number: u64) -> Vec<u8> {
    let mut message = format!("{number:08}").into_bytes();
    message.resize(MESSAGE_BYTES, b'a' + (number % 26) as u8);
    message
}

/// Returns the number in a message; fails unless all bytes are those of [`message`].
fn number(text: &[u8]) -> Result<u64, String> {
    let digits = text.get(..8).and_then(|digits| std::str::from_utf8(digits).ok());
    let number = digits.and_then(|digits| digits.parse().ok());
    let number = number.filter(|number| message(*number) == text);
    number.ok_or_else(|| {
        let begin = String::from_utf8_lossy(&text[..text.len().min(20)]).into_owned();
        format!("not a message that was sent: {begin} ... of {} bytes", text.len())
    })
}

/// Destinations of the messages, which are files below `out` and another server, and the directory
/// `spool` of the daemon's journals.
pub(crate) struct Stores {
    pub(crate) spool: PathBuf,
    out: PathBuf,
    server: RunningServer<RecordingHandler>,
    arrivals: Arc<Mutex<Arrivals>>,
}

/// Numbers of the messages that the server received, in order of arrival; an error for a changed
/// message.
type Arrivals = Vec<Result<u64, String>>;

pub(crate) struct RecordingHandler(Arc<Mutex<Arrivals>>);

impl Handler for RecordingHandler {
    fn log(&self, entries: &Entries<'_>) -> ResultCode {
        self.0.lock().expect("no panic").extend(entries.iter().map(|entry| number(entry.message)));
        ResultCode::Ok
    }
}

impl Stores {
    pub(crate) fn new(directory: &Path) -> Stores {
        let came: Arc<Mutex<Arrivals>> = Arc::default();
        let server = Server::bind("127.0.0.1:0", ServerOptions::default()).expect("a port");
        let server = server.start(RecordingHandler(Arc::clone(&came))).expect("a thread");
        let (spool, out) = (directory.join("spool"), directory.join("out"));
        Stores { spool, out, server, arrivals: came }
    }

    fn configuration(&self) -> String {
        format!(
            "<store>\ncategory=default\ntype=file\nfile_path={}\nadd_newlines=1\n</store>\n\
             <store>\ncategory=default\ntype=network\nremote_host=127.0.0.1\nremote_port={}\n</store>\n",
            self.out.display(),
            self.server.address().port()
        )
    }

    /// Returns the paths of the file store's files, in the order in which they were written.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.out.join(CATEGORY)) else { return Vec::new() };
        let mut files: Vec<PathBuf> =
            entries.map(|entry| entry.expect("an entry").path()).collect();
        // The symbolic link `_current` may appear and disappear.
        files.retain(|file| !file.to_string_lossy().contains("_current"));
        files.sort();
        files
    }

    /// Returns the numbers of the messages that arrived, in order: first those in the files, then
    /// those on the server.
    pub(crate) fn came(&self) -> Result<[Vec<u64>; 2], String> {
        let mut numbers = Vec::new();
        for file in self.files() {
            let bytes = fs::read(&file).map_err(|error| error.to_string())?;
            // The end of a file may be torn.
            for line in bytes.chunks_exact(MESSAGE_BYTES + 1) {
                let (end, text) = line.split_last().expect("a line");
                if *end != b'\n' {
                    return Err(format!("{}: lines are not whole", file.display()));
                }
                numbers.push(number(text)?);
            }
        }
        let came: Result<Vec<u64>, String> =
            self.arrivals.lock().expect("no panic").iter().cloned().collect();
        Ok([numbers, came?])
    }

    /// Returns whether the last sent message was the last to arrive in both stores.
    fn have_all(&self, sent: &SentMessages) -> bool {
        let last = sent.next.checked_sub(1);
        let came = self.arrivals.lock().expect("no panic").last().cloned();
        came.transpose().ok().flatten() == last && self.last_of_files() == last
    }

    fn last_of_files(&self) -> Option<u64> {
        let mut file = fs::File::open(self.files().last()?).ok()?;
        let lines = file.metadata().ok()?.len() / (MESSAGE_BYTES as u64 + 1);
        file.seek(SeekFrom::Start(lines.checked_sub(1)? * (MESSAGE_BYTES as u64 + 1))).ok()?;
        let mut line = vec![0; MESSAGE_BYTES];
        file.read_exact(&mut line).ok()?;
        number(&line).ok()
    }
}

/// Sent messages, numbered below `next`, and the answers to them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SentMessages {
    next: u64,
    /// Numbers of the messages that were sent but not answered with `OK`. They are sent again.
    waiting: Range<u64>,
    /// Number of batches answered with `OK`.
    pub(crate) acknowledged: u64,
    /// Number of times that a batch was sent again.
    pub(crate) again: u64,
    /// Number of messages answered with `TRY_LATER`.
    pub(crate) later: u64,
    /// Longest time until a batch was answered with `OK`.
    pub(crate) slowest: Duration,
    /// True to count each sent batch as acknowledged, whatever the answer: a deliberate error that
    /// a test must detect.
    pub(crate) is_early: bool,
}

impl SentMessages {
    /// Sends `batches` batches, each until it is accepted. Returns false if the connection fails,
    /// or if a batch is not accepted within `patience`.
    pub(crate) fn send(&mut self, life: &DaemonRun, batches: u64, patience: Duration) -> bool {
        let options = ClientOptions { timeout: HANG, ..ClientOptions::default() };
        let Ok(mut client) = Client::connect(life.address, options) else { return false };
        for _ in 0..batches {
            if self.waiting.is_empty() {
                self.waiting = self.next..self.next + BATCH_MESSAGES;
                self.next = self.waiting.end;
            } else {
                self.again += 1;
            }
            let mut batch = Batch::default();
            for number in self.waiting.clone() {
                batch.push(Entry { category: CATEGORY.as_bytes(), message: &message(number) });
            }
            let begun = Instant::now();
            loop {
                let answer = client.log(&mut batch);
                if matches!(answer, Ok(ResultCode::Ok)) || self.is_early {
                    self.waiting = self.next..self.next;
                    self.acknowledged += 1;
                }
                match answer {
                    Ok(ResultCode::Ok) => break,
                    Ok(ResultCode::TryLater) if begun.elapsed() < patience => {
                        self.again += 1;
                        self.later += BATCH_MESSAGES;
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    Ok(ResultCode::TryLater) => {
                        self.later += BATCH_MESSAGES;
                        return false;
                    }
                    Err(_) => return false,
                }
            }
            self.slowest = self.slowest.max(begun.elapsed());
        }
        true
    }

    /// Checks that both stores have all messages unchanged and in order. Repetitions are permitted:
    /// in each store, the sequence of numbers may step back at most `back_max` times.
    pub(crate) fn check(&self, stores: &Stores, back_max: u64) -> Result<(), String> {
        for (store, came) in ["files", "the server"].into_iter().zip(stores.came()?) {
            self.check_store(&came, back_max).map_err(|why| format!("{store}: {why}"))?;
        }
        Ok(())
    }

    fn check_store(&self, came: &[u64], back_max: u64) -> Result<(), String> {
        let mut is_there = vec![false; self.next as usize];
        for number in came {
            let place = is_there.get_mut(*number as usize);
            *place.ok_or_else(|| format!("{number} was never sent"))? = true;
        }
        let lost: Vec<usize> = (0..is_there.len()).filter(|number| !is_there[*number]).collect();
        if !lost.is_empty() {
            return Err(format!("of {} are lost: {lost:?}", self.next));
        }
        let steps = || came.windows(2).filter(|two| two[1] != two[0] + 1);
        if let Some(two) = steps().find(|two| two[1] > two[0]) {
            return Err(format!("{two:?} are not in order"));
        }
        let back = steps().count() as u64;
        match back <= back_max {
            true => Ok(()),
            false => Err(format!("went back {back} times, where only {back_max} were sent again")),
        }
    }
}

/// Daemon running as a child process.
pub(crate) struct DaemonRun {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    pub(crate) address: SocketAddr,
    begun: Instant,
}

impl DaemonRun {
    /// Starts the daemon, with `starter` before its command line. If the daemon ends before it
    /// listens, returns its exit status and its output.
    pub(crate) fn start(
        starter: &[String],
        stores: &Stores,
    ) -> Result<DaemonRun, (ExitStatus, Vec<String>)> {
        let mut command = own_test(starter, "program::serves");
        command.env("TEST_SPOOL", &stores.spool);
        command.env("TEST_CONFIGURATION", stores.configuration());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let begun = Instant::now();
        let mut child = command.spawn().expect("a program");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut said = Vec::new();
        loop {
            let mut line = String::new();
            if output.read_line(&mut line).unwrap_or(0) == 0 {
                return Err((child.wait().expect("its end"), said));
            }
            let Some((_, what)) = line.trim_end().split_once(MARK) else { continue };
            match what.strip_prefix("listening ") {
                Some(address) => {
                    let (address, input) =
                        (address.parse().expect("an address"), child.stdin.take());
                    return Ok(DaemonRun { child, input, output, address, begun });
                }
                None => said.push(what.to_owned()),
            }
        }
    }

    pub(crate) fn client(&self) -> Client {
        Client::connect(self.address, ClientOptions::default()).expect("a connection")
    }

    /// Returns the time since the process was started.
    pub(crate) fn age(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Waits until all messages have arrived in both stores, or the daemon has ended. Returns the
    /// time taken, or an error if delivery takes longer than `patience`.
    pub(crate) fn wait_for_delivery(
        &mut self,
        sent: &SentMessages,
        stores: &Stores,
        patience: Duration,
    ) -> Result<Duration, String> {
        let begun = Instant::now();
        while !stores.have_all(sent) && self.child.try_wait().expect("a child").is_none() {
            if begun.elapsed() > patience {
                let details = self.client().status_details();
                return Err(format!("not all has come after {patience:?}: {details:?}"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(begun.elapsed())
    }

    /// Ends the daemon by closing its standard input, and returns its exit status.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        // Drains the output, so that the daemon does not block on a full pipe.
        let _ = self.output.read_to_string(&mut String::new());
        self.child.wait().expect("its end")
    }
}
