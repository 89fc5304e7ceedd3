//! Sends messages to a server in batches. Retries each batch until the server accepts it or a time
//! limit (`patience`) expires. Start at [`Sender::push`].

use crate::backoff::Backoff;
use crate::batch::Batch;
use crate::client::{Client, ClientError, ClientOptions};
use crate::codes::ResultCode;
use crate::entries::Entry;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

/// Timeouts, batch size and retry delays of a [`Sender`].
#[derive(Clone, Debug)]
pub struct SenderOptions {
    /// Timeouts and limits of each connection.
    pub client: ClientOptions,
    /// Frame size at which a batch is sent, in bytes.
    pub batch_bytes: usize,
    /// Maximum size of a message with its category, in bytes; larger messages are dropped.
    pub message_bytes_max: usize,
    /// Time after which a batch is abandoned if all attempts have failed.
    pub patience: Duration,
    /// Maximum delay after the first failure; doubled by each further failure.
    pub retry_first: Duration,
    /// Maximum delay between two attempts.
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

/// Counters of a [`Sender`] since it was created.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCounts {
    /// Messages accepted by the server.
    pub messages: u64,
    /// Bytes of the accepted messages, including categories.
    pub bytes: u64,
    /// Accepted batches.
    pub batches: u64,
    /// Messages dropped because of their size.
    pub too_large: u64,
    /// Number of `TRY_LATER` results.
    pub tries_later: u64,
    /// Number of attempts that failed with an error, mostly of the connection. Their messages may
    /// have been delivered twice.
    pub broken: u64,
}

/// A batch that could not be delivered.
#[derive(Debug)]
pub struct DeliveryError {
    /// Number of messages in the batch. The server may have accepted them nevertheless.
    pub messages: u64,
    /// Error of the last attempt.
    pub last: String,
}

impl fmt::Display for DeliveryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.last)
    }
}

impl std::error::Error for DeliveryError {}

/// Sender of messages to a server, in order and in batches.
pub struct Sender<'s> {
    server: String,
    options: SenderOptions,
    client: Option<Client>,
    batch: Batch,
    backoff: Backoff,
    counts: SenderCounts,
    /// Stop condition: true if the sender should stop.
    stop: Box<dyn Fn() -> bool + Send + 's>,
}

/// Interval at which `stop` is polled during a delay.
const TICK: Duration = Duration::from_millis(20);

impl<'s> Sender<'s> {
    /// Creates a sender to `host:port` that stops retrying when `stop` returns true.
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

    /// Adds a message and sends the batch once it is large enough. Drops a message that is too
    /// large. After an error, no more messages should be added.
    pub fn push(&mut self, entry: Entry<'_>) -> Result<(), DeliveryError> {
        if entry.category.len() + entry.message.len() > self.options.message_bytes_max {
            self.counts.too_large += 1;
            return Ok(());
        }
        self.batch.push(entry);
        if self.batch.frame_bytes() >= self.options.batch_bytes { self.flush() } else { Ok(()) }
    }

    /// Sends the current batch. Retries until the server accepts it, the time limit
    /// `SenderOptions::patience` expires, or `stop` returns true.
    pub fn flush(&mut self) -> Result<(), DeliveryError> {
        let start = Instant::now();
        while !self.batch.is_empty() {
            let failed = match self.try_send() {
                Ok(ResultCode::Ok) => {
                    self.backoff.reset();
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
                return Err(DeliveryError { messages, last: failed });
            }
        }
        Ok(())
    }

    fn try_send(&mut self) -> Result<ResultCode, ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let client = Client::connect(self.server.as_str(), self.options.client.clone())?;
                self.client.insert(client)
            }
        };
        client.log(&mut self.batch)
    }

    /// Waits for the delay before the next attempt; returns false if the sender should stop.
    fn wait(&mut self) -> bool {
        let until = Instant::now() + self.backoff.next_delay();
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

    /// Returns the counters since the sender was created.
    pub fn counts(&self) -> SenderCounts {
        self.counts
    }

    /// Returns the number of messages in the current batch, which the server has not acknowledged.
    pub fn waiting(&self) -> u64 {
        self.batch.len() as u64
    }
}
