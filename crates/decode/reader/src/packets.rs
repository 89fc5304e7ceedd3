//! The packets of one stream, in order, without looking at events.
//!
//! A stream may be spread over several files: parts of a rotation, tracefiles reused in a ring,
//! overlapping snapshots. Only the packets' headers are read here, one packet ahead in each file,
//! so a stream of any length costs no memory. What the tracer lost shows between packets and is
//! noted here.

use crate::error::{Problem, ProblemKind};
use crate::file::StreamFile;
use crate::loss::{Loss, LossKind};
use crate::trace::TraceData;
use blkkin_ctf::clock::TimeScale;
use blkkin_ctf::decode::{Machine, Packet, Stop, View};
use std::path::Path;
use std::sync::Arc;

/// Bytes read to decode a packet's header and context at the first try.
const HEADER_READ: usize = 512;
/// No header is larger.
const HEADER_SIZE_MAX: usize = 1 << 20;

/// A packet and where it lies.
#[derive(Clone, Debug)]
pub(crate) struct PacketRef {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) offset: u64,
    /// From 1, in the order of the stream.
    pub(crate) number: u64,
    /// Bytes of content that the file holds, the last one perhaps in part.
    pub(crate) content_bits: u64,
    /// Bytes in all that the file holds.
    pub(crate) size: u64,
    pub(crate) packet: Packet,
    pub(crate) begin_ns: Option<i64>,
    pub(crate) end_ns: Option<i64>,
    /// The stream's clock before the packet.
    pub(crate) clock_before: u64,
    /// What was lost between the packet before and this one (or in it).
    pub(crate) losses: Vec<Loss>,
    /// Bytes that are missing at the packet's end.
    pub(crate) missing: u64,
}

/// A packet's place, for people.
#[derive(Clone, Copy, Debug)]
pub struct PacketPlace<'p> {
    /// The stream file.
    pub path: &'p Path,
    /// Byte offset of the packet.
    pub offset: u64,
    /// Its size in bytes.
    pub size: u64,
    /// What its header and context say.
    pub packet: &'p Packet,
}

impl PacketRef {
    pub(crate) fn place(&self) -> PacketPlace<'_> {
        let PacketRef { file, offset, size, packet, .. } = self;
        PacketPlace { path: file.path(), offset: *offset, size: *size, packet }
    }

    /// Whether a packet read from another file is the same one.
    fn same(&self, other: &PacketRef) -> bool {
        let identity = |packet: &PacketRef| {
            (packet.packet.begin, packet.packet.end, packet.packet.seq, packet.content_bits)
        };
        self.packet.begin.is_some()
            && self.packet.seq.is_some()
            && identity(self) == identity(other)
    }
}

/// What a scan of the next packet's header gave.
pub(crate) enum Scan {
    Packet(PacketRef),
    /// The file ends here, at a packet's boundary.
    End,
    /// The file ends within the packet's header.
    Cut(Problem),
}

/// Reads packet headers of one file, one after the other.
#[derive(Debug)]
pub(crate) struct FileScan {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) offset: u64,
    machine: Machine,
    buffer: Vec<u8>,
}

impl FileScan {
    pub(crate) fn new(trace: &TraceData, file: Arc<StreamFile>) -> FileScan {
        FileScan { file, offset: 0, machine: trace.decoder.machine(), buffer: Vec::new() }
    }

    /// The next packet.
    pub(crate) fn next(&mut self, trace: &TraceData) -> Result<Scan, Problem> {
        let file_size = self.file.size()?;
        let left = file_size.saturating_sub(self.offset);
        if left == 0 {
            return Ok(Scan::End);
        }
        let clock_before = self.machine.clock;
        let mut want = HEADER_READ;
        let packet = loop {
            self.buffer.resize(want, 0);
            let read = self.file.read(self.offset, &mut self.buffer)?;
            self.machine.clock = clock_before;
            match trace.decoder.packet(View::whole(&self.buffer[..read]), &mut self.machine) {
                Ok(packet) => break packet,
                Err(Stop::Short) if read == want && want < HEADER_SIZE_MAX => want *= 8,
                Err(Stop::Short) => {
                    let kind = ProblemKind::Data("file ends within a packet's header".into());
                    return Ok(Scan::Cut(self.problem(0, kind)));
                }
                Err(Stop::Bad(error)) => {
                    let kind = ProblemKind::Data(error.to_string());
                    return Err(self.problem(error.at_bits / 8, kind));
                }
            }
        };
        let declared = packet.total_bits.map(|bits| bits / 8);
        let size = declared.map_or(left, |size| size.min(left));
        if size == 0 {
            let kind = ProblemKind::Data("packet claims a size of 0".into());
            return Err(self.problem(0, kind));
        }
        let scale = trace.scale(packet.stream);
        let ns = |cycles: Option<u64>| Some(scale?.ns(cycles?));
        let packet_ref = PacketRef {
            file: self.file.clone(),
            offset: self.offset,
            number: 0,
            content_bits: packet.content_bits.unwrap_or(u64::MAX).min(size.saturating_mul(8)),
            size,
            begin_ns: ns(packet.begin),
            end_ns: ns(packet.end),
            clock_before,
            losses: Vec::new(),
            missing: declared.map_or(0, |declared| declared - size),
            packet,
        };
        self.offset += size;
        if let Some(end) = packet_ref.packet.end {
            self.machine.clock = end;
        }
        Ok(Scan::Packet(packet_ref))
    }

    fn problem(&self, at: u64, kind: ProblemKind) -> Problem {
        Problem::new(self.file.path(), Some(self.offset + at), kind)
    }
}

/// The packets of one stream over all its files, with what was lost between them.
#[derive(Debug)]
pub(crate) struct StreamPackets {
    trace: Arc<TraceData>,
    /// Files not yet begun, the next one last.
    waiting: Vec<WaitingFile>,
    /// Files that are being read, with the next packet of each.
    current: Vec<(FileScan, PacketRef)>,
    /// Files that may grow, and have no whole packet more at the moment.
    pausing: Vec<FileScan>,
    /// Whether files may grow: an incomplete packet is then one to come.
    growing: bool,
    last: Option<PacketRef>,
    pub(crate) problems: Vec<Problem>,
    /// Only packets of this stream instance; others in the same file belong to other streams.
    only: Option<(usize, Option<u64>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct WaitingFile {
    pub(crate) file: Arc<StreamFile>,
    /// Time and number of the first packet.
    pub(crate) first: (Option<u64>, Option<u64>),
}

impl StreamPackets {
    pub(crate) fn new(
        trace: Arc<TraceData>,
        files: &[WaitingFile],
        only: Option<(usize, Option<u64>)>,
    ) -> StreamPackets {
        let mut waiting = files.to_vec();
        waiting.sort_by_key(|file| std::cmp::Reverse(file.first));
        StreamPackets {
            trace,
            waiting,
            current: Vec::new(),
            pausing: Vec::new(),
            growing: false,
            last: None,
            problems: Vec::new(),
            only,
        }
    }

    /// The same packets, of files that may grow: after `None` there may be more.
    pub(crate) fn growing(mut self) -> StreamPackets {
        self.growing = true;
        self
    }

    /// Goes on where `before`, which reads the same stream with older metadata, has come to.
    pub(crate) fn go_on_from(&mut self, before: StreamPackets) {
        let StreamPackets { current, pausing, waiting, last, .. } = before;
        let paused = pausing.into_iter().map(|scan| (scan.file, scan.offset, scan.machine.clock));
        let current = current
            .into_iter()
            .map(|(scan, packet)| (scan.file, packet.offset, packet.clock_before));
        let places: Vec<_> = paused.chain(current).collect();
        let is_new = |file: &StreamFile| {
            last.is_none() || waiting.iter().any(|other| other.file.path() == file.path())
        };
        self.waiting.retain(|waiting| {
            let path = waiting.file.path();
            let begun = places.iter().any(|(file, ..)| file.path() == path);
            !begun && (is_new(&waiting.file) || waiting.first > first_of(&last))
        });
        for (file, offset, clock) in places {
            let mut scan = FileScan::new(&self.trace, file);
            scan.offset = offset;
            scan.machine.clock = clock;
            self.pausing.push(scan);
        }
        self.last = last;
    }

    /// The next packet, or `None` at the stream's end.
    pub(crate) fn next(&mut self) -> Option<PacketRef> {
        for mut scan in std::mem::take(&mut self.pausing) {
            if let Some(packet) = self.scan(&mut scan) {
                self.current.push((scan, packet));
            } else {
                self.pausing.push(scan);
            }
        }
        loop {
            self.start_due_files();
            let order = |packet: &PacketRef| (packet.packet.begin, packet.packet.seq);
            let index =
                (0..self.current.len()).min_by_key(|&index| order(&self.current[index].1))?;
            let (mut scan, mut packet) = self.current.remove(index);
            match self.scan(&mut scan) {
                Some(following) => self.current.insert(index, (scan, following)),
                None if self.growing => self.pausing.push(scan),
                None => scan.file.close(),
            }
            if self.last.as_ref().is_some_and(|last| last.same(&packet)) {
                continue;
            }
            packet.losses = losses(
                self.last.as_ref().map(|last| &last.packet),
                &packet.packet,
                self.trace.scale(packet.packet.stream),
            );
            if packet.missing > 0 {
                let kind = ProblemKind::Cut { missing: packet.missing };
                let end = packet.offset + packet.size;
                self.problems.push(Problem::new(packet.file.path(), Some(end), kind));
            }
            packet.number = self.last.as_ref().map_or(1, |last| last.number + 1);
            self.last = Some(packet.clone());
            return Some(packet);
        }
    }

    fn start_due_files(&mut self) {
        while let Some(file) = self.waiting.last() {
            let due = self
                .current
                .iter()
                .all(|(_, packet)| file.first <= (packet.packet.begin, packet.packet.seq));
            if !due {
                return;
            }
            let mut scan = FileScan::new(&self.trace, file.file.clone());
            self.waiting.pop();
            if let Some(packet) = self.scan(&mut scan) {
                self.current.push((scan, packet));
            } else if self.growing {
                self.pausing.push(scan);
            }
        }
    }

    fn scan(&mut self, scan: &mut FileScan) -> Option<PacketRef> {
        loop {
            let (offset, clock) = (scan.offset, scan.machine.clock);
            match scan.next(&self.trace) {
                Ok(Scan::Packet(packet)) if self.growing && packet.missing > 0 => {
                    (scan.offset, scan.machine.clock) = (offset, clock);
                    return None;
                }
                Ok(Scan::Cut(_)) if self.growing => return None,
                Ok(Scan::Packet(packet)) => {
                    let is = (packet.packet.stream, packet.packet.instance);
                    if self.only.is_none_or(|only| only == is) {
                        return Some(packet);
                    }
                }
                Ok(Scan::End) => return None,
                Ok(Scan::Cut(problem)) | Err(problem) => {
                    self.problems.push(problem);
                    return None;
                }
            }
        }
    }
}

fn first_of(packet: &Option<PacketRef>) -> (Option<u64>, Option<u64>) {
    packet.as_ref().map_or((None, None), |packet| (packet.packet.begin, packet.packet.seq))
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
