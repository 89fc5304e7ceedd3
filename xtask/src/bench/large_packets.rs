//! Synthetic trace with large packets: a few packets of 8 MiB in each of two streams, as in a
//! recording with large sub-buffers. Every second event has one integer. The other events have
//! several fields, as in LTTng's traces. Start at [`write()`].
//!
//! ```text
//! packet   magic 4 | uuid 16 | stream 4 | instance 8 | begin 8 | end 8 | content bits 8
//!          | packet bits 8 | sequence number 8 | discarded 8 | cpu 4 | events ... padding
//! event    id 2 | time 4 | integer 4                          id 0
//!          id 2 | time 4 | integer 8 | string | string | integer 4    id 1
//! ```

use crate::tools::at;
use std::fs;
use std::path::Path;

const PACKET_SIZE: usize = 8 << 20;
const STREAMS: u32 = 2;
const HEADER_SIZE: usize = 84;
/// Nanoseconds between two successive events of a stream.
const STEP_NS: u64 = 700;
const BEGIN_NS: u64 = 1_000_000;
const UUID: [u8; 16] = *b"blkkin.bench.ctf";

const METADATA: &str = r#"/* CTF 1.8 */
typealias integer { size = 8; align = 8; signed = false; } := uint8_t;
typealias integer { size = 16; align = 8; signed = false; } := uint16_t;
typealias integer { size = 32; align = 8; signed = false; } := uint32_t;
typealias integer { size = 64; align = 8; signed = false; } := uint64_t;
trace {
	major = 1;
	minor = 8;
	uuid = "626c6b6b-696e-2e62-656e-63682e637466";
	byte_order = le;
	packet.header := struct { uint32_t magic; uint8_t uuid[16]; uint32_t stream_id; uint64_t stream_instance_id; };
};
env { hostname = "bench"; };
clock { name = "monotonic"; freq = 1000000000; offset = 1700000000000000000; };
typealias integer { size = 32; align = 8; signed = false; map = clock.monotonic.value; } := uint32_clock_t;
typealias integer { size = 64; align = 8; signed = false; map = clock.monotonic.value; } := uint64_clock_t;
struct event_header_large {
	enum : uint16_t { compact = 0 ... 65534, extended = 65535 } id;
	variant <id> {
		struct { uint32_clock_t timestamp; } compact;
		struct { uint32_t id; uint64_clock_t timestamp; } extended;
	} v;
} align(8);
stream {
	id = 0;
	event.header := struct event_header_large;
	packet.context := struct {
		uint64_clock_t timestamp_begin;
		uint64_clock_t timestamp_end;
		uint64_t content_size;
		uint64_t packet_size;
		uint64_t packet_seq_num;
		uint64_t events_discarded;
		uint32_t cpu_id;
	};
};
event { name = "bench:one"; id = 0; stream_id = 0; loglevel = 13; fields := struct { uint32_t x; }; };
event { name = "bench:several"; id = 1; stream_id = 0; loglevel = 13;
	fields := struct { uint64_t _trace; string service; string what; uint32_t size; };
};
"#;

/// Size of a written synthetic trace, in events.
pub(super) struct EventCount {
    pub(super) events: u64,
}

/// Writes a trace with `packets` packets in each stream to `folder`, unless the folder exists.
/// Returns the size in both cases.
pub(super) fn write(packets: u64, folder: &Path) -> Result<EventCount, String> {
    let streams: Vec<(Vec<u8>, u64)> = (0..STREAMS).map(|cpu| stream(cpu, packets)).collect();
    let made = EventCount { events: streams.iter().map(|(_, events)| events).sum() };
    if folder.exists() {
        return Ok(made);
    }
    let partial = folder.with_extension("partial");
    let write = || {
        fs::create_dir_all(&partial)?;
        fs::write(partial.join("metadata"), METADATA)?;
        for (cpu, (bytes, _)) in streams.iter().enumerate() {
            fs::write(partial.join(format!("channel0_{cpu}")), bytes)?;
        }
        fs::rename(&partial, folder)
    };
    write().map_err(at(folder))?;
    Ok(made)
}

/// Returns the bytes of a stream with `packets` packets, and the number of events in them.
fn stream(cpu: u32, packets: u64) -> (Vec<u8>, u64) {
    let mut bytes = Vec::with_capacity(packets as usize * PACKET_SIZE);
    let mut number = 0;
    let time = |number: u64| BEGIN_NS + u64::from(cpu) * 300 + number * STEP_NS;
    for sequence in 0..packets {
        let (start, first) = (bytes.len(), number);
        bytes.resize(start + HEADER_SIZE, 0);
        while bytes.len() - start < PACKET_SIZE - 128 {
            let clock = time(number) as u32;
            bytes.extend((number as u16 % 2).to_le_bytes());
            bytes.extend(clock.to_le_bytes());
            if number.is_multiple_of(2) {
                bytes.extend((number as u32).to_le_bytes());
            } else {
                bytes.extend((number << 20).to_le_bytes());
                bytes.extend(b"osd.12\0handle op, queued for the journal\0");
                bytes.extend((number as u32 % 65536).to_le_bytes());
            }
            number += 1;
        }
        let content = (bytes.len() - start) as u64;
        bytes.resize(start + PACKET_SIZE, 0);
        let mut header = 0xC1FC_1FC1_u32.to_le_bytes().to_vec();
        header.extend(UUID);
        header.extend(0_u32.to_le_bytes());
        let (begin, end) = (time(first), time(number - 1));
        let size = PACKET_SIZE as u64;
        for value in [u64::from(cpu), begin, end, content * 8, size * 8, sequence, 0] {
            header.extend(value.to_le_bytes());
        }
        header.extend(cpu.to_le_bytes());
        bytes[start..start + HEADER_SIZE].copy_from_slice(&header);
    }
    (bytes, number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_large_and_half_of_the_events_small() {
        let (bytes, events) = stream(1, 2);
        assert_eq!(bytes.len(), 2 * PACKET_SIZE);
        assert!((400_000..500_000).contains(&events), "{events}");
        for packet in bytes.chunks(PACKET_SIZE) {
            assert_eq!(packet[..4], 0xC1FC_1FC1_u32.to_le_bytes());
        }
    }
}
