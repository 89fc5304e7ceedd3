//! Removal of the oldest packets of a spool that were not sent, to make room for newer ones.

use crate::sent_positions::SentPositions;
use crate::spool::{SpoolStream, SpoolTrace, find_traces};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::path::PathBuf;
use std::sync::Arc;

/// Remover of a spool's oldest packets.
#[derive(Debug)]
pub struct Trimmer {
    root: PathBuf,
    sent: Arc<SentPositions>,
}

/// Packets that were dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Number of packets.
    pub packets: u64,
    /// Size of the packets in bytes.
    pub bytes: u64,
}

/// A stream of which packets may be dropped.
struct Candidate {
    stream: SpoolStream,
    trace: SpoolTrace,
    key: String,
    /// Number of packets at the stream's start that are not dropped.
    kept: u64,
}

impl Trimmer {
    /// Makes the trimmer of the spool `root`, which is sent by a delivery with these positions.
    pub fn new(root: PathBuf, sent: Arc<SentPositions>) -> Trimmer {
        Trimmer { root, sent }
    }

    /// Drops the oldest packets of all traces, at least `bytes` of them if there are so many that
    /// were not sent. The last packet of each stream stays, since its recorder continues from
    /// there, and so does the first one, so that readers see that packets after it are missing.
    /// Traces that cannot be read keep their packets.
    pub fn drop_oldest(&self, bytes: u64) -> Dropped {
        let mut dropped = Dropped::default();
        if !self.sent.lock().is_complete {
            return dropped;
        }
        let (mut candidates, mut oldest) = (Vec::new(), BinaryHeap::new());
        for directory in find_traces(&self.root, &mut |_| ()).traces {
            let Ok(Some(trace)) = SpoolTrace::open(&self.root, &directory) else { continue };
            let Ok((streams, _)) = trace.new_streams(|_| false) else { continue };
            for mut stream in streams {
                let key = trace.key(&stream.name);
                let kept = u64::from(stream.has_first_packet());
                stream.begin_at(self.sent.lock().of(&key).max(kept));
                let candidate = Candidate { stream, trace: trace.clone(), key, kept };
                oldest.extend(candidate.next().map(|next| Reverse((next, candidates.len()))));
                candidates.push(candidate);
            }
        }
        let mut chosen = 0;
        while chosen < bytes
            && let Some(Reverse((NextPacket { size, .. }, number))) = oldest.pop()
            && let Some(candidate) = candidates.get_mut(number)
        {
            chosen += size;
            if candidate.stream.skip_next().is_ok() {
                oldest.extend(candidate.next().map(|next| Reverse((next, number))));
            }
        }
        for Candidate { stream, trace, key, kept } in &candidates {
            let sent = self.sent.lock();
            // Packets that were sent meanwhile are not dropped.
            let (from, until) = (sent.of(key).max(*kept), stream.position());
            if let Ok((packets, bytes)) = stream.drop_between(from, until, &trace.directory) {
                dropped.packets += packets;
                dropped.bytes += bytes;
            }
        }
        dropped
    }
}

/// The next packet of a stream that may be dropped: its end in nanoseconds and its size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextPacket {
    end_ns: i128,
    size: u64,
}

impl Candidate {
    fn next(&self) -> Option<NextPacket> {
        let entry = self.stream.next_droppable().ok()??;
        let end_ns = self.trace.clock.map_or(0, |clock| clock.to_ns(entry.packet.end));
        Some(NextPacket { end_ns, size: entry.packet.packet_bits / 8 })
    }
}
