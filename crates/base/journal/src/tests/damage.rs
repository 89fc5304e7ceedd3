//! Tests that flip a bit in each byte of a journal, and that truncate each segment at each offset.
//! Only the records that the damage hits are lost. The damage is reported, or it hits the end of
//! the journal, which then counts as not closed.

use super::{figure, rig::options};
use crate::batch::{Batch, Payload};
use crate::injection::{self, Injection};
use crate::layout::{HEADER_BYTES, RECORD_HEADER_BYTES, RecordHeader, segment_name};
use crate::log::Log;
use crate::reader::{Item, Reader};
use crate::table::{Access, load};
use crate::testing::{Random, SimulatedDisk};
use crate::{Damage, Options};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Cleanly closed journal of about 64 KiB, with the location of each record.
struct Sample {
    disk: SimulatedDisk,
    records: BTreeMap<u64, Place>,
    /// Bytes of each segment, by segment number.
    segments: BTreeMap<u64, Vec<u8>>,
}

struct Place {
    segment: u64,
    bytes: Range<usize>,
    payload: Vec<u8>,
}

const SEGMENT_BYTES: u64 = 16 << 10;

impl Sample {
    fn new() -> Sample {
        let disk = SimulatedDisk::new(7);
        let options = Options { segment_bytes: SEGMENT_BYTES, ..options() };
        let (mut log, _) = Log::open(Arc::new(disk.clone()), options).unwrap();
        let mut random = Random::new(7);
        let mut next = 0;
        let bytes = |disk: &SimulatedDisk| -> usize {
            disk.names().iter().filter_map(|name| Some(disk.bytes(name)?.len())).sum()
        };
        while bytes(&disk) < 64 << 10 {
            let mut batch = Batch::reuse(Vec::new(), next);
            for _ in 0..1 + random.below(4) {
                let size = random.below(300) as usize;
                let payload: Vec<u8> = (0..size).map(|_| random.number() as u8).collect();
                batch.push(&Payload { kind: 1, bytes: &payload }, log.shared().identity);
            }
            next = batch.next();
            log.write(&batch).unwrap();
        }
        let identity = log.shared().identity;
        log.close().unwrap();
        let mut sample = Sample { disk, records: BTreeMap::new(), segments: BTreeMap::new() };
        for number in 1..=sample.disk.names().len() as u64 {
            let bytes = sample.disk.bytes(&segment_name(number)).unwrap();
            let mut offset = HEADER_BYTES as usize;
            while let Some(header) = RecordHeader::decode(&bytes[offset..], identity) {
                let whole = offset..offset + header.whole_bytes();
                if !header.is_end {
                    let payload = bytes[whole.clone()][header.payload()].to_vec();
                    let place = Place { segment: number, bytes: whole.clone(), payload };
                    sample.records.insert(header.sequence, place);
                }
                offset = whole.end;
                if offset + RECORD_HEADER_BYTES > bytes.len() {
                    break;
                }
            }
            assert_eq!(offset, bytes.len());
            sample.segments.insert(number, bytes);
        }
        assert_eq!(sample.records.len() as u64, next);
        assert!(sample.segments.len() >= 4);
        sample
    }

    /// Reads the journal with other bytes in one segment, and restores the segment. Returns what
    /// the reader found.
    fn read_with(&self, segment: u64, bytes: Vec<u8>) -> Result<Findings, String> {
        self.disk.set_bytes(&segment_name(segment), bytes);
        let told = self.read();
        self.disk.set_bytes(&segment_name(segment), self.segments[&segment].clone());
        told
    }

    fn read(&self) -> Result<Findings, String> {
        let tail = load(&self.disk, Access::AtRest).map_err(|error| error.to_string())?.tail;
        let mut told = Findings {
            was_closed: tail.is_some_and(|tail| tail.was_closed),
            sequences: Vec::new(),
            damages: Vec::new(),
            gone: 0,
        };
        let disk = Arc::new(self.disk.clone());
        let mut reader = Reader::open_on(disk, 0).map_err(|error| error.to_string())?;
        while let Some(item) = reader.next().map_err(|error| error.to_string())? {
            match item {
                Item::Record(record) => {
                    if self.records[&record.sequence].payload != record.payload {
                        return Err(format!("record {} is damaged", record.sequence));
                    }
                    told.sequences.push(record.sequence);
                }
                Item::Damage(damage) => told.damages.push(damage),
                Item::Missing(range) => told.gone += range.end - range.start,
            }
        }
        Ok(told)
    }

    /// Checks that exactly the records for which `is_hit` is true are missing. If `are_counted` is
    /// set, the reports must also give the number of missing records.
    fn check(
        &self,
        told: &Findings,
        is_hit: impl Fn(&Place) -> bool,
        are_counted: bool,
    ) -> Result<(), String> {
        let untouched = self.records.iter().filter(|(_, place)| !is_hit(place));
        let expected: Vec<u64> = untouched.map(|(&sequence, _)| sequence).collect();
        if told.sequences != expected {
            return Err(format!("read {:?}, not {expected:?}", told.sequences));
        }
        let missing = (self.records.len() - expected.len()) as u64;
        let counted: u64 = told.damages.iter().filter_map(|damage| damage.records).sum();
        if are_counted && counted + told.gone != missing {
            return Err(format!("{counted} records are said to be missing, not {missing}"));
        }
        Ok(())
    }
}

/// Records and damage that a reader found in the whole journal.
struct Findings {
    was_closed: bool,
    sequences: Vec<u64>,
    damages: Vec<Damage>,
    /// Number of sequence numbers that the reader reported as missing because a segment's header is
    /// damaged.
    gone: u64,
}

/// Flips one bit of the byte at `offset`. Checks that only the record with this byte is lost, and
/// that the damage is reported or the journal counts as not closed.
fn flip(sample: &Sample, segment: u64, offset: usize) -> Result<(), String> {
    let mut bytes = sample.segments[&segment].clone();
    bytes[offset] ^= 1 << (offset % 8);
    let told = sample.read_with(segment, bytes)?;
    sample.check(&told, |place| place.segment == segment && place.bytes.contains(&offset), true)?;
    // The journal's last bytes are the end mark, whose damage is not reported.
    let is_told = told.damages.iter().any(|damage| {
        let from = damage.offset as usize;
        damage.segment == segment && (from..from + damage.bytes as usize).contains(&offset)
    });
    match is_told || !told.was_closed {
        true => Ok(()),
        false => Err(format!("not noticed: {:?}", told.damages)),
    }
}

fn cut(sample: &Sample, segment: u64, offset: usize) -> Result<(), String> {
    let bytes = sample.segments[&segment][..offset].to_vec();
    let is_last = sample.segments.keys().last() == Some(&segment);
    let told = sample.read_with(segment, bytes)?;
    // The original end of the last segment is unknown, so its missing records are not counted.
    let is_hit = |place: &Place| place.segment == segment && place.bytes.end > offset;
    sample.check(&told, is_hit, !is_last)?;
    match if is_last { !told.was_closed } else { !told.damages.is_empty() } {
        true => Ok(()),
        false => Err("not noticed".to_owned()),
    }
}

/// Runs a check once for each byte of all segments. Returns the number of bytes.
fn each_byte(run: impl Fn(&Sample, u64, usize) -> Result<(), String>) -> Result<usize, String> {
    let sample = Sample::new();
    for (&segment, bytes) in &sample.segments {
        for offset in 0..bytes.len() {
            run(&sample, segment, offset)
                .map_err(|why| format!("segment {segment}, offset {offset}: {why}"))?;
        }
    }
    Ok(sample.segments.values().map(Vec::len).sum())
}

#[test]
fn a_flipped_byte_costs_one_record() {
    let count = each_byte(flip).unwrap();
    figure("D3", &format!("{count} flipped bytes of a journal"));
}

#[test]
fn a_cut_costs_what_is_cut_off() {
    let count = each_byte(cut).unwrap();
    figure("D3", &format!("{count} cuts of a journal's segments"));
}

#[test]
fn a_reader_without_payload_checks_is_found_out() {
    let found = injection::inject(Injection::PayloadCrcSkipped, || each_byte(flip));
    assert!(found.unwrap_err().contains("is damaged"));
}
