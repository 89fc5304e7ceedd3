//! Test rig: a log that a test drives step by step, and an oracle that states its required
//! contents.

use super::oracle::Oracle;
use crate::batch::{Batch, Payload};
use crate::log::Log;
use crate::reader::Reader;
use crate::testing::{Random, SimulatedDisk};
use crate::{AtLimit, Item, Options, Refusal};
use std::sync::Arc;

pub(super) struct Rig {
    pub(super) disk: SimulatedDisk,
    pub(super) oracle: Oracle,
    pub(super) log: Option<Log>,
    pub(super) random: Random,
    next: u64,
    options: Options,
    follower: Option<Reader>,
}

pub(super) fn options() -> Options {
    Options {
        segment_bytes: 4096,
        total_bytes_max: 1 << 20,
        at_limit: AtLimit::Refuse,
        waiting_bytes_max: 64 << 10,
        payload_bytes_max: 2048,
        quarantine_bytes_max: 64 << 10,
        ..Options::default()
    }
}

impl Rig {
    pub(super) fn new(seed: u64) -> Rig {
        Rig {
            disk: SimulatedDisk::new(seed),
            oracle: Oracle::default(),
            log: None,
            random: Random::new(!seed),
            next: 0,
            options: options(),
            follower: None,
        }
    }

    /// Opens the log if it is not open. Fails if the disk fails, or if the next sequence number
    /// does not follow all promised records.
    pub(super) fn open(&mut self) -> Result<(), String> {
        if self.log.is_none() {
            let opened = Log::open(Arc::new(self.disk.clone()), self.options.clone());
            let (log, recovery) = opened.map_err(|error| error.to_string())?;
            if recovery.next_sequence < self.oracle.promised_end() {
                return Err(format!("goes on at {}", recovery.next_sequence));
            }
            self.next = recovery.next_sequence;
            // Records that an earlier follower returned must exist for this one too.
            self.follower = Some(Reader::follow(Arc::clone(log.shared()), self.oracle.trimmed));
            self.log = Some(log);
        }
        Ok(())
    }

    /// Appends a few random records. Returns a refusal if the disk causes one.
    pub(super) fn append(&mut self) -> Result<(), Refusal> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let count = 1 + self.random.below(5);
        let records: Vec<(u8, Vec<u8>)> = (0..count).map(|_| record(&mut self.random)).collect();
        let identity = log.shared().identity;
        let mut batch = Batch::reuse(Vec::new(), self.next);
        for (kind, bytes) in &records {
            batch.push(&Payload { kind: *kind, bytes }, identity);
        }
        self.oracle.submit(self.next, &records);
        let sequences = self.next..batch.next();
        self.next = batch.next();
        log.write(&batch)?;
        self.oracle.acknowledge(sequences);
        Ok(())
    }

    /// Reads and checks all available records with the following reader. Fails also if the reader
    /// ends before the last promised record.
    pub(super) fn follow(&mut self) -> Result<(), String> {
        let Some(follower) = &mut self.follower else { return Ok(()) };
        while let Some(item) = follower.next().map_err(|error| error.to_string())? {
            match item {
                Item::Record(record) => self.oracle.observe(&record)?,
                Item::Damage(damage) if damage.may_be_torn => {}
                Item::Missing(range) if range.end <= self.oracle.trimmed => {}
                Item::Damage(damage) => return Err(format!("follower: {damage:?}")),
                Item::Missing(range) => return Err(format!("follower: gone {range:?}")),
            }
        }
        match follower.position() >= self.oracle.promised_end() {
            true => Ok(()),
            false => Err(format!("follower stops at {}", follower.position())),
        }
    }

    /// Trims the journal up to a random sequence number.
    pub(super) fn trim(&mut self) {
        let Some(log) = &self.log else { return };
        let before = self.random.below(self.oracle.promised_end() + 1);
        self.oracle.trimmed = self.oracle.trimmed.max(before);
        let _ = log.shared().trim_before(before);
    }

    /// Closes the log cleanly, unless the disk fails.
    pub(super) fn close(&mut self) {
        self.follower = None;
        if let Some(log) = self.log.take() {
            let _ = log.close();
        }
    }

    /// Drops the log without closing it, as if the process were killed while the machine keeps
    /// running.
    pub(super) fn kill(&mut self) {
        self.follower = None;
        self.log = None;
    }

    pub(super) fn cut_power(&mut self) {
        self.kill();
        self.disk.cut_power();
    }
}

/// Makes a record with random kind and contents. In some records most of the bytes are zeros.
fn record(random: &mut Random) -> (u8, Vec<u8>) {
    let kind = random.number() as u8;
    let size = if random.once_in(8) { random.below(2000) } else { random.below(100) } as usize;
    let mut bytes: Vec<u8> = random.number().to_le_bytes().into_iter().cycle().take(size).collect();
    if random.once_in(10) {
        bytes.iter_mut().skip(8).for_each(|byte| *byte = 0);
    }
    (kind, bytes)
}
