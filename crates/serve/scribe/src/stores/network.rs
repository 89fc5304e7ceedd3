//! Network store: forwards messages to another Scribe server, or to one of several, one call after
//! the other, in the journal's order.
//!
//! After a failure that closes the connection, such as a timeout, calls are smaller, down to 2 KiB
//! or one larger message, so that a slow line still delivers some messages. After successful calls
//! their size grows again. With `ignores_errors`, failures do not change the size.

use super::store::{Failure, Store, WriteCounts};
use crate::messages::Batch;
use crate::plan::NetworkPlan;
use blkkin_scribe::{Client, ClientError, ClientOptions, ResultCode};

/// Payload size of a call in bytes above which, after a failure, an empty call is sent first as a
/// probe, as in Scribe.
const PROBE_BYTES: usize = 4096;

/// Maximum of [`Network::call_bytes`]: 1 MiB.
const CALL_BYTES_MAX: usize = 1 << 20;
/// Minimum of [`Network::call_bytes`], to which failures reduce it: 2 KiB.
const CALL_BYTES_MIN: usize = 2 << 10;

pub(super) struct Network {
    plan: NetworkPlan,
    /// Index of the server in use, in the plan's list.
    turn: usize,
    client: Option<Client>,
    has_failed: bool,
    batch: blkkin_scribe::Batch,
    /// Size in bytes at which a call gets no further messages.
    call_bytes: usize,
    /// Id of the last partly sent batch, and the number of its messages that are acknowledged by a
    /// server, or lost because errors are ignored. `(u64::MAX, 0)` after a complete batch.
    done: (u64, u64),
}

impl Network {
    pub(super) fn new(plan: &NetworkPlan) -> Network {
        let [turn] = blkkin_sys::random_words::<1>().unwrap_or_default();
        Network {
            plan: plan.clone(),
            turn: turn as usize % plan.servers.len().max(1),
            client: None,
            has_failed: false,
            batch: blkkin_scribe::Batch::default(),
            call_bytes: CALL_BYTES_MAX,
            done: (u64::MAX, 0),
        }
    }

    fn server(&self) -> &str {
        self.plan.servers.get(self.turn).map_or("", String::as_str)
    }

    fn send(&mut self, is_large: bool) -> Result<ResultCode, ClientError> {
        let options = ClientOptions {
            connect_timeout: self.plan.timeout,
            timeout: self.plan.timeout,
            ..ClientOptions::default()
        };
        let client = match &mut self.client {
            Some(client) => client,
            None => {
                let server = self.plan.servers.get(self.turn).map_or("", String::as_str);
                self.client.insert(Client::connect(server, options)?)
            }
        };
        if self.has_failed && is_large && client.probe()? == ResultCode::TryLater {
            return Ok(ResultCode::TryLater);
        }
        client.log(&mut self.batch)
    }

    fn try_server(&mut self, is_large: bool) -> Result<(), Failure> {
        let why = match self.send(is_large) {
            Ok(ResultCode::Ok) => {
                self.has_failed = false;
                return Ok(());
            }
            Ok(ResultCode::TryLater) if self.plan.servers.len() == 1 => "try later".to_owned(),
            Ok(ResultCode::TryLater) => {
                self.client = None;
                "try later".to_owned()
            }
            Err(error) => {
                self.client = None;
                error.to_string()
            }
        };
        self.has_failed = true;
        let failure = Failure(format!("{}: {why}", self.server()));
        if self.client.is_none() {
            self.turn = (self.turn + 1) % self.plan.servers.len().max(1);
        }
        Err(failure)
    }

    /// Sends the current call's messages. On failure, tries each other server once.
    fn call(&mut self) -> Result<(), Failure> {
        let is_large = self.batch.payload_bytes() > PROBE_BYTES;
        let mut done = self.try_server(is_large);
        for _ in 1..self.plan.servers.len() {
            if done.is_ok() {
                break;
            }
            done = self.try_server(is_large);
        }
        done
    }
}

impl Store for Network {
    fn write(&mut self, batch: &Batch) -> Result<WriteCounts, Failure> {
        let mut done = if self.done.0 == batch.id { self.done.1 } else { 0 };
        let mut rest = batch.iter().skip(done as usize);
        let mut lost = WriteCounts::default();
        while done < batch.count {
            self.batch.clear();
            while self.batch.frame_bytes() < self.call_bytes
                && let Some(entry) = rest.next()
            {
                self.batch.push(entry);
            }
            match self.call() {
                Ok(()) => {
                    self.call_bytes = (self.call_bytes + self.call_bytes / 4).min(CALL_BYTES_MAX)
                }
                Err(_) if self.plan.ignores_errors => {
                    lost.lost += self.batch.len() as u64;
                    lost.bytes_lost += self.batch.payload_bytes() as u64;
                }
                Err(failure) => {
                    // If the only server answers `TRY_LATER`, the connection stays open: the size
                    // of the call was not the cause.
                    if self.client.is_none() {
                        self.call_bytes = (self.batch.frame_bytes() / 4).max(CALL_BYTES_MIN);
                    }
                    return Err(failure);
                }
            }
            // An encoding with fewer messages than its count must not cause an endless loop.
            done += (self.batch.len() as u64).max(1);
            self.done = (batch.id, done);
        }
        self.done = (u64::MAX, 0);
        Ok(WriteCounts { sent: batch.count - lost.lost.min(batch.count), ..lost })
    }

    fn progress(&self) -> u64 {
        self.done.1
    }
}
