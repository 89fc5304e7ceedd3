//! Removal of the oldest packets of a spool that were not sent, to make room for newer ones.

use crate::sent_positions::{SentPackets, SentPositions};
use crate::spool::{SpoolStream, SpoolTrace, find_traces};
use blkkin_lttng::IndexEntry;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

/// Remover of a spool's oldest packets.
#[derive(Debug)]
pub struct Trimmer {
    root: PathBuf,
    sent: Arc<SentPositions>,
    /// Positions up to which packets of each stream were dropped, so that they are not looked at
    /// again.
    dropped: HashMap<String, u64>,
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
    /// Number of entries before which packets are dropped.
    until: u64,
}

impl Trimmer {
    /// Makes the trimmer of the spool `root`, which is sent by a delivery with these positions.
    pub fn new(root: PathBuf, sent: Arc<SentPositions>) -> Trimmer {
        Trimmer { root, sent, dropped: HashMap::new() }
    }

    /// Drops the oldest packets of all traces, at least `bytes` of them if there are so many that
    /// were not sent. The first packet of each stream stays, so that readers see that packets after
    /// it are missing, and so does the last one. If that is not enough, they are dropped, too, in
    /// traces that are no longer recorded: a recorder continues from the last packet. Traces that
    /// cannot be read keep their packets.
    pub fn drop_oldest(&mut self, bytes: u64) -> Dropped {
        let mut dropped = Dropped::default();
        if !self.sent.lock().is_complete {
            return dropped;
        }
        let mut candidates = self.candidates();
        let chosen = choose_oldest(&mut candidates, bytes);
        if chosen < bytes {
            choose_whole(&mut candidates, bytes - chosen);
        }
        for Candidate { stream, trace, key, kept, until } in &candidates {
            let sent = self.sent.lock();
            // Packets that were sent meanwhile are not dropped.
            let from = first_unsent(stream, &sent, key).max(*kept);
            if let Ok((packets, bytes)) = stream.drop_between(from, *until, &trace.directory) {
                dropped.packets += packets;
                dropped.bytes += bytes;
            }
        }
        let positions = candidates.into_iter().map(|one| (one.key, one.until));
        self.dropped = positions.collect();
        dropped
    }

    /// Returns the streams of all traces, each at its first packet that may be dropped.
    fn candidates(&self) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for directory in find_traces(&self.root, &mut |_| ()).traces {
            let Ok(Some(trace)) = SpoolTrace::open(&self.root, &directory) else { continue };
            let Ok((streams, _)) = trace.new_streams(|_| false) else { continue };
            for mut stream in streams {
                let key = trace.key(&stream.name);
                let kept = u64::from(stream.has_first_packet());
                let dropped = self.dropped.get(&key).copied().unwrap_or_default();
                // Another packet is there if the stream was cleared.
                let is_valid = dropped.checked_sub(1).is_some_and(|last| stream.is_removed(last));
                let dropped = if is_valid { dropped } else { 0 };
                let begin = first_unsent(&stream, &self.sent.lock(), &key).max(kept).max(dropped);
                stream.begin_at(begin);
                candidates.push(Candidate {
                    stream,
                    trace: trace.clone(),
                    key,
                    kept,
                    until: begin,
                });
            }
        }
        candidates
    }
}

/// Returns the position after the packets of a stream that were sent. After a position that is not
/// valid any more, because the stream was cleared, all packets are new.
fn first_unsent(stream: &SpoolStream, sent: &SentPackets, key: &str) -> u64 {
    let position = sent.of(key);
    let is_valid = matches!(stream.last_before(position), Ok(Some(_)));
    if is_valid { position.packets } else { 0 }
}

/// Chooses the oldest packets, up to the last one of each stream. Returns their size in bytes.
fn choose_oldest(candidates: &mut [Candidate], bytes: u64) -> u64 {
    let of_stream = |(at, one): (usize, &Candidate)| Some(Reverse((one.next()?, at)));
    let mut oldest: BinaryHeap<_> = candidates.iter().enumerate().filter_map(of_stream).collect();
    let mut chosen = 0;
    while chosen < bytes
        && let Some(Reverse((NextPacket { size, .. }, at))) = oldest.pop()
        && let Some(candidate) = candidates.get_mut(at)
    {
        chosen += size;
        if candidate.stream.skip_next().is_ok() {
            candidate.until = candidate.stream.position().packets;
            oldest.extend(candidate.next().map(|next| Reverse((next, at))));
        }
    }
    chosen
}

/// Chooses all packets of streams that are no longer recorded, the oldest streams first, until as
/// many bytes are chosen.
fn choose_whole(candidates: &mut [Candidate], bytes: u64) {
    let mut ended: Vec<(NextPacket, &mut Candidate)> = candidates
        .iter_mut()
        .filter(|one| !one.trace.is_recorded())
        .filter_map(|one| Some((one.last()?, one)))
        .collect();
    ended.sort_by_key(|(last, _)| *last);
    let mut chosen = 0;
    for (last, candidate) in ended {
        if chosen >= bytes {
            break;
        }
        chosen += last.size;
        candidate.kept = 0;
        candidate.until = candidate.stream.entries().unwrap_or(candidate.until);
    }
}

/// A packet that may be dropped: its end in nanoseconds and its size in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct NextPacket {
    end_ns: i128,
    size: u64,
}

impl Candidate {
    /// Returns the next packet, unless it is the stream's last one.
    fn next(&self) -> Option<NextPacket> {
        Some(self.packet(self.stream.next_before_last().ok()??))
    }

    /// Returns the stream's last packet.
    fn last(&self) -> Option<NextPacket> {
        Some(self.packet(self.stream.last_entry().ok()??))
    }

    fn packet(&self, entry: IndexEntry) -> NextPacket {
        let end_ns = self.trace.clock.map_or(0, |clock| clock.to_ns(entry.packet.end));
        NextPacket { end_ns, size: entry.packet.packet_bits / 8 }
    }
}
