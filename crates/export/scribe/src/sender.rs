//! Sends many messages to a server, in batches, each until the server has it. Start at [`Sender::push`].

use crate::backoff::Backoff;
use crate::batch::Batch;
use crate::client::{Client, ClientError, ClientOptions};
use crate::codes::ResultCode;
use crate::entries::Entry;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// How messages are sent.
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Of each connection.
    pub client: ClientOptions,
    /// A batch is sent when it has so many bytes.
    pub batch_bytes: usize,
    /// Messages with their categories that are larger are left out.
    pub message_bytes_max: usize,
    /// For how long a batch is tried.
    pub patience: Duration,
    /// How long to wait after the first failure.
    pub retry_first: Duration,
    /// And at most, after many.
    pub retry_longest: Duration,
}

impl Default for SenderOptions {
    fn default() -> SenderOptions {
        SenderOptions {
            client: ClientOptions::default(),
            batch_bytes: 512 << 10,
            message_bytes_max: 4 << 20,
            patience: Duration::from_secs(60),
            retry_first: Duration::from_millis(100),
            retry_longest: Duration::from_secs(10),
        }
    }
}

/// What became of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Messages that the server has.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Batches that they came in.
    pub batches: u64,
    /// Messages that were left out, because they were too large.
    pub too_large: u64,
    /// How often the server wanted to be asked later.
    pub tries_later: u64,
    /// How often there was no connection, or it broke. What was sent then may have come twice.
    pub broken: u64,
}

/// Why a batch was given up.
#[derive(Debug)]
pub struct GaveUp {
    /// How many messages it has. They may have come all the same.
    pub messages: u64,
    /// What the last try said.
    pub last: String,
}

impl fmt::Display for GaveUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.last)
    }
}

impl std::error::Error for GaveUp {}

/// Sends messages, in their order.
pub struct Sender<'s> {
    server: String,
    options: SenderOptions,
    client: Option<Client>,
    batch: Batch,
    backoff: Backoff,
    counts: SenderCounts,
    /// Whether somebody asks for the end.
    stop: Box<dyn Fn() -> bool + Send + 's>,
}

/// How often somebody may ask for the end while nothing is sent.
const TICK: Duration = Duration::from_millis(20);

impl<'s> Sender<'s> {
    /// One that sends to `host:port`, until `stop` says so.
    pub fn new(
        server: impl Into<String>,
        options: SenderOptions,
        stop: impl Fn() -> bool + Send + 's,
    ) -> Sender<'s> {
        Sender {
            server: server.into(),
            client: None,
            batch: Batch::new(options.client.is_strict),
            backoff: Backoff::new(options.retry_first, options.retry_longest),
            counts: SenderCounts::default(),
            stop: Box::new(stop),
            options,
        }
    }

    /// Adds a message, and sends what there is if that is enough. After an error nothing more should be sent.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<(), GaveUp> {
        if entry.category.len() + entry.message.len() > self.options.message_bytes_max {
            self.counts.too_large += 1;
            return Ok(());
        }
        self.batch.push(entry);
        if self.batch.frame_bytes() >= self.options.batch_bytes { self.flush() } else { Ok(()) }
    }

    /// Sends what there is.
    pub fn flush(&mut self) -> Result<(), GaveUp> {
        let start = Instant::now();
        while !self.batch.is_empty() {
            let failed = match self.try_it() {
                Ok(ResultCode::Ok) => {
                    self.backoff.succeeded();
                    self.counts.messages += self.batch.len() as u64;
                    self.counts.bytes += self.batch.payload_bytes() as u64;
                    self.counts.batches += 1;
                    self.batch.clear();
                    return Ok(());
                }
                Ok(ResultCode::TryLater) => {
                    self.counts.tries_later += 1;
                    "the server takes nothing now".to_owned()
                }
                Err(error) => {
                    self.counts.broken += 1;
                    self.client = None;
                    error.to_string()
                }
            };
            let is_over = start.elapsed() >= self.options.patience || !self.wait();
            if is_over {
                let messages = self.batch.len() as u64;
                return Err(GaveUp { messages, last: failed });
            }
        }
        Ok(())
    }

    fn try_it(&mut self) -> Result<ResultCode, ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = Client::connect(self.server.as_str(), self.options.client.clone())?;
                self.client.insert(client)
            }
        };
        client.log(&mut self.batch)
    }

    /// Waits for the next try; false if somebody asks for the end.
    fn wait(&mut self) -> bool {
        let until = Instant::now() + self.backoff.failed();
        loop {
            if (self.stop)() {
                return false;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return true;
            }
            thread::sleep(left.min(TICK));
        }
    }

    /// What became of messages so far.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Messages that wait to be sent.
    pub fn waiting(&self) -> u64 {
        self.batch.len() as u64
    }
}
