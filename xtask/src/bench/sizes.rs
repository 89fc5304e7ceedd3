//! Traces of any size, made from one recording by repeating its packets with later times; and the
//! smallest trace, with one event. Start at [`repeat`].
//!
//! Each repetition is shifted by a multiple of 2^32 clock cycles. A short event time stays valid,
//! as it is the low 32 bits of the clock. Packet headers and 64-bit event times are patched, and
//! packets are renumbered.

use super::recording::{
    CONTENT_BITS, PACKET_BITS, Packet, Recording, SEQUENCE_NUMBER, TIMESTAMP_BEGIN, TIMESTAMP_END,
};
use crate::tools::at;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Unit of time shifts, in clock cycles; also the shortest shift.
const SHIFT_UNIT: u64 = 1 << 32;

/// Size of a written trace in events and bytes.
pub(super) struct TraceSize {
    pub(super) events: u64,
    pub(super) bytes: u64,
}

/// Writes a trace with at least `bytes_wanted` bytes of packets to `folder`, unless the folder
/// exists. Returns the size of the trace without its metadata.
pub(super) fn repeat(
    recording: &Recording,
    bytes_wanted: u64,
    folder: &Path,
) -> Result<TraceSize, String> {
    let plan = Plan::new(recording)?;
    let mut made = TraceSize { events: 0, bytes: 0 };
    let steps: Vec<Step<'_>> = plan
        .steps()
        .take_while(|step| {
            let is_wanted = made.bytes < bytes_wanted;
            if is_wanted {
                made.bytes += step.packet.range.len() as u64;
                made.events += step.packet.events;
            }
            is_wanted
        })
        .collect();
    if !folder.exists() {
        let partial = folder.with_extension("partial");
        write_steps(recording, &steps, &partial)
            .and_then(|()| fs::rename(&partial, folder))
            .map_err(at(folder))?;
    }
    Ok(made)
}

/// Writes a trace with one event: the first event in the first non-empty stream of a recording.
pub(super) fn one_event(recording: &Recording, folder: &Path) -> Result<(), String> {
    let (stream, packet, end) = recording
        .streams
        .iter()
        .find_map(|stream| {
            let packet = stream.packets.iter().find(|packet| packet.events > 0)?;
            Some((stream, packet, packet.first_event_end?))
        })
        .ok_or("the recording has no event")?;
    let mut bytes = stream.bytes[packet.range.start..packet.range.start + end].to_vec();
    set(&mut bytes, CONTENT_BITS, end as u64 * 8);
    set(&mut bytes, PACKET_BITS, end as u64 * 8);
    set(&mut bytes, SEQUENCE_NUMBER, 0);
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(folder.join("metadata"), &recording.metadata))
        .and_then(|()| fs::write(folder.join(&stream.file_name), bytes))
        .map_err(at(folder))
}

/// Packets of a recording in the order in which they begin, repeated endlessly.
struct Plan<'a> {
    /// Position of each packet: index of its stream, and index of the packet in the stream.
    order: Vec<(usize, usize)>,
    recording: &'a Recording,
    shift: u64,
}

/// A packet to write, with its new times and number.
struct Step<'a> {
    stream: usize,
    packet: &'a Packet,
    /// Shift that is added to all times of the packet, in clock cycles.
    shift: u64,
    sequence_number: u64,
}

impl Plan<'_> {
    fn new(recording: &Recording) -> Result<Plan<'_>, String> {
        let mut order: Vec<(usize, usize)> = recording
            .streams
            .iter()
            .enumerate()
            .flat_map(|(stream, one)| (0..one.packets.len()).map(move |packet| (stream, packet)))
            .collect();
        order.sort_by_key(|&(stream, packet)| recording.streams[stream].packets[packet].begin);
        let begin = recording.packets().map(|packet| packet.begin).min().ok_or("no packets")?;
        let end = recording.packets().map(|packet| packet.end).max().ok_or("no packets")?;
        let shift = end.saturating_sub(begin) / SHIFT_UNIT * SHIFT_UNIT + SHIFT_UNIT;
        Ok(Plan { order, recording, shift })
    }

    fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        (0_u64..).flat_map(move |repetition| {
            self.order.iter().map(move |&(stream, index)| {
                let packets = &self.recording.streams[stream].packets;
                Step {
                    stream,
                    packet: &packets[index],
                    shift: repetition * self.shift,
                    sequence_number: repetition * packets.len() as u64 + index as u64,
                }
            })
        })
    }
}

fn write_steps(recording: &Recording, steps: &[Step<'_>], folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    fs::write(folder.join("metadata"), &recording.metadata)?;
    let mut files: Vec<BufWriter<File>> = recording
        .streams
        .iter()
        .map(|stream| File::create(folder.join(&stream.file_name)).map(BufWriter::new))
        .collect::<io::Result<_>>()?;
    for step in steps {
        let bytes = &recording.streams[step.stream].bytes[step.packet.range.clone()];
        files[step.stream].write_all(&shifted(bytes, step))?;
    }
    files.iter_mut().try_for_each(Write::flush)
}

/// Returns the bytes of a packet with its times shifted and its sequence number replaced.
fn shifted(bytes: &[u8], step: &Step<'_>) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let times = [TIMESTAMP_BEGIN, TIMESTAMP_END];
    for &at in times.iter().chain(&step.packet.extended) {
        let time = get(&bytes, at);
        set(&mut bytes, at, time + step.shift);
    }
    set(&mut bytes, SEQUENCE_NUMBER, step.sequence_number);
    bytes
}

fn get(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

fn set(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::recording::tests::packet;
    use super::*;

    /// Makes a recording with two streams of two packets, whose times are from 100 to 2^32 + 150.
    /// Each repetition is shifted by 2 × 2^32.
    fn recording(folder: &Path) -> Recording {
        let long = SHIFT_UNIT + 20;
        let first =
            [packet(100, 200, 7, &[110, 120]), packet(200, long + 130, 8, &[long])].concat();
        let second = [packet(150, 160, 3, &[151]), packet(160, 170, 4, &[])].concat();
        fs::create_dir_all(folder).expect("a folder");
        fs::write(folder.join("metadata"), "/* CTF 1.8 */").expect("metadata");
        fs::write(folder.join("a_0"), first).expect("a stream");
        fs::write(folder.join("a_1"), second).expect("a stream");
        Recording::open(folder).expect("well-formed")
    }

    #[test]
    fn repetitions_go_on_in_time_and_number() {
        let folder = std::env::temp_dir().join(format!("blkkin-sizes-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let recording = recording(&folder.join("recorded"));
        let one = recording.packets().map(|packet| packet.range.len() as u64).sum::<u64>();
        let repeated = folder.join("repeated");
        let made = repeat(&recording, 2 * one, &repeated).expect("written");
        assert_eq!((made.events, made.bytes), (8, 2 * one));

        let again = Recording::open(&repeated).expect("still well-formed");
        let stream = &again.streams[0];
        let numbers: Vec<u64> = stream
            .packets
            .iter()
            .map(|packet| get(&stream.bytes, packet.range.start + SEQUENCE_NUMBER))
            .collect();
        assert_eq!(numbers, [0, 1, 2, 3]);
        let times: Vec<(u64, u64)> =
            stream.packets.iter().map(|packet| (packet.begin, packet.end)).collect();
        let (long, shift) = (SHIFT_UNIT + 150, 2 * SHIFT_UNIT);
        assert_eq!(
            times,
            [(100, 200), (200, long), (shift + 100, shift + 200), (shift + 200, shift + long)]
        );
        let last = &stream.packets[3];
        let extended = get(&stream.bytes, last.range.start + last.extended[0]);
        assert_eq!(extended, shift + SHIFT_UNIT + 20);

        // Packets are written in the order in which they begin, until the wanted size is reached.
        let made = repeat(&recording, 1, &folder.join("smallest")).expect("written");
        assert_eq!(made.events, 2);

        one_event(&recording, &folder.join("one")).expect("written");
        assert_eq!(Recording::open(&folder.join("one")).expect("well-formed").events(), 1);
        fs::remove_dir_all(&folder).expect("removed");
    }
}
