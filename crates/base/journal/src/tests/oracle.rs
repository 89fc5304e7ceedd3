//! The required contents of a journal after any failure: all untrimmed records that were
//! acknowledged or returned by a following reader, and no record that was never appended. A failed
//! check is returned as an error, so that tests can inject faults and verify that a check fails.

use crate::testing::SimulatedDisk;
use crate::{Item, Reader, Record};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// Naive model of a journal: all records that were ever appended, and those that must persist.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// Appended records by sequence number. A sequence number may have several records: after a
    /// restart it may be assigned again if its record was not acknowledged.
    submitted: BTreeMap<u64, Vec<(u8, Vec<u8>)>>,
    promised: BTreeMap<u64, (u8, Vec<u8>)>,
    /// Sequence number up to which the journal was trimmed; earlier records may be missing.
    pub(super) trimmed: u64,
}

impl Oracle {
    pub(super) fn submit(&mut self, first: u64, records: &[(u8, Vec<u8>)]) {
        for (sequence, record) in (first..).zip(records) {
            self.submitted.entry(sequence).or_default().push(record.clone());
        }
    }

    pub(super) fn acknowledge(&mut self, sequences: Range<u64>) {
        for sequence in sequences {
            let record = self.submitted[&sequence].last().expect("it was submitted").clone();
            self.promised.insert(sequence, record);
        }
    }

    /// Checks a record that a following reader has returned. From now on the record must persist.
    pub(super) fn observe(&mut self, record: &Record<'_>) -> Result<(), String> {
        self.check_record(record)?;
        self.promised.insert(record.sequence, (record.kind, record.payload.to_vec()));
        Ok(())
    }

    fn check_record(&self, record: &Record<'_>) -> Result<(), String> {
        let Record { sequence, kind, payload } = *record;
        let is_same = |(k, p): &(u8, Vec<u8>)| *k == kind && p == payload;
        match (self.promised.get(&sequence), self.submitted.get(&sequence)) {
            (Some(promised), _) if is_same(promised) => Ok(()),
            (Some(_), _) => Err(format!("record {sequence} is not what was acknowledged")),
            (None, Some(all)) if all.iter().any(is_same) => Ok(()),
            _ => Err(format!("record {sequence} was never appended")),
        }
    }

    /// Returns the sequence number after the last record that was acknowledged, or returned by a
    /// following reader.
    pub(super) fn promised_end(&self) -> u64 {
        self.promised.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Reads and checks the whole journal at rest. Returns the number of records read.
    pub(super) fn check(&self, disk: &SimulatedDisk) -> Result<usize, String> {
        let mut reader = Reader::open_on(Arc::new(disk.clone()), 0)
            .map_err(|error| format!("does not open: {error}"))?;
        self.check_reader(&mut reader)
    }

    pub(super) fn check_reader(&self, reader: &mut Reader) -> Result<usize, String> {
        let mut missing: Vec<u64> =
            self.promised.range(self.trimmed..).map(|(&sequence, _)| sequence).rev().collect();
        let (mut count, mut last) = (0, None);
        while let Some(item) = reader.next().map_err(|error| error.to_string())? {
            match item {
                Item::Record(record) => {
                    self.check_record(&record)?;
                    if last.is_some_and(|last| last >= record.sequence) {
                        return Err(format!("record {} comes late", record.sequence));
                    }
                    last = Some(record.sequence);
                    count += 1;
                    missing.pop_if(|sequence| *sequence == record.sequence);
                }
                // The test has damaged no bytes, so this is a torn write that was never
                // acknowledged.
                Item::Damage(damage) if damage.may_be_torn => {}
                Item::Damage(damage) => return Err(format!("damage: {damage:?}")),
                Item::Missing(range) if range.end <= self.trimmed => {}
                Item::Missing(range) => {
                    return Err(format!("gone: {range:?}, before {}", self.trimmed));
                }
            }
        }
        match missing.last() {
            None => Ok(count),
            Some(first) => Err(format!("record {first} was acknowledged, and is missing")),
        }
    }
}
