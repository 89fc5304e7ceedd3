//! The packets of one stream, in order, without looking at events.
//!
//! A stream may be spread over several files: parts of a rotation, tracefiles reused in a ring,
//! overlapping snapshots. Only the packets' headers are read here, one packet ahead in each file,
//! so a stream of any length costs no memory. What the tracer lost shows between packets and is
//! noted here.

use crate::error::{Problem, ProblemKind};
use crate::file::{FileId, StreamFile};
use crate::limits::STREAMS_MAX;
use crate::loss::{Loss, LossKind};
use crate::packet::{PacketKey, PacketRef, StreamId};
use crate::scan::{FileScan, Scan};
use crate::trace::{FilePart, Stream, TraceData};
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::Packet;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

/// The packets of one stream over all its files, with what was lost between them.
#[derive(Debug)]
pub(crate) struct StreamPackets {
    trace: Arc<TraceData>,
    /// Files not yet begun, the next one last.
    waiting: Vec<FilePart>,
    /// Files that are being read, with the next packet of each.
    current: Vec<(FileScan, PacketRef)>,
    /// Files that may grow, and have no whole packet more at the moment.
    pausing: Vec<FileScan>,
    /// Whether files may grow: an incomplete packet is then one to come.
    growing: bool,
    /// Files that may grow, but will not be read any more. (A number is given to another file
    /// when the first one is deleted.)
    done: HashSet<(FileId, PacketKey)>,
    last: Option<PacketRef>,
    /// Of the last packet.
    number: u64,
    /// A packet of which some could not be read for want of metadata, and what that means if none
    /// comes.
    undescribed: Option<(PacketRef, Problem)>,
    /// The same, when there is new metadata.
    again: Option<PacketRef>,
    pub(crate) problems: Vec<Problem>,
    /// Whether a packet's UUID was not that of the metadata.
    is_foreign: bool,
    /// The stream; packets of others in its files are passed over.
    identity: StreamId,
    /// Other streams that growing files had packets of.
    strangers: HashMap<StreamId, Arc<StreamFile>>,
    stop: Option<StopCheck>,
}

/// Callback that tells whether to stop; polled before each packet header that is read.
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

/// Why a file gives no packet.
enum Pause {
    /// There may be one later.
    Later,
    /// There will be none.
    Over,
}

impl StreamPackets {
    pub(crate) fn new(trace: Arc<TraceData>, stream: &Stream) -> StreamPackets {
        let mut waiting = stream.files.to_vec();
        waiting.sort_by_key(|file| std::cmp::Reverse(file.first));
        StreamPackets {
            trace,
            waiting,
            current: Vec::new(),
            pausing: Vec::new(),
            growing: false,
            done: HashSet::new(),
            last: None,
            number: 0,
            undescribed: None,
            again: None,
            problems: Vec::new(),
            is_foreign: false,
            identity: stream.identity(),
            strangers: HashMap::new(),
            stop: None,
        }
    }

    /// The same packets, of files that may grow: after `None` there may be more.
    pub(crate) fn growing(mut self) -> StreamPackets {
        self.growing = true;
        self
    }

    /// The same packets, which end early when `stop` says so.
    pub(crate) fn stop_when(mut self, stop: Option<StopCheck>) -> StreamPackets {
        self.stop = stop;
        self
    }

    /// Keeps a packet for when there is more metadata, if that may be: then it goes on behind so
    /// many events, and nothing is read before that. Otherwise gives the problem back.
    pub(crate) fn wait_for_metadata(
        &mut self,
        packet: Option<&PacketRef>,
        events: u64,
        problem: Problem,
    ) -> Option<Problem> {
        match packet {
            Some(packet) if self.growing && matches!(problem.kind, ProblemKind::Undescribed(_)) => {
                let packet = PacketRef { known_events: events, ..packet.clone() };
                self.undescribed = Some((packet, problem));
                None
            }
            _ => Some(problem),
        }
    }

    /// What cannot be read if no metadata comes.
    pub(crate) fn undescribed(&self) -> Option<&Problem> {
        self.undescribed.as_ref().map(|(_, problem)| problem)
    }

    /// Other streams that the stream's files had packets of, each with a file of them.
    pub(crate) fn strangers(&self) -> impl Iterator<Item = (StreamId, &StreamFile)> {
        self.strangers.iter().map(|(identity, file)| (*identity, &**file))
    }

    /// Number of the last packet.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Counts packets from here.
    pub(crate) fn count_from(&mut self, number: u64) {
        self.number = number;
    }

    /// Lets only what there is now count as there, until this is called again.
    pub(crate) fn hold(&self) {
        let scans = self.pausing.iter().chain(self.current.iter().map(|(scan, _)| scan));
        let waiting = self.waiting.iter().map(|waiting| &waiting.file);
        for file in scans.map(|scan| &scan.file).chain(waiting) {
            file.hold();
        }
    }

    /// Goes on where `before`, which reads the same stream with older metadata, has come to.
    pub(crate) fn go_on_from(&mut self, before: StreamPackets) {
        let StreamPackets { current, pausing, mut done, last, undescribed, is_foreign, .. } =
            before;
        self.is_foreign = is_foreign;
        if let Some((packet, _)) = undescribed {
            self.again = self.read_again(&packet);
        }
        for scan in pausing {
            let (offset, clock) = (scan.offset, scan.machine.clock);
            self.pausing.push(scan.renewed(&self.trace, offset, clock));
        }
        for (scan, packet) in current {
            self.pausing.push(scan.renewed(&self.trace, packet.offset, packet.clock_before));
        }
        // A file may have another path by now, and its path may be that of another file.
        let begun: HashSet<_> =
            self.pausing.iter().filter_map(|scan| scan.file.id().ok()).collect();
        let mut is_done = HashSet::new();
        self.waiting.retain(|waiting| {
            let Ok(id) = waiting.file.id() else { return false };
            let is_over = done.contains(&(id, waiting.first));
            is_done.extend(is_over.then_some((id, waiting.first)));
            !is_over && !begun.contains(&id)
        });
        done.retain(|file| is_done.contains(file));
        (self.done, self.last) = (done, last);
    }

    /// The next packet, or `None` at the stream's end.
    pub(crate) fn next(&mut self) -> Option<PacketRef> {
        if self.stop.as_ref().is_some_and(StopCheck::is_stopped) || self.undescribed.is_some() {
            return None;
        }
        if let Some(packet) = self.again.take() {
            return Some(packet);
        }
        self.go_on_with_pausing_files();
        loop {
            self.start_due_files();
            let index =
                (0..self.current.len()).min_by_key(|&index| self.current[index].1.order())?;
            let (scan, mut packet) = self.current.remove(index);
            let known_until = scan.known_until;
            self.read_on(scan, index);
            // Files may be copies of one another.
            if self.last.as_ref().is_some_and(|last| last.same(&packet))
                || packet.order() < known_until
            {
                continue;
            }
            self.number += 1;
            packet.number = self.number;
            if packet.missing > 0 {
                let kind = ProblemKind::Cut { missing: packet.missing };
                let end = packet.offset + packet.size;
                self.problems.push(Problem::new(packet.file.path(), Some(end), kind));
            }
            if let Some(uuid) = packet.packet.foreign_uuid
                && !self.is_foreign
            {
                // One for the stream.
                self.is_foreign = true;
                let kind = ProblemKind::ForeignPacket { uuid };
                self.problems.push(Problem::new(packet.file.path(), Some(packet.offset), kind));
            }
            let is_late = |last: &PacketRef| self.growing && packet.order() < last.order();
            if !self.last.as_ref().is_some_and(is_late) {
                packet.losses = self.losses_before(&packet);
                self.last = Some(packet.clone());
            }
            return Some(packet);
        }
    }

    /// Reads a packet's header with newer metadata.
    fn read_again(&mut self, packet: &PacketRef) -> Option<PacketRef> {
        let scan = FileScan::new(&self.trace, packet.file.clone());
        let mut scan = scan.renewed(&self.trace, packet.offset, packet.clock_before);
        let again = self.scan(&mut scan, true).ok()?;
        self.number += 1;
        Some(PacketRef { number: self.number, known_events: packet.known_events, ..again })
    }

    fn losses_before(&self, packet: &PacketRef) -> Vec<Loss> {
        let scale = self.trace.scale(packet.packet.stream);
        let before = self.last.as_ref().map(|last| &last.packet);
        losses(before, &packet.packet, scale)
    }

    fn go_on_with_pausing_files(&mut self) {
        for mut scan in std::mem::take(&mut self.pausing) {
            // A tracer fills one file after the other: a later one's packet was the proof that
            // this one is complete.
            let is_outrun = self.last.as_ref().is_some_and(|last| {
                !Arc::ptr_eq(&last.file, &scan.file) && scan.last < last.order()
            });
            match self.scan(&mut scan, !is_outrun) {
                Ok(packet) => self.current.push((scan, packet)),
                Err(Pause::Later) => self.pausing.push(scan),
                Err(Pause::Over) => self.give_up(&scan),
            }
        }
    }

    /// Reads on in a file of which a packet was taken, which is due again at `index`.
    fn read_on(&mut self, mut scan: FileScan, index: usize) {
        match self.scan(&mut scan, self.growing) {
            Ok(packet) => self.current.insert(index, (scan, packet)),
            Err(Pause::Later) => self.pausing.push(scan),
            Err(Pause::Over) => self.give_up(&scan),
        }
    }

    fn start_due_files(&mut self) {
        while let Some(file) = self.waiting.last() {
            let due = self.current.iter().all(|(_, packet)| file.first <= packet.order());
            if !due {
                return;
            }
            let scan = FileScan::new(&self.trace, file.file.clone());
            let mut scan = scan.within(file.runs.clone());
            (scan.first, scan.last) = (file.first, file.first);
            if let Some(last) = self.last.as_ref().filter(|_| self.growing) {
                scan.known_until = last.order();
            }
            self.waiting.pop();
            let index = self.current.len();
            self.read_on(scan, index);
        }
    }

    fn give_up(&mut self, scan: &FileScan) {
        if self.growing {
            self.done.extend(scan.file.id().map(|id| (id, scan.first)));
        }
    }

    /// The file's next packet; if the file is `growing`, only a whole one.
    fn scan(&mut self, scan: &mut FileScan, growing: bool) -> Result<PacketRef, Pause> {
        loop {
            if self.stop.as_ref().is_some_and(StopCheck::is_stopped) || !scan.find_run(self.growing)
            {
                return Err(if self.growing { Pause::Later } else { Pause::Over });
            }
            let (offset, clock) = (scan.offset, scan.machine.clock);
            match scan.next(&self.trace) {
                Ok(Scan::Packet(packet)) if growing && packet.missing > 0 => {
                    (scan.offset, scan.machine.clock) = (offset, clock);
                    return Err(Pause::Later);
                }
                Ok(Scan::End | Scan::Cut(_)) if growing => return Err(Pause::Later),
                Ok(Scan::Packet(_)) if growing && scan.is_endless => {
                    let message = "the file goes on, but its packets do not say their sizes";
                    let kind = ProblemKind::Data(message.into());
                    self.problems.push(Problem::new(scan.file.path(), Some(offset), kind));
                    return Err(Pause::Over);
                }
                Ok(Scan::Packet(packet)) => {
                    scan.is_endless = packet.packet.total_bits.is_none();
                    if self.is_own(scan, &packet) {
                        scan.last = packet.order();
                        return Ok(*packet);
                    }
                    // The clock is that of another stream.
                    scan.machine.clock = clock;
                    self.note_stranger(scan, &packet);
                }
                Ok(Scan::End) => return Err(Pause::Over),
                // It has been moved, and will be found again.
                Err(_) if self.growing && scan.offset == 0 && !scan.file.path().exists() => {
                    return Err(Pause::Over);
                }
                Ok(Scan::Cut(problem)) | Err(problem) => {
                    self.problems.push(problem);
                    return Err(Pause::Over);
                }
            }
        }
    }
}

impl StreamPackets {
    /// Whether a packet of a file belongs to the stream. In a file of one stream the packets'
    /// class decides, in one of several their stream's id too.
    fn is_own(&self, scan: &FileScan, packet: &PacketRef) -> bool {
        match scan.runs {
            Some(_) => packet.identity() == self.identity,
            None => packet.packet.stream == self.identity.0,
        }
    }

    /// Remembers another stream that a file has packets of.
    fn note_stranger(&mut self, scan: &FileScan, packet: &PacketRef) {
        let is_full = self.strangers.len() >= STREAMS_MAX;
        if is_full || self.strangers.contains_key(&packet.identity()) {
            return;
        }
        self.strangers.insert(packet.identity(), packet.file.clone());
        if !self.growing && scan.runs.is_none() {
            // All packets were of one class when the file was opened.
            let message = "the file has changed, and has packets of another stream class now";
            let kind = ProblemKind::Data(message.into());
            self.problems.push(Problem::new(packet.file.path(), Some(packet.offset), kind));
        }
    }
}

/// What was lost between two packets of a stream.
fn losses(before: Option<&Packet>, packet: &Packet, scale: Option<TimeScale>) -> Vec<Loss> {
    let mut losses = Vec::new();
    let time = |cycles: Option<u64>| Some((scale?.ns(cycles?), cycles?));
    if let Some(discarded) = packet.discarded {
        let count = match before.and_then(|before| before.discarded) {
            Some(before) => {
                let mask = u64::MAX >> (64 - packet.discarded_bits.clamp(1, 64));
                Some(discarded.wrapping_sub(before) & mask)
            }
            // The first packet: there were some, but perhaps before what the trace covers.
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
        // A smaller number than before says nothing: copies of a trace, or a tracer that began anew.
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
