//! Packets of one stream in order, found by their headers without decoding events.
//!
//! The files of a stream may be parts of a rotation, trace files that a tracer reuses as a ring, or
//! overlapping snapshots. Each file is scanned one packet ahead, so memory does not depend on the
//! length of the stream. Gaps in sequence numbers and increases of discard counters become losses.
//! The packets of a live trace have known ends, so that a damaged packet does not end the stream.

use crate::alignment::CorrectedScale;
use crate::error::{Problem, ProblemKind};
use crate::file::{FileId, StreamFile};
use crate::limits::STREAMS_MAX;
use crate::loss::{Loss, LossKind};
use crate::packet::{PacketKey, PacketRef, StreamId};
use crate::scan::{FileScan, ScanResult};
use crate::trace::{FilePart, Stream, TraceData};
use blkkin_ctf::decode::Packet;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// Source of one stream's packets, over all files of the stream, with the losses between packets.
#[derive(Debug)]
pub(crate) struct StreamPackets {
    trace: Arc<TraceData>,
    /// Files that are not opened yet. The file to open next is the last element.
    unopened: Vec<FilePart>,
    /// Open files, each with its next packet, which has not been returned yet.
    active: Vec<(FileScan, PacketRef)>,
    /// Files that may grow and have no known next packet; they are scanned again later.
    idle: Vec<FileScan>,
    /// Set if files may grow. An incomplete packet is then expected to be completed.
    growing: bool,
    /// Files that will have no further packets, although files may grow. The key of a file's first
    /// packet is needed, since the inode number of a deleted file may be reused.
    finished: HashSet<(FileId, PacketKey)>,
    last: Option<PacketRef>,
    /// Packet number that was assigned last.
    number: u64,
    /// Packet with an event that the metadata does not describe, and the problem that remains
    /// unless newer metadata appears.
    undescribed: Option<(PacketRef, Problem)>,
    /// Packet that is to be returned again: a formerly undescribed packet, now with newer
    /// metadata, or a packet that the last round has not read to its end.
    retry: Option<PacketRef>,
    pub(crate) problems: Vec<Problem>,
    /// Set once a packet had a UUID that differs from the metadata's.
    has_foreign_uuid: bool,
    /// Identity of this stream. Packets of other streams in the same files are skipped.
    stream_id: StreamId,
    /// Other streams that have packets in this stream's files, each with one such file.
    other_streams: HashMap<StreamId, Arc<StreamFile>>,
    stop: Option<StopCheck>,
}

/// Callback that returns true to stop a reading. It is called before each packet header is read.
#[derive(Clone)]
pub(crate) struct StopCheck(Arc<dyn Fn() -> bool + Send + Sync>);

impl StopCheck {
    pub(crate) fn new(stop: impl Fn() -> bool + Send + Sync + 'static) -> StopCheck {
        StopCheck(Arc::new(stop))
    }

    fn is_stopped(&self) -> bool {
        (self.0)()
    }
}

impl fmt::Debug for StopCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StopCheck")
    }
}

/// Reason why a file has no next packet.
enum FileEnd {
    /// The file may have further packets later, since it may grow or the reading was stopped.
    Temporary,
    /// No further packets are read from the file, because it is complete, was moved, or cannot be
    /// read, or because the reading of a finished trace was stopped.
    Final,
}

impl StreamPackets {
    pub(crate) fn new(trace: Arc<TraceData>, stream: &Stream) -> StreamPackets {
        let mut unopened = stream.files.to_vec();
        unopened.sort_by_key(|file| std::cmp::Reverse(file.first));
        StreamPackets {
            trace,
            unopened,
            active: Vec::new(),
            idle: Vec::new(),
            growing: false,
            finished: HashSet::new(),
            last: None,
            number: 0,
            undescribed: None,
            retry: None,
            problems: Vec::new(),
            has_foreign_uuid: false,
            stream_id: stream.id(),
            other_streams: HashMap::new(),
            stop: None,
        }
    }

    /// Declares that files may grow. [`next`](Self::next) may then return more packets even after
    /// it has returned `None`.
    pub(crate) fn growing(mut self) -> StreamPackets {
        self.growing = true;
        self
    }

    /// Sets a callback that ends the sequence of packets as soon as it returns true.
    pub(crate) fn stop_when(mut self, stop: Option<StopCheck>) -> StreamPackets {
        self.stop = stop;
        self
    }

    /// Defers a packet with a problem that newer metadata may resolve. The source returns no more
    /// packets. The source that [resumes](Self::resume_from) from it returns the packet again, with
    /// the first `events` events marked as delivered. Returns the problem if the packet cannot be
    /// deferred.
    pub(crate) fn defer_to_metadata(
        &mut self,
        packet: Option<&PacketRef>,
        events: u64,
        problem: Problem,
    ) -> Option<Problem> {
        match packet {
            Some(packet)
                if self.growing
                    // The producer of a live trace adds metadata first, so the packet is damaged.
                    && packet.file.live().is_none()
                    && matches!(problem.kind, ProblemKind::UnknownEventClass(_)) =>
            {
                let packet = PacketRef { delivered_events: events, ..packet.clone() };
                self.undescribed = Some((packet, problem));
                None
            }
            _ => Some(problem),
        }
    }

    /// Makes `packet`, which was returned last, the next packet again. If the packet has a mark,
    /// its events before the mark have been delivered.
    pub(crate) fn put_back(&mut self, packet: PacketRef) {
        self.retry = Some(packet);
    }

    /// Frees the memory of live packets that have been returned and were not put back.
    pub(crate) fn free_delivered(&self) {
        let undescribed = self.undescribed.as_ref().map(|(packet, _)| packet);
        let deferred = undescribed.into_iter().chain(&self.retry).map(|packet| packet.offset).min();
        let active = self.active.iter().map(|(scan, packet)| (scan, packet.offset));
        for (scan, next) in self.idle.iter().map(|scan| (scan, scan.offset)).chain(active) {
            if let Some(live) = scan.file.live() {
                live.free_before(deferred.map_or(next, |deferred| deferred.min(next)));
            }
        }
    }

    /// Returns the problem of the deferred packet, which remains if no newer metadata appears.
    pub(crate) fn undescribed(&self) -> Option<&Problem> {
        self.undescribed.as_ref().map(|(_, problem)| problem)
    }

    /// Returns the other streams that have packets in this stream's files, each with one such file.
    pub(crate) fn other_streams(&self) -> impl Iterator<Item = (StreamId, &StreamFile)> {
        self.other_streams.iter().map(|(identity, file)| (*identity, &**file))
    }

    /// Returns the packet number that was assigned last.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Makes `number` + 1 the number of the next packet.
    pub(crate) fn number_from(&mut self, number: u64) {
        self.number = number;
    }

    /// Returns true if there are files, all of which were deleted.
    pub(crate) fn are_deleted(&self) -> bool {
        let mut files = self.files().peekable();
        files.peek().is_some() && files.all(|file| file.is_deleted())
    }

    /// Returns the files that may have further packets.
    fn files(&self) -> impl Iterator<Item = &StreamFile> {
        let scans = self.idle.iter().chain(self.active.iter().map(|(scan, _)| scan));
        let unopened = self.unopened.iter().map(|unopened| &*unopened.file);
        scans.map(|scan| &*scan.file).chain(unopened)
    }

    /// Freezes the sizes of all files. Bytes that are appended later stay unread until the next
    /// call.
    pub(crate) fn freeze_sizes(&self) {
        self.files().for_each(StreamFile::freeze_size);
    }

    /// Continues after the packets of `before`, the source of the same stream before the traces
    /// were opened again.
    pub(crate) fn resume_from(&mut self, before: StreamPackets) {
        let StreamPackets {
            active,
            idle,
            mut finished,
            last,
            undescribed,
            retry,
            has_foreign_uuid,
            ..
        } = before;
        self.has_foreign_uuid = has_foreign_uuid;
        if let Some(packet) = undescribed.map(|(packet, _)| packet).or(retry) {
            self.retry = self.rescan(packet);
        }
        for scan in idle {
            let (offset, clock) = (scan.offset, scan.machine.clock);
            self.idle.push(scan.restart_at(&self.trace, offset, clock));
        }
        for (scan, packet) in active {
            self.idle.push(scan.restart_at(&self.trace, packet.offset, packet.clock_before));
        }
        // A file may have been renamed, and another file may have its old path.
        let started: HashSet<_> = self.idle.iter().filter_map(|scan| scan.file.id().ok()).collect();
        let mut found = HashSet::new();
        self.unopened.retain(|unopened| {
            let Ok(id) = unopened.file.id() else { return false };
            let is_finished = finished.contains(&(id, unopened.first));
            found.extend(is_finished.then_some((id, unopened.first)));
            !is_finished && !started.contains(&id)
        });
        finished.retain(|file| found.contains(file));
        (self.finished, self.last) = (finished, last);
    }

    /// Returns the next packet of the stream. `None` if the files have no further packet at
    /// present, or if the reading has been stopped or waits for newer metadata.
    pub(crate) fn next(&mut self) -> Option<PacketRef> {
        if self.stop.as_ref().is_some_and(StopCheck::is_stopped) || self.undescribed.is_some() {
            return None;
        }
        if let Some(packet) = self.retry.take() {
            return Some(packet);
        }
        self.poll_idle_files();
        loop {
            self.start_due_files();
            let index = (0..self.active.len()).min_by_key(|&index| self.active[index].1.key())?;
            let (scan, mut packet) = self.active.remove(index);
            let duplicates_before = scan.duplicates_before;
            self.advance_file(scan, index);
            // Files may overlap, so the same packet occurs more than once.
            if self.last.as_ref().is_some_and(|last| last.is_copy_of(&packet))
                || packet.key() < duplicates_before
            {
                continue;
            }
            self.number += 1;
            packet.number = self.number;
            if packet.missing_bytes > 0 {
                let kind = ProblemKind::Truncated { missing: packet.missing_bytes };
                let end = packet.offset + packet.size;
                self.problems.push(Problem::new(packet.file.path(), Some(end), kind));
            }
            if let Some(uuid) = packet.packet.foreign_uuid
                && !self.has_foreign_uuid
            {
                // Reported once for each stream.
                self.has_foreign_uuid = true;
                let kind = ProblemKind::ForeignPacket { uuid };
                self.problems.push(Problem::new(packet.file.path(), Some(packet.offset), kind));
            }
            let is_late = |last: &PacketRef| self.growing && packet.key() < last.key();
            if !self.last.as_ref().is_some_and(is_late) {
                packet.losses = self.losses_before(&packet);
                self.last = Some(packet.clone());
            }
            return Some(packet);
        }
    }

    /// Reads the header of a deferred packet again, with newer metadata.
    fn rescan(&mut self, packet: PacketRef) -> Option<PacketRef> {
        let scan = FileScan::new(&self.trace, packet.file.clone());
        let mut scan = scan.restart_at(&self.trace, packet.offset, packet.clock_before);
        let retry = self.scan_packet(&mut scan, true).ok()?;
        self.number += 1;
        let PacketRef { losses, mark, delivered_events, .. } = packet;
        Some(PacketRef { number: self.number, losses, mark, delivered_events, ..retry })
    }

    fn losses_before(&self, packet: &PacketRef) -> Vec<Loss> {
        let scale = self.trace.scale(packet.packet.stream);
        let before = self.last.as_ref().map(|last| &last.packet);
        losses(before, &packet.packet, scale)
    }

    fn poll_idle_files(&mut self) {
        for mut scan in std::mem::take(&mut self.idle) {
            // A tracer fills one file after the other: a packet in a later file proves that this
            // file is complete.
            let is_outrun = self
                .last
                .as_ref()
                .is_some_and(|last| !Arc::ptr_eq(&last.file, &scan.file) && scan.last < last.key());
            match self.scan_packet(&mut scan, !is_outrun) {
                Ok(packet) => self.active.push((scan, packet)),
                Err(FileEnd::Temporary) => self.idle.push(scan),
                Err(FileEnd::Final) => self.mark_finished(&scan),
            }
        }
    }

    /// Scans a file for its next packet. If there is one, inserts the file at position `index` of
    /// `active`; otherwise the file becomes idle or finished.
    fn advance_file(&mut self, mut scan: FileScan, index: usize) {
        match self.scan_packet(&mut scan, self.growing) {
            Ok(packet) => self.active.insert(index, (scan, packet)),
            Err(FileEnd::Temporary) => self.idle.push(scan),
            Err(FileEnd::Final) => self.mark_finished(&scan),
        }
    }

    fn start_due_files(&mut self) {
        while let Some(file) = self.unopened.last() {
            let due = self.active.iter().all(|(_, packet)| file.first <= packet.key());
            if !due {
                return;
            }
            let scan = FileScan::new(&self.trace, file.file.clone());
            let mut scan = scan.with_runs(file.runs.clone());
            (scan.first, scan.last) = (file.first, file.first);
            if let Some(last) = self.last.as_ref().filter(|_| self.growing) {
                scan.duplicates_before = last.key();
            }
            self.unopened.pop();
            let index = self.active.len();
            self.advance_file(scan, index);
        }
    }

    fn mark_finished(&mut self, scan: &FileScan) {
        if self.growing {
            self.finished.extend(scan.file.id().map(|id| (id, scan.first)));
        }
    }

    /// Returns the next packet of this stream in the file. If `growing` is set, returns only a
    /// whole packet.
    fn scan_packet(&mut self, scan: &mut FileScan, growing: bool) -> Result<PacketRef, FileEnd> {
        loop {
            if self.stop.as_ref().is_some_and(StopCheck::is_stopped) || !scan.seek_run(self.growing)
            {
                return Err(if self.growing { FileEnd::Temporary } else { FileEnd::Final });
            }
            let (offset, clock) = (scan.offset, scan.machine.clock);
            let is_live = scan.file.live().is_some();
            match scan.next(&self.trace) {
                Ok(ScanResult::End) if is_live => {
                    return Err(if self.growing { FileEnd::Temporary } else { FileEnd::Final });
                }
                Ok(ScanResult::Packet(packet)) if is_live => match self.check_live(&packet) {
                    Ok(()) => {
                        scan.last = packet.key();
                        return Ok(*packet);
                    }
                    Err(problem) => {
                        scan.machine.clock = clock;
                        self.problems.push(problem);
                    }
                },
                Err(problem) if is_live => {
                    self.problems.push(problem);
                    scan.machine.clock = clock;
                    if !scan.skip_damaged_packet() {
                        return Err(FileEnd::Temporary);
                    }
                }
                Ok(ScanResult::Packet(packet)) if growing && packet.missing_bytes > 0 => {
                    (scan.offset, scan.machine.clock) = (offset, clock);
                    return Err(FileEnd::Temporary);
                }
                Ok(ScanResult::End | ScanResult::TruncatedHeader(_)) if growing => {
                    return Err(FileEnd::Temporary);
                }
                Ok(ScanResult::Packet(_)) if growing && scan.has_unsized_packet => {
                    let message = "the file goes on, but its packets do not say their sizes";
                    let kind = ProblemKind::Data(message.into());
                    self.problems.push(Problem::new(scan.file.path(), Some(offset), kind));
                    return Err(FileEnd::Final);
                }
                Ok(ScanResult::Packet(packet)) => {
                    scan.has_unsized_packet = packet.packet.total_bits.is_none();
                    if self.belongs_to_stream(scan, &packet) {
                        scan.last = packet.key();
                        return Ok(*packet);
                    }
                    // A packet of another stream does not change this stream's clock.
                    scan.machine.clock = clock;
                    self.record_other_stream(scan, &packet);
                }
                Ok(ScanResult::End) => return Err(FileEnd::Final),
                // The file has been moved; the next listing finds it at its new path.
                Err(_) if self.growing && scan.offset == 0 && !scan.file.path().exists() => {
                    return Err(FileEnd::Final);
                }
                Ok(ScanResult::TruncatedHeader(problem)) | Err(problem) => {
                    self.problems.push(problem);
                    return Err(FileEnd::Final);
                }
            }
        }
    }
}

impl StreamPackets {
    /// Returns true if a packet belongs to this stream. Compares the class, and in a file with
    /// several streams also the stream id.
    fn belongs_to_stream(&self, scan: &FileScan, packet: &PacketRef) -> bool {
        match scan.runs {
            Some(_) => packet.stream_id() == self.stream_id,
            None => packet.packet.stream == self.stream_id.0,
        }
    }

    /// Returns a problem if a packet of a live trace was appended to another stream.
    fn check_live(&self, packet: &PacketRef) -> Result<(), Problem> {
        if packet.stream_id() == self.stream_id {
            return Ok(());
        }
        let kind = ProblemKind::Data("packet is of another stream than those before it".into());
        Err(Problem::new(packet.file.path(), Some(packet.offset), kind))
    }

    /// Records another stream whose packet was found in a file.
    fn record_other_stream(&mut self, scan: &FileScan, packet: &PacketRef) {
        let is_full = self.other_streams.len() >= STREAMS_MAX;
        if is_full || self.other_streams.contains_key(&packet.stream_id()) {
            return;
        }
        self.other_streams.insert(packet.stream_id(), packet.file.clone());
        if !self.growing && scan.runs.is_none() {
            // When the file was opened, all packets were of one class.
            let message = "the file has changed, and has packets of another stream class now";
            let kind = ProblemKind::Data(message.into());
            self.problems.push(Problem::new(packet.file.path(), Some(packet.offset), kind));
        }
    }
}

/// Returns the losses from the end of the packet `before` to the end of `packet`, according to
/// their counters. If `before` is absent or has no discard counter, the number of discarded events
/// is unknown unless the counter of `packet` is 0.
fn losses(before: Option<&Packet>, packet: &Packet, scale: Option<CorrectedScale>) -> Vec<Loss> {
    let mut losses = Vec::new();
    let time = |cycles: Option<u64>| Some((scale.as_ref()?.ns(cycles?), cycles?));
    if let Some(discarded) = packet.discarded {
        let count = match before.and_then(|before| before.discarded) {
            Some(before) => {
                let mask = u64::MAX >> (64 - packet.discarded_bits.clamp(1, 64));
                Some(discarded.wrapping_sub(before) & mask)
            }
            // The first packet's losses may have happened before the begin of the trace.
            None => (discarded == 0).then_some(0),
        };
        if count != Some(0) {
            let from = if count.is_some() { before.and_then(|b| b.end) } else { packet.begin };
            losses.push(Loss {
                kind: LossKind::Events,
                count,
                from: time(from),
                to: time(packet.end),
            });
        }
    }
    if let (Some(seq), Some(before)) = (packet.seq, before)
        && let Some(seq_before) = before.seq
    {
        // A smaller number than before is no loss: files may overlap, or the tracer was restarted.
        let count = seq.saturating_sub(seq_before);
        if count > 1 {
            losses.push(Loss {
                kind: LossKind::Packets,
                count: Some(count - 1),
                from: time(before.end),
                to: time(packet.begin),
            });
        }
    }
    losses
}
