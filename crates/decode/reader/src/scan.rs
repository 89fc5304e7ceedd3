//! Scan of the packet headers in one file, without decoding events.

use crate::error::{Problem, ProblemKind};
use crate::file::{Handle, StreamFile};
use crate::packet::{NO_KEY, PacketKey, PacketRef};
use crate::trace::TraceData;
use blkkin_ctf::decode::{Machine, Stop, View};
use std::ops::Range;
use std::sync::Arc;

/// Number of bytes first read for a packet's header and context.
const HEADER_READ_SIZE: usize = 512;
/// Size in bytes below which a read is repeated with eight times the size if the header and context
/// are incomplete. The largest read has 2 MiB.
const HEADER_SIZE_MAX: usize = 1 << 20;

/// Result of scanning a file for its next packet.
pub(crate) enum ScanResult {
    Packet(Box<PacketRef>),
    /// The file ends at a packet boundary.
    End,
    /// The file ends within the packet's header or context, or the two exceed the largest read.
    TruncatedHeader(Problem),
}

/// Scanner for the packet headers of one file.
#[derive(Debug)]
pub(crate) struct FileScan {
    pub(crate) file: Arc<StreamFile>,
    pub(crate) offset: u64,
    handle: Handle,
    /// State of the decoder. Its clock has the end that the stream's last packet declares, or else
    /// the begin.
    pub(crate) machine: Machine,
    buffer: Vec<u8>,
    /// Key of the stream's first packet in the file.
    pub(crate) first: PacketKey,
    /// Key of the stream's last packet that was scanned in the file so far.
    pub(crate) last: PacketKey,
    /// Set if the last packet declares no size, so that it extends to the end of the file.
    pub(crate) has_unsized_packet: bool,
    /// Upper bound for keys of duplicates: packets with a smaller key are copies from another file.
    pub(crate) duplicates_before: PacketKey,
    /// Byte ranges of the stream's packets; `None` if the file has no packets of other streams.
    pub(crate) runs: Option<Arc<[Range<u64>]>>,
    /// Index in `runs` of the current byte range.
    run: usize,
}

impl FileScan {
    pub(crate) fn new(trace: &TraceData, file: Arc<StreamFile>) -> FileScan {
        FileScan {
            offset: file.start(),
            file,
            handle: Handle::default(),
            machine: trace.decoder.machine(),
            buffer: Vec::new(),
            first: NO_KEY,
            last: NO_KEY,
            has_unsized_packet: false,
            duplicates_before: NO_KEY,
            runs: None,
            run: 0,
        }
    }

    /// Limits the scan to the byte ranges of one stream; `None` means the whole file.
    pub(crate) fn with_runs(self, runs: Option<Arc<[Range<u64>]>>) -> FileScan {
        FileScan { runs, run: 0, ..self }
    }

    /// Moves to the next byte range that contains packets of the stream, if the current one is
    /// finished. Returns false if the file has no further range. In a `growing` file the last range
    /// has no end.
    pub(crate) fn seek_run(&mut self, growing: bool) -> bool {
        let Some(runs) = &self.runs else { return true };
        while let Some(run) = runs.get(self.run) {
            let is_last = self.run + 1 == runs.len();
            if self.offset < run.end || growing && is_last {
                self.offset = self.offset.max(run.start);
                return true;
            }
            self.run += 1;
        }
        false
    }

    /// Restarts the scan with newer metadata at byte `offset` of the file, with `clock` as clock
    /// value.
    pub(crate) fn restart_at(self, trace: &TraceData, offset: u64, clock: u64) -> FileScan {
        let mut machine = trace.decoder.machine();
        machine.clock = clock;
        FileScan { offset, machine, ..self }
    }

    /// Scans the file for its next packet.
    pub(crate) fn next(&mut self, trace: &TraceData) -> Result<ScanResult, Problem> {
        let remaining = self.file.packet_limit(self.offset)?.saturating_sub(self.offset);
        if remaining == 0 {
            return Ok(ScanResult::End);
        }
        let clock_before = self.machine.clock;
        let mut wanted_size = HEADER_READ_SIZE;
        let packet = loop {
            self.buffer.resize(wanted_size, 0);
            let mut read = self.file.read(&mut self.handle, self.offset, &mut self.buffer)?;
            if self.file.live().is_some() {
                // The next packet of a live trace is no part of this one, whatever this one claims.
                read = usize::try_from(remaining).map_or(read, |remaining| read.min(remaining));
            }
            self.machine.clock = clock_before;
            match trace.decoder.packet(View::whole(&self.buffer[..read]), &mut self.machine) {
                Ok(packet) => break packet,
                Err(Stop::Incomplete) if read == wanted_size && wanted_size < HEADER_SIZE_MAX => {
                    wanted_size *= 8
                }
                Err(Stop::Incomplete) if self.file.live().is_some() => {
                    let kind = ProblemKind::Data("packet ends within its header".into());
                    return Err(self.problem(0, kind));
                }
                Err(Stop::Incomplete) => {
                    return Ok(ScanResult::TruncatedHeader(
                        self.problem(0, ProblemKind::TruncatedHeader),
                    ));
                }
                Err(Stop::Invalid(error)) => {
                    let kind = ProblemKind::Data(error.to_string());
                    return Err(self.problem(error.at_bits / 8, kind));
                }
            }
        };
        let declared = packet.total_bits.map(|bits| bits / 8);
        let size = declared.map_or(remaining, |size| size.min(remaining));
        if size == 0 {
            let kind = ProblemKind::Data("packet claims a size of 0".into());
            return Err(self.problem(0, kind));
        }
        let scale = trace.scale(packet.stream);
        let ns = |cycles: Option<u64>| Some(scale.as_ref()?.ns(cycles?));
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
            missing_bytes: declared.map_or(0, |declared| declared - size),
            packet,
            mark: None,
            delivered_events: 0,
        };
        self.offset += size;
        if let Some(end) = packet_ref.packet.end {
            self.machine.clock = end;
        }
        Ok(ScanResult::Packet(Box::new(packet_ref)))
    }

    /// Moves to the end of a damaged packet. Returns false if the end is unknown, as in a file on
    /// disk.
    pub(crate) fn skip_damaged_packet(&mut self) -> bool {
        let end = self.file.live().and_then(|live| live.packet_limit(self.offset));
        let Some(end) = end.filter(|end| *end > self.offset) else { return false };
        self.offset = end;
        true
    }

    fn problem(&self, at: u64, kind: ProblemKind) -> Problem {
        Problem::new(self.file.path(), Some(self.offset + at), kind)
    }
}
