//! Reader of the benches' own recordings. It decodes packets and events as far as is needed to
//! count and repeat them. Start at [`Recording::open`].
//!
//! Layout of a stream file (packets of LTTng-UST 2.13, little-endian):
//!
//! ```text
//! packet   magic 4 | uuid 16 | stream 4 | instance 8 | begin 8 @32 | end 8 @40 | content bits 8 @48
//!          | packet bits 8 @56 | sequence number 8 @64 | discarded 8 @72 | cpu 4 | events ... padding
//! event    id 2 | time 4 | payload 65                     id 0 .. 65534
//!          0xffff 2 | id 4 | time 8 | payload 65          after a pause
//! ```
//!
//! `benches/annotations.h` makes every payload 65 bytes long. [`Recording::open`] fails for any
//! other layout, so that a bench never measures unexpected data. [`discarded`] reads only packet
//! headers.

use crate::tools::at;
use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

const MAGIC: u32 = 0xC1FC_1FC1;
pub(super) const HEADER_SIZE: usize = 84;
pub(super) const TIMESTAMP_BEGIN: usize = 32;
pub(super) const TIMESTAMP_END: usize = 40;
pub(super) const CONTENT_BITS: usize = 48;
pub(super) const PACKET_BITS: usize = 56;
pub(super) const SEQUENCE_NUMBER: usize = 64;
const DISCARDED: usize = 72;

const ID_EXTENDED: u64 = 0xffff;
const SHORT_SIZE: usize = 6;
const EXTENDED_SIZE: usize = 14;
const EXTENDED_TIMESTAMP: usize = 6;
const PAYLOAD_SIZE: usize = 65;

/// A whole trace in memory, with its decoded packets.
pub(super) struct Recording {
    pub(super) metadata: Vec<u8>,
    pub(super) streams: Vec<Stream>,
}

/// Content of a stream's file, with its decoded packets.
pub(super) struct Stream {
    pub(super) file_name: String,
    pub(super) bytes: Vec<u8>,
    pub(super) packets: Vec<Packet>,
}

/// Position, header fields and event positions of a packet of a stream.
pub(super) struct Packet {
    /// Byte range of the packet in the stream's file.
    pub(super) range: Range<usize>,
    pub(super) begin: u64,
    pub(super) end: u64,
    pub(super) discarded: u64,
    pub(super) events: u64,
    /// End of the first event, in bytes from the packet's start; `None` if the packet has no
    /// events.
    pub(super) first_event_end: Option<usize>,
    /// Offsets of the 64-bit event times, in bytes from the packet's start.
    pub(super) extended: Vec<usize>,
}

impl Recording {
    /// Reads the trace whose `metadata` file is in `folder`.
    pub(super) fn open(folder: &Path) -> Result<Recording, String> {
        let mut streams = Vec::new();
        for path in stream_files(folder)? {
            let bytes = fs::read(&path).map_err(at(&path))?;
            let packets =
                read_packets(&bytes).map_err(|why| format!("{}: {why}", path.display()))?;
            let file_name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            streams.push(Stream { file_name, bytes, packets });
        }
        let metadata = folder.join("metadata");
        let metadata = fs::read(&metadata).map_err(at(&metadata))?;
        Ok(Recording { metadata, streams })
    }

    pub(super) fn packets(&self) -> impl Iterator<Item = &Packet> {
        self.streams.iter().flat_map(|stream| &stream.packets)
    }

    pub(super) fn events(&self) -> u64 {
        self.packets().map(|packet| packet.events).sum()
    }

    /// Returns the number of events that LTTng has dropped in all streams.
    pub(super) fn discarded(&self) -> u64 {
        let last = |stream: &Stream| stream.packets.last().map_or(0, |packet| packet.discarded);
        self.streams.iter().map(last).sum()
    }
}

/// Returns the number of dropped events in a trace, which may have events of any layout. LTTng and
/// BlkKin have the same packet headers, in which each CPU's drops are counted from the start of the
/// recording.
pub(super) fn discarded(folder: &Path) -> Result<u64, String> {
    let mut sum = 0;
    for path in stream_files(folder)? {
        let bytes = fs::read(&path).map_err(at(&path))?;
        sum += discarded_in_stream(&bytes)
            .ok_or_else(|| format!("{}: not packets of the expected layout", path.display()))?;
    }
    Ok(sum)
}

fn discarded_in_stream(mut bytes: &[u8]) -> Option<u64> {
    let mut discarded = 0;
    while !bytes.is_empty() {
        let (_, packet_size) = packet_sizes(bytes)?;
        discarded = number(bytes, DISCARDED, 8)?;
        bytes = bytes.get(packet_size..)?;
    }
    Some(discarded)
}

/// Returns the stream files of the trace whose `metadata` file is in `folder`, sorted by name.
fn stream_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(at(folder))? {
        let path = entry.map_err(at(folder))?.path();
        if path.is_file() && path.file_name().is_some_and(|name| name != "metadata") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

fn read_packets(bytes: &[u8]) -> Result<Vec<Packet>, String> {
    let mut packets = Vec::new();
    let mut offset = 0;
    while offset < bytes.len() {
        let packet = read_packet(bytes, offset)
            .ok_or_else(|| format!("not a packet of the expected layout at byte {offset}"))?;
        offset = packet.range.end;
        packets.push(packet);
    }
    Ok(packets)
}

/// Returns the sizes in bytes of a packet's content and of the whole packet. Returns `None` if the
/// packet's header has another layout, or the packet is incomplete.
pub(super) fn packet_sizes(bytes: &[u8]) -> Option<(usize, usize)> {
    let content_size = usize::try_from(number(bytes, CONTENT_BITS, 8)? / 8).ok()?;
    let packet_size = usize::try_from(number(bytes, PACKET_BITS, 8)? / 8).ok()?;
    let is_whole = number(bytes, 0, 4)? == u64::from(MAGIC)
        && (HEADER_SIZE..=packet_size).contains(&content_size)
        && packet_size <= bytes.len();
    is_whole.then_some((content_size, packet_size))
}

fn read_packet(bytes: &[u8], offset: usize) -> Option<Packet> {
    let bytes = bytes.get(offset..)?;
    let field = |at: usize, size: usize| number(bytes, at, size);
    let (content_size, packet_size) = packet_sizes(bytes)?;
    let mut packet = Packet {
        range: offset..offset.checked_add(packet_size)?,
        begin: field(TIMESTAMP_BEGIN, 8)?,
        end: field(TIMESTAMP_END, 8)?,
        discarded: field(DISCARDED, 8)?,
        events: 0,
        first_event_end: None,
        extended: Vec::new(),
    };
    let mut at = HEADER_SIZE;
    while at < content_size {
        if field(at, 2)? == ID_EXTENDED {
            packet.extended.push(at + EXTENDED_TIMESTAMP);
            at += EXTENDED_SIZE;
        } else {
            at += SHORT_SIZE;
        }
        at += PAYLOAD_SIZE;
        // The payload ends with a string, whose terminator is the last byte.
        if field(at - 1, 1)? != 0 {
            return None;
        }
        packet.events += 1;
        packet.first_event_end.get_or_insert(at);
    }
    (at == content_size).then_some(packet)
}

/// Decodes the little-endian number of `size` bytes at the position `at`; `None` beyond the end of
/// `bytes`.
fn number(bytes: &[u8], at: usize, size: usize) -> Option<u64> {
    let field = bytes.get(at..at.checked_add(size)?)?;
    Some(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Returns a packet with one event for each of `times`. Times from 2^32 on get the extended
    /// header.
    pub(crate) fn packet(begin: u64, end: u64, sequence_number: u64, times: &[u64]) -> Vec<u8> {
        let mut events = Vec::new();
        for &time in times {
            match u32::try_from(time) {
                Ok(time) => {
                    events.extend(0_u16.to_le_bytes());
                    events.extend(time.to_le_bytes());
                }
                Err(_) => {
                    events.extend(0xffff_u16.to_le_bytes());
                    events.extend(0_u32.to_le_bytes());
                    events.extend(time.to_le_bytes());
                }
            }
            events.extend([b'x'; PAYLOAD_SIZE - 1]);
            events.push(0);
        }
        packet_with([begin, end, sequence_number], &events)
    }

    /// Returns a packet whose events are these bytes.
    pub(crate) fn packet_of(events: &[u8]) -> Vec<u8> {
        packet_with([1, 2, 3], events)
    }

    fn packet_with([begin, end, sequence_number]: [u64; 3], events: &[u8]) -> Vec<u8> {
        let content = HEADER_SIZE + events.len();
        let size = content.next_multiple_of(128);
        let mut bytes = MAGIC.to_le_bytes().to_vec();
        bytes.resize(32, 0);
        for field in [begin, end, content as u64 * 8, size as u64 * 8, sequence_number, 3] {
            bytes.extend(field.to_le_bytes());
        }
        bytes.extend([0; 4]);
        bytes.extend(events);
        bytes.resize(size, 0);
        bytes
    }

    #[test]
    fn packets_are_read() {
        let mut bytes = packet(5, 9, 0, &[6, 7]);
        let first_size = bytes.len();
        bytes.extend(packet(10, 11, 1, &[]));
        bytes.extend(packet(12, 2 << 32, 2, &[13, 1 << 32]));
        let packets = read_packets(&bytes).expect("well-formed");
        let events: Vec<u64> = packets.iter().map(|packet| packet.events).collect();
        assert_eq!(events, [2, 0, 2]);
        assert_eq!(packets[0].range, 0..first_size);
        assert_eq!((packets[0].begin, packets[0].end, packets[0].discarded), (5, 9, 3));
        assert_eq!(packets[0].first_event_end, Some(84 + 71));
        assert_eq!(packets[1].first_event_end, None);
        assert_eq!(packets[2].extended, [84 + 71 + 6]);
    }

    #[test]
    fn drops_are_those_of_the_last_packet() {
        let mut bytes = packet(5, 9, 0, &[6, 7]);
        bytes.extend(packet(10, 11, 1, &[]));
        let last = bytes.len() - packet(10, 11, 1, &[]).len();
        bytes[last + DISCARDED] = 8;
        assert_eq!(discarded_in_stream(&bytes), Some(8));
        assert_eq!(discarded_in_stream(&bytes[..last]), Some(3));
        assert_eq!(discarded_in_stream(&[]), Some(0));
        bytes.pop();
        assert_eq!(discarded_in_stream(&bytes), None);
    }

    #[test]
    fn other_layouts_are_refused() {
        fn check(change: impl Fn(&mut Vec<u8>)) {
            let mut bytes = packet(5, 9, 0, &[6, 7]);
            change(&mut bytes);
            assert!(read_packets(&bytes).is_err());
        }
        check(|bytes| bytes[0] = 0);
        check(|bytes| bytes[CONTENT_BITS] ^= 8);
        check(|bytes| bytes[PACKET_BITS + 7] = 0xff);
        check(|bytes| bytes[84 + 70] = b'x');
        check(|bytes| bytes.truncate(100));
        check(|bytes| bytes.truncate(20));
    }
}
