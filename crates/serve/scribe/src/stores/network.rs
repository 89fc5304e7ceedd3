//! Another server of Scribe's. It gets one batch after the other, in the journal's order.

use super::{Failure, Store, Wrote};
use crate::messages::Batch;
use crate::plan::NetworkPlan;
use blkkin_scribe::{Client, ClientError, ClientOptions, ResultCode};

/// From this size on, a server that has failed is asked first whether it would take some, as Scribe does.
const PROBE_BYTES: u64 = 4096;

pub(super) struct Network {
    plan: NetworkPlan,
    /// Of those that there are, the one that is next.
    turn: usize,
    client: Option<Client>,
    has_failed: bool,
    batch: blkkin_scribe::Batch,
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

    fn try_it(&mut self, is_large: bool) -> Result<(), Failure> {
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
}

impl Store for Network {
    fn write(&mut self, batch: &Batch) -> Result<Wrote, Failure> {
        self.batch.clear();
        batch.iter().for_each(|entry| self.batch.push(entry));
        let is_large = batch.payload_bytes > PROBE_BYTES;
        let mut done = self.try_it(is_large);
        for _ in 1..self.plan.servers.len() {
            if done.is_ok() {
                break;
            }
            done = self.try_it(is_large);
        }
        match done {
            Ok(()) => Ok(Wrote::sent(batch)),
            Err(_) if self.plan.ignores_errors => Ok(Wrote::lost(batch)),
            Err(failure) => Err(failure),
        }
    }
}
