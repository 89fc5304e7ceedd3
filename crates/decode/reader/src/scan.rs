//! Packet headers of one file, one after the other, without looking at events.

use crate::error::{Problem, ProblemKind};
use crate::file::{Handle, StreamFile};
use crate::packet::{NO_KEY, PacketKey, PacketRef};
use crate::trace::TraceData;
use blkkin_ctf::decode::{Machine, Stop, View};
use std::ops::Range;
use std::sync::Arc;

/// Bytes read to decode a packet's header and context at the first try.
const HEADER_READ: usize = 512;
/// No header is larger.
const HEADER_SIZE_MAX: usize = 1 << 20;

/// What a scan of the next packet's header gave.
pub(crate) enum Scan {
    Packet(Box<PacketRef>),
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
    handle: Handle,
    /// Knows the clock after the packet.
    pub(crate) machine: Machine,
    buffer: Vec<u8>,
    /// The first packet's place in the order.
    pub(crate) first: PacketKey,
    /// The last packet's.
    pub(crate) last: PacketKey,
    /// The last packet reaches as far as the file does.
    pub(crate) is_endless: bool,
    /// Packets before this place are known from another file.
    pub(crate) known_until: PacketKey,
    /// Where the stream's packets lie, if the file has packets of other streams too.
    pub(crate) runs: Option<Arc<[Range<u64>]>>,
    /// Index of the current run.
    run: usize,
}

impl FileScan {
    pub(crate) fn new(trace: &TraceData, file: Arc<StreamFile>) -> FileScan {
        FileScan {
            file,
            offset: 0,
            handle: Handle::default(),
            machine: trace.decoder.machine(),
            buffer: Vec::new(),
            first: NO_KEY,
            last: NO_KEY,
            is_endless: false,
            known_until: NO_KEY,
            runs: None,
            run: 0,
        }
    }

    /// The scan of one stream's packets in a file of several.
    pub(crate) fn within(self, runs: Option<Arc<[Range<u64>]>>) -> FileScan {
        FileScan { runs, run: 0, ..self }
    }

    /// Moves on to the next packet of the stream; `false` if the file has none. The last run of
    /// a file that is `growing` has no end.
    pub(crate) fn find_run(&mut self, growing: bool) -> bool {
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

    /// Goes on with newer metadata, at an offset where the clock stands so.
    pub(crate) fn renewed(self, trace: &TraceData, offset: u64, clock: u64) -> FileScan {
        let mut machine = trace.decoder.machine();
        machine.clock = clock;
        FileScan { offset, machine, ..self }
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
            let read = self.file.read(&mut self.handle, self.offset, &mut self.buffer)?;
            self.machine.clock = clock_before;
            match trace.decoder.packet(View::whole(&self.buffer[..read]), &mut self.machine) {
                Ok(packet) => break packet,
                Err(Stop::Short) if read == want && want < HEADER_SIZE_MAX => want *= 8,
                Err(Stop::Short) => {
                    return Ok(Scan::Cut(self.problem(0, ProblemKind::CutInHeader)));
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
            mark: None,
            known_events: 0,
        };
        self.offset += size;
        if let Some(end) = packet_ref.packet.end {
            self.machine.clock = end;
        }
        Ok(Scan::Packet(Box::new(packet_ref)))
    }

    fn problem(&self, at: u64, kind: ProblemKind) -> Problem {
        Problem::new(self.file.path(), Some(self.offset + at), kind)
    }
}
