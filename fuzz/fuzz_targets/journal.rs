//! Fuzzes the reader of a journal. The reader survives any files and returns records in order.
//! Without forged data, it returns only records that were written, and the journal can be opened
//! and appended to again.
//!
//! The first byte selects whether the journal is appended to. Then follow changes of an intact
//! journal, of 8 bytes each: the kind (see [`Change`]), the segment, the offset in 2 bytes, and 4
//! bytes of parameters.
#![no_main]

use blkkin_journal::testing::SimulatedDisk;
use blkkin_journal::{Item, Journal, Options, Payload, Reader};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// Offset of the first record in a segment, in bytes.
const HEADER_BYTES: usize = 1024;

fn options() -> Options {
    Options { segment_bytes: 4096, payload_bytes_max: 512, ..Options::default() }
}

/// Files and records of the intact journal with which every run begins.
struct IntactJournal {
    files: Vec<(String, Vec<u8>)>,
    records: BTreeMap<u64, Vec<u8>>,
}

fn intact_journal() -> &'static IntactJournal {
    static SOUND: OnceLock<IntactJournal> = OnceLock::new();
    SOUND.get_or_init(|| {
        let disk = SimulatedDisk::new(1);
        let (journal, _) = Journal::open_on(Arc::new(disk.clone()), options()).expect("a journal");
        let mut records = BTreeMap::new();
        for sequence in 0..60u64 {
            let payload: Vec<u8> = (0..sequence * 31 % 200).map(|byte| byte as u8 | 1).collect();
            let record = Payload { kind: 1, bytes: &payload };
            journal.append(&[record]).and_then(|ticket| ticket.wait()).expect("a sound disk");
            records.insert(sequence, payload);
        }
        journal.close().expect("a sound disk");
        let file = |name: String| Some((name.clone(), disk.bytes(&name)?));
        IntactJournal { files: disk.names().into_iter().filter_map(file).collect(), records }
    })
}

/// A change that the fuzzer makes to a segment of the intact journal.
enum Change {
    Flip {
        at: usize,
        bits: u8,
    },
    Cut {
        at: usize,
    },
    Zeros {
        at: usize,
        size: usize,
    },
    Copy {
        at: usize,
        from: usize,
        size: usize,
    },
    Remove,
    /// Correction of the CRC of the segment header at this offset, or of the marker and header CRC
    /// of the record there.
    Forge {
        at: usize,
    },
}

impl Change {
    fn new(bytes: [u8; 8]) -> Change {
        let word = |at| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let (at, size) = (word(2) % 4096, 1 + word(6) % 600);
        match bytes[0] % 8 {
            0..=2 => Change::Flip { at, bits: bytes[4] },
            3 => Change::Cut { at },
            4 => Change::Zeros { at, size },
            5 => Change::Copy { at, from: word(4) % 4096, size },
            6 => Change::Remove,
            _ => Change::Forge { at },
        }
    }

    /// Returns true if the change can only damage data, not forge valid data.
    fn is_damage(&self) -> bool {
        !matches!(self, Change::Copy { .. } | Change::Forge { .. })
    }

    /// Returns true if the change damages at most the one record that it hits.
    fn is_flip_of_records(&self) -> bool {
        matches!(self, Change::Flip { at, .. } if *at >= HEADER_BYTES)
    }

    fn apply(&self, bytes: &mut Vec<u8>) {
        let within = |at: usize, size: usize| at.min(bytes.len())..(at + size).min(bytes.len());
        match *self {
            Change::Flip { at, bits } => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= bits;
                }
            }
            Change::Cut { at } => bytes.truncate(at),
            Change::Zeros { at, size } => {
                let range = within(at, size);
                bytes[range].fill(0);
            }
            Change::Copy { at, from, size } => {
                let from = within(from, size);
                let to = within(at, from.len());
                bytes.copy_within(from.start..from.start + to.len(), to.start);
            }
            Change::Remove => bytes.clear(),
            Change::Forge { at } => forge(bytes, at),
        }
    }
}

fn forge(bytes: &mut [u8], at: usize) {
    let sector = at / 512 * 512;
    if sector < HEADER_BYTES && bytes.len() >= sector + 512 {
        let crc = crc32c::crc32c(&bytes[sector..sector + 508]);
        bytes[sector + 508..sector + 512].copy_from_slice(&crc.to_le_bytes());
        return;
    }
    let at = at / 8 * 8;
    let Some(identity) = bytes.get(24..32).map(<[u8]>::to_vec) else { return };
    if let Some(record) = bytes.get_mut(at..at + 32) {
        record[..4].copy_from_slice(&identity[..4]);
        let crc = crc32c::crc32c_append(crc32c::crc32c(&identity), &record[..28]);
        record[28..].copy_from_slice(&crc.to_le_bytes());
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&first, changes)) = input.split_first() else { return };
    let sound = intact_journal();
    let mut files = sound.files.clone();
    let (mut is_damage, mut are_flips) = (true, true);
    let mut flips = 0;
    for change in changes.chunks_exact(8).take(32) {
        let (_, bytes) = &mut files[usize::from(change[1]) % sound.files.len()];
        let change = Change::new(change.try_into().expect("8 bytes"));
        is_damage &= change.is_damage();
        are_flips &= change.is_flip_of_records();
        flips += 1;
        change.apply(bytes);
    }
    let disk = SimulatedDisk::new(2);
    for (name, bytes) in files.into_iter().filter(|(_, bytes)| !bytes.is_empty()) {
        disk.set_bytes(&name, bytes);
    }
    let Some(records) = read(&disk, is_damage) else { return };
    // A flip damages one record at most.
    assert!(!are_flips || records.len() + flips >= sound.records.len());
    if first % 4 == 0 {
        write_again(&disk, is_damage, &records);
    }
});

/// Reads all records; returns `None` if the journal cannot be opened. If all changes are damage,
/// each record must be as written.
fn read(disk: &SimulatedDisk, is_damage: bool) -> Option<BTreeMap<u64, Vec<u8>>> {
    let Ok(mut reader) = Reader::open_on(Arc::new(disk.clone()), 0) else {
        // Only forged headers can prevent opening.
        assert!(!is_damage);
        return None;
    };
    let mut records = BTreeMap::new();
    let mut told: Range<u64> = 0..0;
    while let Some(item) = reader.next().expect("the disk does not fail") {
        let sequence = match item {
            Item::Record(record) => {
                if is_damage {
                    let written = intact_journal().records.get(&record.sequence).map(Vec::as_slice);
                    assert!(written == Some(record.payload) || record.payload == b"again");
                }
                records.insert(record.sequence, record.payload.to_vec());
                record.sequence
            }
            Item::Missing(range) => range.end - 1,
            Item::Damage(damage) => {
                assert!(damage.offset + damage.bytes <= 4096 + 32, "{damage:?}");
                continue;
            }
        };
        assert!(sequence >= told.end, "{sequence} comes after {}", told.end);
        told.end = sequence + 1;
    }
    Some(records)
}

/// Appends a record to a changed journal and checks that it is read back. If all changes are
/// damage, the journal must accept the record and lose no further records.
fn write_again(disk: &SimulatedDisk, is_damage: bool, before: &BTreeMap<u64, Vec<u8>>) {
    let Ok((journal, _)) = Journal::open_on(Arc::new(disk.clone()), options()) else {
        assert!(!is_damage);
        return;
    };
    let appended = journal.append(&[Payload { kind: 2, bytes: b"again" }]);
    let Ok(ticket) = appended.and_then(|ticket| ticket.wait().map(|()| ticket)) else {
        // The sequence numbers are exhausted, by forged headers.
        assert!(!is_damage);
        return;
    };
    drop(journal);
    let after = read(disk, is_damage).expect("it was opened");
    assert_eq!(after.get(&ticket.sequences().start).map(Vec::as_slice), Some(&b"again"[..]));
    if is_damage {
        assert!(before.keys().all(|sequence| after.contains_key(sequence)));
    }
}
