//! Fuzzes the reader of a ring: the reader survives any memory, and the packets it returns are
//! consistent.
//!
//! The first byte selects the mode and the position at which the rings start. Then follow steps: a
//! byte selects whether the step changes a word of the memory (offset in 2 bytes, value in 8) or
//! reads a ring.
#![no_main]

use blkkin_ring::{Cells, Clock, Mode, Reader, Shape, TakeOutcome, packet};
use blkkin_sys::SharedMemory;
use libfuzzer_sys::fuzz_target;

/// A clock that stands still, later than all valid times.
const NOW: Clock = Clock::Test(1 << 40);

fuzz_target!(|input: &[u8]| {
    let Some((&first, mut steps)) = input.split_first() else { return };
    let mode = if first % 2 == 0 { Mode::Discard } else { Mode::Overwrite };
    let start = if first & 2 == 0 { 0 } else { 0u64.wrapping_sub(32768) };
    let shape = Shape { mode, uuid: [7; 16], stream: 1, start, ..Shape::default() };
    let (file, cells) = Cells::create(c"fuzz", &shape).expect("shared memory");
    let theirs = SharedMemory::map(std::os::fd::AsFd::as_fd(&file)).expect("shared memory");
    let mut readers = [0, 1].map(|ring| Reader::new(&shape, ring, NOW));
    while let Some((&step, rest)) = steps.split_first() {
        steps = rest;
        if step & 3 != 0 {
            let Some((change, rest)) = steps.split_at_checked(10) else { return };
            steps = rest;
            // Words are counted from the second page, which begins with the controls; the first
            // page is the set header, which only the agent writes.
            let word = u16::from_le_bytes([change[0], change[1]]) as usize;
            let at = 4096 + 8 * word;
            if at < theirs.size() {
                let value = u64::from_le_bytes(change[2..].try_into().expect("8 bytes"));
                theirs.word(at).store(value, std::sync::atomic::Ordering::Relaxed);
            }
            continue;
        }
        let ring = usize::from(step >> 2 & 1);
        let mut bytes = Vec::new();
        if let TakeOutcome::Packet(taken) =
            readers[ring].take(&cells, &shape, step & 8 != 0, &mut bytes)
        {
            assert!(bytes.len() <= shape.subbuffer_size);
            assert_eq!(taken.header.content_size, bytes.len() as u64);
            let header = taken.header;
            assert!(header.first_time <= header.last_time && header.last_time <= 1 << 40);
            assert_eq!((taken.header.uuid, taken.header.cpu), (shape.uuid, ring as u32));
            let header = bytes[..packet::SIZE].try_into().expect("a header");
            assert_eq!(packet::Header::from_bytes(&header), Some(taken.header));
        } else {
            assert!(bytes.is_empty());
        }
    }
    // A later agent continues with the current contents, from the positions in the memory.
    for ring in 0..2 {
        let left = cells.reader_state(&shape, ring);
        let mut reader = Reader::resume(&shape, ring, NOW, left, None);
        let mut bytes = Vec::new();
        while let TakeOutcome::Packet(_) | TakeOutcome::Overwritten(_) =
            reader.take(&cells, &shape, true, &mut bytes)
        {
            assert!(bytes.len() <= 2 * shape.ring_size());
        }
        reader.finish(&cells, &shape, &mut bytes);
    }
});
