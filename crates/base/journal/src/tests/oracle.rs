//! What a journal must contain, whatever has happened to it: everything acknowledged, and nothing
//! that was never appended. Checks return errors, so that tests can verify that they would fail.

use crate::testing::SimulatedDisk;
use crate::{Item, Reader, Record};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// A naive journal: everything that was ever appended, and which part of it was acknowledged.
#[derive(Clone, Debug, Default)]
pub(super) struct Oracle {
    /// A sequence number may be assigned again if its record was not acknowledged.
    submitted: BTreeMap<u64, Vec<(u8, Vec<u8>)>>,
    promised: BTreeMap<u64, (u8, Vec<u8>)>,
    /// Records before this one may be missing.
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

    /// A following reader has returned the record, so it must persist from now on.
    pub(super) fn show(&mut self, record: &Record<'_>) -> Result<(), String> {
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

    /// The end of the acknowledged sequence numbers.
    pub(super) fn promised_end(&self) -> u64 {
        self.promised.last_key_value().map_or(0, |(last, _)| last + 1)
    }

    /// Reads the whole journal at rest. Returns the number of its records.
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
                // Nothing was damaged, so apparent damage was never acknowledged.
                Item::Damage(damage) if damage.may_be_torn => {}
                Item::Damage(damage) => return Err(format!("damage: {damage:?}")),
                Item::Gone(range) if range.end <= self.trimmed => {}
                Item::Gone(range) => {
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
