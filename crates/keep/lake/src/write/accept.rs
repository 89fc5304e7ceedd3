//! Appends received batches to the journal and the head. At the start of the store, recovers
//! batches from the journal.

use crate::Error;
use crate::lake::OpenReport;
use crate::memory::WAIT_FOR_ROOM;
use crate::shared::Shared;
use crate::write::batch;
use crate::write::record::{Assembly, BatchAssembler, payloads};
use blkkin_columns::Block;
use blkkin_journal::Item;
use blkkin_store::{AcceptCallback, AcceptedBatch, Batch};
use blkkin_wire::Outcome;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

impl Shared {
    /// Accepts a batch. `done` is called once the batch is durable or rejected.
    pub(crate) fn accept(&self, batch: &Batch<'_>, done: AcceptCallback) {
        let memory = &self.memory;
        if let Err(refusal) = memory.wait_for_room() {
            memory.count_rejected();
            return done(Err(refusal));
        }
        let (outcome, blocks) = memory.decode(batch);
        if blocks.iter().all(Block::is_empty) {
            let mut state = memory.state();
            memory.count_refused(&mut state, &outcome);
            state.counters.batches += u64::from(outcome.is_good());
            drop(state);
            blocks.into_iter().for_each(|block| memory.recycle_block(block));
            return done(Ok(AcceptedBatch { outcome }));
        }
        let payloads = payloads(batch, memory.options.journal.payload_bytes_max);
        let records = payloads.len() as u64;
        // Holder of `done`, which is called exactly once: by the journal's callback, or here if the
        // journal rejects the batch.
        let held = Arc::new(Mutex::new(Some((outcome, blocks, done))));
        let deadline = Instant::now() + WAIT_FOR_ROOM;
        loop {
            let (memory, taken) = (Arc::clone(memory), Arc::clone(&held));
            let appended = self.journal.append_then(&payloads, move |result| {
                let Some((outcome, blocks, done)) = taken.lock().take() else { return };
                match result {
                    Ok(()) => {
                        memory.publish(blocks, records, &outcome);
                        done(Ok(AcceptedBatch { outcome }));
                    }
                    Err(refusal) => {
                        memory.publish(Vec::new(), records, &Outcome::default());
                        memory.reject(&refusal, done);
                    }
                }
            });
            match appended {
                Ok(_) => return,
                Err(blkkin_journal::Refusal::TryAgain) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                Err(refusal) => {
                    if let Some((_, _, done)) = held.lock().take() {
                        self.memory.reject(&refusal, done);
                    }
                    return;
                }
            }
        }
    }

    /// Recovers the batches of the journal that are in no file, by appending them to the head.
    pub(crate) fn recover(&self, opened: &mut OpenReport) -> Result<(), Error> {
        let memory = &self.memory;
        let from = memory.state().head.sequence;
        let mut reader = self.journal.reader(from);
        let mut assembler = BatchAssembler::default();
        let mut before = from;
        while let Some(item) = reader.next()? {
            match item {
                Item::Record(record) => {
                    let end = record.sequence + 1;
                    let (outcome, blocks) = match assembler.push(record.kind, record.payload) {
                        // The position up to which files contain the journal must be the end of a
                        // batch.
                        Assembly::Incomplete => continue,
                        Assembly::Batch(batch) => {
                            let (outcome, blocks) = memory.decode(&batch);
                            opened.recovered += outcome.accepted;
                            opened.damage.extend(batch::damage(&batch, &outcome, record.sequence));
                            (outcome, blocks)
                        }
                        Assembly::Unknown => {
                            opened.damage.push(batch::unknown(record.sequence));
                            (Outcome::default(), Vec::new())
                        }
                    };
                    memory.publish(blocks, end - before, &outcome);
                    before = end;
                }
                Item::Damage(damage) => {
                    assembler.clear();
                    let what = format!("{} bytes at {} of", damage.bytes, damage.offset);
                    let file = damage.file();
                    let torn = if damage.may_be_torn { ", perhaps never acknowledged" } else { "" };
                    opened.damage.push(format!("{what} journal/{file}{torn}"));
                }
                Item::Missing(range) => {
                    assembler.clear();
                    let (first, behind) = (range.start, range.end);
                    opened
                        .damage
                        .push(format!("records {first} to {behind} of the journal are gone"));
                }
            }
            // Recovered batches wait for the memory limit like received ones.
            memory.wait_until_written();
        }
        let next = reader.position();
        if next > before {
            memory.publish(Vec::new(), next - before, &Outcome::default());
        }
        Ok(())
    }
}
