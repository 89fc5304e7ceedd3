//! State of a trace: its metadata as far as it was received, and the live trace that is read.

use super::producer_clocks::ProducerClocks;
use super::stream::BackOff;
use crate::error::Error;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::clock_offsets::Correction;
use blkkin_ctf::metadata::{self, METADATA_SIZE_MAX};
use blkkin_ctf::schema::Clock;
use blkkin_reader::{LiveSet, LiveTrace};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Trace of a session.
#[derive(Debug)]
pub(super) struct Trace {
    /// Name of the live trace, unique in its set.
    name: String,
    /// Id of the metadata stream, once it is listed.
    pub(super) metadata_stream: Option<u64>,
    /// Set if the relay has metadata that was not requested.
    pub(super) wants_metadata: bool,
    /// Set once all data streams have ended. The relay ends the session only when the end of the
    /// metadata was read, too.
    is_over: bool,
    /// Set once the relay has no more metadata to send.
    pub(super) has_all_metadata: bool,
    /// Time from which metadata is requested again.
    pub(super) ask_at: Duration,
    back_off: BackOff,
    /// All metadata. The bytes after `described` are not known to be complete declarations.
    metadata: Vec<u8>,
    described: usize,
    /// Conversion of times, by id of the stream class; `None` for a stream class without a clock.
    scales: BTreeMap<u64, Option<TimeScale>>,
    /// The first clock, which is corrected.
    clock: Option<Clock>,
    correction: Option<Arc<Correction>>,
    live: Option<LiveTrace>,
}

impl Trace {
    pub(super) fn new(name: String, now: Duration) -> Trace {
        Trace {
            name,
            metadata_stream: None,
            wants_metadata: true,
            is_over: false,
            has_all_metadata: false,
            ask_at: now,
            back_off: BackOff::default(),
            metadata: Vec::new(),
            described: 0,
            scales: BTreeMap::new(),
            clock: None,
            correction: None,
            live: None,
        }
    }

    /// Returns the live trace, which exists once there is metadata.
    pub(super) fn live(&self) -> Option<&LiveTrace> {
        self.live.as_ref()
    }

    /// Returns the metadata stream if it is to be read now.
    pub(super) fn due_metadata(&self, now: Duration) -> Option<u64> {
        let is_due = self.wants_metadata && !self.has_all_metadata && self.ask_at <= now;
        self.metadata_stream.filter(|_| is_due)
    }

    /// Returns the time from which metadata is to be read again.
    pub(super) fn metadata_due_at(&self) -> Option<Duration> {
        let is_due = self.wants_metadata && !self.has_all_metadata;
        self.metadata_stream.filter(|_| is_due).map(|_| self.ask_at)
    }

    /// Records that all data streams have ended.
    pub(super) fn end(&mut self, now: Duration) {
        (self.is_over, self.wants_metadata, self.ask_at) = (true, true, now);
    }

    /// Converts a time of the stream class with this id to nanoseconds; `None` without a clock. If
    /// there is no such class, the trace's other clock is used, because LTTng's traces have one.
    pub(super) fn ns(&self, class: u64, cycles: u64) -> Option<i64> {
        let scale = match self.scales.get(&class) {
            Some(scale) => *scale,
            None => self.scales.values().flatten().next().copied(),
        };
        scale.map(|scale| self.correct(scale.ns(cycles)))
    }

    /// Corrects a recorded time.
    pub(super) fn correct(&self, ns: i64) -> i64 {
        self.correction.as_ref().map_or(ns, |correction| correction.correct(ns))
    }

    /// Corrects times from now on.
    pub(super) fn align(&mut self, clocks: &mut ProducerClocks) {
        self.correction = self.clock.as_ref().and_then(|clock| clocks.correction(clock));
        if let Some(live) = &self.live {
            live.set_correction(self.correction.clone());
        }
    }

    /// Adds metadata, which may end within a declaration.
    pub(super) fn add_metadata(&mut self, bytes: &[u8]) -> Result<(), Error> {
        if self.metadata.len().saturating_add(bytes.len()) > METADATA_SIZE_MAX {
            return Err(self.refuse(format!("it is larger than {} MiB", METADATA_SIZE_MAX >> 20)));
        }
        self.metadata.extend_from_slice(bytes);
        Ok(())
    }

    /// Uses the metadata added so far, which ends after a declaration. `is_last` is set if there
    /// will be no more. The live trace is added to `set` with the first metadata, and corrected
    /// by `clocks`.
    pub(super) fn use_metadata(
        &mut self,
        is_last: bool,
        now: Duration,
        set: &LiveSet,
        clocks: Option<&mut ProducerClocks>,
    ) -> Result<(), Error> {
        self.has_all_metadata |= is_last;
        if self.described == self.metadata.len() {
            // Without any metadata, the trace cannot be read yet.
            self.wants_metadata = self.live.is_none() || self.is_over;
            self.ask_at = now + self.back_off.next();
            return Ok(());
        }
        self.wants_metadata = self.is_over;
        let parsed = metadata::read(&self.metadata);
        let schema = parsed.map_err(|error| self.refuse(error.to_string()))?.schema;
        self.scales.clear();
        for class in &schema.streams {
            let clock = class.clock.and_then(|clock| schema.clocks.get(clock));
            let scale = clock.map(|clock| {
                let far = || self.refuse(format!("clock `{}` is too far from 1970", clock.name));
                TimeScale::checked(clock).ok_or_else(far)
            });
            self.scales.insert(class.id, scale.transpose()?);
        }
        self.clock = schema.clocks.into_iter().next();
        let added = self.metadata.get(self.described..).unwrap_or_default();
        match &self.live {
            Some(live) => live.append_metadata(added).map_err(Error::Storage)?,
            None => {
                let live = LiveTrace::new(&self.name).map_err(Error::Storage)?;
                // The client limits the memory of all traces together.
                live.set_size_max(u64::MAX);
                live.set_metadata(added.to_vec()).map_err(Error::Storage)?;
                set.add(live.clone());
                self.live = Some(live);
            }
        }
        if let Some(clocks) = clocks {
            self.align(clocks);
        }
        self.described = self.metadata.len();
        Ok(())
    }

    fn refuse(&self, reason: String) -> Error {
        Error::Metadata { trace: self.name.clone(), reason }
    }
}
